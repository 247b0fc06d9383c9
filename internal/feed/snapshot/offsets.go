package snapshot

import (
	"encoding/binary"
	"io"
	"math"
	"math/bits"
)

// lineHeader is the bytes before the residuals in a section of offsets: base, stride, width.
const lineHeader = 24

// strideBits are the bits of a stride behind its binary point.
const strideBits = 16

// line says where the pieces of a section begin, each as its distance from a straight line:
// piece i at base + i*stride + residual[i]. The residuals take the bits the largest needs.
// Pieces of one length need none at all: no memory, and no cache miss in front of the piece.
type line struct {
	base      uint64 // two's complement
	stride    uint64 // 48.16 fixed point
	width     uint64 // bits of a residual, 0..57
	mask      uint64
	residuals []byte
}

// at is the offset of piece i, which must be below the number of pieces the line was checked
// for. In a damaged file it is any number: compare before use.
func (l *line) at(i uint64) uint64 {
	offset := l.base + i*l.stride>>strideBits
	if l.width != 0 {
		bit := i * l.width
		offset += binary.LittleEndian.Uint64(l.residuals[bit>>3:]) >> (bit & 7) & l.mask
	}
	return offset
}

// decodeLine reads a section of offsets of n pieces. b is the section and loadSlack readable
// bytes behind it.
func decodeLine(name string, b []byte, n uint64) (line, error) {
	length := uint64(len(b) - loadSlack)
	if length < lineHeader {
		return line{}, damaged(name, "it has %d bytes, expected at least %d", length, lineHeader)
	}
	l := line{
		base:      binary.LittleEndian.Uint64(b),
		stride:    binary.LittleEndian.Uint64(b[8:]),
		width:     binary.LittleEndian.Uint64(b[16:]),
		residuals: b[lineHeader:],
	}
	if l.width > maxLoadBits {
		return line{}, damaged(name, "residuals of %d bits, expected at most %d", l.width, maxLoadBits)
	}
	l.mask = 1<<l.width - 1
	if want := lineHeader + (n*l.width+7)/8; length != want {
		return line{}, damaged(name, "it has %d bytes, expected %d for %d pieces", length, want, n)
	}
	return l, nil
}

// lineBuilder collects the lengths of pieces in their order and writes them as a line. It needs
// no memory to speak of: runs of equal lengths go to a spool, which is read twice.
type lineBuilder struct {
	runs   spool // pairs of u32: length, how often
	length uint32
	count  uint32
	pieces uint64
	total  uint64 // bytes
	pair   [8]byte
}

func (b *lineBuilder) add(length uint32) error {
	b.pieces++
	b.total += uint64(length)
	if length == b.length && b.count < math.MaxUint32 {
		b.count++
		return nil
	}
	err := b.endRun()
	b.length, b.count = length, 1
	return err
}

func (b *lineBuilder) endRun() error {
	if b.count == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(b.pair[:], b.length)
	binary.LittleEndian.PutUint32(b.pair[4:], b.count)
	_, err := b.runs.Write(b.pair[:])
	b.count = 0
	return err
}

// residuals calls fn with the distance of every piece from a line through 0.
func (b *lineBuilder) residuals(stride uint64, fn func(int64) error) error {
	in, err := b.runs.read(0, -1, 64<<10)
	if err != nil {
		return err
	}
	var at, i uint64
	run := func(length, count uint32) error {
		for range count {
			if err := fn(int64(at - i*stride>>strideBits)); err != nil {
				return err
			}
			at += uint64(length)
			i++
		}
		return nil
	}
	for {
		if _, err := io.ReadFull(in, b.pair[:]); err == io.EOF {
			return run(b.length, b.count)
		} else if err != nil {
			return err
		}
		if err := run(binary.LittleEndian.Uint32(b.pair[:]),
			binary.LittleEndian.Uint32(b.pair[4:])); err != nil {
			return err
		}
	}
}

// writeTo writes the section of offsets.
func (b *lineBuilder) writeTo(out io.Writer) error {
	var stride uint64
	if b.pieces > 0 { // total < 2^47, so that the shift loses nothing
		stride = (b.total<<strideBits + b.pieces - 1) / b.pieces
	}
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	err := b.residuals(stride, func(r int64) error {
		lowest, highest = min(lowest, r), max(highest, r)
		return nil
	})
	if err != nil {
		return err
	}
	if b.pieces == 0 {
		lowest, highest = 0, 0
	}
	width := uint(bits.Len64(uint64(highest - lowest)))
	var head [lineHeader]byte
	binary.LittleEndian.PutUint64(head[:], uint64(lowest))
	binary.LittleEndian.PutUint64(head[8:], stride)
	binary.LittleEndian.PutUint64(head[16:], uint64(width))
	if _, err := out.Write(head[:]); err != nil || width == 0 {
		return err
	}
	var acc uint64
	var held uint
	var word [8]byte
	err = b.residuals(stride, func(r int64) error {
		v := uint64(r - lowest)
		acc |= v << held
		held += width
		if held < 64 {
			return nil
		}
		binary.LittleEndian.PutUint64(word[:], acc)
		held -= 64
		acc = v >> (width - held)
		_, err := out.Write(word[:])
		return err
	})
	if err != nil || held == 0 {
		return err
	}
	binary.LittleEndian.PutUint64(word[:], acc)
	_, err = out.Write(word[:(held+7)/8])
	return err
}

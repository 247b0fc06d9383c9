package cells

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
)

// plainCells are cells on systems without shared maps: in memory, and written to the file before a swap
// counts. It is also the reference that the mapped cells are tested against.
type plainCells struct {
	mu    sync.Mutex
	f     *os.File
	words []uint64
}

func (p *plainCells) load(i uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words[word(i)]
}

// compareAndSwap returns an error when the file cannot be written; the cell keeps its value then.
func (p *plainCells) compareAndSwap(i, old, new uint64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := word(i)
	if p.words[at] != old {
		return false, nil
	}
	line := p.words[at&^7 : at|countWord+1]
	last := counted(line[countWord], at, old, new)
	b := make([]byte, 0, 64)
	for i, w := range line {
		switch uint64(i) {
		case at % 8:
			w = new
		case countWord:
			w = last
		}
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	if _, err := p.f.WriteAt(b, dataOffset+8*int64(at&^7)); err != nil {
		return false, err
	}
	line[at%8], line[countWord] = new, last
	return true, nil
}

// extend reads the cells from the file that are not in memory yet, up to n.
func (p *plainCells) extend(n uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := int64(8 * len(p.words))
	r := io.NewSectionReader(p.f, dataOffset+have, linesLen(n)-have)
	more := make([]uint64, r.Size()/8)
	if err := binary.Read(r, binary.NativeEndian, more); err != nil {
		return err
	}
	p.words = append(p.words, more...)
	return nil
}

// rewrite writes all cells to the file again.
func (p *plainCells) rewrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := make([]byte, 0, 8*len(p.words))
	for _, w := range p.words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	_, err := p.f.WriteAt(b, dataOffset)
	return err
}

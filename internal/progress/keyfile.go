package progress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

// keyFile is an append-only log of user keys; the n-th key has slot n. It is written in blocks,
//
//	u32 length of the entries | u32 number of entries | u64 xxh3 of the entries | entries
//
// after 16 bytes of magic and version. An entry is 0 and a u64, or the length of a name, 1..255,
// and the name. All numbers are little endian.
//
// A block that a crash has torn was never synced, so its keys were never given cells: it is cut
// off at open. When keys are missing that were, the file was damaged, and is refused.
type keyFile struct {
	f      *os.File
	faults disk.Faults
	path   string
	count  uint64 // keys, those not written yet included
	size   int64  // bytes that hold whole blocks

	block   []byte // entries not written yet
	entries uint32
	failed  error // a write or sync that failed: nothing more is added
}

const (
	keyMagic     = "weirkeys"
	keyVersion   = 1
	keyHeader    = 16
	blockHeader  = 16
	maxKeyBlock  = 1 << 20
	maxNameBytes = 255
)

var errKeyFile = errors.New("the file of user keys is damaged")

// openKeyFile opens or makes a key file of which the first used keys have cells.
func openKeyFile(path string, used uint64, faults disk.Faults) (_ *keyFile, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	k := &keyFile{f: f, faults: faults, path: path, size: keyHeader}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var head [keyHeader]byte
	n, err := f.ReadAt(head[:], 0)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case used == 0 && n < keyHeader && string(head[:min(n, 8)]) == keyMagic[:min(n, 8)]:
		// New, or cut off before the header was synced.
		copy(head[:], keyMagic)
		binary.LittleEndian.PutUint32(head[8:], keyVersion)
		if _, err := f.WriteAt(head[:], 0); err != nil {
			return nil, err
		}
		if err := faults.SyncData(f); err != nil {
			return nil, err
		}
		return k, disk.SyncDir(filepath.Dir(path))
	case n < keyHeader || string(head[:8]) != keyMagic:
		return nil, fmt.Errorf("%s: %w: it does not begin as one", path, errKeyFile)
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != keyVersion {
		return nil, fmt.Errorf("%s has version %d, this weir reads version %d: use the weir that wrote it, or another --data directory", path, v, keyVersion)
	}
	if err := k.scan(nil); err != nil {
		return nil, err
	}
	if k.count < used {
		return nil, fmt.Errorf("%s: %w at byte %d: %d keys are whole, %d are in use: restore it from a backup, or begin with another --data directory",
			path, errKeyFile, k.size, k.count, used)
	}
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.Size() > k.size {
		if err := f.Truncate(k.size); err != nil {
			return nil, err
		}
		if err := faults.SyncData(f); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// each calls fn with every key in the order of their slots. A key is a name, or a number when
// name is nil; the name is valid during the call.
func (k *keyFile) each(fn func(slot, number uint64, name []byte) error) error {
	return k.scan(fn)
}

// scan walks the blocks, at opening as far as they are whole.
func (k *keyFile) scan(fn func(slot, number uint64, name []byte) error) error {
	opening := fn == nil
	end := k.size
	if opening {
		info, err := k.f.Stat()
		if err != nil {
			return err
		}
		end = info.Size()
	}
	r := bufio.NewReaderSize(io.NewSectionReader(k.f, keyHeader, end-keyHeader), 1<<20)
	var (
		head   [blockHeader]byte
		block  []byte
		slot   uint64
		offset = int64(keyHeader)
	)
	// At opening, what is not whole ends the walk.
	broken := func() error {
		if opening {
			return nil
		}
		return fmt.Errorf("%s: %w at byte %d: it was changed while it was in use", k.path, errKeyFile, offset)
	}
	for offset < end {
		torn := false
		length, count, sum := uint32(0), uint32(0), uint64(0)
		if _, err := io.ReadFull(r, head[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			torn = true
		} else if err != nil {
			return err
		} else {
			length = binary.LittleEndian.Uint32(head[:])
			count = binary.LittleEndian.Uint32(head[4:])
			sum = binary.LittleEndian.Uint64(head[8:])
			torn = length == 0 || length > maxKeyBlock+maxNameBytes+1 || int64(length) > end-offset-blockHeader
		}
		if !torn {
			block = append(block[:0], make([]byte, length)...)
			if _, err := io.ReadFull(r, block); err != nil {
				return err
			}
			torn = xxh3.Hash(block) != sum
		}
		if torn {
			return broken()
		}
		seen := uint32(0)
		for b := block; len(b) > 0; seen++ {
			var number uint64
			var name []byte
			switch n := int(b[0]); {
			case n == 0 && len(b) >= 9:
				number, b = binary.LittleEndian.Uint64(b[1:]), b[9:]
			case n > 0 && len(b) > n:
				name, b = b[1:1+n], b[1+n:]
			default:
				return broken()
			}
			if fn != nil {
				if err := fn(slot, number, name); err != nil {
					return err
				}
			}
			slot++
		}
		if seen != count {
			return broken()
		}
		offset += blockHeader + int64(length)
		if opening {
			k.size, k.count = offset, slot
		}
	}
	return nil
}

// add appends a key and returns its slot, which may be used after the next sync.
func (k *keyFile) add(number uint64, name []byte) (uint64, error) {
	if name == nil {
		k.block = append(k.block, 0)
		k.block = binary.LittleEndian.AppendUint64(k.block, number)
	} else {
		if len(name) == 0 || len(name) > maxNameBytes {
			return 0, fmt.Errorf("a user's id has %d bytes, expected 1 to %d", len(name), maxNameBytes)
		}
		k.block = append(k.block, byte(len(name)))
		k.block = append(k.block, name...)
	}
	k.entries++
	k.count++
	if len(k.block) >= maxKeyBlock {
		return k.count - 1, k.write()
	}
	return k.count - 1, nil
}

// sync makes all added keys last. When there is no room, adding may be tried later, after cut;
// after a failed sync nothing more can be added, as what reached the disk is unknown until the
// file is opened again.
func (k *keyFile) sync() error {
	if len(k.block) == 0 {
		return k.failed
	}
	return k.write()
}

func (k *keyFile) write() error {
	if k.failed != nil {
		return k.failed
	}
	head := make([]byte, blockHeader, blockHeader+len(k.block))
	binary.LittleEndian.PutUint32(head, uint32(len(k.block)))
	binary.LittleEndian.PutUint32(head[4:], k.entries)
	binary.LittleEndian.PutUint64(head[8:], xxh3.Hash(k.block))
	block := append(head, k.block...)
	k.block, k.entries = k.block[:0], 0
	if _, err := k.f.WriteAt(block, k.size); err != nil {
		return fmt.Errorf("%s cannot take new users: %w", k.path, err)
	}
	if err := k.faults.SyncData(k.f); err != nil {
		k.failed = fmt.Errorf("%s cannot take new users: %w", k.path, err)
		return k.failed
	}
	k.size += int64(len(block))
	return nil
}

// cut takes back what was added since the file had size bytes and count keys.
func (k *keyFile) cut(size int64, count uint64) error {
	k.size, k.count = size, count
	k.block, k.entries = k.block[:0], 0
	if k.failed != nil {
		return nil // what is in the file beyond size is found to be of no use when it is opened again
	}
	return k.f.Truncate(size)
}

func (k *keyFile) close() error { return k.f.Close() }

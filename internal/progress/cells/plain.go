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
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], new)
	if _, err := p.f.WriteAt(b[:], dataOffset+8*int64(at)); err != nil {
		return false, err
	}
	p.words[at] = new
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

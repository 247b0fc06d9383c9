package progress

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
	cells []uint64
}

func (p *plainCells) load(i uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cells[i]
}

// compareAndSwap returns an error when the file cannot be written; the cell keeps its value then.
func (p *plainCells) compareAndSwap(i, old, new uint64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cells[i] != old {
		return false, nil
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], new)
	if _, err := p.f.WriteAt(b[:], dataOffset+8*int64(i)); err != nil {
		return false, err
	}
	p.cells[i] = new
	return true, nil
}

// extend reads the cells from the file that are not in memory yet, up to n.
func (p *plainCells) extend(n uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := uint64(len(p.cells))
	r := io.NewSectionReader(p.f, dataOffset+8*int64(have), 8*int64(n-have))
	more := make([]uint64, n-have)
	if err := binary.Read(r, binary.NativeEndian, more); err != nil {
		return err
	}
	p.cells = append(p.cells, more...)
	return nil
}

package disk

import (
	"fmt"
	"os"
	"runtime"
)

// Mapping is a file mapped into memory, read-only. Its methods other than Close may be called concurrently.
type Mapping struct {
	data   []byte
	name   string
	memory bool // it is no mapping
}

// MapReadOnly maps the whole of f at its present size. The mapping stays when f is closed, renamed or
// removed; it must not be truncated.
func MapReadOnly(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	size := info.Size()
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("map %s: not a regular file", f.Name())
	}
	if int64(int(size)) != size {
		return nil, fmt.Errorf("map %s: %d bytes do not fit into the address space", f.Name(), size)
	}
	m := &Mapping{name: f.Name()}
	if size == 0 { // which mmap refuses
		return m, nil
	}
	if m.data, err = mapFile(f, int(size)); err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	adviseHuge(m.data)
	return m, nil
}

// InMemory returns what looks like the mapping of a file called name that holds data, for what reads
// mappings and is given bytes.
func InMemory(name string, data []byte) *Mapping {
	return &Mapping{data: data, name: name, memory: true}
}

// Bytes returns the contents of the file, valid until Close. Writing to it ends the process; reading it
// when the file was truncated does so too, unless under Guard.
func (m *Mapping) Bytes() []byte { return m.data }

// Populate brings the n bytes at off into memory, so that reading them does not wait for the disk, and fails
// where they cannot be read. The bytes may be evicted again when memory is short.
func (m *Mapping) Populate(off, n int) error {
	if off < 0 || n < 0 || off > len(m.data) || n > len(m.data)-off {
		return fmt.Errorf("populate %s: bytes %d to %d are beyond its %d", m.name, off, off+n, len(m.data))
	}
	if n == 0 || m.memory {
		return nil
	}
	if err := populate(m.data, off, n); err != nil {
		return fmt.Errorf("populate %s: %w", m.name, err)
	}
	return nil
}

// Random tells the system that reads will be of random places, so that it need not read ahead. Before, what
// is missing is read by huge pages where the file system can, and stays so: see adviseHuge.
func (m *Mapping) Random() error {
	if len(m.data) == 0 || m.memory {
		return nil
	}
	if err := adviseRandom(m.data); err != nil {
		return fmt.Errorf("advise on %s: %w", m.name, err)
	}
	return nil
}

// Lock reads the whole file into memory and keeps it there until Close.
func (m *Mapping) Lock() error {
	if len(m.data) == 0 {
		return nil
	}
	if err := lockMemory(m.data); err != nil {
		return fmt.Errorf("lock the %d bytes of %s in memory: %w: raise the limit of locked memory "+
			"(ulimit -l, LimitMEMLOCK=) or do not ask for it", len(m.data), m.name, err)
	}
	return nil
}

// Close removes the mapping. No slice of Bytes may be used afterwards. A second Close does nothing.
func (m *Mapping) Close() error {
	data := m.data
	m.data = nil
	if len(data) == 0 || m.memory {
		return nil
	}
	if err := unmapFile(data); err != nil {
		return fmt.Errorf("unmap %s: %w", m.name, err)
	}
	return nil
}

// touch reads a byte of every page.
func touch(data []byte) error {
	var sum byte
	err := Guard(func() error {
		for i := 0; i < len(data); i += os.Getpagesize() {
			sum += data[i]
		}
		sum += data[len(data)-1]
		return nil
	})
	runtime.KeepAlive(sum) // or the loop would be no loop
	return err
}

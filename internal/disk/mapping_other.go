//go:build !(linux || darwin || freebsd)

package disk

import (
	"errors"
	"io"
	"os"
)

// mapFile reads the file into memory instead.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data)
	return data, err
}

func unmapFile([]byte) error    { return nil }
func adviseHuge([]byte)         {}
func adviseRandom([]byte) error { return nil }
func lockMemory([]byte) error   { return errors.ErrUnsupported }

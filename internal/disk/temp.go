package disk

import (
	"errors"
	"os"
)

// TempFile is a file for what memory must not hold, and is gone once it is closed. Where the system allows
// it, it has no name from the beginning, so that nothing is left behind however the process ends.
type TempFile struct {
	*os.File
	left bool // the name is still in the directory
}

// CreateTemp makes a temporary file on the disk of dir, "" being the system's directory for such files.
func CreateTemp(dir string) (*TempFile, error) {
	f, err := os.CreateTemp(dir, ".weir-*.tmp")
	if err != nil {
		return nil, err
	}
	return &TempFile{f, os.Remove(f.Name()) != nil}, nil // Windows refuses
}

// Close closes the file, and removes its name where it has one.
func (f *TempFile) Close() error {
	err := f.File.Close()
	if f.left {
		f.left = false
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

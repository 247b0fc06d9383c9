//go:build !linux

package disk

import (
	"errors"
	"os"
)

// syncData: on macOS File.Sync is F_FULLFSYNC, which reaches the medium where fsync does not.
func syncData(f *os.File) error { return f.Sync() }

func allocate(f *os.File, off, n int64) error { return writeZeros(f, off, n) }

func volumeOf(string) (Volume, error) { return Volume{}, errors.ErrUnsupported }

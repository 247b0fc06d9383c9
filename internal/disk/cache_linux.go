package disk

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Cache reads f from off on into the page cache in pages of the smallest size, for a map that is going to
// be written at random: a write fault in a large folio marks every block of it. What is cached already
// stays as it is.
func Cache(f *os.File, off, n int64) error {
	if err := retry(func() error { return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_RANDOM) }); err != nil {
		return &os.PathError{Op: "fadvise", Path: f.Name(), Err: err}
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(f, off, n),
		make([]byte, 1<<20))
	return err
}

// Uncache lets the page cache forget what it holds of f from off on, but for what has not been synced.
func Uncache(f *os.File, off, n int64) error {
	if err := retry(func() error {
		return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED)
	}); err != nil {
		return &os.PathError{Op: "fadvise", Path: f.Name(), Err: err}
	}
	return nil
}

// WritebackError returns the error of a write that the system has made of f by itself since the last sync
// of f, or since this was last asked.
func WritebackError(f *os.File) error {
	// To wait for one page, the first, has it tell what went wrong with any.
	err := retry(func() error {
		return unix.SyncFileRange(int(f.Fd()), 0, 4096, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	})
	switch err {
	case nil, unix.ENOSYS, unix.ESPIPE, unix.EINVAL: // or it does not tell
		return nil
	}
	return &os.PathError{Op: "write back", Path: f.Name(), Err: err}
}

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrLocked means that another process has locked the directory.
var ErrLocked = errors.New("directory is locked")

// DirLock is a directory held by this process.
type DirLock struct {
	f *os.File
}

// LockDir takes dir for this process, until Close or the end of the process, however it ends. The lock is
// an advisory one on dir/LOCK, which holds the process id in decimal for people and error messages. When
// another process holds it the error wraps ErrLocked and names that process.
func LockDir(dir string) (*DirLock, error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory %s: %w", dir, advise(err, path))
	}
	held, err := tryLock(f)
	switch {
	case err != nil:
		err = fmt.Errorf("lock directory %s: %w", dir, err)
	case !held:
		err = fmt.Errorf("%w: %s is in use by %s: stop it or choose another directory", ErrLocked,
			dir, holder(f))
	default:
		err = writePID(f)
		if err != nil {
			err = fmt.Errorf("lock directory %s: %w", dir, advise(err, path))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &DirLock{f}, nil
}

// Close releases the directory. LOCK stays: to remove it would let two processes lock two files of that
// name. So does what is in it, which names nobody once the lock is free.
func (l *DirLock) Close() error { return l.f.Close() }

// writePID writes over what is there, always as many bytes: that needs no space, which a full disk does not
// have. One that has none for the first time is no reason to refuse: the lock holds without.
func writePID(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0)
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// holder describes who wrote its id into the lock file.
func holder(f *os.File) string {
	text := make([]byte, 32)
	n, err := f.ReadAt(text, 0)
	pid, perr := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if (err != nil && err != io.EOF) || perr != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

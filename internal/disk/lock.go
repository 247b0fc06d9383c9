package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrLocked means that another process has locked the directory.
var ErrLocked = errors.New("directory is locked")

// DirLock is a directory held by this process.
type DirLock struct {
	f *os.File
}

// LockDir takes dir for this process, until Close or the end of the process, however it ends. The
// lock is an advisory one on dir/LOCK, which holds the process id in decimal for people and error messages. When another
// process holds it the error wraps ErrLocked and names that process.
func LockDir(dir string) (*DirLock, error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock directory %s: %w", dir, advise(err, path))
	}
	held, err := tryLock(f)
	switch {
	case err != nil:
		err = fmt.Errorf("lock directory %s: %w", dir, err)
	case !held:
		err = fmt.Errorf("%w: %s is in use by %s: stop it or choose another directory", ErrLocked, dir, holder(f))
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

// Close releases the directory. LOCK stays: to remove it would let two processes lock two files of that name.
func (l *DirLock) Close() error {
	// An empty file names nobody; one that keeps a stale process id does no harm.
	_ = l.f.Truncate(0)
	return l.f.Close()
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
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

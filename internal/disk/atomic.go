package disk

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// AtomicFile is a file being written that will replace another as a whole. It lives beside its target as
// .NAME.RANDOM.tmp, which is all that a killed process leaves behind. It is for one goroutine.
type AtomicFile struct {
	f    *os.File // nil once committed or aborted
	path string
}

// CreateAtomic begins a file that will be at path after Commit. It is for its user alone, or has the
// permissions of the file that it replaces. A symbolic link at path is replaced, not followed. A directory
// there is an error, and so is a device or a pipe: a rename would put the file in its place, in that of
// /dev/null for one.
func CreateAtomic(path string) (*AtomicFile, error) {
	perm, chmod := os.FileMode(0o600), false
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		perm, chmod = info.Mode().Perm(), true
	}
	a, err := createAtomic(path, perm)
	if err == nil && chmod { // also what umask has taken
		if err := a.f.Chmod(perm); err != nil {
			return nil, errors.Join(fmt.Errorf("create %s: %w", path, advise(err, path)), a.Abort())
		}
	}
	return a, err
}

func createAtomic(path string, perm os.FileMode) (*AtomicFile, error) {
	if info, err := os.Lstat(path); err == nil {
		switch {
		case info.IsDir():
			return nil, fmt.Errorf("%s is a directory: name a file", path)
		case info.Mode().Type()&^os.ModeSymlink != 0:
			return nil, fmt.Errorf("create %s: it is a device or a pipe: name a file", path)
		}
	}
	dir, name := filepath.Split(path)
	for {
		temp := fmt.Sprintf("%s.%s.%016x.tmp", dir, name, rand.Uint64())
		f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", path, advise(err, path))
		}
		return &AtomicFile{f: f, path: path}, nil
	}
}

// Write implements io.Writer. It does not buffer.
func (a *AtomicFile) Write(p []byte) (int, error) { return a.did(a.f.Write(p)) }

// WriteAt implements io.WriterAt.
func (a *AtomicFile) WriteAt(p []byte, off int64) (int, error) { return a.did(a.f.WriteAt(p, off)) }

// ReadAt implements io.ReaderAt on what was written so far.
func (a *AtomicFile) ReadAt(p []byte, off int64) (int, error) { return a.f.ReadAt(p, off) }

// Seek implements io.Seeker.
func (a *AtomicFile) Seek(offset int64, whence int) (int64, error) { return a.f.Seek(offset, whence) }

func (a *AtomicFile) did(n int, err error) (int, error) {
	if err != nil {
		err = fmt.Errorf("write %s: %w", a.path, advise(err, a.path))
	}
	return n, err
}

// Commit puts the file in place: it is synced, renamed over path, and the directory is synced. When it
// fails before the rename, path is as it was and the temporary file is gone. When only the directory cannot
// be synced, the new file is in place, but a power failure may bring the old one back.
func (a *AtomicFile) Commit() error {
	if err := a.commit(a.f.Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(a.path))
}

// CommitUnsynced is Commit that does not wait for the disk, for what can be had again and is checked when it
// is read: a power failure may leave anything at path. The end of the process does not.
func (a *AtomicFile) CommitUnsynced() error { return a.commit(func() error { return nil }) }

func (a *AtomicFile) commit(sync func() error) error {
	if a.f == nil {
		return fmt.Errorf("commit %s: %w", a.path, os.ErrClosed)
	}
	temp := a.f.Name()
	err := sync()
	if cerr := a.f.Close(); err == nil {
		err = cerr
	}
	a.f = nil
	if err == nil {
		err = os.Rename(temp, a.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("commit %s: %w", a.path, advise(err, a.path)), os.Remove(temp))
	}
	return nil
}

// Abort throws the file away. After Commit or another Abort it does nothing, so it can be deferred.
func (a *AtomicFile) Abort() error {
	if a.f == nil {
		return nil
	}
	temp := a.f.Name()
	err := errors.Join(a.f.Close(), os.Remove(temp))
	a.f = nil
	return err
}

// WriteFileAtomic replaces the file at path by one that holds data and has the permissions perm, before
// umask, from its first byte on.
func WriteFileAtomic(path string, data []byte, perm os.FileMode) (err error) {
	a, err := createAtomic(path, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Abort()) }()
	if _, err := a.Write(data); err != nil {
		return err
	}
	return a.Commit()
}

var _ interface {
	io.WriteSeeker
	io.WriterAt
	io.ReaderAt
} = (*AtomicFile)(nil)

// Package disk is what weir asks of files beyond reading and writing: memory maps, files replaced as a
// whole, space taken beforehand, locks, and the order of fsyncs that makes each of them last.
//
// What it promises:
//
//   - A file written through CreateAtomic or WriteFileAtomic appears under its name complete and on disk,
//     or not at all, whatever is killed and whenever the power goes.
//   - A temporary file of CreateTemp is gone with the process that made it.
//   - A range taken with Allocate can be written through a map without the disk being full. Where the
//     file system cannot promise that, Allocate refuses.
//   - A map of a file that somebody truncates ends in an error of the functions here, never in a crash.
//     Code that reads a map directly runs under Guard, on a goroutine that Go started, or in a handler of
//     the server.
//   - A directory locked with LockDir is locked for one process; the lock goes with the process.
//
// Errors name the file and say what to change. Offsets and sizes are in bytes. Linux and macOS map files;
// other systems read them into memory (Mapping) or say errors.ErrUnsupported (Region).
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Faults makes system calls fail, for the tests of what happens then: a function that is not nil is called
// instead of the real thing, and only when it returns nil the real thing is done. The zero value fails
// nothing.
type Faults struct {
	FailSync     func() error             // before SyncData
	FailSyncDir  func() error             // before SyncDir
	FailAllocate func() error             // before Allocate
	FailWrite    func(n int) (int, error) // before n bytes are written; with an error only so many are
}

// WriteAt writes b at off of f, unless the fault comes first.
func (x Faults) WriteAt(f *os.File, b []byte, off int64) error {
	if x.FailWrite != nil {
		if n, err := x.FailWrite(len(b)); err != nil {
			_, werr := f.WriteAt(b[:n], off)
			return errors.Join(err, werr)
		}
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), advise(err, f.Name()))
	}
	return nil
}

// SyncDir is the function SyncDir, unless the fault comes first.
func (x Faults) SyncDir(dir string) error {
	if x.FailSyncDir != nil {
		if err := x.FailSyncDir(); err != nil {
			return fmt.Errorf("sync directory %s: %w", dir, err)
		}
	}
	return SyncDir(dir)
}

// SyncData is the function SyncData, unless the fault comes first.
func (x Faults) SyncData(f *os.File) error {
	if x.FailSync != nil {
		if err := x.FailSync(); err != nil {
			return fmt.Errorf("sync %s: %w", f.Name(), err)
		}
	}
	return SyncData(f)
}

// Allocate is the function Allocate, unless the fault comes first.
func (x Faults) Allocate(f *os.File, off, n int64) error {
	if x.FailAllocate != nil {
		if err := x.FailAllocate(); err != nil {
			return fmt.Errorf("allocate %d bytes for %s: %w", n, f.Name(), advise(err, f.Name()))
		}
	}
	return Allocate(f, off, n)
}

// SyncData writes what was written to f, also through shared maps, to the disk, with as much of the
// metadata as is needed to read it back. After an error nobody can tell what reached the disk, and a second
// call may claim success without having written anything: do not retry.
func SyncData(f *os.File) error {
	if err := syncData(f); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// SyncDir makes the names in a directory last: files created, renamed and removed there before.
func SyncDir(dir string) error {
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// Allocate makes sure that f is at least off+n bytes long and that the disk has room for every byte of
// [off, off+n): later writes there, maps included, do not fail for lack of space. What the range held
// stays; what is new is zero. The caller syncs f. On failure f has its former size.
//
// File systems that write to a new place every time (btrfs, zfs, bcachefs) cannot promise that and are
// refused with an error that wraps errors.ErrUnsupported.
func Allocate(f *os.File, off, n int64) error { return allocateBy(allocate, f, off, n) }

// allocateBy is Allocate by either way of taking space.
func allocateBy(take func(f *os.File, off, n int64) error, f *os.File, off, n int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	if err := take(f, off, n); err != nil {
		if size, serr := f.Stat(); serr == nil && size.Size() > info.Size() {
			// Give back what a failed attempt took, or the next one has even less. Nothing more can be
			// done if this fails too; the first error is the one to report.
			_ = f.Truncate(info.Size())
		}
		return fmt.Errorf("allocate %d bytes for %s: %w", n, f.Name(), advise(err, f.Name()))
	}
	return nil
}

// writeZeros is Allocate for systems that cannot reserve space: it fills the file from its end to off+n.
func writeZeros(f *os.File, off, n int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for at := info.Size(); at < off+n; {
		chunk := zeros[:min(int64(len(zeros)), off+n-at)]
		if _, err := f.WriteAt(chunk, at); err != nil {
			return err
		}
		at += int64(len(chunk))
	}
	return nil
}

// Volume is a file system.
type Volume struct {
	Kind             string // "ext4" for one; of those without a name here the magic number
	Size, Free       uint64 // bytes; Free is what there is for others than root
	Files, FreeFiles uint64 // inodes; zeros where their number has no bound
}

// VolumeOf returns the file system that a directory is on. Other systems than Linux: errors.ErrUnsupported.
func VolumeOf(dir string) (Volume, error) {
	v, err := volumeOf(dir)
	if err != nil {
		err = fmt.Errorf("file system of %s: %w", dir, err)
	}
	return v, err
}

// advise adds what to change to errors that a person can do something about.
func advise(err error, path string) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: make room on the disk of %s or choose another directory", err, dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: mount %s writable or choose another directory", err, dir)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: make %s writable for this user or choose another directory", err, dir)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: create %s first or choose another directory", err, dir)
	}
	return err
}

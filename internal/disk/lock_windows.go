package disk

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks one byte far behind the end: Windows keeps others from reading what is locked, and the
// process id should stay readable.
func tryLock(f *os.File) (held bool, err error) {
	at := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err = windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

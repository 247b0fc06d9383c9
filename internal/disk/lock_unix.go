//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock uses flock and not fcntl, whose locks go when the process closes any descriptor of the file.
func tryLock(f *os.File) (held bool, err error) {
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

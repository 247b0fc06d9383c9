//go:build !(linux || darwin || freebsd || windows)

package disk

import (
	"errors"
	"os"
)

func tryLock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

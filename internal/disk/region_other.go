//go:build !(linux || darwin || freebsd)

package disk

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

var errNoRegion = fmt.Errorf("this system cannot map files at fixed addresses: %w", errors.ErrUnsupported)

func reserve(int) ([]atomic.Uint64, error)     { return nil, errNoRegion }
func (r *Region) extend(*os.File, int64) error { return errNoRegion }
func (r *Region) flush() error                 { return errNoRegion }
func release([]atomic.Uint64) error            { return errNoRegion }
func commit([]atomic.Uint64) error             { return errNoRegion }

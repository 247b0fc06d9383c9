//go:build !linux

package disk

import (
	"errors"
	"fmt"
)

func bootID() (id [16]byte, err error) {
	return id, fmt.Errorf("tell this start of the system from others: %w", errors.ErrUnsupported)
}

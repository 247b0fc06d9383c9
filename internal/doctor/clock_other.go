//go:build !linux

package doctor

import "errors"

func clockSynced() (bool, error) { return false, errors.ErrUnsupported }

//go:build !linux

package disk

import "os"

// Cache does nothing here: see its twin.
func Cache(*os.File, int64, int64) error { return nil }

// Uncache does nothing here: see its twin.
func Uncache(*os.File, int64, int64) error { return nil }

// WritebackError does not know here: see its twin.
func WritebackError(*os.File) error { return nil }

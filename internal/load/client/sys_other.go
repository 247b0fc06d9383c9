//go:build !linux

package client

import (
	"context"
	"errors"
	"math"
	"time"
)

// hasLoops says whether there are event loops on this system.
const hasLoops = false

func newLoops(context.Context, *Options, time.Time, []Source) ([]worker, error) {
	return nil, errors.New("BUG: no event loops on this system")
}

// processCPU is not known here: results say 0.
func processCPU() time.Duration { return 0 }

// mostFiles is not known here: a connection that cannot be opened says so by itself.
func mostFiles() int { return math.MaxInt32 }

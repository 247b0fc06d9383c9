package config

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Memory returns the bytes that defaults are shares of: what the collector keeps to (GOMEMLIMIT), which is a
// share of what the process's cgroup may have, or the machine's memory where nothing limits it.
func Memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	if total, err := memlimit.FromSystem(); err == nil {
		return int64(total)
	}
	return 4 << 30
}

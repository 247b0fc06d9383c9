package config

import (
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Bytes is a number of bytes as the value of a flag: "1048576", "1024KiB" or "1 MiB". It is shown in the
// largest unit that divides it, and implements pflag.Value.
type Bytes int64

// String implements pflag.Value.
func (b *Bytes) String() string {
	for _, u := range units {
		if *b >= Bytes(u.bytes) && *b%Bytes(u.bytes) == 0 {
			return strconv.FormatInt(int64(*b)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Set implements pflag.Value. The error says what a size looks like.
func (b *Bytes) Set(v string) error {
	unit := int64(1)
	number := v
	for _, u := range units {
		if rest, ok := strings.CutSuffix(v, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("a size is a whole number of bytes above 0, or one with KiB, MiB or GiB behind it")
	}
	*b = Bytes(n * unit)
	return nil
}

// Type implements pflag.Value.
func (b *Bytes) Type() string { return "size" }

// Size writes a number of bytes for people, to three digits or so: 1.50 GiB.
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for ; size >= 1<<10 && unit < 5; unit++ {
		size /= 1 << 10
	}
	return fmt.Sprintf("%.2f %ciB", size, "KMGTPE"[unit])
}

var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

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

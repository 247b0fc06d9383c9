package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag's number of bytes, with an optional unit of KiB, MiB or GiB.
type size int64

// String implements pflag.Value.
func (s *size) String() string {
	for _, u := range sizeUnits {
		if *s >= size(u.bytes) && *s%size(u.bytes) == 0 {
			return strconv.FormatInt(int64(*s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set implements pflag.Value.
func (s *size) Set(v string) error {
	unit := int64(1)
	number := v
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(v, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("a size is a whole number of bytes above 0, or one with KiB, MiB or GiB behind it")
	}
	*s = size(n * unit)
	return nil
}

// Type implements pflag.Value.
func (s *size) Type() string { return "size" }

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

//go:build linux

package main

import (
	"context"
	"os"
	"strconv"
	"strings"
)

const aboutSize = "Lines are those of Go files that are no tests. The Makefile writes down how long its " +
	"last `make test` and `make check` took. Allocations are what the tests of the two packages say."

// sizesFile is what scripts/sizes.sh writes: a subject, a name and a value a line, by tabs.
const sizesFile = "build/sizes"

func (b *bench) measureSize(context.Context) error {
	text, err := os.ReadFile(sizesFile)
	if err != nil {
		b.note("Not measured: %v.", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue
		}
		if value, err := strconv.ParseFloat(fields[2], 64); err == nil {
			b.put("size", fields[0], fields[1], 1, value)
		}
	}
	return nil
}

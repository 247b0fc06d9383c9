//go:build linux

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const aboutSize = "Lines are those of Go files that are no tests. The Makefile writes down how long its " +
	"last `make test` and `make check` took. Allocations are what the tests of the two packages say."

// Files that the Makefile writes.
const (
	timesFile  = "build/times"       // "make check 95", in seconds, a line a run
	allocsFile = "build/allocations" // go test -v of the allocation tests
)

func (b *bench) measureSize(context.Context) error {
	for name, roots := range map[string][]string{"cmd and internal": {"cmd", "internal"},
		"bench": {"bench"}} {
		lines := 0
		for _, root := range roots {
			n, err := goLines(root)
			if err != nil {
				return err
			}
			lines += n
		}
		b.put("size", "lines", name, 1, float64(lines))
	}
	if info, err := os.Stat("bin/weir"); err == nil {
		b.put("size", "MB", "bin/weir", 1, float64(info.Size())/1e6)
	}
	text, err := os.ReadFile(timesFile)
	if err != nil {
		b.note("size", "No times of make test and make check: %v.", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		if seconds, err := strconv.ParseFloat(fields[2], 64); err == nil {
			b.put("size", "minutes", fields[0]+" "+fields[1], 1, seconds/60)
		}
	}
	text, err = os.ReadFile(allocsFile)
	if err != nil {
		b.note("size", "Allocations were not counted: %v.", err)
	}
	for pkg, failed := range parseAllocations(string(text)) {
		b.put("size", "allocations", pkg, 1, failed)
	}
	return nil
}

// goLines counts the lines of the Go files below a directory that are no tests.
func goLines(root string) (lines int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		lines += bytes.Count(text, []byte{'\n'})
		return err
	})
	return lines, err
}

var testLine = regexp.MustCompile(`(?m)^(?:--- (PASS|FAIL|SKIP): \S+|(?:ok|FAIL)[ \t]+(\S+)[ \t])`)

// parseAllocations reads go test -v: each package's tests, then its closing line. A package has 0 if it has
// tests and all of them passed, and 1 otherwise; one without tests is left out.
func parseAllocations(log string) map[string]float64 {
	all := map[string]float64{}
	passed, failed := 0, 0
	for _, m := range testLine.FindAllStringSubmatch(log, -1) {
		switch {
		case m[1] == "PASS":
			passed++
		case m[1] == "FAIL":
			failed++
		case m[1] == "" && failed > 0:
			all[m[2]] = 1
		case m[1] == "" && passed > 0:
			all[m[2]] = 0
		}
		if m[1] == "" {
			passed, failed = 0, 0
		}
	}
	return all
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// peakFile names the variable of the environment that asks the command under test to write its
// largest resident memory, in KiB, to a file when it ends.
const peakFile = "WEIR_TEST_PEAK"

// runAndTell is run as the scripts' command, and writes the peak if that is asked for.
func runAndTell(args []string) int {
	code := run(args)
	if path := os.Getenv(peakFile); path != "" {
		status, err := os.ReadFile("/proc/self/status")
		if err == nil {
			err = os.WriteFile(path, regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1], 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	return code
}

// The lists below take 50 MB, the users 2 million, and the counters of items all they may.
func TestGenerateNeedsLessThan200MiB(t *testing.T) {
	dir := t.TempDir()
	peak := filepath.Join(dir, "peak")
	cmd := exec.Command("weir", "generate", "--users", "2000000", "--items", "5", "--max-item", "16777215", "-o", filepath.Join(dir, "feeds.weir"))
	cmd.Env = append(os.Environ(), peakFile+"="+peak)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(peak)
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak of %d KiB", kib)
	if kib > 200<<10 {
		t.Errorf("it needed %d KiB at its peak, want at most %d", kib, 200<<10)
	}
}

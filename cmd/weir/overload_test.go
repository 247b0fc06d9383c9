package main

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/internal/shed"
)

func parseShed(t *testing.T, args ...string) (*shed.Config, error) {
	t.Helper()
	s, cmd := newShedFlags(), new(cobra.Command)
	s.add(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	return s.config()
}

func TestThresholdsOfOverloadAreFlags(t *testing.T) {
	cfg, err := parseShed(t, "--shed-memory", "1GiB:512MiB", "--shed-load", "off",
		"--shed-cpu-stalls", "90%:0.95",
		"--shed-loop-delay", "10ms:1s", "--shed-in-flight", "5:7", "--shed-stalls-of", "cgroup")
	if err != nil {
		t.Fatal(err)
	}
	want := shed.DefaultLimits()
	want[shed.MemoryAvailable] = shed.Limits{On: true, Soft: 1 << 30, Hard: 512 << 20}
	want[shed.Load] = shed.Limits{On: false, Soft: 16, Hard: 32}
	want[shed.CPUPressure] = shed.Limits{On: true, Soft: 0.9, Hard: 0.95}
	want[shed.LoopDelay] = shed.Limits{On: true, Soft: 0.01, Hard: 1}
	want[shed.InFlight] = shed.Limits{On: true, Soft: 5, Hard: 7}
	for name, w := range want {
		if got := cfg.Limits[name]; got != w {
			t.Errorf("%s: got %+v, want %+v", name, got, w)
		}
	}
	if cfg.StallsOf != shed.OwnCgroup {
		t.Errorf("stalls of %s", cfg.StallsOf)
	}
	if cfg, err := parseShed(t, "--shed=false"); cfg != nil || err != nil {
		t.Errorf("switched off there is %+v, %v", cfg, err)
	}
}

// What a flag shows as its default can be written as its value.
func TestDefaultsOfOverloadCanBeWritten(t *testing.T) {
	if len(shedSignals) != len(shed.DefaultLimits()) {
		t.Errorf("%d signals have flags, %d have defaults", len(shedSignals), len(shed.DefaultLimits()))
	}
	for _, sig := range shedSignals {
		f := &limitsFlag{shed.DefaultLimits(), sig.signal, sig.unit}
		shown := f.String()
		if err := f.Set(shown); err != nil || f.String() != shown {
			t.Errorf("--%s %s is %s, %v", sig.flag, shown, f, err)
		}
	}
}

func TestWrongFlagsOfOverloadSayWhatIsRight(t *testing.T) {
	for args, says := range map[string]string{
		"--shed-memory=100MiB":        "like 100MiB:50MiB, or off",
		"--shed-memory=50MiB:100MiB":  "above the hard one",
		"--shed-memory=lots:few":      "like 100MiB:50MiB, or off",
		"--shed-load=8:4":             "below the hard one",
		"--shed-cpu-stalls=90:95":     "from 0 to 1",
		"--shed-scheduling=100:500":   "like 100ms:500ms, or off",
		"--shed-in-flight=NaN:5":      "numbers from 0",
		"--shed-interval=1ms":         "10ms or more",
		"--shed-pause=-1s":            "must not be negative",
		"--shed-wait=0s":              "must be above 0",
		"--shed-stalls-of=everybody":  "host or cgroup",
		"--memory-ratio=70":           "from 0 to 1",
		"--shed-memory-stalls=20%;5%": "like 20%:60%, or off",
	} {
		if _, err := parseShed(t, args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error that says %q", args, err, says)
		}
	}
}

func TestTheMemoryLimitIsShownAndTheEnvironmentWins(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	debug.SetMemoryLimit(math.MaxInt64)
	if got := memoryLimit(); got != "none" {
		t.Errorf("without a limit it is %s", got)
	}
	debug.SetMemoryLimit(512 << 20)
	if got := memoryLimit(); got != "512MiB" {
		t.Errorf("it is %s", got)
	}
	t.Setenv("GOMEMLIMIT", "512MiB")
	if err := limitMemory(0.7); err != nil || debug.SetMemoryLimit(-1) != 512<<20 {
		t.Errorf("%v; the limit is now %d", err, debug.SetMemoryLimit(-1))
	}
}

func TestWithoutARatioTheCollectorKeepsToNoLimit(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	if err := limitMemory(0); err != nil || memoryLimit() != "none" {
		t.Errorf("the limit is %s, %v", memoryLimit(), err)
	}
}

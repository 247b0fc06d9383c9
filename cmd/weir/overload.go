package main

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/shed"
)

// shedFlags are the flags of what overload is.
type shedFlags struct {
	on     bool
	cfg    shed.Config
	memory float64 // the collector's share of the memory that a cgroup may have
}

// shedSignals lists the signals with their flags.
var shedSignals = []struct {
	flag, signal string
	unit         shed.Unit
	usage        string
}{
	{"shed-memory", shed.MemoryAvailable, shed.Bytes,
		"memory available on the host and under all limits of cgroups"},
	{"shed-load", shed.Load, shed.Number, "load average over a minute, for each processor"},
	{"shed-cpu-stalls", shed.CPUPressure, shed.Share,
		"share of the time that something waits for a processor"},
	{"shed-memory-stalls", shed.MemoryPressure, shed.Share,
		"share of the time that something waits for memory"},
	{"shed-scheduling", shed.SchedulingLatency, shed.Seconds,
		"how long goroutines wait for a processor, 99th percentile"},
	{"shed-in-flight", shed.InFlight, shed.Number, "requests between their arrival and their answer"},
	{"shed-loop-delay", shed.LoopDelay, shed.Seconds,
		"how long the requests that wait for an event loop will take it"},
}

func newShedFlags() *shedFlags {
	return &shedFlags{cfg: shed.Defaults()}
}

func (s *shedFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "shed", true, "refuse requests when the server is overloaded")
	f.DurationVar(&s.cfg.Interval, "shed-interval", s.cfg.Interval, "how often to look whether it is")
	f.DurationVar(&s.cfg.Pause, "shed-pause", s.cfg.Pause,
		"the longest time for which a connection is not read after its request was rejected; 0 is never")
	f.DurationVar(&s.cfg.Wait, "shed-wait", s.cfg.Wait,
		"how long a request may wait for an event loop before it is rejected")
	config.Choice(f, &s.cfg.StallsOf, "shed-stalls-of", s.cfg.StallsOf, "whose stalls are looked at: host "+
		"or cgroup, the server's own", shed.Host, shed.OwnCgroup)
	for _, sig := range shedSignals {
		f.Var(&limitsFlag{s.cfg.Limits, sig.signal, sig.unit}, sig.flag,
			sig.usage+": from where to refuse, and where to refuse all; or off")
	}
	f.Float64Var(&s.memory, "memory-ratio", 0.7, "share of the memory its cgroup may have that the garbage "+
		"collector keeps to (GOMEMLIMIT); 0 is no limit")
}

// config returns what the flags say; nil is never to refuse.
func (s *shedFlags) config() (*shed.Config, error) {
	switch {
	case s.cfg.Interval < 10*time.Millisecond:
		return nil, fmt.Errorf("--shed-interval must be 10ms or more, got %v", s.cfg.Interval)
	case s.cfg.Pause < 0:
		return nil, fmt.Errorf("--shed-pause must not be negative, got %v", s.cfg.Pause)
	case s.cfg.Wait <= 0:
		return nil, fmt.Errorf("--shed-wait must be above 0, got %v", s.cfg.Wait)
	case !(s.memory >= 0 && s.memory <= 1):
		return nil, fmt.Errorf("--memory-ratio must be from 0 to 1, got %v", s.memory)
	}
	if !s.on {
		return nil, nil
	}
	return &s.cfg, nil
}

// limitsFlag is a flag of a signal's thresholds: two values with a colon between, or off.
type limitsFlag struct {
	limits map[string]shed.Limits
	signal string
	unit   shed.Unit
}

var _ pflag.Value = (*limitsFlag)(nil)

// Set implements pflag.Value.
func (f *limitsFlag) Set(text string) error {
	l := f.limits[f.signal]
	if l.On = text != "off"; !l.On {
		f.limits[f.signal] = l
		return nil
	}
	soft, hard, ok := strings.Cut(text, ":")
	var errSoft, errHard error
	l.Soft, errSoft = f.parse(soft)
	l.Hard, errHard = f.parse(hard)
	if !ok || errSoft != nil || errHard != nil {
		return fmt.Errorf("must be two values and a colon, like %s, or off",
			f.format(shed.DefaultLimits()[f.signal]))
	}
	if err := shed.Check(f.signal, f.unit, l); err != nil {
		return err
	}
	f.limits[f.signal] = l
	return nil
}

// String implements pflag.Value.
func (f *limitsFlag) String() string {
	l := f.limits[f.signal]
	if !l.On {
		return "off"
	}
	return f.format(l)
}

// Type implements pflag.Value.
func (f *limitsFlag) Type() string { return "soft:hard" }

func (f *limitsFlag) parse(text string) (float64, error) {
	switch f.unit {
	case shed.Bytes:
		var b config.Bytes
		err := b.Set(text)
		return float64(b), err
	case shed.Seconds:
		d, err := time.ParseDuration(text)
		return d.Seconds(), err
	case shed.Share:
		percent, isPercent := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(percent, 64)
		if isPercent {
			v /= 100
		}
		return v, err
	}
	return strconv.ParseFloat(text, 64)
}

func (f *limitsFlag) format(l shed.Limits) string {
	one := func(v float64) string {
		switch f.unit {
		case shed.Bytes:
			b := config.Bytes(v)
			return b.String()
		case shed.Seconds:
			return time.Duration(math.Round(v * 1e9)).String()
		case shed.Share:
			return strconv.FormatFloat(v*100, 'g', -1, 64) + "%"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return one(l.Soft) + ":" + one(l.Hard)
}

// limitMemory keeps the garbage collector to a share of what this process's cgroup may have. Without that
// it lets the heap grow until there is nothing left, which the shedder takes for overload and the kernel
// for a reason to kill.
func limitMemory(ratio float64) error {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if ratio == 0 {
		debug.SetMemoryLimit(math.MaxInt64)
		return nil
	}
	_, err := memlimit.Set(memlimit.WithRatio(ratio))
	return err
}

// memoryLimit is what the garbage collector keeps to, for the log.
func memoryLimit() string {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return "none"
	}
	return fmt.Sprintf("%dMiB", limit>>20)
}

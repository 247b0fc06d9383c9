package shed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Whose stalls cpu_pressure and memory_pressure are.
const (
	Host      = "host"
	OwnCgroup = "cgroup"
)

// System returns the signals of the machine and of the Go runtime. They are Linux's but for the last.
func System(stallsOf string) []Signal {
	box := &box{root: os.DirFS("/")}
	return []Signal{
		{Name: MemoryAvailable, Unit: Bytes, Falling: true, Read: onLinux(box.memoryAvailable)},
		{Name: Load, Unit: Number, Read: onLinux(box.loadPerCPU)},
		{Name: CPUPressure, Unit: Share, Read: onLinux(box.stalls("cpu", stallsOf))},
		{Name: MemoryPressure, Unit: Share, Read: onLinux(box.stalls("memory", stallsOf))},
		{Name: SchedulingLatency, Unit: Seconds, Read: schedulingLatency()},
	}
}

// onLinux returns read where there is a /proc to read.
func onLinux(read func() (float64, error)) func() (float64, error) {
	if runtime.GOOS == "linux" {
		return read
	}
	return func() (float64, error) { return 0, errors.ErrUnsupported }
}

// box reads the files by which Linux says how it is, below root, which tests put elsewhere.
type box struct {
	root fs.FS
	own  ownCgroups
}

// read reads a file by its path, with or without the slash at its beginning.
func (b *box) read(path string) ([]byte, error) {
	return fs.ReadFile(b.root, strings.TrimPrefix(path, "/"))
}

// loadPerCPU reads the load average over about a minute: threads that run, wait for a processor or for a
// disk.
func (b *box) loadPerCPU() (float64, error) {
	text, err := b.read("proc/loadavg")
	if err != nil {
		return 0, err
	}
	load1, err := parseLoad(text)
	return load1 / float64(runtime.NumCPU()), err
}

// parseLoad returns the first number of /proc/loadavg.
func parseLoad(text []byte) (float64, error) {
	first, _, ok := bytes.Cut(text, []byte(" "))
	load1, err := strconv.ParseFloat(string(first), 64)
	if !ok || err != nil || math.IsNaN(load1) || math.IsInf(load1, 0) || load1 < 0 {
		return 0, fmt.Errorf("/proc/loadavg does not begin with a load but with %.20q", text)
	}
	return load1, nil
}

// stalls returns a function that reads which share of the time since its last call some task waited for a
// resource, by the pressure stall information of the host or of this process's cgroup.
func (b *box) stalls(resource, of string) func() (float64, error) {
	var last time.Duration
	var at time.Time
	return func() (float64, error) {
		file := "proc/pressure/" + resource
		if of == OwnCgroup {
			groups, err := b.cgroups()
			if err != nil {
				return 0, err
			}
			if groups.unified == "" {
				return 0, errors.New("there is no cgroup of version 2, whose stalls are counted; " +
					"--shed-stalls-of host takes the host's")
			}
			file = path.Join(groups.unified, resource+".pressure")
		}
		text, err := b.read(file)
		if err != nil {
			return 0, err
		}
		total, err := parseStalls(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		now := time.Now()
		stalled, passed := total-last, now.Sub(at)
		first := at.IsZero() || stalled < 0
		last, at = total, now
		if first || passed <= 0 {
			return 0, nil // nothing to compare with
		}
		return min(float64(stalled)/float64(passed), 1), nil
	}
}

// parseStalls returns for how long some task has waited, out of a pressure file.
func parseStalls(text []byte) (time.Duration, error) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("some "))
		if !ok {
			continue
		}
		_, total, ok := bytes.Cut(rest, []byte("total="))
		if !ok {
			break
		}
		us, err := strconv.ParseUint(string(bytes.TrimSpace(total)), 10, 63)
		if err != nil || us > math.MaxInt64/uint64(time.Microsecond) {
			return 0, fmt.Errorf("total=%.30q is no time in microseconds", total)
		}
		return time.Duration(us) * time.Microsecond, nil
	}
	return 0, errors.New("there is no line that begins with some and has a total")
}

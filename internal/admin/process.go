package admin

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"weir/internal/shed"
)

// process is what the system and the Go runtime say of this process. What cannot be known is NaN.
type process struct {
	cpuSeconds  float64 // so far
	memory      float64 // bytes resident
	heap        float64 // bytes of objects, dead ones that are not swept included
	gcCycles    float64 // so far
	gcPaused    float64 // seconds, so far
	goroutines  float64
	descriptors float64
}

// runtimeNames are of the figures that the Go runtime is asked for, in the order of readProcess.
var runtimeNames = []string{"/memory/classes/heap/objects:bytes", "/gc/cycles/total:gc-cycles",
	"/sched/goroutines:goroutines", "/sched/pauses/total/gc:seconds"}

// reader reads the figures of the process, again and again without much garbage.
type reader struct{ samples []metrics.Sample }

func newReader() *reader {
	r := &reader{make([]metrics.Sample, len(runtimeNames))}
	for i, name := range runtimeNames {
		r.samples[i].Name = name
	}
	return r
}

func (r *reader) read() process {
	metrics.Read(r.samples)
	number := func(i int) float64 {
		if r.samples[i].Value.Kind() != metrics.KindUint64 {
			return math.NaN()
		}
		return float64(r.samples[i].Value.Uint64())
	}
	p := process{heap: number(0), gcCycles: number(1), goroutines: number(2), memory: math.NaN(),
		cpuSeconds: math.NaN(), descriptors: math.NaN()}
	if v := r.samples[3].Value; v.Kind() == metrics.KindFloat64Histogram {
		p.gcPaused = total(v.Float64Histogram())
	}
	// Linux tells the rest; ticks are hundredths of a second there, whatever the kernel's own are.
	if text, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The second field is the name in parentheses, which may hold anything.
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(f) > 21 {
			user, _ := strconv.ParseFloat(string(f[11]), 64)
			system, _ := strconv.ParseFloat(string(f[12]), 64)
			pages, _ := strconv.ParseFloat(string(f[21]), 64)
			p.cpuSeconds, p.memory = (user+system)/100, pages*float64(os.Getpagesize())
		}
	}
	// Since Linux 6.2 the folder's size is how many there are; listing them all would take long.
	if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() > 0 {
		p.descriptors = float64(info.Size())
	}
	return p
}

// total is the sum of a histogram's values, each taken as the middle of its bucket.
func total(h *metrics.Float64Histogram) (sum float64) {
	for i, n := range h.Counts {
		low, high := h.Buckets[i], h.Buckets[i+1]
		if math.IsInf(low, 0) {
			low = high
		}
		if math.IsInf(high, 0) {
			high = low
		}
		if n > 0 {
			sum += float64(n) * (low + high) / 2
		}
	}
	return sum
}

// bounds are what the process may have; 0 is no bound that is known.
type bounds struct {
	cgroup      float64 // bytes: the least of the cgroups'
	descriptors float64
	processors  int
}

// memoryLimit is GOMEMLIMIT, which may change.
func memoryLimit() float64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return float64(limit)
	}
	return 0
}

func readBounds() (b bounds) {
	if c, err := shed.ReadCgroups(os.DirFS("/")); err == nil {
		b.cgroup = float64(c.Memory)
	}
	if text, err := os.ReadFile("/proc/self/limits"); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
				soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				b.descriptors, _ = strconv.ParseFloat(soft, 64) // "unlimited" is none
			}
		}
	}
	b.processors = runtime.NumCPU()
	return b
}

// started is when the process did, closely enough.
var started = time.Now()

package shed

import (
	"fmt"
	"math"
	"time"
)

// Signal is something that says how the box is.
type Signal struct {
	Name string
	Unit Unit
	// Falling signals are the worse the smaller they are.
	Falling bool
	// Read returns the value of now. It is called by one goroutine, once an interval. An error that wraps
	// errors.ErrUnsupported says that this system does not have the signal.
	Read func() (float64, error)
}

// Unit is what a signal's value and thresholds count.
type Unit string

const (
	Bytes   Unit = "bytes"
	Seconds Unit = "seconds"
	Share   Unit = "share" // of the time, from 0 to 1
	Number  Unit = "number"
)

// The names of signals.
const (
	MemoryAvailable   = "memory_available"
	Load              = "load1_per_cpu"
	CPUPressure       = "cpu_pressure"
	MemoryPressure    = "memory_pressure"
	SchedulingLatency = "scheduling_latency"
	InFlight          = "in_flight"
	// LoopDelay is how long what waits for an event loop will take it. Loops apply it themselves: see
	// Queue.
	LoopDelay = "loop_delay"
)

// Limits are the thresholds of a signal: at Soft and before it has no pressure, at Hard and beyond it has
// all.
type Limits struct {
	On         bool
	Soft, Hard float64
}

// Defaults returns what is watched unless somebody says otherwise.
func Defaults() Config {
	return Config{Interval: 200 * time.Millisecond, Limits: DefaultLimits(), StallsOf: Host,
		Pause: 4 * time.Second, Wait: time.Second}
}

// DefaultLimits returns the limits of all signals that are on unless somebody says otherwise, and those
// that are off. docs/operations.md says why they are what they are.
func DefaultLimits() map[string]Limits {
	return map[string]Limits{
		MemoryAvailable:   {true, 100 << 20, 50 << 20},
		Load:              {true, 16, 32},
		CPUPressure:       {false, 0.9, 1},
		MemoryPressure:    {true, 0.2, 0.6},
		SchedulingLatency: {true, 0.1, 0.5},
		InFlight:          {true, 2000, 10_000},
		LoopDelay:         {true, 0.005, 0.015},
	}
}

// Check rejects limits that cannot work for a signal.
func Check(name string, unit Unit, l Limits) error {
	s := Signal{Name: name, Unit: unit, Falling: name == MemoryAvailable}
	return s.check(l)
}

// check rejects limits that cannot work for the signal.
func (s *Signal) check(l Limits) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("signal %s: %s", s.Name, fmt.Sprintf(format, args...))
	}
	for _, v := range []float64{l.Soft, l.Hard} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return wrong("thresholds must be numbers from 0, got %v and %v", l.Soft, l.Hard)
		}
	}
	switch { // thresholds of a signal that is off are those it will have when it is on
	case !l.On && l.Soft == 0 && l.Hard == 0:
	case s.Falling && l.Soft <= l.Hard:
		return wrong("the soft threshold must be above the hard one, got %v and %v: less of it is worse",
			l.Soft, l.Hard)
	case !s.Falling && l.Soft >= l.Hard:
		return wrong("the soft threshold must be below the hard one, got %v and %v: more of it is worse",
			l.Soft, l.Hard)
	case s.Unit == Share && l.Hard > 1:
		return wrong("thresholds are shares of the time, from 0 to 1, got %v and %v", l.Soft, l.Hard)
	}
	return nil
}

// of returns the pressure of a value, 0 when it is off or the value is not known. The same line serves
// rising and falling signals.
func (l Limits) of(value float64) float64 {
	if !l.On || math.IsNaN(value) {
		return 0
	}
	return min(max((value-l.Soft)/(l.Hard-l.Soft), 0), 1)
}

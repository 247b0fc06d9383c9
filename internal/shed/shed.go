// Package shed decides which requests are rejected when the box is overloaded, so that those that are not
// are answered in time. It knows nothing of HTTP.
//
// Signals say how the box is: memory that is available, load, stalls, queues. Each has a soft and a hard
// threshold, and its pressure is 0 at the soft one, 1 at the hard one and linear between. Every interval
// all signals are read, and the largest pressure counts. Requests of class Low are rejected with a
// probability that grows from 0 to 1 over the first half of the pressure, those of class Normal over the
// second half, those of class Critical never.
//
// There is no state besides: no mode that is entered and left, no hysteresis. What is read now decides what
// is rejected now, so the probability settles where what is admitted is what the box can do. A switch that
// is on above one threshold and off below another rejects all or nothing and swings between them for ever;
// a test shows both.
//
// A decision is one atomic load, and while there is pressure a random number: RejectProbability and Draw. A
// signal that cannot be read is said once, counted, and has no pressure. A queue in front of an event loop
// grows and goes in milliseconds, for which an interval is too long: Queue is the same rule for a loop that
// counts its own.
package shed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/metrics"
)

// Class says how much a request matters.
type Class uint8

const (
	// Normal is what a request is unless somebody says otherwise.
	Normal Class = iota
	// Low is rejected first: what costs much, or can be done later.
	Low
	// Critical is never rejected: by it people and machines find out how the server is.
	Critical
	// Classes is how many there are.
	Classes
)

func (c Class) String() string {
	switch c {
	case Normal:
		return "normal"
	case Low:
		return "low"
	case Critical:
		return "critical"
	}
	return "unknown"
}

// RejectProbability holds the probabilities of all classes in one word, in units of 2^-31: Normal in the
// lower half, Low in the upper. Zero rejects nobody.
type RejectProbability uint64

// certain is a probability of 1.
const certain = 1 << 31

// RejectProbabilityAt returns the probability at a pressure from 0 to 1.
func RejectProbabilityAt(pressure float64) RejectProbability {
	return probability(2*pressure-1, 2*pressure)
}

// probability packs two probabilities, which may lie beyond 0 and 1.
func probability(normal, low float64) RejectProbability {
	fraction := func(p float64) RejectProbability { return RejectProbability(min(max(p, 0), 1) * certain) }
	return fraction(normal) | fraction(low)<<32
}

// Rejects says whether a request of a class is rejected, by the number that was drawn for it.
func (o RejectProbability) Rejects(c Class, draw uint32) bool {
	return draw < uint32(o>>(32*c)) // shifted by 64 nothing is left for Critical
}

// Of returns the reject probability of a class.
func (o RejectProbability) Of(c Class) float64 { return float64(uint32(o>>(32*c))) / certain }

// Max returns the larger probabilities of o and p, class by class.
func (o RejectProbability) Max(p RejectProbability) RejectProbability {
	const lower = 1<<32 - 1
	return max(o&lower, p&lower) | max(o>>32, p>>32)<<32
}

// OfLow returns the probability of class Low alone.
func (o RejectProbability) OfLow() RejectProbability { return o >> 32 << 32 }

// Draw returns a random number for one request. All decisions about one request take the same, so that a
// request that turns out to be Low after it was admitted as Normal is rejected as often as if that had been
// known.
func Draw() uint32 { return rand.Uint32() >> 1 }

// Config says what is watched.
type Config struct {
	// Interval is how often signals are read.
	Interval time.Duration
	// Limits are the thresholds of signals by name; one that is missing is off.
	Limits map[string]Limits
	// StallsOf says whose stalls the signals cpu_pressure and memory_pressure are: Host or OwnCgroup.
	StallsOf string
	// Pause bounds how long a connection is not read after a rejection; 0 reads it at once.
	Pause time.Duration
	// Wait bounds how long a request waits for an event loop before it is rejected.
	Wait time.Duration
}

// Shedder reads signals and decides.
type Shedder struct {
	interval atomic.Int64  // a time.Duration
	retimed  chan struct{} // holds one when the interval has changed
	log      *slog.Logger

	probability atomic.Uint64
	queue       atomic.Pointer[Limits] // of the queue in front of a loop
	dominant    atomic.Pointer[string]

	mu      sync.Mutex // guards what follows
	signals []*watched
	overall float64 // the largest pressure, signals that others apply included

	admitted, rejected [Classes]*metrics.Counter
}

// watched is a signal with what is known of it.
type watched struct {
	Signal
	Limits
	value    float64 // NaN when it is not known
	pressure float64
	failure  string // of the last reading, empty when it went well
	said     bool   // that it cannot be read
	failures *metrics.Counter
}

// New returns a Shedder that watches the signals for which cfg has limits. Run makes it read them; until
// then nobody is rejected.
func New(cfg Config, m *metrics.Registry, log *slog.Logger, signals ...Signal) (*Shedder, error) {
	s := &Shedder{retimed: make(chan struct{}, 1), log: log}
	s.interval.Store(int64(cfg.Interval))
	none := ""
	s.dominant.Store(&none)
	s.queue.Store(&Limits{})
	for _, sig := range signals {
		w := &watched{Signal: sig, value: math.NaN()}
		w.failures = m.Counter("weir_shed_refresh_failures_total",
			"Readings of a signal that failed; it sheds nothing meanwhile.", "signal", sig.Name)
		m.Gauge("weir_shed_pressure", "How far a signal is from its soft (0) to its hard threshold (1).",
			func() float64 {
				s.mu.Lock()
				defer s.mu.Unlock()
				return w.pressure
			}, "signal", sig.Name)
		s.signals = append(s.signals, w)
	}
	if err := s.Apply(cfg); err != nil {
		return nil, err
	}
	for c := range Classes {
		s.admitted[c] = m.Counter("weir_shed_admitted_total", "Requests that were let in, by class.",
			"class", c.String())
		s.rejected[c] = m.Counter("weir_shed_rejected_total",
			"Requests that were rejected because of overload, by class.", "class", c.String())
		if c != Critical {
			m.Gauge("weir_shed_reject_probability", "Reject probability, by class.", func() float64 {
				return s.Status().Probability[c.String()]
			}, "class", c.String())
		}
	}
	return s, nil
}

// Apply takes up the interval and the limits of cfg while signals are watched: all of it, or with an error
// nothing. What is read next counts by them, and so does what was read last.
func (s *Shedder) Apply(cfg Config) error {
	if cfg.Interval <= 0 {
		return fmt.Errorf("the interval at which signals are read must be above 0, got %v", cfg.Interval)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range cfg.Limits {
		if !slices.ContainsFunc(s.signals, func(w *watched) bool { return w.Name == name }) {
			return fmt.Errorf("there is no signal %q to have limits", name)
		}
	}
	for _, w := range s.signals {
		if err := w.check(cfg.Limits[w.Name]); err != nil {
			return err
		}
	}
	for _, w := range s.signals {
		if w.Limits = cfg.Limits[w.Name]; !w.On {
			w.value, w.failure = math.NaN(), ""
		}
	}
	s.publish()
	if s.interval.Swap(int64(cfg.Interval)) != int64(cfg.Interval) {
		select {
		case s.retimed <- struct{}{}:
		default: // it is told already
		}
	}
	return nil
}

// Run reads the signals every interval until ctx is done.
func (s *Shedder) Run(ctx context.Context) {
	tick := time.NewTicker(time.Duration(s.interval.Load()))
	defer tick.Stop()
	for {
		s.refresh()
		select {
		case <-ctx.Done():
			return
		case <-s.retimed:
			tick.Reset(time.Duration(s.interval.Load()))
		case <-tick.C:
		}
	}
}

// RejectProbability returns the probability of now.
func (s *Shedder) RejectProbability() RejectProbability {
	return RejectProbability(s.probability.Load())
}

// QueueLimits returns the limits of the queue in front of a loop, which the loop applies by a Queue.
func (s *Shedder) QueueLimits() Limits { return *s.queue.Load() }

// Dominant returns the name of the signal with the largest pressure, empty while there is none.
func (s *Shedder) Dominant() string { return *s.dominant.Load() }

// Count counts decisions about requests of a class, on behalf of a writer as metrics counts them.
func (s *Shedder) Count(stripe int, c Class, admitted, rejected uint64) {
	if admitted > 0 {
		s.admitted[c].Add(stripe, admitted)
	}
	if rejected > 0 {
		s.rejected[c].Add(stripe, rejected)
	}
}

// refresh reads all signals. They are read without the lock: a file may take its time.
func (s *Shedder) refresh() {
	s.mu.Lock()
	signals := slices.Clone(s.signals)
	s.mu.Unlock()
	for _, w := range signals {
		s.mu.Lock()
		on := w.On
		s.mu.Unlock()
		value, err := math.NaN(), error(nil)
		if on {
			value, err = w.Read()
		}
		if on && err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			err = errors.New("it is not a number")
		}
		s.mu.Lock()
		switch w.value, w.failure = value, ""; {
		case err != nil:
			w.value, w.failure = math.NaN(), err.Error()
			s.failed(w, err)
		case !w.On: // switched off meanwhile
			w.value = math.NaN()
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// failed takes down that w could not be read. What this system does not have is no failure.
func (s *Shedder) failed(w *watched, err error) {
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	w.failures.Add(0, 1)
	if !w.said {
		w.said = true
		s.log.Warn("a signal of overload cannot be read and sheds nothing; its flag switches it off",
			"signal", w.Name, "error", err)
	}
}

// publish makes the probabilities of what is known. The lock is held, or s is not shared yet.
func (s *Shedder) publish() {
	shared, dominant := 0.0, ""
	s.overall = 0
	for _, w := range s.signals {
		w.pressure = w.of(w.value)
		if w.pressure > s.overall {
			s.overall, dominant = w.pressure, w.Name
		}
		if w.Name == LoopDelay {
			queue := w.Limits
			s.queue.Store(&queue)
			continue // each loop applies its own, at once
		}
		shared = max(shared, w.pressure)
	}
	s.dominant.Store(&dominant)
	s.probability.Store(uint64(RejectProbabilityAt(shared)))
}

// RetryAfter returns after how many seconds whoever was rejected with a probability should come again: 1 to
// 15, longer the more are rejected, and spread so that they do not all come back at once.
func RetryAfter(probability float64) int {
	mean := 1 + 9*min(max(probability, 0), 1)
	return max(1, int(math.Round(mean*(0.5+rand.Float64()))))
}

// PauseFor returns for how long a connection is not read after a rejection at least: 10 ms and more, longer
// the more are rejected, spread, and never longer than most.
func PauseFor(probability float64, most time.Duration) time.Duration {
	mean := 20*time.Millisecond + time.Duration(480*float64(time.Millisecond)*min(max(probability, 0), 1))
	return cmp.Or(min(time.Duration(float64(mean)*(0.5+rand.Float64())), most), 1)
}

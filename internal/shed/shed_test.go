package shed

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/metrics"
)

// dial is a signal that a test turns.
type dial struct {
	value atomic.Uint64
	fail  atomic.Pointer[error]
	reads atomic.Int64
}

func (d *dial) set(v float64) { d.value.Store(math.Float64bits(v)) }

func (d *dial) signal(name string, unit Unit, falling bool) Signal {
	return Signal{Name: name, Unit: unit, Falling: falling, Read: func() (float64, error) {
		d.reads.Add(1)
		if err := d.fail.Load(); err != nil {
			return 0, *err
		}
		return math.Float64frombits(d.value.Load()), nil
	}}
}

// watching returns a Shedder of one rising and one falling signal, and their dials.
func watching(t testing.TB, log *slog.Logger) (s *Shedder, load, memory *dial) {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	load, memory = new(dial), new(dial)
	memory.set(1000)
	s, err := New(Config{
		Interval: 200 * time.Millisecond,
		Limits:   map[string]Limits{"load": {true, 2, 4}, "memory": {true, 100, 50}},
	}, metrics.New(1), log, load.signal("load", Number, false), memory.signal("memory", Bytes, true))
	if err != nil {
		t.Fatal(err)
	}
	return s, load, memory
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestPressureIsLinearBetweenTheThresholds(t *testing.T) {
	for _, test := range []struct{ soft, hard, value, want float64 }{
		{2, 4, 0, 0}, {2, 4, 2, 0}, {2, 4, 2.5, 0.25}, {2, 4, 4, 1}, {2, 4, 100, 1},
		{100, 50, 1000, 0}, {100, 50, 100, 0}, {100, 50, 75, 0.5}, {100, 50, 50, 1}, {100, 50, 0, 1},
		{2, 4, math.NaN(), 0},
	} {
		if got := (Limits{true, test.soft, test.hard}).of(test.value); !near(got, test.want) {
			t.Errorf("soft %v, hard %v: the pressure of %v is %v, want %v", test.soft, test.hard, test.value,
				got, test.want)
		}
		if got := (Limits{false, test.soft, test.hard}).of(test.value); got != 0 {
			t.Errorf("a signal that is off has the pressure %v", got)
		}
	}
}

func TestLowIsRefusedBeforeNormalAndCriticalNever(t *testing.T) {
	for _, test := range []struct{ pressure, normal, low float64 }{
		{0, 0, 0}, {0.1, 0, 0.2}, {0.25, 0, 0.5}, {0.5, 0, 1}, {0.75, 0.5, 1}, {1, 1, 1},
	} {
		o := RejectProbabilityAt(test.pressure)
		for c, want := range map[Class]float64{Normal: test.normal, Low: test.low, Critical: 0} {
			if got := o.Of(c); !near(got, want) {
				t.Errorf("pressure %v: %v is rejected with probability %v, want %v", test.pressure, c, got,
					want)
			}
			rejected := 0
			const n = 20_000
			for range n {
				if o.Rejects(c, Draw()) {
					rejected++
				}
			}
			if got := float64(rejected) / n; math.Abs(got-want) > 0.03 || (want == 0 || want == 1) &&
				got != want {
				t.Errorf("pressure %v: %v of the requests of class %v were rejected, want %v", test.pressure,
					got, c, want)
			}
		}
	}
}

func TestALowRequestIsRefusedWhereverANormalOneIs(t *testing.T) {
	for range 1000 {
		o, draw := RejectProbabilityAt(float64(Draw())/certain), Draw()
		if o.Rejects(Normal, draw) && !o.Rejects(Low, draw) {
			t.Fatalf("probability %x, draw %d: rejected as normal, not as low", o, draw)
		}
	}
}

func TestMaxIsTakenClassByClass(t *testing.T) {
	got := probability(0.1, 0.9).Max(probability(0.3, 0.5))
	if !near(got.Of(Normal), 0.3) || !near(got.Of(Low), 0.9) {
		t.Errorf("got %v and %v, want 0.3 and 0.9", got.Of(Normal), got.Of(Low))
	}
}

func TestTheLargestPressureCountsAndIsNamed(t *testing.T) {
	s, load, memory := watching(t, nil)
	for _, test := range []struct {
		load, memory, pressure float64
		dominant               string
	}{
		{0, 1000, 0, ""}, {3, 1000, 0.5, "load"}, {3, 60, 0.8, "memory"}, {4, 60, 1, "load"},
		{0, 1000, 0, ""},
	} {
		load.set(test.load)
		memory.set(test.memory)
		s.refresh()
		if st := s.Status(); !near(st.Pressure, test.pressure) || st.Dominant != test.dominant ||
			s.Dominant() != test.dominant {
			t.Errorf("load %v, memory %v: pressure %v of %q, want %v of %q", test.load, test.memory,
				st.Pressure, st.Dominant, test.pressure, test.dominant)
		}
		if got := s.RejectProbability(); got != RejectProbabilityAt(test.pressure) {
			t.Errorf("load %v, memory %v: probability %x, want %x", test.load, test.memory, got,
				RejectProbabilityAt(test.pressure))
		}
	}
}

// The queue in front of a loop is shown, and applied by the loop alone.
func TestTheLoopsApplyTheirDelayThemselves(t *testing.T) {
	delay := new(dial)
	s, err := New(Config{Interval: time.Second, Limits: map[string]Limits{LoopDelay: {true, 1, 2}}},
		metrics.New(1),
		slog.New(slog.DiscardHandler), delay.signal(LoopDelay, Seconds, false))
	if err != nil {
		t.Fatal(err)
	}
	delay.set(2)
	s.refresh()
	if s.RejectProbability() != 0 || s.Dominant() != LoopDelay || s.Status().Probability["normal"] != 1 {
		t.Errorf("probability %x, dominant %q, %+v; want none for all, and the signal shown",
			s.RejectProbability(), s.Dominant(), s.Status())
	}
	if got := s.QueueLimits(); got != (Limits{true, 1, 2}) {
		t.Errorf("loops are told %+v", got)
	}
}

func TestSignalsAreReadEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, load, _ := watching(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		synctest.Wait()
		if n := load.reads.Load(); n != 1 {
			t.Errorf("%d readings at the start, want 1", n)
		}
		load.set(4)
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		if s.RejectProbability() != 0 {
			t.Error("rejected before the interval was over")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if s.RejectProbability() != RejectProbabilityAt(1) {
			t.Error("not rejected after the interval")
		}
		load.set(0)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if s.RejectProbability() != 0 {
			t.Error("rejected an interval after the load has gone: there must be no state")
		}
		cancel()
		synctest.Wait()
		before := load.reads.Load()
		time.Sleep(time.Second)
		if n := load.reads.Load(); n != before {
			t.Errorf("%d readings after the end", n-before)
		}
	})
}

func TestASignalThatCannotBeReadIsSaidOnceCountedAndShedsNothing(t *testing.T) {
	var text strings.Builder
	s, load, memory := watching(t, slog.New(slog.NewTextHandler(&text, nil)))
	load.set(4)
	s.refresh()
	broken := errors.New("the file is gone")
	load.fail.Store(&broken)
	memory.set(75)
	for range 5 {
		s.refresh()
	}
	st := s.Status()
	if st.Dominant != "memory" || !near(st.Pressure, 0.5) || st.Failures != 5 {
		t.Errorf("%+v: want memory alone to count, and 5 failures", st)
	}
	if one := st.Signals[0]; one.Failures != 5 || one.Error != "the file is gone" || one.Value != nil ||
		one.Pressure != 0 {
		t.Errorf("the signal is %+v", one)
	}
	if n := strings.Count(text.String(), "the file is gone"); n != 1 {
		t.Errorf("said %d times: %s", n, text.String())
	}
	load.fail.Store(nil)
	s.refresh()
	if st := s.Status(); st.Dominant != "load" || st.Signals[0].Error != "" {
		t.Errorf("it can be read again and %+v", st)
	}
	load.set(math.NaN())
	s.refresh()
	if st := s.Status(); st.Dominant != "memory" || st.Failures != 6 {
		t.Errorf("what is not a number: %+v", st)
	}
}

func TestWhatASystemDoesNotHaveIsNoFailure(t *testing.T) {
	var text strings.Builder
	s, load, _ := watching(t, slog.New(slog.NewTextHandler(&text, nil)))
	load.fail.Store(&errors.ErrUnsupported)
	s.refresh()
	if st := s.Status(); st.Failures != 0 || st.Signals[0].Error == "" || text.Len() > 0 {
		t.Errorf("%+v, log %q", st, text.String())
	}
}

func TestThresholdsChangeWhileTheyAreWatched(t *testing.T) {
	s, load, _ := watching(t, nil)
	load.set(3)
	s.refresh()
	apply := func(l Limits) {
		t.Helper()
		if err := s.Apply(limits(l, Limits{true, 100, 50})); err != nil {
			t.Error(err)
		}
	}
	if apply(Limits{true, 3, 4}); s.RejectProbability() != 0 {
		t.Errorf("probability %x: a new soft threshold counts at once", s.RejectProbability())
	}
	if apply(Limits{true, 1, 2}); s.RejectProbability() != RejectProbabilityAt(1) {
		t.Errorf("probability %x: so do both", s.RejectProbability())
	}
	if apply(Limits{false, 1, 2}); s.RejectProbability() != 0 {
		t.Errorf("probability %x: switched off it has no pressure", s.RejectProbability())
	}
	reads := load.reads.Load()
	s.refresh()
	if n := load.reads.Load(); n != reads {
		t.Error("it is read although it is off")
	}
	if st := s.Status().Signals[0]; st.On || st.Value != nil || st.Soft != 1 || st.Hard != 2 {
		t.Errorf("the status is %+v", st)
	}
}

// A change from an hour to a minute does not wait for the hour to end.
func TestTheIntervalChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, load, _ := watching(t, nil)
		cfg := limits(Limits{true, 1, 2}, Limits{true, 100, 50})
		cfg.Interval = time.Hour
		if err := s.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		synctest.Wait()
		if err := s.Apply(limits(Limits{true, 1, 2}, Limits{true, 100, 50})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := load.reads.Load()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if n := load.reads.Load() - before; n != 10 || s.Status().IntervalSeconds != 1 {
			t.Errorf("in ten seconds it was read %d times", n)
		}
	})
}

// limits are those of the signals of watching.
func limits(load, memory Limits) Config {
	return Config{Interval: time.Second, Limits: map[string]Limits{"load": load, "memory": memory}}
}

func TestThresholdsThatCannotWorkChangeNothing(t *testing.T) {
	s, load, _ := watching(t, nil)
	load.set(3)
	s.refresh()
	ok := Limits{true, 100, 50}
	for _, test := range []struct {
		cfg  Config
		says string
	}{
		{Config{Interval: 1, Limits: map[string]Limits{"lod": {}}}, `no signal "lod"`},
		{Config{}, "interval"},
		{limits(Limits{true, 4, 4}, ok), "below the hard one"},
		{limits(Limits{true, -1, 4}, ok), "from 0"},
		{limits(Limits{false, 4, 4}, ok), "below the hard one"},
		{limits(Limits{true, 2, math.Inf(1)}, ok), "from 0"},
		{limits(Limits{true, 2, 4}, Limits{true, 10, 50}), "above the hard one"},
		{limits(Limits{true, 0, 1}, Limits{true, 100, 1000}), "memory"},
	} {
		err := s.Apply(test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: got %v, want an error that says %q", test.cfg, err, test.says)
		}
		if st := s.Status(); st.Signals[0].Soft != 2 || st.Signals[1].Hard != 50 || !near(st.Pressure, 0.5) {
			t.Errorf("%+v has changed something: %+v", test.cfg, st)
		}
	}
	for _, l := range []Limits{{true, 0.5, 1.5}, {true, math.NaN(), 1}, {true, 1, 1}} {
		if err := Check(MemoryPressure, Share, l); err == nil {
			t.Errorf("%+v of a share is accepted", l)
		}
	}
}

func TestWhatCannotBeWatchedIsRefused(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, cfg := range map[string]Config{
		"interval": {},
		"unknown":  {Interval: 1, Limits: map[string]Limits{"nothing": {true, 1, 2}}},
		"limits":   {Interval: 1, Limits: map[string]Limits{"load": {true, 2, 1}}},
	} {
		if _, err := New(cfg, metrics.New(1), log, new(dial).signal("load", Number, false)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTheDefaultsCanWork(t *testing.T) {
	signals := append(System(Host), new(dial).signal(InFlight, Number, false),
		new(dial).signal(LoopDelay, Seconds, false))
	s, err := New(Defaults(), metrics.New(1), slog.New(slog.DiscardHandler), signals...)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.refresh()
	}
	if st := s.Status(); len(st.Signals) != len(DefaultLimits()) {
		t.Errorf("%d signals have defaults, and there are %d", len(DefaultLimits()), len(st.Signals))
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	s, _, _ := watching(t, nil)
	s.Count(0, Normal, 7, 2)
	s.Count(0, Low, 1, 3)
	s.Count(0, Critical, 4, 0)
	st := s.Status()
	for class, want := range map[string][2]uint64{"normal": {7, 2}, "low": {1, 3}, "critical": {4, 0}} {
		if got := [2]uint64{st.Admitted[class], st.Rejected[class]}; got != want {
			t.Errorf("%s: admitted and rejected %v, want %v", class, got, want)
		}
	}
}

func TestRetryAfterGrowsWithPressureAndIsSpread(t *testing.T) {
	mean := func(p float64) (sum float64, different int) {
		seen := make(map[int]bool)
		for range 1000 {
			s := RetryAfter(p)
			if s < 1 || s > 15 {
				t.Fatalf("Retry-After is %d", s)
			}
			seen[s] = true
			sum += float64(s)
		}
		return sum / 1000, len(seen)
	}
	mild, _ := mean(0.05)
	severe, different := mean(1)
	if mild > 2 || severe < 8 || different < 8 {
		t.Errorf("on average %v s while few are rejected, %v s while all are, %d different values", mild,
			severe, different)
	}
	for _, p := range []float64{0, 0.5, 1} {
		for range 100 {
			if d := PauseFor(p, 300*time.Millisecond); d < 10*time.Millisecond || d > 300*time.Millisecond {
				t.Fatalf("a pause of %v at %v", d, p)
			}
		}
	}
}

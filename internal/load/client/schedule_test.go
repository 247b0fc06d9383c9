package client

import (
	"math"
	"slices"
	"testing"
	"time"
)

// times runs a schedule of several threads through changes, and returns what is due until then, sorted.
func times(a Arrivals, seed uint64, threads int, changes []change, until time.Duration) []int64 {
	var all []int64
	for thread := range threads {
		s := newSchedule(&Options{Arrivals: a, Seed: seed}, thread, threads)
		for _, c := range changes {
			s.set(c)
		}
		for ; s.at <= int64(until); s.advance() {
			all = append(all, s.at)
		}
	}
	slices.Sort(all)
	return all
}

// rates returns changes of the rate at times, counting as an engine does.
func rates(pairs ...any) (changes []change) {
	var c change
	for i := 0; i < len(pairs); i += 2 {
		c = c.then(int64(pairs[i].(time.Duration)), pairs[i+1].(float64))
		changes = append(changes, c)
	}
	return changes
}

func TestThreadsTogetherAreAsEvenAsOne(t *testing.T) {
	changes := rates(3*time.Millisecond, 1000.0, 500*time.Millisecond, 333.3, time.Second, 0.0,
		2*time.Second, 50_000.0)
	want := times(Constant, 0, 1, changes, 3*time.Second)
	for _, threads := range []int{2, 3, 8} {
		if got := times(Constant, 0, threads, changes, 3*time.Second); !slices.Equal(got, want) {
			t.Errorf("%d threads have %d times, one has %d, or others", threads, len(got), len(want))
		}
	}
	if n, expected := float64(len(want)), 0.497*1000+0.5*333.3+50_000; math.Abs(n-expected) > 2 {
		t.Errorf("%g requests, want %g", n, expected)
	}
	for i, at := range want[1:] {
		if at > int64(time.Second) && at < int64(2*time.Second) {
			t.Errorf("request %d is due at %v, in the pause", i, time.Duration(at))
		}
	}
}

func TestAChangeOfTheRateKeepsThePhase(t *testing.T) {
	// Half of a request is owed at the change: it is due after half of the new interval.
	got := times(Constant, 0, 1, rates(0*time.Second, 10.0, 50*time.Millisecond, 1.0), 3*time.Second)
	want := []int64{0, int64(550 * time.Millisecond), int64(1550 * time.Millisecond),
		int64(2550 * time.Millisecond)}
	if len(got) != len(want) {
		t.Fatalf("got %d, want %d", got, want)
	}
	for i := range want {
		if d := got[i] - want[i]; d < -1 || d > 1 {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	// Changes that come often do not put anything off.
	var often []any
	for i := range 1000 {
		often = append(often, time.Duration(i)*time.Millisecond, 0.5+float64(i%2))
	}
	if got := times(Constant, 0, 1, rates(often...), 3*time.Second); len(got) < 3 || len(got) > 5 {
		t.Errorf("%d requests of about 1 in the first second and 3 after", len(got))
	}
}

// What was due before a change, but is late, stays due when it was.
func TestLateRequestsKeepTheirTime(t *testing.T) {
	s := newSchedule(&Options{}, 0, 1)
	first := change{}.then(0, 1000)
	s.set(first)
	s.set(first.then(int64(10*time.Millisecond), 1))
	var got []int64
	for ; s.at < int64(5*time.Second); s.advance() {
		got = append(got, s.at)
	}
	want := []int64{0, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6, 8e6, 9e6, 1e7, 1.01e9, 2.01e9, 3.01e9, 4.01e9}
	if !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestPoissonArrivalsAreRandomBySeed(t *testing.T) {
	changes := rates(0*time.Second, 1000.0, time.Second, 4000.0)
	for _, threads := range []int{1, 4} {
		got := times(Poisson, 1, threads, changes, 6*time.Second)
		if again := times(Poisson, 1, threads, changes, 6*time.Second); !slices.Equal(got, again) {
			t.Errorf("%d threads: the same seed has other times", threads)
		}
		if other := times(Poisson, 2, threads, changes, 6*time.Second); slices.Equal(got, other) {
			t.Errorf("%d threads: another seed has the same times", threads)
		}
		if n := float64(len(got)); math.Abs(n-21_000) > 6*math.Sqrt(21_000) {
			t.Errorf("%d threads: %g requests, want about 21000", threads, n)
		}
		// Of the gaps of the second rate, 1/e are longer than their mean.
		long, all := 0.0, 0.0
		for i := 1; i < len(got); i++ {
			if got[i-1] < int64(time.Second) {
				continue
			}
			if all++; got[i]-got[i-1] > int64(time.Second)/4000 {
				long++
			}
		}
		if share := long / all; math.Abs(share-1/math.E) > 0.03 {
			t.Errorf("%d threads: %.3f of the gaps are longer than their mean, want %.3f", threads, share,
				1/math.E)
		}
	}
}

func TestSlowRatesAndNone(t *testing.T) {
	got := times(Constant, 0, 4, rates(0*time.Second, 0.1), 35*time.Second)
	if want := []int64{0, 10e9, 20e9, 30e9}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
	s := newSchedule(&Options{}, 0, 1)
	if s.at != never {
		t.Errorf("due at %d before there is a rate", s.at)
	}
	s.set(change{}.then(5, 1e-300))
	s.advance()
	if s.at != never {
		t.Errorf("due at %d by a rate of next to nothing", s.at)
	}
}

func TestSharesAddUp(t *testing.T) {
	for n := range 20 {
		for threads := 1; threads < 6; threads++ {
			sum, least, most := 0, n, 0
			for i := range threads {
				s := Share(n, i, threads)
				sum, least, most = sum+s, min(least, s), max(most, s)
			}
			if sum != n || most-least > 1 {
				t.Errorf("%d by %d threads: from %d to %d, %d in all", n, threads, least, most, sum)
			}
		}
	}
}

// A second at ten a second is ten requests, and not eleven.
func TestAnEndIsNoTimeToSend(t *testing.T) {
	for _, rate := range []float64{1, 3, 7, 10, 1000, 12_345} {
		for _, threads := range []int{1, 3} {
			n := 0
			for thread := range threads {
				s := newSchedule(&Options{}, thread, threads)
				s.until(int64(5 * time.Second))
				s.set(change{}.then(int64(4*time.Second), rate))
				for ; s.at != never; s.advance() {
					n++
				}
			}
			if n != int(rate) {
				t.Errorf("%d threads: %d requests in a second at %g/s", threads, n, rate)
			}
		}
	}
}

func TestWhatIsMissed(t *testing.T) {
	for _, c := range []struct {
		now  time.Duration
		want uint64
	}{
		{0, 0}, {50 * time.Millisecond, 0}, // just due
		{2 * time.Second, 1900}, {4 * time.Second, 4000}, {time.Minute, 4000},
	} {
		s := newSchedule(&Options{}, 0, 1)
		s.until(int64(4 * time.Second))
		s.set(change{}.then(0, 1000))
		if got := s.missed(int64(c.now)); got != c.want {
			t.Errorf("after %v %d are missed, expected %d", c.now, got, c.want)
		}
		if again := s.missed(int64(c.now)); again != 0 {
			t.Errorf("after %v %d are missed again", c.now, again)
		}
	}
}

// Engines on several machines that are told the same rate make it together, as evenly as one.
func TestPartsOfARateInterleave(t *testing.T) {
	for _, a := range []Arrivals{Constant, Poisson} {
		var all []int64
		for part := range 3 {
			for thread := range 2 {
				s := newSchedule(&Options{Arrivals: a, Part: part, Parts: 3}, thread, 2)
				for s.set(change{rate: 600}); s.at < int64(10*time.Second); s.advance() {
					all = append(all, s.at)
				}
			}
		}
		slices.Sort(all)
		if n := len(all); math.Abs(float64(n)-6000) > 300 {
			t.Errorf("%s: %d requests in 10 s at 600 a second", a, n)
		}
		for i := 1; a == Constant && i < len(all); i++ {
			if gap := all[i] - all[i-1]; gap < 1_666_000 || gap > 1_667_000 {
				t.Fatalf("request %d comes %d ns after the one before it", i, gap)
			}
		}
		if len(slices.Compact(all)) < 5700 {
			t.Errorf("%s: parts send at the same times", a)
		}
	}
}

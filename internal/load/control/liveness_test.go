//go:build !race

package control

// As in adaptive_bars_test.go: simulated minutes on one goroutine.

import (
	"strings"
	"testing"
	"time"
)

func TestATargetThatIsGoneEndsASearch(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		limit := 6 * time.Second
		if hangs {
			limit = 36 * time.Second // its requests time out after ten
		}
		for name, dies := range map[string]time.Duration{
			"climbing": 2 * time.Second, "narrowing down": 6500 * time.Millisecond,
			"holding the ceiling": 20 * time.Second, "checking beside the ceiling": 22500 * time.Millisecond,
		} {
			for _, rate := range some[float64](50, 2000, 20000) {
				p := newPlant(queues, rate, 1)
				p.dies, p.hangs = dies, hangs
				trace, last := drive(Adaptive(AdaptiveOptions{Duration: 2 * time.Minute}), p, 3*time.Minute)
				m := trace[len(trace)-1]
				if !last.Done || !last.Failed || !strings.Contains(last.Reason, "the target is gone") ||
					m.at > dies+limit {
					t.Errorf("%v/s, %s, hanging %t: it ended at %v with %+v", rate, name, hangs, m.at, last)
				}
				before := at(trace, dies-100*time.Millisecond)
				switch c := m.ceiling; {
				case before.ceiling.Converged && c != before.ceiling:
					t.Errorf("%v/s, %s, hanging %t: the ceiling is %+v, and was %+v", rate, name, hangs, c,
						before.ceiling)
				case !before.ceiling.Converged && c.Converged:
					t.Errorf("%v/s, %s, hanging %t: the ceiling is %+v, and was not known", rate, name, hangs,
						c)
				}
			}
		}
	}
}

// A target that is away for a while teaches nothing: the ceiling stays as it was, and the search goes on.
func TestASearchGoesOnWhenTheTargetIsBack(t *testing.T) {
	for _, rate := range []float64{50, 2000} {
		p := newPlant(queues, rate, 1)
		p.dies, p.back = 20*time.Second, 23*time.Second
		trace, last := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, 2*time.Minute)
		m := trace[len(trace)-1]
		if last.Failed || last.Reason != "" || !m.ceiling.Converged || m.ceiling.Rate/rate < lowest ||
			m.ceiling.Rate/rate > highest {
			t.Errorf("%v/s: away for three seconds: %+v, %+v", rate, last, m.ceiling)
		}
		if before, then := at(trace, p.dies-100*time.Millisecond),
			at(trace, p.back+200*time.Millisecond); then.ceiling != before.ceiling {
			t.Errorf("%v/s: while it is away the ceiling is %+v, and was %+v", rate, then.ceiling,
				before.ceiling)
		}
	}
}

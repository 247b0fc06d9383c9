package control

import (
	"testing"
	"time"

	"weir/internal/load/measure"
)

// judged lets a plant have a load until there is an assessment. busy is how much the generator works.
func judged(t *testing.T, p *plant, rate, busy float64) assessment {
	t.Helper()
	h := newHealth(nil)
	h.rememberBaseline(0.003)
	j := newJudge(h, rate, 2*time.Second, 0)
	w := measure.NewWindow()
	for p.now < time.Minute {
		p.window(rate, w)
		w.Busy = busy
		if o := j.see(w); o.decided {
			return o
		}
	}
	t.Fatal("no assessment within a minute")
	return assessment{}
}

func TestAStallThatLeavesAQueueIsWaitedFor(t *testing.T) {
	p := newPlant(queues, 2000, 1)
	p.catchUp = false
	p.stalls, p.nextStall = 1000*time.Hour, 300*time.Millisecond
	// The queue drains by 40 a second, while p99 is bad for longer than an overload takes to be called one.
	if o := judged(t, p, 1960, 0.2); !o.healthy {
		t.Errorf("a stall at 98 %% of the ceiling: %+v", o)
	}
}

func TestWhoIsTheLimitIsSaid(t *testing.T) {
	for busy, want := range map[float64]string{0.2: "p99", 0.99: "generator"} {
		if o := judged(t, newPlant(queues, 2000, 1), 3000, busy); o.healthy || o.limit != want || !o.sure {
			t.Errorf("a generator that works %v of its time: %+v, want %s", busy, o, want)
		}
	}
}

package shed

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// binarySwitch is what a Shedder is not: it rejects everything from the hard threshold on, until the soft
// one is reached again.
type binarySwitch struct {
	limits Limits
	on     bool
	flips  int
}

func (b *binarySwitch) read(value float64) {
	if on := value >= b.limits.Hard || b.on && value > b.limits.Soft; on != b.on {
		b.on = on
		b.flips++
	}
}

// overload offers a server offered requests a second, of which it can answer capacity, for a minute of the
// bubble's time. The signal is its queue. Asked for each request is rejects; read is told the queue every
// 200 ms, when it is not nil. It returns the share that was rejected in each second.
func overload(offered, capacity float64, queue *dial, rejects func() bool, read func(float64)) []float64 {
	const step = time.Millisecond
	var shares []float64
	length, due, done := 0.0, 0.0, 0.0
	asked, rejected := 0, 0
	for tick := 1; tick <= 60_000; tick++ {
		for due += offered * step.Seconds(); due >= 1; due-- {
			asked++
			if rejects() {
				rejected++
			} else {
				length++
			}
		}
		for done += capacity * step.Seconds(); done >= 1; done-- {
			length = max(length-1, 0)
		}
		queue.set(length)
		if read != nil && tick%200 == 0 {
			read(length)
		}
		if tick%1000 == 0 {
			shares = append(shares, float64(rejected)/float64(asked))
			asked, rejected = 0, 0
		}
		time.Sleep(step)
	}
	return shares
}

// The share that is rejected settles at what is too much. A switch rejects all of it or nothing, and never
// settles.
func TestRefusalsSettleWhereASwitchFlaps(t *testing.T) {
	limits := Limits{true, 2000, 10_000}
	for _, times := range []float64{1.2, 2, 3, 6} {
		const capacity = 5000.0
		want := 1 - 1/times
		settled := func(shares []float64) (outside int) {
			for _, share := range shares[20:] {
				if math.Abs(share-want) > 0.1*want {
					outside++
				}
			}
			return outside
		}
		synctest.Test(t, func(t *testing.T) {
			s, queue, _ := watching(t, nil)
			own := Config{Interval: 200 * time.Millisecond, Limits: map[string]Limits{"load": limits}}
			if err := s.Apply(own); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go s.Run(ctx)
			shares := overload(times*capacity, capacity, queue,
				func() bool { return s.RejectProbability().Rejects(Normal, Draw()) }, nil)
			if n := settled(shares); n > 0 {
				t.Errorf("%v times the capacity: in %d of 40 s the share rejected was more than 10 %% off "+
					"%.3f: %.3f", times, n, want, shares)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			b := binarySwitch{limits: limits}
			shares := overload(times*capacity, capacity, new(dial), func() bool { return b.on }, b.read)
			if settled(shares) < 10 || b.flips < 10 {
				t.Errorf("%v times the capacity: the switch flipped %d times and rejected %.2f: it should "+
					"flap, or this test shows nothing", times, b.flips, shares)
			}
		})
	}
}

// When the overload ends, nobody is rejected as soon as the queue is gone.
func TestNobodyIsRefusedOnceTheOverloadIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, load, _ := watching(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		load.set(4)
		go s.Run(ctx)
		time.Sleep(time.Hour)
		load.set(2)
		time.Sleep(time.Second)
		synctest.Wait()
		if s.RejectProbability() != 0 {
			t.Errorf("an interval after an hour of overload the probability are %x", s.RejectProbability())
		}
	})
}

// insist has connections that always have a request ready again, as a loop sees them: in each turn it answers
// those that have waited longest, as many as Queue says, and rejects some that came last in a twelfth of the
// time. It returns how long the last turns took, how long answers waited at most, and which share of the
// loop's time went into them.
func insist(connections int, each time.Duration, turns int) (longest, waited time.Duration, useful float64) {
	rejection := min(each*9/10, 8*time.Microsecond) // recv and send, whatever an answer costs besides
	limits := DefaultLimits()[LoopDelay]
	var q Queue
	var now, budget, answering, rejecting time.Duration
	since := make([]time.Duration, connections) // by which the request came, in order of arrival
	for i := range turns {
		capacity := min(q.Capacity(limits), len(since))
		took := time.Duration(capacity) * each
		last := i >= turns/2
		if last {
			waited = max(waited, now+took-since[0])
		}
		fresh := since[capacity:]
		rejected := 0
		for ; budget > 0 && rejected < len(fresh)-int(q.Place(limits.Hard)); budget -= rejection {
			rejected++
		}
		spent := time.Duration(rejected) * rejection
		budget += took / 12
		q.Passed(capacity, took)
		now += took + spent
		if last {
			longest, answering, rejecting = max(longest, took+spent), answering+took, rejecting+spent
		}
		next := append([]time.Duration(nil), fresh[:len(fresh)-rejected]...)
		for range capacity + rejected {
			next = append(next, now)
		}
		since = next
	}
	return longest, waited, float64(answering) / float64(answering+rejecting)
}

func TestALoopAnswersWhatItCanHoweverManyInsist(t *testing.T) {
	limits := DefaultLimits()[LoopDelay]
	hard := time.Duration(limits.Hard * float64(time.Second))
	for _, connections := range []int{200, 1000, 2000, 10_000, 50_000} {
		for _, each := range []time.Duration{2 * time.Microsecond, 6 * time.Microsecond,
			20 * time.Microsecond, 100 * time.Microsecond} {
			longest, waited, useful := insist(connections, each, 2000)
			// a queue is as long as the free one, whatever that takes
			bound := max(hard, (FreeQueue+FreeQueue/4)*each)
			if longest > bound {
				t.Errorf("%d connections, %v each: a turn takes %v", connections, each, longest)
			}
			// Everybody is answered, in about the time that answers for all would take.
			if fair := time.Duration(connections)*each*5/4 + bound; waited > fair {
				t.Errorf("%d connections, %v each: one has waited for %v, want %v", connections, each,
					waited, fair)
			}
			if useful < 0.9 {
				t.Errorf("%d connections, %v each: %.3f of the time goes into answers", connections, each,
					useful)
			}
		}
	}
}

// A machine that stops for 50 ms leaves a queue behind, which is no overload.
func TestAMomentsQueueIsNoOverload(t *testing.T) {
	const each, rate = 10 * time.Microsecond, 60_000.0
	limits := DefaultLimits()[LoopDelay]
	var q Queue
	waiting, due := 0, 0.0
	longest := 0
	for turn := range 20_000 {
		o := q.RejectProbability(waiting, limits)
		if o != 0 {
			t.Fatalf("turn %d: %d wait, probability %x", turn, waiting, o)
		}
		longest = max(longest, waiting)
		took := time.Duration(waiting) * each
		if turn%5000 == 4999 {
			took += 50 * time.Millisecond
		}
		if waiting == 0 {
			took = 10 * time.Microsecond // until the next one comes
		}
		q.Passed(waiting, took)
		due += rate * took.Seconds()
		waiting = int(due)
		due -= float64(waiting)
	}
	if longest < 2000 {
		t.Errorf("no more than %d ever waited: the test shows nothing", longest)
	}
	// The same queue that stays is.
	for range 1000 {
		q.Passed(6000, 6000*each)
	}
	if o := q.RejectProbability(6000, limits); o.Of(Normal) < 0.5 {
		t.Errorf("a queue of 60 ms that stays: probability %v", o.Of(Normal))
	}
	if o := q.RejectProbability(FreeQueue-1, limits); o != 0 {
		t.Errorf("a short queue: probability %x", o)
	}
	if o := q.RejectProbability(2000, Limits{}); o != 0 {
		t.Errorf("switched off: probability %x", o)
	}
}

// The share that all are rejected with is what would be rejected if each were decided by its place.
func TestTheShareIsThatOfThePlaces(t *testing.T) {
	for _, test := range []struct{ n, from, to float64 }{{100, 200, 400}, {200, 200, 400}, {300, 200, 400},
		{400, 200, 400}, {4000, 200, 400}, {300, 256, 256}, {256, 256, 256}} {
		sum, steps := 0.0, 100_000
		for i := range steps {
			place := (float64(i) + 0.5) / float64(steps) * test.n
			switch {
			case place >= test.to:
				sum++
			case place > test.from:
				sum += (place - test.from) / (test.to - test.from)
			}
		}
		if got, want := shareBeyond(test.n, test.from, test.to),
			sum/float64(steps); math.Abs(got-want) > 1e-4 {
			t.Errorf("%+v: got %v, want %v", test, got, want)
		}
	}
}

package client

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// A tally is a fast way to the histogram that recording in it directly makes.
func TestATallyIsTheHistogram(t *testing.T) {
	var s sheet
	want, got := measure.NewHistogram(), measure.NewHistogram()
	random := rand.New(rand.NewPCG(1, 2))
	try := func(d time.Duration) {
		s.Latency.record(d)
		measure.Record(want, d)
	}
	for bit := range 62 {
		for off := range 5 {
			try(time.Duration(1<<bit + off - 2))
		}
		for range 300 {
			try(time.Duration(random.Int64N(1 << bit)))
		}
	}
	for _, d := range []time.Duration{-1, 0, measure.Shortest, measure.Longest, measure.Longest + 1} {
		try(d)
	}
	for range 2 { // the second time there is nothing left to move
		s.Latency.moveTo(got)
		if !got.Equals(want) {
			t.Fatalf("%d values, want %d, or in other buckets", got.TotalCount(), want.TotalCount())
		}
	}
}

func TestASheetIsEmptyOnceMoved(t *testing.T) {
	s := &sheet{Counts: measure.Counts{Intended: 9, Sent: 8, In: 2, Out: 3}, Busy: 0.5}
	s.Failed[measure.Cut] = 4
	s.count(200, 0, time.Millisecond)
	s.count(404, 0, time.Millisecond)
	s.count(503, 0, time.Millisecond)
	s.Lag.record(time.Microsecond)
	w := measure.NewWindow()
	for range 2 {
		s.moveTo(w)
		if w.Intended != 9 || w.Sent != 8 || w.Served != 1 || w.Shed != 1 || w.Failed[measure.Status] != 1 ||
			w.Failed[measure.Cut] != 4 ||
			w.In != 2 || w.Out != 3 || w.Busy != 0.5 || w.Latency.TotalCount() != 2 ||
			w.ShedLatency.TotalCount() != 1 || w.Lag.TotalCount() != 1 {
			t.Fatalf("got %+v", w)
		}
	}
	s.count(200, 0, time.Millisecond)
	if s.moveTo(w); w.Served != 2 || w.Latency.TotalCount() != 3 {
		t.Errorf("one more made it %d served and %d latencies, want 2 and 3", w.Served,
			w.Latency.TotalCount())
	}
}

//go:build !race

package metrics

import (
	"testing"
	"time"
)

func TestCountingDoesNotAllocate(t *testing.T) {
	r := New(2)
	c := r.Counter("test_events_total", "Events.")
	h := r.Histogram("test_latency_seconds", "Latency.")
	if n := testing.AllocsPerRun(100, func() { c.Add(1, 1) }); n != 0 {
		t.Errorf("Add allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(1, time.Millisecond, 1) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	c := New(2).Counter("test_events_total", "Events.")
	for b.Loop() {
		c.Add(1, 1)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := New(2).Histogram("test_latency_seconds", "Latency.")
	for b.Loop() {
		h.Observe(1, time.Millisecond, 1)
	}
}

//go:build !race

package featurestore

import (
	"context"
	"testing"
)

func TestCallsAnsweredFromMemoryDoNotAllocate(t *testing.T) {
	o, err := DefaultOptions().withDefaults()
	must(t, err)
	o.TTL = 1 << 40
	s := open(&fakeStore{fetched: make(map[string]int), lost: "none"}, o)
	defer s.Close()
	ids := numbered("i", 400)
	dst := make([]Arm, len(ids))
	ask := func() {
		if degraded, err := s.Arms(context.Background(), ids, dst); degraded || err != nil {
			t.Fatal(degraded, err)
		}
	}
	ask()
	// Now and then the cache notes in the background what is used much.
	if n := testing.AllocsPerRun(200, ask); n > 1 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkArmsFromMemory(b *testing.B) {
	o, err := DefaultOptions().withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	s := open(&fakeStore{fetched: make(map[string]int), lost: "none"}, o)
	defer s.Close()
	ids := numbered("i", 400)
	dst := make([]Arm, len(ids))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Arms(context.Background(), ids, dst); err != nil {
			b.Fatal(err)
		}
	}
}

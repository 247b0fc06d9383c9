package sequence

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// pairAt returns the pair of an index out of fibonacci's values.
func pairAt(values []string, n int) pair {
	return pair{uint64(n), []byte(values[n]), []byte(values[n-1])}
}

func TestStepsLeadFromAPairToAnyOther(t *testing.T) {
	values := fibonacci(600)
	for _, c := range [][2]int{{1, 600}, {600, 1}, {1, 0}, {300, 300}, {300, 301}, {300, 299}, {300, 302},
		{300, 298}, {300, 303}, {300, 297}, {300, 310}, {310, 300}} {
		from := pairAt(values, c[0])
		p, err := from.walk(t.Context(), uint64(c[1]))
		previous := "1" // F(-1)
		if c[1] > 0 {
			previous = values[c[1]-1]
		}
		if err != nil || p.index != uint64(c[1]) || string(p.f) != values[c[1]] ||
			string(p.previous) != previous {
			t.Errorf("from %d to %d: %d %s %s, %v", c[0], c[1], p.index, p.f, p.previous, err)
		}
		if again := pairAt(values, c[0]); string(from.f) != string(again.f) ||
			string(from.previous) != string(again.previous) {
			t.Errorf("from %d to %d: the pair was changed", c[0], c[1])
		}
	}
}

func TestAWalkEndsWhenItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pairAt(fibonacci(2), 2).walk(ctx, 1<<30); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestSmallValuesAlwaysHaveAPairNearby(t *testing.T) {
	values := fibonacci(anchorEnd + 1)
	c := newCache(1)
	for n := range uint64(anchorEnd + 1) {
		p, ok := c.near(n)
		if !ok || p.distance(n) > anchorInterval/2 || string(p.f) != values[p.index] {
			t.Fatalf("near %d is %d, %t", n, p.index, ok)
		}
	}
}

func TestTheNearestPairIsFound(t *testing.T) {
	c := newCache(1 << 20)
	const base = anchorEnd + 10*interval
	for _, at := range []uint64{base + 5, base + interval + 100, base + 3*interval + 1} {
		c.put(pair{at, []byte("1"), []byte("1")})
	}
	for n, want := range map[uint64]uint64{
		base + 5:                base + 5,
		base + 4:                base + 5,
		base - 60:               base + 5,
		base + 5 - interval:     base + 5,
		base + 4 - interval:     0,
		base + interval - 1:     base + interval + 100, // 101 away, and 122 from the other one
		base + 2*interval + 100: base + 3*interval + 1,
		base + 2*interval + 110: base + 3*interval + 1,
		base + 4*interval + 1:   base + 3*interval + 1,
		base + 4*interval + 2:   0,
		HardMaxIndex:            0,
		base + 2*interval + 1:   base + interval + 100,
	} {
		p, ok := c.near(n)
		if ok != (want != 0) || p.index != want {
			t.Errorf("near %d is %d, %t; want %d", n, p.index, ok, want)
		}
	}
}

func TestTheCacheIsBoundedAndKeepsWhatWasUsedLast(t *testing.T) {
	c := newCache(100)
	at := func(i int) uint64 { return anchorEnd + uint64(i)*10*interval }
	value := make([]byte, 10)
	check := func(want ...int) {
		t.Helper()
		pairs, bytes, _ := c.size()
		if pairs != len(want) || bytes != int64(20*len(want)) {
			t.Errorf("%d pairs and %d bytes, want %d and %d", pairs, bytes, len(want), 20*len(want))
		}
		for _, i := range want {
			if _, ok := c.pairs[at(i)/interval]; !ok {
				t.Errorf("pair %d is missing", i)
			}
		}
	}
	for i := 1; i <= 5; i++ {
		c.put(pair{at(i), value, value})
	}
	check(1, 2, 3, 4, 5)
	c.near(at(1))
	c.put(pair{at(6), value, value})
	check(1, 3, 4, 5, 6)
	c.put(pair{at(6) + 1, value, value}) // of the same interval: takes its place
	check(1, 3, 4, 5, 6)
	if p, _ := c.near(at(6)); p.index != at(6)+1 {
		t.Errorf("the pair put last is not there, but %d", p.index)
	}
	c.put(pair{at(7), make([]byte, 60), make([]byte, 41)}) // longer than all may be
	check(1, 3, 4, 5, 6)
	c.put(pair{at(8), make([]byte, 60), make([]byte, 40)})
	if pairs, bytes, _ := c.size(); pairs != 1 || bytes != 100 {
		t.Errorf("%d pairs and %d bytes beside one that takes all", pairs, bytes)
	}
}

func Example_pair() {
	p := pair{index: 10, f: []byte("55"), previous: []byte("34")}
	q, _ := p.walk(context.Background(), 7)
	fmt.Printf("F(%d) = %s, F(%d) = %s\n", q.index, q.f, q.index-1, q.previous)
	// Output: F(7) = 13, F(6) = 8
}

// Steps, forward or back, leave a pair in the cache now and then, of the value and the one that is at hand
// beside it.
func TestStepsKeepPairs(t *testing.T) {
	const n = 2 * interval * 20 // of which one is kept
	values := fibonacci(n + 2)
	for name, have := range map[string][]uint64{"forward": {n - 2, n - 1}, "back": {n + 2, n + 1}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), Config{})
			for _, i := range have {
				s.recent.put(i, []byte(values[i]))
			}
			h, ok := s.find(n)
			if !ok {
				t.Fatal("it is not at hand")
			}
			if got := string(s.give(nil, &h, text, 0)); got != values[n] {
				t.Errorf("F(%d) is %.20s, want %.20s", n, got, values[n])
			}
			p, ok := s.cache.near(n)
			if !ok || string(p.f) != values[p.index] || string(p.previous) != values[p.index-1] {
				t.Errorf("kept is %t: %d, %.20s and %.20s", ok, p.index, p.f, p.previous)
			}
		})
	}
}

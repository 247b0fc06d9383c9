package sequence

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// fibonacci returns F(0) to F(n) by plain addition, as the reference for all tests.
func fibonacci(n int) []string {
	values := make([]string, 0, n+1)
	a, b := []byte{0}, []byte{1} // digits, the last one first
	for range n + 1 {
		text := make([]byte, len(a))
		for i, d := range a {
			text[len(a)-1-i] = '0' + d
		}
		values = append(values, string(text))
		sum, carry := make([]byte, 0, len(b)+1), byte(0)
		for i := range b {
			d := b[i] + carry
			if i < len(a) {
				d += a[i]
			}
			sum, carry = append(sum, d%10), d/10
		}
		if carry > 0 {
			sum = append(sum, carry)
		}
		a, b = b, sum
	}
	return values
}

func TestARecentValueIsFoundUntilItsSlotIsGivenAway(t *testing.T) {
	var r recent
	values := fibonacci(3 * recentSlots)
	if r.pin(0) != nil || r.pin(^uint64(0)) != nil {
		t.Fatal("an empty table has values")
	}
	for n, v := range values {
		r.put(uint64(n), []byte(v))
	}
	for n, v := range values {
		s := r.pin(uint64(n))
		if kept := n > len(values)-1-recentSlots; (s != nil) != kept {
			t.Fatalf("F(%d) is there: %t, want %t", n, s != nil, kept)
		}
		if s == nil {
			continue
		}
		if want := fmt.Sprintf(`{"index":%d,"value":"%s"}`, n, v); string(s.body) != want ||
			string(s.digits()) != v {
			t.Errorf("slot %d holds %s with digits %s, want %s", n, s.body, s.digits(), want)
		}
		s.unpin()
	}
}

func TestASlotThatIsReadIsNotWritten(t *testing.T) {
	var r recent
	r.put(5, []byte("5"))
	s := r.pin(5)
	r.put(5+recentSlots, []byte("39088169"))
	if r.claim(5+recentSlots) != nil || r.pin(5+recentSlots) != nil || string(s.digits()) != "5" {
		t.Fatal("a pinned slot was written")
	}
	s.unpin()
	r.put(5+recentSlots, []byte("39088169"))
	if r.pin(5) != nil || r.pin(5+recentSlots) == nil {
		t.Error("a slot that nobody reads was not given away")
	}
}

// A request may have seen F(5) in its slot, which is given away before the request has pinned it.
func TestASlotThatWasGivenAwayIsNotPinned(t *testing.T) {
	var r recent
	r.put(5, []byte("5"))
	s := r.pin(5)
	s.unpin()
	r.put(5+recentSlots, []byte("39088169"))
	if s.pin(5) {
		t.Error("F(5) is pinned, and another value there")
	}
	if n := s.pins.Load(); n != 0 {
		t.Errorf("the slot stays pinned %d times", n)
	}
}

func TestASlotThatIsWrittenIsNotRead(t *testing.T) {
	var r recent
	r.put(5, []byte("5"))
	s := r.claim(5 + recentSlots)
	if r.pin(5) != nil || r.claim(5) != nil {
		t.Fatal("a claimed slot was read or claimed again")
	}
	s.begin(5+recentSlots, 8)
	if r.pin(5) != nil || r.pin(5+recentSlots) != nil {
		t.Fatal("a claimed slot was read")
	}
	s.body = append(s.body, "39088169"...)
	s.publish(5 + recentSlots)
	s.unpin()
	if got := r.pin(5 + recentSlots); got != s {
		t.Error("what was published is not found")
	}
}

func TestAValueTooLongForAnInlineAnswerIsNotRecent(t *testing.T) {
	var r recent
	r.put(7, bytes.Repeat([]byte{'1'}, maxRecent+1))
	if r.pin(7) != nil {
		t.Error("it was kept")
	}
	r.put(7, bytes.Repeat([]byte{'1'}, maxRecent))
	if r.pin(7) == nil {
		t.Error("the longest one was not kept")
	}
}

func TestNeighboursMakeAValueFromAllSides(t *testing.T) {
	values := fibonacci(100)
	for _, c := range []struct {
		at   uint64
		have []uint64
		made bool
	}{
		{50, []uint64{48, 49}, true},
		{50, []uint64{51, 52}, true},
		{50, []uint64{49, 51}, true},
		{50, []uint64{48, 51}, false},
		{50, []uint64{49}, false},
		{50, []uint64{47, 48}, false},
		{0, []uint64{1, 2}, true},
		{1, []uint64{0, 2}, true},
		{1, []uint64{2, 3}, true},
		{1, []uint64{0}, false},
		{0, []uint64{0, 1}, false},
	} {
		var r recent
		for _, n := range c.have {
			if n != c.at {
				r.put(n, []byte(values[n]))
			}
		}
		b, ok := r.neighbours(c.at)
		if ok != c.made {
			t.Errorf("F(%d) of %v: %t, want %t", c.at, c.have, ok, c.made)
		}
		if ok {
			if got := string(b.append(nil)); got != values[c.at] {
				t.Errorf("F(%d) of %v is %s, want %s", c.at, c.have, got, values[c.at])
			}
			b.unpin()
		}
		for i := range r.slots {
			if pins := r.slots[i].pins.Load(); pins != 0 {
				t.Errorf("F(%d) of %v: slot %d stays pinned %d times", c.at, c.have, i, pins)
			}
		}
	}
}

// Readers and writers of few slots at the same time: whoever reads sees a whole value and the right one.
func TestRecentValuesAreWholeUnderRaces(t *testing.T) {
	var r recent
	content := func(n uint64) string { return strings.Repeat(fmt.Sprint(n%10), 100+int(n)) }
	var wg sync.WaitGroup
	for seed := range uint64(6) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 20_000 {
				n := rnd.Uint64N(4) + recentSlots*rnd.Uint64N(3) // three values for each of four slots
				if s := r.pin(n); s != nil {
					if got := string(s.digits()); got != content(n) {
						t.Errorf("%d holds %.20s of %d digits", n, got, len(got))
					}
					s.unpin()
				} else {
					r.put(n, []byte(content(n)))
				}
			}
		})
	}
	wg.Wait()
	for i := range r.slots {
		if pins := r.slots[i].pins.Load(); pins != 0 {
			t.Errorf("slot %d stays pinned %d times", i, pins)
		}
	}
}

package snapshot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scales are largest items of every order of magnitude and around every power of two.
func scales() []uint64 {
	var s []uint64
	for shift := range 64 {
		s = append(s, 1<<shift-1, 1<<shift, 1<<shift+1, 1<<shift+1<<shift/3)
	}
	for n := uint64(10); n < math.MaxUint64/10; n *= 10 {
		s = append(s, n-1, n)
	}
	return append(s, math.MaxUint64-1, math.MaxUint64)
}

// unpack reads items from..to-1 by the fast way and by the reference, which must agree.
func unpack(t *testing.T, p *packing, packed []byte, n, from, to int) []uint64 {
	t.Helper()
	fast := p.appendItems(nil, packed, n, from, to)
	if plain := p.appendPlain(nil, packed, n, from, to); !slices.Equal(fast, plain) {
		t.Fatalf("base %d, items %d to %d of %d: fast %v, plain %v", p.base, from, to, n, fast, plain)
	}
	return fast
}

func TestPackedItemsComeBackFromAnyPosition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, maxItem := range scales() {
		p := newPacking(maxItem)
		for _, n := range []int{0, 1, 2, 3, p.per - 1, p.per, p.per + 1, 2*p.per + 1, 200, 200 + r.IntN(60)} {
			items := randomItems(r, n, maxItem)
			for i := range items { // the ends of the range are where a quotient could be one off
				switch r.IntN(4) {
				case 0:
					items[i] = maxItem
				case 1:
					items[i] = 0
				}
			}
			packed := p.appendPacked(nil, items)
			if len(packed) != p.bytes(n) {
				t.Fatalf("largest %d: %d items take %d bytes, said to be %d", maxItem, n, len(packed), p.bytes(n))
			}
			packed = append(packed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
			if got := unpack(t, &p, packed, n, 0, n); !slices.Equal(got, items) {
				t.Fatalf("largest %d: %v came back as %v", maxItem, items, got)
			}
			for range 20 {
				from := r.IntN(n + 1)
				to := from + r.IntN(n-from+1)
				if got := unpack(t, &p, packed, n, from, to); !slices.Equal(got, items[from:to]) {
					t.Fatalf("largest %d: items %d to %d of %v came back as %v", maxItem, from, to, items, got)
				}
			}
		}
	}
}

func TestPackingOfTheLongestList(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for _, maxItem := range []uint64{0, 2, 9, 1000, 39_999, 10_000_000, 1 << 60, math.MaxUint64} {
		p := newPacking(maxItem)
		items := randomItems(r, MaxListLen, maxItem)
		packed := append(p.appendPacked([]byte("before"), items), make([]byte, loadSlack)...)[len("before"):]
		if got := unpack(t, &p, packed, MaxListLen, 0, MaxListLen); !slices.Equal(got, items) {
			t.Errorf("largest %d: the longest list did not come back", maxItem)
		}
	}
}

func TestPackingTakesTheFewestBits(t *testing.T) {
	for _, c := range []struct {
		maxItem uint64
		per     int
		width   uint
	}{
		{0, 1, 1}, {1, 1, 1}, {2, 29, 46}, {3, 1, 2}, {9, 3, 10}, {255, 1, 8}, {999, 1, 10}, {39_999, 3, 46},
		{999_999, 1, 20}, {10_000_000, 2, 47}, {1<<24 - 1, 1, 24}, {1 << 24, 2, 49},
		{1 << 32, 1, 33}, {1<<57 - 1, 1, 57}, {1 << 57, 1, 58}, {math.MaxUint64, 1, 64},
	} {
		if p := newPacking(c.maxItem); p.per != c.per || p.width != c.width {
			t.Errorf("largest %d: %d items take %d bits, want %d in %d", c.maxItem, p.per, p.width, c.per, c.width)
		}
	}
	for _, maxItem := range scales() {
		p := newPacking(maxItem)
		if got, ideal := float64(p.width)/float64(p.per), math.Log2(float64(max(2, p.base))); p.base != 0 && (got < ideal-1e-9 || got > ideal+1) {
			t.Errorf("largest %d: %v bits an item, the logarithm is %v", maxItem, got, ideal)
		}
	}
}

func FuzzUnpackAsTheReferenceDoes(f *testing.F) {
	f.Add(uint64(10_000_000), []byte("\x01\x02\x03\x04\x05\x06\x07\x08"), 3, 0, 3)
	f.Add(uint64(2), make([]byte, 40), 170, 11, 40)
	f.Add(uint64(1<<60), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 1, 0, 1)
	f.Fuzz(func(t *testing.T, maxItem uint64, bits []byte, n, from, to int) {
		p := newPacking(maxItem)
		if n < 0 || n > MaxListLen || p.bytes(n) > len(bits) {
			return
		}
		from, to = max(0, min(from, n)), max(0, min(to, n))
		packed := append(slices.Clone(bits[:p.bytes(n)]), make([]byte, loadSlack)...)
		// The bits are anybody's; what a group of them decodes to must still be the same.
		got := unpack(t, &p, packed, n, from, to)
		if len(got) != max(0, to-from) {
			t.Fatalf("%d items from %d to %d", len(got), from, to)
		}
		for _, item := range got {
			if maxItem < math.MaxUint64 && item > maxItem {
				return
			}
		}
		if from < to { // and items that are possible pack and unpack again
			again := append(p.appendPacked(nil, got), make([]byte, loadSlack)...)
			if back := unpack(t, &p, again, len(got), 0, len(got)); !slices.Equal(back, got) {
				t.Fatalf("%v came back as %v", got, back)
			}
		}
	})
}

func BenchmarkUnpackTen(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, maxItem := range []uint64{39_999, 1 << 20, 10_000_000, 1 << 60} {
		p := newPacking(maxItem)
		packed := append(p.appendPacked(nil, randomItems(r, 200, maxItem)), make([]byte, loadSlack)...)
		for name, fn := range map[string]func([]uint64, []byte, int, int, int) []uint64{"fast": p.appendItems, "plain": p.appendPlain} {
			b.Run(fmt.Sprintf("max=%d/%s", maxItem, name), func(b *testing.B) {
				dst := make([]uint64, 0, 10)
				from := 0
				for b.Loop() {
					dst = fn(dst[:0], packed, 200, from, from+10)
					from = (from + 37) % 191
				}
			})
		}
	}
}

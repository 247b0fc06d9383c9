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

// unpack reads items from..to-1 by loads and by the reference, which must agree.
func unpack(t *testing.T, p packing, packed []byte, from, to int) []uint64 {
	t.Helper()
	fast := p.appendItems(nil, packed, from, to)
	if plain := p.appendPlain(nil, packed, from, to); !slices.Equal(fast, plain) {
		t.Fatalf("%d bits, items %d to %d: fast %v, plain %v", p, from, to, fast, plain)
	}
	return fast
}

func TestPackedItemsComeBackFromAnyPosition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, maxItem := range scales() {
		p := newPacking(maxItem)
		for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 200, 200 + r.IntN(60)} {
			items := randomItems(r, n, maxItem)
			for i := range items {
				switch r.IntN(4) {
				case 0:
					items[i] = maxItem
				case 1:
					items[i] = 0
				}
			}
			packed := p.appendPacked(nil, items)
			if len(packed) != p.bytes(n) {
				t.Fatalf("largest %d: %d items take %d bytes, said to be %d", maxItem, n, len(packed),
					p.bytes(n))
			}
			packed = append(packed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
			if got := unpack(t, p, packed, 0, n); !slices.Equal(got, items) {
				t.Fatalf("largest %d: %v came back as %v", maxItem, items, got)
			}
			for range 20 {
				from := r.IntN(n + 1)
				to := from + r.IntN(n-from+1)
				if got := unpack(t, p, packed, from, to); !slices.Equal(got, items[from:to]) {
					t.Fatalf("largest %d: items %d to %d of %v came back as %v", maxItem, from, to, items,
						got)
				}
				if from == to {
					continue
				}
				if begin, end := p.span(from, to); begin*8 > from*int(p) || end*8 < to*int(p) ||
					end > p.bytes(n) {
					t.Fatalf("%d bits: items %d to %d of %d are said to be in bytes %d to %d", p, from, to, n,
						begin, end)
				}
			}
		}
	}
}

func TestPackingOfTheLongestList(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for _, maxItem := range []uint64{0, 2, 1000, 10_000_000, 1 << 60, math.MaxUint64} {
		p := newPacking(maxItem)
		items := randomItems(r, MaxListLen, maxItem)
		packed := append(p.appendPacked([]byte("before"), items), make([]byte, loadSlack)...)[len("before"):]
		if got := unpack(t, p, packed, 0, MaxListLen); !slices.Equal(got, items) {
			t.Errorf("largest %d: the longest list did not come back", maxItem)
		}
	}
}

func TestAnItemTakesTheBitsOfTheLargest(t *testing.T) {
	for maxItem, want := range map[uint64]packing{
		0: 1, 1: 1, 2: 2, 3: 2, 255: 8, 256: 9, 10_000_000: 24, 1<<57 - 1: 57, 1 << 57: 58,
		math.MaxUint64: 64,
	} {
		if p := newPacking(maxItem); p != want {
			t.Errorf("largest %d: an item takes %d bits, want %d", maxItem, p, want)
		}
	}
}

func FuzzUnpackAsTheReferenceDoes(f *testing.F) {
	f.Add(uint64(10_000_000), []byte("\x01\x02\x03\x04\x05\x06\x07\x08"), 0, 2)
	f.Add(uint64(2), make([]byte, 40), 11, 40)
	f.Add(uint64(1<<60), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0, 1)
	f.Fuzz(func(t *testing.T, maxItem uint64, bits []byte, from, to int) {
		p := newPacking(maxItem)
		n := min(MaxListLen, len(bits)*8/int(p))
		from = max(0, min(from, n))
		to = max(from, min(to, n))
		packed := append(slices.Clone(bits[:p.bytes(n)]), make([]byte, loadSlack)...)
		got := unpack(t, p, packed, from, to)
		again := append(p.appendPacked(nil, got), make([]byte, loadSlack)...)
		if back := unpack(t, p, again, 0, len(got)); !slices.Equal(back, got) {
			t.Fatalf("%v came back as %v", got, back)
		}
	})
}

func BenchmarkUnpackTen(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, maxItem := range []uint64{39_999, 1 << 20, 10_000_000, 1 << 60} {
		p := newPacking(maxItem)
		packed := append(p.appendPacked(nil, randomItems(r, 200, maxItem)), make([]byte, loadSlack)...)
		for name, fn := range map[string]func([]uint64, []byte, int, int) []uint64{"fast": p.appendItems, "plain": p.appendPlain} {
			b.Run(fmt.Sprintf("max=%d/%s", maxItem, name), func(b *testing.B) {
				dst := make([]uint64, 0, 10)
				from := 0
				for b.Loop() {
					dst = fn(dst[:0], packed, from, from+10)
					from = (from + 37) % 191
				}
			})
		}
	}
}

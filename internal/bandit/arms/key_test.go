package arms

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

func TestANumberIsItsText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		n := r.Uint64() >> r.IntN(64)
		if got, want := KeyOf(strconv.AppendUint(nil, n, 10)), NumberKey(n); got != want {
			t.Fatalf("the text %d has key %x, the number %x", n, got, want)
		}
	}
	for _, n := range []uint64{0, 7, 1e19, 9999999999999999999, 18446744073709551609, 18446744073709551610,
		18446744073709551615} {
		if got, want := KeyOf([]byte(strconv.FormatUint(n, 10))), NumberKey(n); got != want {
			t.Errorf("the text %d has key %x, the number %x", n, got, want)
		}
	}
}

func TestOtherTextIsNoNumber(t *testing.T) {
	for _, s := range []string{"", "007", "00", "-7", "+7", "7 ", " 7", "7.0", "7e0", "0x7",
		"18446744073709551616", "18446744073709551620",
		"20000000000000000000", "99999999999999999999", "100000000000000000000", strings.Repeat("1", 255),
		"٧", "/", ":", "1/", "a"} {
		k := KeyOf([]byte(s))
		if h := xxh3.HashString128(s); k.Hi <= numberHalf || k.Lo != h.Lo {
			t.Errorf("%q has key %x, want its hash %x", s, k, h)
		}
	}
}

// FuzzKeyOf compares with math/big what is taken for a number.
func FuzzKeyOf(f *testing.F) {
	for _, s := range []string{"7", "007", "0", "", "18446744073709551615", "18446744073709551616",
		"99999999999999999999", "-1", "1_0", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k := KeyOf([]byte(s))
		n, ok := new(big.Int).SetString(s, 10)
		if ok && n.IsUint64() && n.String() == s {
			if k != NumberKey(n.Uint64()) {
				t.Errorf("%q is no number", s)
			}
			return
		}
		if k.Hi <= numberHalf {
			t.Errorf("%q has the key of a number, %x", s, k)
		}
	})
}

func TestScopesKeepArmsApart(t *testing.T) {
	var ids [][]byte
	for i := range 60 {
		ids = append(ids, strconv.AppendInt(nil, int64(i), 10), []byte("name "+strconv.Itoa(i)))
	}
	seen := make(map[Key]string)
	add := func(k Key, what string) {
		if k.Hi == 0 {
			t.Errorf("%s has an upper half of 0", what)
		}
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have one key", what, other)
		}
		seen[k] = what
	}
	for _, item := range ids {
		add(KeyOf(item), "item "+string(item))
		for _, of := range ids {
			add(SegmentScope(KeyOf(of)).Key(KeyOf(item)), "item "+string(item)+" for segment "+string(of))
			add(UserScope(KeyOf(of)).Key(KeyOf(item)), "item "+string(item)+" for user "+string(of))
		}
	}
	// The number and the text of a user are the same user.
	if UserScope(NumberKey(7)) != UserScope(KeyOf([]byte("7"))) {
		t.Error("user 7 is two users")
	}
}

func TestAScopeLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		s := UserScope(NumberKey(r.Uint64()))
		if s.times&1 == 0 {
			t.Fatal("an even factor loses bits")
		}
		seen := make(map[Key]uint64)
		for range 100_000 {
			// Lower halves that differ in few bits are what a weak product would mix up.
			lo := uint64(r.IntN(4))
			for range 2 {
				lo ^= 1 << r.IntN(64)
			}
			k := s.Key(Key{lo, numberHalf})
			if other, ok := seen[k]; ok && other != lo {
				t.Fatalf("%x and %x have one key", lo, other)
			}
			seen[k] = lo
		}
	}
}

// TestHomesAreSpread throws keys of the ids that there are into homes and compares what comes of it with
// what chance would do: chi-squared over 4096 homes has a mean of 4095 and a standard deviation of 90.
func TestHomesAreSpread(t *testing.T) {
	const homes, keys = 4096, 200_000
	user, segment := UserScope(NumberKey(12345)), SegmentScope(KeyOf([]byte("families")))
	for name, key := range map[string]func(i uint64) Key{
		"counted":             NumberKey,
		"counted by a stride": func(i uint64) Key { return NumberKey(i << 32) },
		"near the top":        func(i uint64) Key { return NumberKey(-i - 1) },
		"texts":               func(i uint64) Key { return KeyOf(strconv.AppendUint([]byte("sku-"), i, 10)) },
		"of a user":           func(i uint64) Key { return user.Key(NumberKey(i)) },
		"texts of a user": func(i uint64) Key {
			return user.Key(KeyOf(strconv.AppendUint([]byte("sku-"), i, 10)))
		},
		"of a segment":  func(i uint64) Key { return segment.Key(NumberKey(i)) },
		"of many users": func(i uint64) Key { return UserScope(NumberKey(i)).Key(NumberKey(7)) },
		"of users and items": func(i uint64) Key {
			return UserScope(NumberKey(i / 400)).Key(NumberKey(i % 400))
		},
	} {
		var counts [homes]int
		for i := range uint64(keys) {
			at := key(i).place(homes)
			if at >= homes {
				t.Fatalf("%s: place %d of %d", name, at, homes)
			}
			counts[at]++
		}
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - float64(keys)/homes
			chi += d * d * homes / keys
		}
		if chi > 4095+6*90 || chi < 4095-6*90 {
			t.Errorf("%s: chi-squared %.0f, want about 4095", name, chi)
		}
	}
}

func TestMixIsABijection(t *testing.T) {
	// Each step has an inverse: x ^ x>>k by repetition, an odd factor by its inverse modulo 2^64.
	inverse := func(a uint64) uint64 {
		x := a
		for range 6 {
			x *= 2 - a*x
		}
		return x
	}
	unshift := func(x uint64, k int) uint64 {
		y := x
		for range 64/k + 1 {
			y = x ^ y>>k
		}
		return y
	}
	unmix := func(x uint64) uint64 {
		x = unshift(x, 31) * inverse(0x94d049bb133111eb)
		x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9)
		return unshift(x, 30)
	}
	r := rand.New(rand.NewPCG(5, 6))
	flips := 0
	for range 10_000 {
		x := r.Uint64()
		if unmix(mix(x)) != x {
			t.Fatalf("mix(%x) does not lead back", x)
		}
		flips += bits.OnesCount64(mix(x) ^ mix(x^1<<r.IntN(64)))
	}
	if mean := float64(flips) / 10_000; mean < 31.5 || mean > 32.5 {
		t.Errorf("a bit of the input changes %.2f bits of the output, want 32", mean)
	}
}

// words makes keys out of bytes, for fuzzing.
func words(b []byte) (keys []Key) {
	for ; len(b) >= 16; b = b[16:] {
		keys = append(keys, Key{binary.LittleEndian.Uint64(b),
			max(numberHalf, binary.LittleEndian.Uint64(b[8:]))})
	}
	return keys
}

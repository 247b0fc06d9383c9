package feed

import (
	"bytes"
	"math"
	"testing"
)

func TestNumbersAreAppendedAsStrconvDoes(t *testing.T) {
	check := func(n uint64) {
		if got, want := appendNumber([]byte("x"), n), appendNumberPlain([]byte("x"), n); !bytes.Equal(
			got, want) {
			t.Fatalf("%d is appended as %q, want %q", n, got, want)
		}
	}
	for n := range uint64(10_000) { // every quad, in either place
		check(n)
		check(n*10_000 + n*7%10_000)
	}
	for p := uint64(1); p <= math.MaxUint64/10; p *= 10 {
		for _, n := range []uint64{p - 1, p, p + 1, 9*p + 9} {
			check(n)
		}
	}
	check(math.MaxUint32)
	check(math.MaxUint64)
}

func FuzzNumbersAreAppendedAsStrconvDoes(f *testing.F) {
	for _, n := range []uint64{0, 9999, 10_000, 99_999_999, 100_000_000, math.MaxUint64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		got := appendNumber(nil, n)
		if want := appendNumberPlain(nil, n); !bytes.Equal(got, want) {
			t.Errorf("%d is appended as %q, want %q", n, got, want)
		}
		if back, ok := parseNumber(got); !ok || back != n {
			t.Errorf("%q is read as %d, %t", got, back, ok)
		}
	})
}

package decimal

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// ways are the implementations of a step. Each appends the low digits of a+b and a-b, which are as long as
// a, and returns the carry.
var ways = []struct {
	name     string
	needs    bool
	add, sub func(dst, a, b []byte) int
}{
	{"digits", true,
		func(dst, a, b []byte) int { return addDigits(dst, a, b, len(a), len(b), 0) },
		func(dst, a, b []byte) int { return subDigits(dst, a, b, len(a), len(b), 0) }},
	{"words", true,
		func(dst, a, b []byte) int {
			i, j, carry := addWords(dst, a, b, len(a), len(b), 0)
			return addDigits(dst, a, b, i, j, int(carry))
		},
		func(dst, a, b []byte) int {
			i, j, borrow := subWords(dst, a, b, len(a), len(b), 0)
			return subDigits(dst, a, b, i, j, int(borrow))
		}},
	{"vectors", hasAVX512, addInto, subInto},
	{"masks", hasAVX512,
		func(dst, a, b []byte) int {
			i, j, carry := addMasks(dst, a, b)
			return addDigits(dst, a, b, i, j, int(carry))
		},
		func(dst, a, b []byte) int {
			i, j, borrow := subMasks(dst, a, b)
			return subDigits(dst, a, b, i, j, int(borrow))
		}},
}

// checkWays compares all implementations of a step with the reference, which is the first. a is not shorter
// than b.
func checkWays(t testing.TB, a, b []byte) {
	t.Helper()
	var sum, difference []byte
	var carry, borrow int
	for i, w := range ways {
		if !w.needs {
			continue
		}
		// Bytes on either side that must stay as they are.
		room := []byte(strings.Repeat("#", len(a)+128))
		dst := room[64:][:len(a):len(a)]
		c := w.add(dst, a, b)
		if edges := string(room[:64]) + string(room[64+len(a):]); strings.Trim(edges, "#") != "" {
			t.Fatalf("%s: %s + %s wrote beyond its place", w.name, a, b)
		}
		if i == 0 {
			sum, carry = slices.Clone(dst), c
		}
		if string(dst) != string(sum) || c != carry {
			t.Fatalf("%s: %s + %s = %d, %s, want %d, %s", w.name, a, b, c, dst, carry, sum)
		}
		c = w.sub(dst, a, b)
		if edges := string(room[:64]) + string(room[64+len(a):]); strings.Trim(edges, "#") != "" {
			t.Fatalf("%s: %s - %s wrote beyond its place", w.name, a, b)
		}
		if i == 0 {
			difference, borrow = slices.Clone(dst), c
		}
		if string(dst) != string(difference) || c != borrow {
			t.Fatalf("%s: %s - %s = %d, %s, want %d, %s", w.name, a, b, c, dst, borrow, difference)
		}
	}
}

func TestAllWaysToTakeAStepAgree(t *testing.T) {
	r := newRand(6)
	for round := range 3000 {
		most := 1 + round/5
		a, b := number(r, 1+r.IntN(most)), number(r, 1+r.IntN(most))
		if len(a) < len(b) {
			a, b = b, a
		}
		checkWays(t, a, b)
		checkWays(t, a, a)
		// Word sums of 99999999, which the fast way does not know about.
		complement := make([]byte, len(a))
		for i, c := range a {
			complement[i] = '9' - (c - '0')
		}
		checkWays(t, a, complement)
		complement[len(a)-1] = '9'
		checkWays(t, a, complement)
	}
	// Several pieces, with carries from one to the next.
	for range 50 {
		a, b := number(r, 100_000+r.IntN(200_000)), number(r, 70_000+r.IntN(30_000))
		checkWays(t, a, b)
	}
}

func TestSumsAndDifferencesAreThoseOfMathBig(t *testing.T) {
	r := newRand(1)
	for round := range 4000 {
		most := 1 + round/8
		a, b := number(r, 1+r.IntN(most)), number(r, 1+r.IntN(most))
		x, y := toBig(t, a), toBig(t, b)
		prefix := strings.Repeat("p", r.IntN(3))
		room := make([]byte, len(prefix), len(prefix)+r.IntN(2*most+2))
		copy(room, prefix)
		check(t, fmt.Sprintf("%s + %s", a, b), Add(room, a, b), prefix, new(big.Int).Add(x, y))
		if x.Cmp(y) < 0 {
			a, b, x, y = b, a, y, x
		}
		room = append(make([]byte, 0, cap(room)), prefix...)
		check(t, fmt.Sprintf("%s - %s", a, b), Sub(room, a, b), prefix, new(big.Int).Sub(x, y))
	}
}

func TestDifferencesThatCancelNearlyEverything(t *testing.T) {
	for digits := 1; digits < 300; digits++ {
		ones := []byte("1" + strings.Repeat("0", digits))
		nines := []byte(strings.Repeat("9", digits))
		for _, c := range []struct {
			a, b []byte
			want string
		}{
			{ones, nines, "1"},
			{ones, ones, "0"},
			{nines, nines, "0"},
			{ones, []byte("0"), string(ones)},
			{ones, []byte("1"), string(nines)},
		} {
			if got := Sub(nil, c.a, c.b); string(got) != c.want {
				t.Fatalf("%s - %s = %s, want %s", c.a, c.b, got, c.want)
			}
		}
		if got := Add(nil, nines, []byte("1")); string(got) != string(ones) {
			t.Fatalf("%s + 1 = %s", nines, got)
		}
		if got := Add(nil, []byte("1"), nines); string(got) != string(ones) {
			t.Fatalf("1 + %s = %s", nines, got)
		}
	}
}

package decimal

import (
	"context"
	"math/big"
	"strings"
	"testing"
)

// digitsOf makes a number of what the fuzzer has come up with.
func digitsOf(data []byte) []byte {
	a := make([]byte, len(data))
	for i, c := range data {
		a[i] = '0' + c%10
	}
	a = []byte(strings.TrimLeft(string(a), "0"))
	if len(a) == 0 {
		return []byte("0")
	}
	return a
}

func FuzzSteps(f *testing.F) {
	f.Add([]byte("1"), []byte("2"), uint8(1))
	f.Add([]byte("99999999999999999999"), []byte("1"), uint8(9))
	f.Fuzz(func(t *testing.T, x, y []byte, repeat uint8) {
		// Repetition gets at vectors with short inputs.
		a := digitsOf([]byte(strings.Repeat(string(x), 1+int(repeat%32))))
		b := digitsOf([]byte(strings.Repeat(string(y), 1+int(repeat/32))))
		p, q := toBig(t, a), toBig(t, b)
		check(t, "the sum", Add([]byte("p"), a, b), "p", new(big.Int).Add(p, q))
		if p.Cmp(q) < 0 {
			a, b, p, q = b, a, q, p
		}
		check(t, "the difference", Sub([]byte("p"), a, b), "p", new(big.Int).Sub(p, q))
		checkWays(t, a, b)
	})
}

func FuzzMul(f *testing.F) {
	f.Add([]byte("12345"), []byte("678"), uint16(3))
	f.Add([]byte("5000"), []byte("4999"), uint16(700))
	f.Fuzz(func(t *testing.T, x, y []byte, repeat uint16) {
		a := digitsOf([]byte(strings.Repeat(string(x), 1+int(repeat%256))))
		b := digitsOf([]byte(strings.Repeat(string(y), 1+int(repeat/256))))
		if len(a)+len(b) > 100_000 {
			t.Skip("takes too long")
		}
		want := new(big.Int).Mul(toBig(t, a), toBig(t, b))
		for _, plain := range []bool{true, false} {
			got, err := mul(context.Background(), []byte("p"), a, b, plain)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "the product", got, "p", want)
			for k := 2; k <= 4; k++ {
				got, err = mulLong(context.Background(), []byte("p"), a, b, k, plain)
				if err != nil {
					t.Fatal(err)
				}
				check(t, "the product by a transform", got, "p", want)
			}
		}
	})
}

func FuzzFibonacci(f *testing.F) {
	f.Add(uint32(65))
	f.Add(uint32(99_999))
	f.Fuzz(func(t *testing.T, n uint32) {
		n %= 200_000
		wantF, wantPrevious := modFibonacci(uint64(n), 1<<59-55)
		for _, plain := range []bool{true, false} {
			got, previous, err := fibonacci(context.Background(), uint64(n), plain)
			if err != nil {
				t.Fatal(err)
			}
			if residue(got, 1<<59-55) != wantF.Uint64() ||
				residue(previous, 1<<59-55) != wantPrevious.Uint64() {
				t.Errorf("F(%d) is wrong modulo 2^59-55", n)
			}
			if len(got) != Digits(uint64(n)) {
				t.Errorf("F(%d) has %d digits, want %d", n, len(got), Digits(uint64(n)))
			}
		}
	})
}

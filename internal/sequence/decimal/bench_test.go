package decimal

import (
	"context"
	"testing"
)

// The bars are in bench/RESULTS.md.

func BenchmarkAdd100000(b *testing.B) {
	f, previous := fib(b, 100_000)
	dst := make([]byte, 0, len(f)+1)
	for b.Loop() {
		dst = Add(dst[:0], f, previous)
	}
}

// What a step costs where there is no AVX-512.
func BenchmarkAddWords100000(b *testing.B) {
	f, previous := fib(b, 100_000)
	dst := make([]byte, len(f))
	for b.Loop() {
		addWords(dst, f, previous, len(f), len(previous), 0)
	}
}

func BenchmarkSub100000(b *testing.B) {
	f, previous := fib(b, 100_000)
	dst := make([]byte, 0, len(f)+1)
	for b.Loop() {
		dst = Sub(dst[:0], f, previous)
	}
}

func benchmarkFibonacci(b *testing.B, n uint64) {
	for b.Loop() {
		if _, _, err := Fibonacci(context.Background(), n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFibonacci1e3(b *testing.B) { benchmarkFibonacci(b, 1_000) }
func BenchmarkFibonacci1e4(b *testing.B) { benchmarkFibonacci(b, 10_000) }
func BenchmarkFibonacci1e5(b *testing.B) { benchmarkFibonacci(b, 100_000) }
func BenchmarkFibonacci1e6(b *testing.B) { benchmarkFibonacci(b, 1_000_000) }
func BenchmarkFibonacci1e7(b *testing.B) { benchmarkFibonacci(b, 10_000_000) }

func BenchmarkMul1e5(b *testing.B) {
	x, y := fib(b, 500_000)
	var dst []byte
	for b.Loop() {
		dst, _ = Mul(context.Background(), dst[:0], x, y)
	}
}

//go:build !race

package cells

import (
	"io"
	"testing"
)

func TestLoadAndSwapDoNotAllocate(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		s := mustOpen(t, temp(t), 10, o)
		if n := testing.AllocsPerRun(100, func() { s.Load(3) }); n != 0 {
			t.Errorf("Load allocates %v times", n)
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := advance(s, 3); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("CompareAndSwap allocates %v times", n)
		}
		s.syncer.Poison(io.ErrUnexpectedEOF) //nolint:errcheck // it is what was given
		if n := testing.AllocsPerRun(100, func() { s.CompareAndSwap(3, 0, 1) }); n != 0 {
			t.Errorf("CompareAndSwap of a poisoned store allocates %v times", n)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	s := benchStore(b)
	var i, sum uint64
	for b.Loop() {
		sum += s.Load(i & 1023)
		i++
	}
	if sum != 0 {
		b.Fatal("fresh cells are not zero")
	}
}

func BenchmarkCompareAndSwap(b *testing.B) {
	s := benchStore(b)
	var i uint64
	for b.Loop() {
		if ok, err := s.CompareAndSwap(i&1023, i>>10, i>>10+1); !ok || err != nil {
			b.Fatal(ok, err)
		}
		i++
	}
}

func benchStore(b *testing.B) *Store {
	s, err := Open(b.TempDir()+"/bench.cells", 1024, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

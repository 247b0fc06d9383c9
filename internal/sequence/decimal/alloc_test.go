//go:build !race

package decimal

import (
	"runtime"
	"testing"
)

func TestStepsIntoEnoughCapacityDoNotAllocate(t *testing.T) {
	f, previous := fib(t, 100_000)
	dst := make([]byte, 0, len(f)+1)
	if n := testing.AllocsPerRun(100, func() { dst = Add(dst[:0], f, previous) }); n != 0 {
		t.Errorf("Add allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { dst = Sub(dst[:0], f, previous) }); n != 0 {
		t.Errorf("Sub allocates %v times", n)
	}
}

func TestCostIsWhatIsAllocated(t *testing.T) {
	for _, n := range []uint64{10, 1000, 100_000, 3_000_000} {
		fib(t, n) // tables that are kept
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fib(t, n)
		runtime.ReadMemStats(&after)
		got, cost := int64(after.TotalAlloc-before.TotalAlloc), Cost(n)
		if got > cost || got < cost/2 && cost > 1<<20 {
			t.Errorf("Fibonacci(%d) allocates %d bytes, and Cost says %d", n, got, cost)
		}
	}
}

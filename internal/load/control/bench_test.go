package control

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// BenchmarkWatch is what a window costs that conditions are followed through, on the processor that
// requests are made on.
func BenchmarkWatch(b *testing.B) {
	conditions, err := ParseConditions([]string{"p99>50ms for 5s", "errors>1%"})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	windows := make([]*measure.Window, 16)
	for i := range windows {
		w := measure.NewWindow()
		w.Intended, w.Sent, w.Served = 2000, 2000, 2000
		for range w.Served {
			measure.Record(w.Latency, time.Duration(300e3*(1+r.ExpFloat64())))
			measure.Record(w.Lag, time.Duration(20e3*(1+r.ExpFloat64())))
		}
		windows[i] = w
	}
	watch := NewWatch(conditions)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		w := windows[n%len(windows)]
		w.Start, w.End = time.Duration(n)*100*time.Millisecond, time.Duration(n+1)*100*time.Millisecond
		n++
		watch.Next(w)
	}
}

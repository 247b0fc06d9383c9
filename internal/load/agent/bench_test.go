package agent

import (
	"testing"
	"time"

	"weir/internal/load/measure"
)

// A tenth of a second at 2000 requests a second.
func window200() *measure.Window {
	w := measure.NewWindow()
	for i := range 200 {
		measure.Record(w.Latency, time.Duration(100+i*i)*time.Microsecond)
		measure.Record(w.Lag, time.Duration(i)*time.Microsecond)
	}
	return w
}

func BenchmarkEncodeWindow(b *testing.B) {
	w := window200()
	for b.Loop() {
		encodeWindow(w, 1)
	}
}

func BenchmarkDecodeWindow(b *testing.B) {
	text, w := encodeWindow(window200(), 1), measure.NewWindow()
	for b.Loop() {
		w.Reset()
		if _, err := decodeWindow(text, w); err != nil {
			b.Fatal(err)
		}
	}
}

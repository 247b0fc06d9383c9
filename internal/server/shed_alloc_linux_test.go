//go:build !race

package server

import (
	"bytes"
	"testing"
	"time"
)

// Neither a rejection nor the pause after it allocates.
func TestARefusalDoesNotAllocate(t *testing.T) {
	d := newHandDriven(t, Config{Shed: pressable()})
	press(t, d.s, 1)
	fd := pairOf(t, d)
	request, answers := []byte(get("/fast/abc")), make([]byte, 64<<10)
	refused := func() {
		n, err := receive(fd, answers)
		if err != nil || !bytes.HasPrefix(answers[:n], []byte("HTTP/1.1 503")) {
			t.Fatalf("%q, %v", answers[:n], err)
		}
	}
	round := func() {
		for range 2 { // the second after a pause
			if _, err := send(fd, request); err != nil {
				t.Fatal(err)
			}
			d.turn()
			d.pass(800 * time.Millisecond)
			refused()
		}
	}
	round()
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// What the shedder costs a request that it admits, and a refusal beside an answer: compare with
// BenchmarkFastLane.
func BenchmarkFastLaneWithShedder(b *testing.B) {
	for name, pressure := range map[string]float64{"calm": 0, "all refused": 1} {
		b.Run(name, func(b *testing.B) {
			cfg := pressable()
			cfg.Pause = 0
			d := newHandDriven(b, Config{Shed: cfg})
			press(b, d.s, pressure)
			fd := pairOf(b, d)
			request, answers := []byte(get("/fast/abc")), make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := send(fd, request); err != nil {
					b.Fatal(err)
				}
				d.now = d.now.Add(5 * time.Microsecond)
				d.turn()
				if n, err := receive(fd, answers); err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

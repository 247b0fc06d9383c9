package sequence

import (
	"fmt"
	"net/http"
	"testing"

	"weir/internal/server"
)

// FuzzSteps takes any way over the indices, by steps, jumps and values aside. What is given from values at
// hand must be what plain addition gives, whatever is at hand by then and with a cache of any size; what is
// not at hand is computed.
func FuzzSteps(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 1, 1, 1, 2}, int64(1000))
	f.Add([]byte{3, 200, 0, 1, 0, 0, 4, 201, 1, 1, 1}, int64(4000))
	f.Add([]byte{3, 255, 0, 0, 0, 3, 120, 1, 1, 4, 254, 3, 255, 0, 5, 255}, int64(1))
	const last = 9000
	values := fibonacci(last)
	f.Fuzz(func(t *testing.T, ops []byte, limit int64) {
		s := open(t, t.TempDir(), Config{MaxIndex: last, CacheBytes: max(limit&0xffff, 1)})
		r := &server.Request{Method: http.MethodGet}
		ask := func(step step) {
			at := s.at()
			to, err := s.target(at, step)
			w, _ := server.Answer(s.answerStep(step), r)
			want := fmt.Sprintf(`{"index":%d,"value":"%s"}`, to, values[to])
			switch {
			case err != nil && (w.Status != http.StatusConflict || s.at() != at):
				t.Fatalf("a step beyond the end: %d, at %d", w.Status, s.at())
			case err == nil && (string(w.Body) != want || s.at() != to):
				t.Fatalf("from %d to %d: %.80s, want %.80s", at, to, w.Body, want)
			}
		}
		for i := 0; i < len(ops); i++ {
			n := uint64(0)
			if i+1 < len(ops) {
				n = uint64(ops[i+1]) * last / 255
			}
			switch ops[i] % 6 {
			case 0:
				ask(forward)
			case 1:
				ask(back)
			case 2:
				ask(stay)
			case 3:
				i++
				if err := s.set(n); err != nil {
					t.Fatal(err)
				}
			case 4:
				i++
				if h, ok := s.find(n); ok {
					if got := string(s.give(nil, &h, text, 0)); got != values[n] {
						t.Fatalf("F(%d) is %.60s, want %.60s", n, got, values[n])
					}
				}
			case 5:
				i++
				if p, _, err := s.compute(t.Context(), n); err != nil || string(p.f) != values[n] {
					t.Fatalf("F(%d) is computed as %.60s, %v", n, p.f, err)
				}
			}
		}
		for i := range s.recent.slots {
			if pins := s.recent.slots[i].pins.Load(); pins != 0 {
				t.Fatalf("slot %d stays pinned %d times", i, pins)
			}
		}
	})
}

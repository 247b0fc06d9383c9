//go:build !race

package sequence

import (
	"net/http"
	"testing"

	"weir/internal/server"
)

// What is at hand is given without allocation, and so is a step to a value that its neighbours make.
func TestGivingAValueAtHandDoesNotAllocate(t *testing.T) {
	s := open(t, t.TempDir(), Config{})
	handler := make(map[string]server.Handler)
	for _, r := range s.Routes() {
		handler[r.Pattern] = r.Handler
	}
	var w server.Response
	r := &server.Request{Method: http.MethodGet}
	ask := func(path string) {
		w.Status, w.Body = http.StatusOK, w.Body[:0]
		handler["GET "+path](&w, r)
		if w.Status != http.StatusOK || len(w.Body) == 0 {
			t.Fatalf("GET %s: %d %s", path, w.Status, w.Body)
		}
	}
	for _, at := range []uint64{10, 4000, 100_000} {
		if err := s.set(at); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.compute(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		for name, round := range map[string]func(){
			"to and fro": func() { ask("/next"); ask("/previous"); ask("/current") },
			"a walk": func() { // over twice the slots there are, so none of its values is there any more
				for range 2 * recentSlots {
					ask("/next")
				}
				for range 2 * recentSlots {
					ask("/previous")
				}
			},
		} {
			round()
			if n := testing.AllocsPerRun(100, round); n > 0 {
				t.Errorf("%s at %d: %v allocations a round", name, at, n)
			}
		}
	}
}

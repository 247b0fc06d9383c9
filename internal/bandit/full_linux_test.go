package bandit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/server"
	"weir/internal/systest"
)

func TestAFullDiskRefusesEventsAsLongAsItIsFull(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := systest.Disk(t, "1m")
		f := open(t, dir)
		s := serve(t, f, kernel)
		s.events(`{"item":"a","reward":1,"id":"x"}`, accepted{1, 0})
		filler := filepath.Join(dir, "filler")
		w, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 16; size > 0; {
			if _, err := w.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
		w.Close()
		before := f.memory()
		// The last page of the journal may have some room yet.
		big := "[" + strings.TrimSuffix(strings.Repeat(`{"item":"a","reward":1},`, 200), ",") +
			`,{"item":"a","reward":1,"id":"y"}]`
		s.problem(s.do("POST", s.url+"/events", big), 503,
			"events cannot be saved at the moment, so none of this request counts")
		if !strings.Contains(f.log.String(), "events could not be saved") {
			t.Errorf("the log does not say it: %s", f.log)
		}
		sameMemory(t, f.memory(), before)
		if err := f.Health().Err(); err != nil {
			t.Errorf("predictions go on: %v", err)
		}
		s.posterior(`{"items":["a"]`, 2, 1, "item")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.events(big, accepted{201, 0})
		s.events(`[{"item":"a","reward":1,"id":"x"},{"item":"a","reward":1,"id":"y"}]`, accepted{0, 2})
		sameMemory(t, open(t, copied(t, dir)).memory(), f.memory())
	})
}

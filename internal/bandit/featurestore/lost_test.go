package featurestore

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAStoreThatLosesAllItemsIsDegraded(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		want := Arm{2, 1, true}
		ask := func(id string) (Arm, bool, error) {
			var dst [1]Arm
			degraded, err := s.Arms(t.Context(), []string{id}, dst[:])
			return dst[0], degraded, err
		}
		arms(t, s, "i1", "i2", "nobody")
		f.lose("i1")
		time.Sleep(s.o.TTL)
		if arm, degraded, err := ask("i1"); arm.Known || degraded || err != nil {
			t.Errorf("of one item that was deleted: %v, degraded %v, error %v", arm, degraded, err)
		}
		f.lose("")
		time.Sleep(s.o.TTL)
		if arm, degraded, err := ask("i2"); arm != (Arm{3, 1, true}) || !degraded || err != nil {
			t.Errorf("of all items: %v, degraded %v, error %v", arm, degraded, err)
		}
		synctest.Wait()
		if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "lost all items") ||
			Reason(err) != "it has lost all items that it had" {
			t.Errorf("ready: %v", err)
		}
		f.lose("none")
		time.Sleep(s.o.Retry + s.o.Timeout)
		synctest.Wait()
		if arm, degraded, err := ask("i1"); err != nil || degraded || s.Ready() != nil {
			t.Errorf("filled again: %v, degraded %v, error %v, ready %v", arm, degraded, err, s.Ready())
		}
		time.Sleep(s.o.TTL)
		if arm, degraded, err := ask("i1"); arm != want || degraded || err != nil {
			t.Errorf("a TTL later: %v, degraded %v, error %v", arm, degraded, err)
		}
		// What stays empty for as long as values are kept is meant to be empty.
		f.lose("")
		time.Sleep(s.o.TTL + s.o.Stale)
		for range 2 {
			if arm, degraded, err := ask("i1"); arm.Known || degraded || err != nil {
				t.Errorf("empty for long: %v, degraded %v, error %v", arm, degraded, err)
			}
		}
	})
}

package featurestore

import (
	"context"
	"slices"
	"testing"
	"time"

	"weir/internal/metrics"
)

// open returns a store that is closed at the end of the test and patient, as the machine may be busy.
func openStore(t testing.TB, url string, change func(*Options)) *Store {
	t.Helper()
	o := DefaultOptions()
	o.Timeout = time.Minute
	if change != nil {
		change(&o)
	}
	s, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func arms(t *testing.T, s *Store, ids ...string) []Arm {
	t.Helper()
	dst := make([]Arm, len(ids))
	degraded, err := s.Arms(context.Background(), ids, dst)
	if err != nil || degraded {
		t.Fatalf("degraded %v, error %v", degraded, err)
	}
	return dst
}

// took asks for items and returns how long that took.
func (s *Store) took(ids ...string) (time.Duration, error) {
	began := time.Now()
	_, err := s.Arms(context.Background(), ids, make([]Arm, len(ids)))
	return time.Since(began), err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// counted returns what the cache of items counts under that name.
func (s *Store) counted(name string) (n uint64) {
	for _, sample := range s.o.Metrics.Snapshot(nil) {
		if (sample.Name == "weir_bandit_store_cache_"+name+"_total" || sample.Name == "weir_bandit_store_"+
			name+"_total") && slices.Contains(sample.Labels, metrics.Label{Key: "entity", Value: "item"}) {
			n += uint64(sample.Value)
		}
	}
	return n
}

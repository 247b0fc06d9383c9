package featurestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// seen is some of the items that the store has had. A store that has none of them any more was emptied.
type seen struct {
	sync.Mutex
	ids  []string // at most 32
	lost bool     // none of these was there when they were last asked for
}

// checkLost is told of each fetch of items whether the store has any of them. Where it has none it returns
// an error if the store has lost all items at once, and their values are still in memory: these serve on,
// as when the store is down.
func (s *Store) checkLost(ctx context.Context, t *table, ids []string, has bool) error {
	if s.o.Stale == 0 {
		return nil
	}
	k := &s.seen
	k.Lock()
	if has {
		k.lost = false
		k.Unlock()
		return nil
	}
	lost, sample := k.lost, slices.Clone(k.ids)
	k.Unlock()
	if len(sample) == 0 || !lost && !slices.ContainsFunc(ids, s.remembers) {
		return nil
	}
	values := make([]value, len(sample)*len(t.features))
	if err := s.backend.fetch(ctx, t, sample, values); err != nil {
		return err
	}
	lost = !slices.ContainsFunc(values, func(v value) bool { return v.kind != kindAbsent })
	remembered := slices.ContainsFunc(sample, s.remembers) || slices.ContainsFunc(ids, s.remembers)
	k.Lock()
	defer k.Unlock()
	k.lost = lost && remembered
	if k.lost {
		return &fault{faultLost, errors.New("it has lost all items that it had; older values are used: " +
			"fill it again, or restart to begin with none")}
	}
	if lost { // for so long that it is meant
		k.ids = nil
	}
	return nil
}

// remembers reports whether a value of an item is in memory.
func (s *Store) remembers(id string) bool {
	arm, ok := s.items.Peek(id)
	return ok && arm.Known
}

// note takes an item that the store has into the sample.
func (k *seen) note(id string, most int) {
	k.Lock()
	defer k.Unlock()
	switch {
	case slices.Contains(k.ids, id):
	case len(k.ids) < min(32, most):
		k.ids = append(k.ids, strings.Clone(id))
	default:
		k.ids[rand.IntN(len(k.ids))] = strings.Clone(id)
	}
}

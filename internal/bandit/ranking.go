package bandit

import "weir/internal/bandit/arms"

// Ranking scores one set of items for any user, again and again: other services explore with it. It is for
// any number of goroutines.
type Ranking struct {
	b    *Bandit
	keys []arms.Key
}

// Ranking prepares a set of items, named by their texts. It goes by what is in memory: with a feature store
// it knows only what events have taught; see HasStore.
func (b *Bandit) Ranking(items []string) *Ranking {
	r := &Ranking{b: b, keys: make([]arms.Key, len(items))}
	for i, text := range items {
		r.keys[i] = arms.KeyOf([]byte(text))
	}
	return r
}

// HasStore reports whether posteriors come from a feature store.
func (b *Bandit) HasStore() bool { return b.store != nil }

// Sample sets dst[i] to a sample of the posterior of item i for a user, and returns false, without any,
// while the arms are not loaded. dst is as long as the set.
func (r *Ranking) Sample(dst []float64, user []byte) bool {
	sc := r.b.getScratch()
	defer r.b.putScratch(sc)
	if !r.b.lookUp(sc, user, nil, r.keys, nil) {
		return false
	}
	sc.sampler.Sample(dst, sc.alpha, sc.beta)
	return true
}

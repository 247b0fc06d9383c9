package feed

import (
	"encoding/json"
	"slices"
	"sync/atomic"
)

// A Ranking scores the fallback items of a generation. It is for any number of goroutines.
type Ranking interface {
	// Sample sets dst[i] to the score of item i for a user, or returns false when there are none at
	// the moment; the fill is a random one then. It must not block, and costs what an event loop can afford.
	Sample(dst []float64, user []byte) bool
}

// Ranker makes rankings: what fills short feeds with the items that are most promising instead of any.
// Items and users are given as texts.
type Ranker func(items []string) Ranking

// SetRanker gives the feed what scores its fallback items while it is told to go by scores. It is to be
// called before the feed serves.
func (f *Feed) SetRanker(r Ranker) error {
	f.reload.Lock()
	defer f.reload.Unlock()
	f.ranker = r
	return f.current.Load().fallback.setRanking(r, &f.live)
}

// ranks reports whether the feed has what scores its fallback items.
func (f *Feed) ranks() bool {
	f.reload.Lock()
	defer f.reload.Unlock()
	return f.ranker != nil
}

// setRanking prepares the items for a ranker, if there is one; live says whether it is asked.
func (f *fallback) setRanking(r Ranker, live *atomic.Pointer[Config]) error {
	if r == nil || len(f.items) == 0 {
		return nil
	}
	texts := make([]string, len(f.items))
	for i, item := range f.items {
		if texts[i] = string(item.json); item.json[0] == '"' {
			if err := json.Unmarshal(item.json, &texts[i]); err != nil {
				return err
			}
		}
	}
	f.ranking, f.live = r(texts), live
	return nil
}

// ranked reports whether items are picked by their scores.
func (f *fallback) ranked() bool { return f.ranking != nil && f.live.Load().RankFallback }

// rank brings the n best of s.free to its front, the best first.
func (f *fallback) rank(s *scratch, user []byte, n int) bool {
	s.score = slices.Grow(s.score[:0], len(f.items))[:len(f.items)]
	if !f.ranking.Sample(s.score, user) {
		return false
	}
	free, score := s.free, s.score
	slices.SortFunc(free, func(a, b uint16) int {
		switch {
		case score[a] > score[b]:
			return -1
		case score[a] < score[b]:
			return 1
		}
		return int(a) - int(b)
	})
	return true
}

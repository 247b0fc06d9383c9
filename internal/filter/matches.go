package filter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/rules"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
)

// known is what is remembered of the feed that a source had last, and nothing else of it.
type known struct {
	ttl       time.Duration // when the feed says that it may be fetched
	skipHours uint32
	skipDays  uint8

	keys  []uint32 // of its items, sorted
	items int64    // how many were new, ever
}

// maxKeys bounds known.keys: of a longer feed the items behind are never new.
const maxKeys = 1000

// know remembers a feed, whose items that were not in the one before are new, and returns how many these are.
func (src *source) know(feed *syndication.Feed) (k *known, fresh int64) {
	st, before := src.state.Load(), src.known.Load()
	k = &known{ttl: feed.TTL, skipHours: feed.SkipHours, skipDays: feed.SkipDays, items: st.Items}
	k.keys = make([]uint32, min(len(feed.Items), maxKeys))
	for i := range k.keys {
		k.keys[i] = uint32(xxh3.HashString(feed.Items[i].Key()))
	}
	slices.Sort(k.keys)
	switch {
	case before != nil:
		k.items = before.items
		for _, key := range k.keys {
			if _, there := slices.BinarySearch(before.keys, key); !there {
				fresh++
			}
		}
	case st.Succeeded.IsZero(): // otherwise it is not known which are new
		fresh = int64(len(k.keys))
	}
	k.items += fresh
	src.known.Store(k)
	return k, fresh
}

// seen returns how many items a source has had, all that it is made of together.
func (src *source) seen() (n int64) {
	parts := src.parts
	if parts == nil {
		parts = []*source{src}
	}
	for _, part := range parts {
		if k := part.known.Load(); k != nil {
			n += k.items
		}
	}
	return n
}

// matchPrecision is how exactly is known when a rule has matched: knowing more would be a write a filter with
// every change of a source.
const matchPrecision = 10 * time.Minute

// remember stores which of a filter's rules have matched items of its source, of which there are some now.
func (s *Service) remember(src *source, f *store.Filter, matched []int, items int, now time.Time) {
	seen := src.seen()
	list := make([]store.Match, len(f.Rules))
	changed := len(list) != len(f.Matches)
	globals := matched[:len(matched)-len(list)]
	if g := s.global.Load(); len(g.matched) == len(globals) {
		for i, n := range globals {
			if n > 0 {
				g.matched[i].Store(s.items.Load())
			}
		}
	}
	for i, n := range matched[len(globals):] {
		m, ok := matchOf(f, i)
		if !ok {
			m.Items, changed = max(0, seen-int64(items)), true
		}
		if n > 0 && now.Unix()-m.At >= int64(matchPrecision/time.Second) {
			m.At, m.Items, changed = now.Unix(), seen, true
		}
		list[i] = m
	}
	if changed {
		s.store.Matched(f.ID, list)
	}
}

// matchOf returns what is known of a filter's rule, whatever place it had before.
func matchOf(f *store.Filter, rule int) (store.Match, bool) {
	hash := xxh3.HashString(f.Rules[rule])
	for _, m := range f.Matches {
		if m.Rule == hash {
			return m, true
		}
	}
	return store.Match{Rule: hash}, false
}

// Match says what a rule has matched.
type Match struct {
	Rule  int        `json:"rule"`  // counted from 1, of the filter's own
	Items int        `json:"items"` // that it matches of those that there are now
	At    *time.Time `json:"at,omitempty"`
	// None of so many items has it matched: those since At, or since it was made.
	Unmatched int64 `json:"unmatched,omitempty"`
}

// matches says what each rule of a filter has matched, of the items that there are now and before, and of
// how many items that is.
func (s *Service) matches(ctx context.Context, f *store.Filter) (all []Match, items int) {
	set, err := s.set(f.Spec)
	if err != nil {
		return nil, 0
	}
	all = newMatches(len(f.Rules))
	now, seen := time.Now(), int64(0)
	for _, url := range f.URLs {
		src := s.source(url)
		if src == nil {
			continue
		}
		var o opened
		if s.feed(ctx, src, &o) == nil {
			countMatches(all, set.Decide(o.feed, now))
			items += len(o.feed.Items)
			o.release()
		}
		seen += src.seen()
	}
	for i := range all {
		if m, ok := matchOf(f, i); all[i].Items > 0 {
			at := now.UTC().Truncate(time.Second)
			all[i].At = &at
		} else if ok {
			if all[i].Unmatched = max(int64(items), seen-m.Items); m.At > 0 {
				at := time.Unix(m.At, 0).UTC()
				all[i].At = &at
			}
		}
	}
	return all, items
}

func newMatches(rules int) []Match {
	all := make([]Match, rules)
	for i := range all {
		all[i].Rule = i + 1
	}
	return all
}

// countMatches adds what rules, which have places in all, match of one feed.
func countMatches(all []Match, d rules.Decision) {
	for i, n := range d.Matched[len(d.Matched)-len(all):] {
		all[i].Items += n
	}
}

// quiet is how many new items, of whatever sources, a global rule may match none of without being noted.
const quiet = 1000

// notes says which global rules can never match, or have matched nothing lately, where so many items have come
// since the server started.
func (g *globalRules) notes(items int64) []Note {
	if g.set == nil {
		return nil
	}
	// It is not wrong that they keep nothing: what they do not match is left to others.
	notes := problems(&rules.Set{Mode: rules.Drop, Rules: g.set.Rules})
	for i := range g.matched {
		never := slices.ContainsFunc(notes, func(n Note) bool { return n.Rule == i+1 })
		if n := items - g.matched[i].Load(); n >= quiet && !never {
			notes = append(notes, Note{i + 1, fmt.Sprintf("has matched none of the last %d items", n)})
		}
	}
	return notes
}

// unmatched notes which rules match none of the items that there are.
func unmatched(all []Match, items int) (notes []Note) {
	for _, m := range all {
		if m.Items > 0 || items == 0 {
			continue
		}
		text := fmt.Sprintf("matches none of the %d items that there are now", items)
		if m.Unmatched > int64(items) {
			text = fmt.Sprintf("matches none of the last %d items", m.Unmatched)
		}
		if m.At != nil {
			text += "; it has matched last on " + m.At.Format(time.DateOnly)
		}
		notes = append(notes, Note{m.Rule, text})
	}
	return notes
}

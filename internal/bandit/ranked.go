package bandit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
)

// ranked is arms that events have taught of in an order. Those first in it are kept with their names, however
// many there are: one pass over all of them finds these.
type ranked struct {
	ranks
	at      time.Time
	arms    []learning.Named // the first maxRanked
	matched int
	taught  int
}

// ranks says which order that is, and of which arms.
type ranks struct {
	by        string // of orders
	ascending bool
	search    string // a part of the item, segment or user, in small letters; "" is any
	level     string // "" is any
}

// orders are what arms are sorted by. Only pulls can be told without the posterior, which a feature store may
// have.
var orders = []string{"pulls", "mean", "deviation"}

const (
	// maxRanked bounds how far a ranking goes.
	maxRanked   = 10_000
	maxRankings = 4
	// rankedFor is how long its first page is the same; those that follow are of the ranking of the first.
	rankedFor = 10 * time.Second
	// After so many arms, half a millisecond of work, a ranking rests as long: event loops find a processor.
	rankStep = 1024
	rankRest = 500 * time.Microsecond
)

// rankings are those made last, for who turns pages.
type rankings struct {
	mu   sync.Mutex // held while one is made: there is one pass at a time
	last []*ranked  // the newest last, up to maxRankings
}

// rankedPage is a part of a ranking.
type rankedPage struct {
	Arms    []ListedArm `json:"arms"`
	Offset  int         `json:"offset"`
	Ranked  int         `json:"ranked"`  // how far the ranking goes
	Matched int         `json:"matched"` // arms that were looked for
	Taught  int         `json:"taught"`  // of so many
	At      time.Time   `json:"at"`
}

// rank returns a part of a ranking.
func (b *Bandit) rank(ctx context.Context, r ranks, offset, limit int) (page rankedPage, err error) {
	all, err := b.ranking(ctx, r, offset == 0)
	if err != nil {
		return page, err
	}
	page = rankedPage{Arms: []ListedArm{}, Offset: offset, Ranked: len(all.arms), Matched: all.matched,
		Taught: all.taught, At: all.at}
	sc := b.getScratch()
	defer b.putScratch(sc)
	for _, a := range all.arms[min(offset, len(all.arms)):min(offset+limit, len(all.arms))] {
		one, ok, err := b.listed(ctx, sc, a)
		if err != nil {
			return page, err
		}
		if ok {
			page.Arms = append(page.Arms, one)
		}
	}
	return page, nil
}

// ranking returns the one that was made last, or makes one: where it is old and first is asked for.
func (b *Bandit) ranking(ctx context.Context, r ranks, first bool) (*ranked, error) {
	c := &b.rankings
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.last, func(old *ranked) bool { return old.ranks == r })
	if at >= 0 && !(first && time.Since(c.last[at].at) > rankedFor) {
		return c.last[at], nil
	}
	made, err := b.makeRanking(ctx, r)
	if err != nil {
		return nil, err
	}
	if at < 0 && len(c.last) == maxRankings {
		at = 0
	}
	if at >= 0 {
		c.last = slices.Delete(c.last, at, at+1)
	}
	c.last = append(c.last, made)
	return made, nil
}

// makeRanking goes through all arms.
func (b *Bandit) makeRanking(ctx context.Context, r ranks) (*ranked, error) {
	type entry struct {
		learning.Named
		by float64
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	made := &ranked{ranks: r, at: time.Now()}
	top := make([]entry, 0, 2*maxRanked)
	cut := func() {
		slices.SortStableFunc(top, func(x, y entry) int { return cmp.Compare(y.by, x.by) })
		top = top[:min(len(top), maxRanked)]
	}
	least, walked, failed := math.Inf(-1), 0, error(nil)
	_, err := b.learner.Each(learning.Cursor{}, func(a learning.Named) bool {
		if walked++; walked%rankStep == 0 {
			time.Sleep(rankRest)
			if failed = ctx.Err(); failed != nil {
				return false
			}
		}
		pulls := b.pulls(a)
		if !(pulls > 0) {
			return true
		}
		made.taught++
		if !r.wants(a) {
			return true
		}
		made.matched++
		by := pulls
		if r.by != orders[0] {
			if failed = b.posterior(ctx, sc, a); failed != nil {
				return false
			}
			if by = mean(sc.alpha[0], sc.beta[0]); r.by == "deviation" {
				by = deviation(sc.alpha[0], sc.beta[0])
			}
		}
		if r.ascending {
			by = -by
		}
		if by <= least && len(top) >= maxRanked {
			return true
		}
		if top = append(top, entry{a, by}); len(top) == cap(top) {
			cut()
			least = top[len(top)-1].by
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	cut()
	made.arms = make([]learning.Named, len(top))
	for i := range top {
		made.arms[i] = top[i].Named
	}
	return made, nil
}

// wants reports whether an arm is looked for.
func (r *ranks) wants(a learning.Named) bool {
	return (r.level == "" || r.level == levelNames[a.Level]) &&
		(r.search == "" || strings.Contains(strings.ToLower(a.Item), r.search) ||
			strings.Contains(strings.ToLower(a.Of), r.search))
}

// deviation returns the standard deviation of a Beta distribution.
func deviation(alpha, beta float64) float64 {
	m := mean(alpha, beta)
	return math.Sqrt(m * (1 - m) / (alpha + beta + 1))
}

// set takes up a parameter of a query.
func (r *ranks) set(key, value string) error {
	switch key {
	case "by":
		if r.by = value; !slices.Contains(orders, value) {
			return &badRequest{422, "by must be pulls, mean or deviation"}
		}
	case "ascending":
		if r.ascending = value == "1" || value == "true"; !r.ascending && value != "0" && value != "false" {
			return &badRequest{422, "ascending must be 1 or 0"}
		}
	case "search":
		r.search = strings.ToLower(value)
	case "level":
		if r.level = value; !slices.Contains(levelNames[:], value) {
			return &badRequest{422, "level must be item, segment or pair"}
		}
	}
	return nil
}

// An armDensity is the posterior of an arm, whoever knows of it, as a curve.
type armDensity struct {
	ListedArm           // its level is that of the arm that stands in for what was asked for, or prior
	X         []float64 `json:"x"`
	Density   []float64 `json:"density"` // in shares of the highest
}

// density returns the posterior that predictions sample for an item, for the users of a segment, or for one
// user.
func (b *Bandit) density(ctx context.Context, a learning.Named) (d armDensity, err error) {
	sc := b.getScratch()
	defer b.putScratch(sc)
	if err := b.posterior(ctx, sc, a); err != nil {
		return d, err
	}
	d.Level, d.Item, d.Pulls = sourceNames[sc.source[0]], a.Item, b.pulls(a)
	switch a.Level {
	case arms.Segmented:
		d.Segment = a.Of
	case arms.Pair:
		d.User = a.Of
	}
	d.Alpha, d.Beta = sc.alpha[0], sc.beta[0]
	d.Mean = mean(d.Alpha, d.Beta)
	d.Low, d.High = interval(d.Alpha, d.Beta)
	d.X, d.Density = curve(d.Alpha, d.Beta)
	return d, nil
}

// curvePoints is how many points a curve has.
const curvePoints = 200

// curve returns a Beta distribution's density where nearly all of it is, in shares of the highest. It is
// computed by logarithms, from the distance to a middle: neither overflows nor cancels out, however narrow.
func curve(alpha, beta float64) (x, density []float64) {
	low, high := quantile(1e-4, alpha, beta), quantile(1-1e-4, alpha, beta)
	m := min(max(mean(alpha, beta), math.SmallestNonzeroFloat64), 1-0x1p-53)
	if d := 4 * deviation(alpha, beta); alpha > 1e5 && beta > 1e5 {
		low, high = m-d, m+d
	}
	step := (high - low) / curvePoints
	if !(step > 0) || low+step == low {
		return []float64{m}, []float64{1}
	}
	highest := math.Inf(-1)
	for i := range curvePoints {
		d := low - m + (float64(i)+0.5)*step
		y := (alpha-1)*math.Log1p(d/m) + (beta-1)*math.Log1p(-d/(1-m))
		x, density = append(x, m+d), append(density, y)
		highest = max(highest, y)
	}
	for i, y := range density {
		density[i] = math.Exp(y - highest)
	}
	return x, density
}

// parseArm takes the names of an arm as they come in a query.
func parseArm(item, segment, user *string) (a learning.Named, err error) {
	id := func(name string, text *string) error {
		if n := len(*text); n == 0 || n > 255 {
			return &badRequest{422, fmt.Sprintf("%s must be of 1 to 255 bytes", name)}
		}
		return nil
	}
	switch {
	case item == nil:
		return a, &badRequest{422, "item must be there"}
	case segment != nil && user != nil:
		return a, &badRequest{422, "segment must be left out where there is a user: an arm is of one of them"}
	}
	if err := id("item", item); err != nil {
		return a, err
	}
	a.Item, a.Key = *item, arms.KeyOf([]byte(*item))
	switch {
	case segment != nil:
		err = id("segment", segment)
		a.Level, a.Of = arms.Segmented, *segment
		a.Key = arms.SegmentScope(arms.KeyOf([]byte(a.Of))).Key(a.Key)
	case user != nil:
		err = id("user", user)
		a.Level, a.Of = arms.Pair, *user
		a.Key = arms.UserScope(arms.KeyOf([]byte(a.Of))).Key(a.Key)
	}
	return a, err
}

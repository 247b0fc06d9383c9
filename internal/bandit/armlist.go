package bandit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
)

// ListedArm is an arm that events have taught of, as GET /admin/bandit/arms lists it.
type ListedArm struct {
	Level   string  `json:"level"`
	Item    string  `json:"item"`
	Segment string  `json:"segment,omitempty"`
	User    string  `json:"user,omitempty"`
	Pulls   float64 `json:"pulls"` // events that count for it, faded
	Alpha   float64 `json:"alpha"` // of the posterior that predictions sample
	Beta    float64 `json:"beta"`
	Mean    float64 `json:"mean"`
	Low     float64 `json:"low"` // of the interval that holds the mean with a probability of 95 %
	High    float64 `json:"high"`
}

// ArmPage is a part of the list. After is where the next one goes on, "" of the last.
type ArmPage struct {
	Arms  []ListedArm `json:"arms"`
	After string      `json:"after,omitempty"`
}

// maxListed bounds the arms of a page, maxWalked the names that are looked at for it.
const (
	maxListed = 10_000
	maxWalked = 1_000_000
)

var levelNames = [levels]string{"item", "segment", "pair"}

// listing is what is asked of the list; nil is anything.
type listing struct {
	level               string
	item, segment, user *string
	limit               int
	after               learning.Cursor
}

// set takes up a parameter of a query; those that are not known are ignored.
func (l *listing) set(key, value string) (err error) {
	switch key {
	case "level":
		if l.level = value; !slices.Contains(levelNames[:], value) {
			return &badRequest{422, "level must be item, segment or pair"}
		}
	case "item":
		l.item = &value
	case "segment":
		l.segment = &value
	case "user":
		l.user = &value
	case "limit":
		l.limit, _ = strconv.Atoi(value) // 0 is refused
	case "after":
		l.after, err = parseCursor(value)
	}
	return err
}

func (l *listing) wants(a learning.Named) bool {
	name := levelNames[a.Level]
	return (l.level == "" || l.level == name) && (l.item == nil || *l.item == a.Item) &&
		(l.segment == nil || a.Level == arms.Segmented && *l.segment == a.Of) &&
		(l.user == nil || a.Level == arms.Pair && *l.user == a.Of)
}

// ListArms returns a page of the arms that events have taught of, in the order in which they were first.
func (b *Bandit) ListArms(ctx context.Context, after string, limit int) (ArmPage, error) {
	cursor, err := parseCursor(after)
	if err != nil {
		return ArmPage{}, err
	}
	return b.list(ctx, listing{limit: limit, after: cursor})
}

func (b *Bandit) list(ctx context.Context, l listing) (page ArmPage, err error) {
	if l.limit < 1 || l.limit > maxListed {
		return page, &badRequest{422, fmt.Sprintf("limit must be from 1 to %d", maxListed)}
	}
	var found []learning.Named
	walked := 0
	end, err := b.learner.Each(l.after, func(a learning.Named) bool {
		if walked++; l.wants(a) {
			found = append(found, a)
		}
		return len(found) < l.limit && walked < maxWalked
	})
	if errors.Is(err, learning.ErrCursor) {
		return page, &badRequest{http.StatusConflict, err.Error()}
	}
	if err != nil {
		return page, err
	}
	if end != (learning.Cursor{}) {
		page.After = fmt.Sprintf("%x-%x-%x", end.Log, end.Frame, end.Skip)
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	page.Arms = make([]ListedArm, 0, len(found))
	for _, a := range found {
		one, ok, err := b.listed(ctx, sc, a)
		if err != nil {
			return ArmPage{}, err
		}
		if ok {
			page.Arms = append(page.Arms, one)
		}
	}
	return page, nil
}

// listed looks an arm up as a prediction does. ok is false when it was forgotten meanwhile.
func (b *Bandit) listed(ctx context.Context, sc *scratch, a learning.Named) (one ListedArm,
	ok bool, err error) {
	if err := b.posterior(ctx, sc, a); err != nil {
		return one, false, err
	}
	one = ListedArm{Level: levelNames[a.Level], Item: a.Item, Pulls: b.pulls(a)}
	switch a.Level {
	case arms.Segmented:
		one.Segment = a.Of
	case arms.Pair:
		one.User = a.Of
	}
	one.Alpha, one.Beta = sc.alpha[0], sc.beta[0]
	one.Mean = mean(one.Alpha, one.Beta)
	one.Low, one.High = interval(one.Alpha, one.Beta)
	return one, one.Pulls > 0, nil
}

// posterior has sc hold the posterior of one arm, or of what stands in for it.
func (b *Bandit) posterior(ctx context.Context, sc *scratch, a learning.Named) error {
	q := &sc.query
	q.reset()
	text := []byte(a.Item)
	q.items, q.keys = append(q.items, item{text: text}), append(q.keys, arms.KeyOf(text))
	switch a.Level {
	case arms.Segmented:
		q.segment = []byte(a.Of)
	case arms.Pair:
		q.user = []byte(a.Of)
	}
	_, err := b.features(ctx, sc, q)
	return err
}

// pulls returns how many events count for an arm, faded.
func (b *Bandit) pulls(a learning.Named) float64 {
	alpha, beta, _ := b.learner.View(a.Level, b.now()).Find(a.Key)
	return alpha + beta
}

// interval returns the quantiles 0.025 and 0.975 of a Beta distribution, of a narrow one those of the normal
// distribution that it hardly differs from.
func interval(alpha, beta float64) (low, high float64) {
	const narrow = 1e5
	if alpha > narrow && beta > narrow {
		m := mean(alpha, beta)
		d := 1.959963984540054 * math.Sqrt(m*(1-m)/(alpha+beta+1))
		return m - d, m + d
	}
	low = quantile(0.025, alpha, beta)
	return low, max(low, quantile(0.975, alpha, beta))
}

// quantile returns a quantile of a Beta distribution; the mean of one so far from all others that numbers
// cannot tell more.
func quantile(p, alpha, beta float64) float64 {
	if x := (distuv.Beta{Alpha: alpha, Beta: beta}).Quantile(p); x >= 0 && x <= 1 {
		return x
	}
	return mean(alpha, beta)
}

func parseCursor(s string) (c learning.Cursor, err error) {
	if s == "" {
		return c, nil
	}
	_, err = fmt.Sscanf(s, "%x-%x-%x", &c.Log, &c.Frame, &c.Skip)
	if err != nil || c.Frame < 0 || c.Skip < 0 {
		return c, &badRequest{422, "after must be what the page before has as after"}
	}
	return c, nil
}

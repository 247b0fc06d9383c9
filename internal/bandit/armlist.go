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
	"weir/internal/server"
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
	q := &sc.query
	q.reset()
	text := []byte(a.Item)
	q.items, q.keys = append(q.items, item{text: text}), append(q.keys, arms.KeyOf(text))
	one = ListedArm{Level: levelNames[a.Level], Item: a.Item}
	switch a.Level {
	case arms.Segmented:
		q.segment, one.Segment = []byte(a.Of), a.Of
	case arms.Pair:
		q.user, one.User = []byte(a.Of), a.Of
	}
	if _, err := b.features(ctx, sc, q); err != nil {
		return one, false, err
	}
	alpha, beta, _ := b.learner.View(a.Level, b.now()).Find(a.Key)
	if one.Pulls = alpha + beta; !(one.Pulls > 0) {
		return one, false, nil
	}
	one.Alpha, one.Beta = sc.alpha[0], sc.beta[0]
	one.Mean = mean(one.Alpha, one.Beta)
	one.Low, one.High = interval(one.Alpha, one.Beta)
	return one, true, nil
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
	d := distuv.Beta{Alpha: alpha, Beta: beta}
	return d.Quantile(0.025), d.Quantile(0.975)
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

// getArms answers GET /admin/bandit/arms.
func (b *Bandit) getArms(w *server.Response, r *server.Request) server.Outcome {
	a := reply{w, r.Stripe}
	l := listing{limit: 100}
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !more {
			break
		}
		if !ok {
			a.fail(&badRequest{422, "the query has a malformed escape"})
			return server.Done
		}
		if err := l.set(string(key), string(value)); err != nil {
			a.fail(err)
			return server.Done
		}
		rest = tail
	}
	page, err := b.list(b.background, l)
	if err != nil {
		a.fail(err)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.JSON(page)
	return server.Done
}

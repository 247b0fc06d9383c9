package bandit

import (
	"net/http"
	"strconv"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

// forgetting says of which arms it shall be forgotten what events have taught.
type forgetting struct {
	all                 bool
	item, segment, user []byte // text, nil when absent
}

var forgetMembers = []string{"all", "item", "segment", "user"}

// parseForgetting reads {"item":...}, with a segment or a user for their arm of the item, or {"all":true}.
func parseForgetting(s *scanner) (f forgetting, err error) {
	if err := s.something(`{"item":...} or {"all":true}`); err != nil {
		return f, err
	}
	var seen uint
	err = s.object(func(key []byte) (err error) {
		if err := s.member(key, forgetMembers, &seen); err != nil {
			return err
		}
		switch s.field {
		case "all":
			f.all, err = s.bool()
		case "item":
			_, f.item, err = s.id(idWanted)
		case "segment":
			_, f.segment, err = s.optionalID()
		case "user":
			_, f.user, err = s.optionalID()
		}
		return err
	})
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return f, err
	}
	switch {
	case f.all && (f.item != nil || f.segment != nil || f.user != nil):
		s.field = "all"
		return f, s.wrong("alone: it is every arm")
	case !f.all && f.item == nil:
		s.field = "item"
		return f, s.wrong(`there: ` + idWanted + `; or {"all":true} to forget everything`)
	case f.segment != nil && f.user != nil:
		s.field = "segment"
		return f, s.wrong("left out where there is a user: an arm is of one of them")
	}
	return f, nil
}

// record returns the forgetting for the journal.
func (f *forgetting) record() record {
	r := record{forget: true, came: time.Now().UnixMicro()}
	if f.all {
		return r
	}
	switch item := arms.KeyOf(f.item); {
	case f.segment != nil:
		r.arms[arms.Segmented] = arms.SegmentScope(arms.KeyOf(f.segment)).Key(item)
	case f.user != nil:
		r.arms[arms.Pair] = arms.UserScope(arms.KeyOf(f.user)).Key(item)
	default:
		r.arms[arms.Item] = item
	}
	return r
}

// postForget answers POST /admin/bandit/forget.
func (b *Bandit) postForget(w *server.Response, r *server.Request) server.Outcome {
	var s scanner
	s.reset(r.Body)
	f, err := parseForgetting(&s)
	if err != nil {
		(&reply{w, r.Stripe}).fail(err)
		return server.Done
	}
	n, err := b.forget(f.record())
	if err != nil {
		w.Problem(http.StatusServiceUnavailable, "this cannot be saved at the moment, so nothing is forgotten")
		return server.Done
	}
	switch {
	case n == 0: // nothing has changed
	case f.all:
		b.log.Info("bandit has forgotten what events have taught", "arms", n)
	default:
		b.log.Info("bandit has forgotten what events have taught", "item", string(f.item), "segment", string(f.segment), "user", string(f.user), "arms", n)
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(strconv.AppendInt(append(w.Body, `{"forgotten":`...), int64(n), 10), '}')
	return server.Done
}

// forget forgets what a record says, in the journal first, and returns of how many arms.
func (b *Bandit) forget(r record) (arms int, err error) {
	e := &b.events
	e.Lock()
	defer e.Unlock()
	if !b.teaches(&r) {
		return 0, nil
	}
	e.batch.Reset()
	e.buffer = r.append(e.buffer[:0])
	e.batch.Add(e.buffer)
	if err := b.save(r.came, 0); err != nil {
		return 0, err
	}
	arms = b.unlearn(&r)
	b.stats.forgotten.Add(0, uint64(arms))
	return arms, nil
}

// everything reports whether all arms are to be forgotten.
func (r *record) everything() bool { return r.arms == [levels]arms.Key{} }

// teaches reports whether there is anything that a record can have forgotten.
func (b *Bandit) teaches(r *record) bool {
	if r.everything() {
		return b.learnedArms() > 0
	}
	for level, k := range r.arms {
		if k != (arms.Key{}) && b.learned[level].Teaches(k) {
			return true
		}
	}
	return false
}

// unlearn forgets what a record says. Ids of events stay: one that is sent again does not count after all.
func (b *Bandit) unlearn(r *record) (n int) {
	if r.everything() {
		n = b.learnedArms()
		for _, l := range b.learned {
			l.ForgetAll()
		}
		return n
	}
	for level, k := range r.arms {
		if k != (arms.Key{}) && b.learned[level].Forget(k) {
			n++
		}
	}
	return n
}

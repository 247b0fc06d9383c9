package bandit

import (
	"net/http"
	"strconv"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
	"weir/internal/server"
)

// forgetting says of which arms it shall be forgotten what events have taught.
type forgetting struct {
	all, ids            bool
	item, segment, user []byte // text, nil when absent
}

var forgetMembers = []string{"all", "ids", "item", "segment", "user"}

// parseForgetting reads {"item":...}, with a segment or a user for their arm of the item, {"user":...} for
// all arms of a user, {"all":true}, or {"ids":true} for the ids of events that were seen.
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
		case "ids":
			f.ids, err = s.bool()
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
	case f.all && (f.ids || f.item != nil || f.segment != nil || f.user != nil):
		s.field = "all"
		return f, s.wrong("alone: it is every arm")
	case f.ids && (f.item != nil || f.segment != nil || f.user != nil):
		s.field = "ids"
		return f, s.wrong("alone: ids are not of an arm")
	case f.segment != nil && f.item == nil:
		s.field = "item"
		return f, s.wrong("there beside a segment: " + idWanted)
	case !f.all && !f.ids && f.item == nil && f.user == nil:
		s.field = "item"
		return f, s.wrong(`there: ` + idWanted + `; or {"all":true} to forget everything`)
	case f.segment != nil && f.user != nil:
		s.field = "segment"
		return f, s.wrong("left out where there is a user: an arm is of one of them")
	}
	return f, nil
}

// keys returns what is to be forgotten by the keys of arms.
func (f *forgetting) keys() learning.Forgetting {
	k := learning.Forgetting{All: f.all, IDs: f.ids}
	if f.all || f.ids {
		return k
	}
	if f.item == nil {
		k.User = string(f.user)
		return k
	}
	switch item := arms.KeyOf(f.item); {
	case f.segment != nil:
		k.Arms[arms.Segmented] = arms.SegmentScope(arms.KeyOf(f.segment)).Key(item)
	case f.user != nil:
		k.Arms[arms.Pair] = arms.UserScope(arms.KeyOf(f.user)).Key(item)
	default:
		k.Arms[arms.Item] = item
	}
	return k
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
	n, err := b.learner.Forget(f.keys())
	if err != nil {
		detail := "this cannot be saved at the moment, so nothing is forgotten"
		if b.cfg.Cluster != nil {
			detail = "nobody knows whether this is forgotten; ask again: " + err.Error()
		}
		w.Problem(http.StatusServiceUnavailable, detail)
		return server.Done
	}
	switch {
	case n == 0: // nothing has changed
	case f.ids:
		b.log.Info("bandit has forgotten the ids of events", "ids", n)
	case f.all:
		b.log.Info("bandit has forgotten what events have taught", "arms", n)
	case f.item == nil: // the log remembers longer than the files
		b.log.Info("bandit has forgotten what events have taught of a user", "arms", n)
	default:
		b.log.Info("bandit has forgotten what events have taught", "item", string(f.item), "segment",
			string(f.segment), "user", string(f.user), "arms", n)
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(strconv.AppendInt(append(w.Body, `{"forgotten":`...), int64(n), 10), '}')
	return server.Done
}

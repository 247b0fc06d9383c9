package bandit

import (
	"strconv"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/featurestore"
	"weir/internal/bandit/learning"
	"weir/internal/server"
)

// state is what there is to know of the bandit.
type state struct {
	Generation int            `json:"generation"` // files of arms that have served; 0 is none
	Loading    bool           `json:"loading"`
	Imported   *importedArms  `json:"imported"` // null where there is no file of arms
	Learned    map[string]int `json:"learned"`  // arms that events have taught of, by level
	Events     eventCounts    `json:"events"`
	Scores     uint64         `json:"scores"` // given
	Problem    string         `json:"problem,omitempty"`
	Durability string         `json:"durability"`
	Lag        float64        `json:"lagSeconds"`
	HalfLife   float64        `json:"halfLifeSeconds"` // 0 is for ever
	Prior      [2]float64     `json:"prior"`
	// Store is the health of the feature store, null where there is none.
	Store *featurestore.Health `json:"store"`
}

type importedArms struct {
	Arms     uint64 `json:"arms"`
	Segment  uint64 `json:"segmentArms"`
	Pair     uint64 `json:"pairArms"`
	Users    uint64 `json:"users"` // whose segment is known
	Segments uint64 `json:"segments"`
	Bytes    int64  `json:"bytes"`
}

type eventCounts struct {
	Accepted   uint64 `json:"accepted"`
	Duplicates uint64 `json:"duplicates"`
	Rejected   uint64 `json:"rejected"`
}

func (b *Bandit) state() state {
	s := state{Generation: b.Generation(), Learned: make(map[string]int, levels),
		Events: eventCounts{b.stats.accepted.Value(), b.stats.duplicates.Value(), b.stats.rejected.Value()},
		Scores: b.stats.predictions.Value(), Durability: b.learner.Durability(),
		Lag: b.learner.Lag().Seconds(), HalfLife: b.cfg.HalfLife.Seconds(), Prior: b.cfg.Prior}
	for level, name := range levelNames {
		s.Learned[name] = b.learner.Len(arms.Level(level))
	}
	if err := b.Health().Err(); err != nil {
		s.Problem = err.Error()
	}
	if m := b.model.Load(); m == nil {
		s.Loading = b.failed.Load() == nil
	} else if m.file != nil {
		f := m.file.Stats()
		s.Imported = &importedArms{f.Arms, f.SegmentArms, f.UserArms, f.Users, f.Segments, f.Bytes}
	}
	if b.store != nil {
		s.Store = b.store.Health()
	}
	return s
}

// getState answers GET /admin/bandit.
func (b *Bandit) getState(w *server.Response, _ *server.Request) server.Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(b.state())
	return server.Done
}

// eachParameter calls f with the parameters of a request's query until it fails.
func eachParameter(r *server.Request, f func(key, value string) error) error {
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !more {
			return nil
		}
		if !ok {
			return &badRequest{422, "the query has a malformed escape"}
		}
		if err := f(string(key), string(value)); err != nil {
			return err
		}
		rest = tail
	}
}

// answerAdmin answers with what answer returns.
func answerAdmin[T any](w *server.Response, r *server.Request, answer func() (T, error)) server.Outcome {
	if r.Inline() {
		return server.Offload
	}
	found, err := answer()
	if err != nil {
		(&reply{w, r.Stripe}).fail(err)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.JSON(found)
	return server.Done
}

// getArms answers GET /admin/bandit/arms.
func (b *Bandit) getArms(w *server.Response, r *server.Request) server.Outcome {
	return answerAdmin(w, r, func() (page ArmPage, err error) {
		l := listing{limit: 100}
		if err := eachParameter(r, l.set); err != nil {
			return page, err
		}
		return b.list(b.background, l)
	})
}

// getRanking answers GET /admin/bandit/ranking.
func (b *Bandit) getRanking(w *server.Response, r *server.Request) server.Outcome {
	return answerAdmin(w, r, func() (page rankedPage, err error) {
		order, offset, limit := ranks{by: orders[0]}, 0, 50
		within := func(name, value string, low, high int) (int, error) {
			n, err := strconv.Atoi(value)
			if err != nil || n < low || n > high {
				return 0, &badRequest{422, name + " must be a whole number from " + strconv.Itoa(low) + " to " +
					strconv.Itoa(high)}
			}
			return n, nil
		}
		err = eachParameter(r, func(key, value string) (err error) {
			switch key {
			case "offset":
				offset, err = within(key, value, 0, maxRanked)
			case "limit":
				limit, err = within(key, value, 1, 500)
			default:
				err = order.set(key, value)
			}
			return err
		})
		if err == nil && b.store != nil && order.by != orders[0] {
			err = &badRequest{422, "by must be pulls where posteriors are in a feature store"}
		}
		if err != nil {
			return page, err
		}
		return b.rank(b.background, order, offset, limit)
	})
}

// getArm answers GET /admin/bandit/arm.
func (b *Bandit) getArm(w *server.Response, r *server.Request) server.Outcome {
	return answerAdmin(w, r, func() (d armDensity, err error) {
		var item, segment, user *string
		if err := eachParameter(r, func(key, value string) error {
			switch key {
			case "item":
				item = &value
			case "segment":
				segment = &value
			case "user":
				user = &value
			}
			return nil
		}); err != nil {
			return d, err
		}
		var a learning.Named
		if a, err = parseArm(item, segment, user); err != nil {
			return d, err
		}
		return b.density(b.background, a)
	})
}

package sequence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/sequence/decimal"
	"weir/internal/server"
	"weir/internal/strictjson"
)

// putCurrent answers PUT /current of the admin port.
func (s *Sequence) putCurrent(w *server.Response, r *server.Request) server.Outcome {
	var body struct {
		Index *uint64 `json:"index"`
	}
	err := strictjson.Read(bytes.NewReader(r.Body), &body)
	if err == nil && body.Index == nil {
		err = errors.New("index must be there")
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity,
			fmt.Sprintf(`the body must be {"index":N}, N a whole number from 0 to %d: %v`,
				s.live.Load().MaxIndex, err))
		return server.Done
	}
	if r.Inline() && !s.index.Inline() {
		return server.Offload
	}
	n := *body.Index
	if n > s.live.Load().MaxIndex {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("index", 0))
		return server.Done
	}
	err = errStopped
	s.alive(func() { err = s.set(n) })
	if err != nil {
		w.Problem(http.StatusServiceUnavailable, notSaved)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(strconv.AppendUint(append(w.Body, `{"index":`...), n, 10), '}')
	return server.Done
}

// state is what there is to know of the sequence.
type state struct {
	Index    uint64 `json:"index"`
	MaxIndex uint64 `json:"maxIndex"`
	Digits   int    `json:"digits"` // of the value
	// First and Last are where the value begins and ends, "" while it is not at hand; First is all of a short
	// one.
	First        string            `json:"first"`
	Last         string            `json:"last"`
	Durability   string            `json:"durability"`
	Lag          float64           `json:"lagSeconds"`
	Cache        cacheState        `json:"cache"`
	Computations computationsState `json:"computations"`
}

type cacheState struct {
	Direct uint64 `json:"direct"` // values that were there
	Close  uint64 `json:"close"`  // values made by steps from others
	Miss   uint64 `json:"miss"`   // values computed from nothing
	Pairs  int    `json:"pairs"`
	Bytes  int64  `json:"bytes"`
	Limit  int64  `json:"limit"`
}

type computationsState struct {
	Waiting    int    `json:"waiting"` // requests that wait, or are sent what came of it
	MaxWaiting int    `json:"maxWaiting"`
	Bytes      int64  `json:"bytes"`
	MaxBytes   int64  `json:"maxBytes"`
	Refused    uint64 `json:"refused"`
	Cancelled  uint64 `json:"cancelled"`
	// Values are those under way, by their index, the first 100.
	Values []valueState `json:"values"`
}

type valueState struct {
	Index   uint64 `json:"index"`
	Digits  int    `json:"digits"`
	Waiting int    `json:"waiting"` // requests
	Started bool   `json:"started"` // else it waits for its turn
}

// getState answers GET /admin/sequence.
func (s *Sequence) getState(w *server.Response, r *server.Request) server.Outcome {
	if r.Inline() {
		return server.Offload
	}
	ctx, cancel := s.indexContext()
	defer cancel()
	at, err := uint64(0), errStopped
	s.alive(func() { at, err = s.index.Get(ctx) })
	if err != nil {
		w.Problem(http.StatusServiceUnavailable, notKnown)
		return server.Done
	}
	now := state{Index: at, MaxIndex: s.live.Load().MaxIndex, Digits: decimal.Digits(at),
		Durability: s.index.Durability(), Lag: s.index.Lag().Seconds(),
		Cache: cacheState{Direct: s.given[direct].Value(), Close: s.given[near].Value(),
			Miss: s.given[miss].Value()},
		Computations: s.computations.state()}
	now.Cache.Pairs, now.Cache.Bytes, now.Cache.Limit = s.cache.size()
	const shown = 40
	if digits := s.peek(at); len(digits) <= 2*shown {
		now.First = string(digits)
	} else {
		now.First, now.Last = string(digits[:shown]), string(digits[len(digits)-shown:])
	}
	w.Field("Cache-Control", "no-store")
	w.JSON(now)
	return server.Done
}

// peek returns the digits of F(n) if they are at hand. It counts for nothing.
func (s *Sequence) peek(n uint64) []byte {
	h, ok := s.find(n)
	if !ok {
		return nil
	}
	defer h.drop()
	switch {
	case h.slot != nil:
		return bytes.Clone(h.slot.digits())
	case h.between.a != nil:
		return h.between.append(nil)
	}
	p, _ := h.pair.walk(context.Background(), n) // which is not cancelled
	return p.f
}

package feed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"weir/internal/cluster"
	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
	"weir/internal/server"
	"weir/internal/strictjson"
)

const (
	defaultSize = 10
	maxSize     = 255
)

// Routes implements server.Service.
func (f *Feed) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /feed/{userId}", Handler: f.next, Prefetch: f.prefetch},
		{Pattern: "POST /feed/{userId}", Handler: f.next},
		{Pattern: "GET /feed/{userId}/position", Handler: f.getPosition},
		{Pattern: "PUT /feed/{userId}/position", Handler: f.putPosition},
		{Pattern: "DELETE /feed/{userId}/position", Handler: f.deletePosition},
		{Pattern: "GET /admin/feeds", Admin: true, Handler: f.getState},
		{Pattern: "POST /admin/feeds/reload", Admin: true, Handler: f.postReload},
		{Pattern: "GET /admin/feeds/survey", Admin: true, Handler: f.getSurvey},
		{Pattern: "POST /admin/feeds/survey", Admin: true, Handler: f.postSurvey},
		{Pattern: "GET /admin/feeds/users/{userId}", Admin: true, Handler: f.getUser},
		{Pattern: "DELETE /admin/feeds/users/{userId}", Admin: true, Handler: f.deleteUser},
		{Pattern: "PUT /admin/feeds/users/{userId}/position", Admin: true, Handler: f.putPosition},
		{Pattern: "DELETE /admin/feeds/users/{userId}/position", Admin: true, Handler: f.deletePosition},
	}
}

// next answers GET and POST /feed/{userId}.
func (f *Feed) next(w *server.Response, r *server.Request) server.Outcome {
	return f.handle(w, r, parseQuery)
}

// handle answers a request for what parse makes of it; false from parse means that w holds the answer.
func (f *Feed) handle(w *server.Response, r *server.Request,
	parse func(*server.Response, *server.Request) (query, bool)) server.Outcome {
	for {
		outcome, err := f.try(w, r, parse)
		switch {
		case outcome == server.Pending:
			return outcome
		case err != progress.ErrSuperseded:
			return conclude(w, err)
		}
	}
}

// try is handle under the lists that serve. Where the position takes a round trip the request is left pending
// until who answers later has moved it.
func (f *Feed) try(w *server.Response, r *server.Request,
	parse func(*server.Response, *server.Request) (query, bool)) (outcome server.Outcome, err error) {
	v, err := f.visit(r.Param(0), r.Stripe, r.Inline())
	if err != nil {
		return server.Done, err
	}
	defer func() {
		if outcome != server.Pending {
			v.end()
		}
	}()
	q, ok := parse(w, r) // while what visit has asked for comes from memory
	if !ok {
		return server.Done, nil
	}
	if err := v.begin(&q); err != nil {
		return server.Done, err
	}
	at, err := v.move(&q)
	switch err {
	case nil:
		return server.Done, v.answer(w, &q, at)
	case progress.ErrPending:
		if err := v.checkAll(); err != nil {
			return server.Done, err
		}
		kept := v // what outlives the request
		kept.id = bytes.Clone(v.id)
		outcome = server.Pending
		submit(r.Pend(), kept, q)
		return outcome, nil
	}
	return server.Done, v.outdated(err)
}

// submit completes a request once the user's position has been moved. It ends the visit, which has begun.
func submit(c *server.Completion, v visit, q query) {
	v.submit(c.Context(), &q, func(at moved, err error) {
		err = v.outdated(err)
		switch from := v.f.from; {
		case err == progress.ErrSuperseded:
			resubmit(c, v, q)
			return
		case err == errOutdated && from != nil && from.follow != nil && !q.waited:
			q.waited = true
			resubmit(c, v, q)
			return
		}
		defer v.end()
		c.Complete(func(w *server.Response) {
			switch {
			case err == nil:
				err = v.answer(w, &q, at)
			case v.f.cfg.FallbackWhenLost && !q.position && isLost(err):
				err = v.answerLost(w, &q)
			}
			conclude(w, err)
		})
	})
}

// isLost says whether an error of positions is of an engine that does not answer, or not in time.
func isLost(err error) bool {
	return errors.Is(err, cluster.ErrUnavailable) || errors.Is(err, cluster.ErrUnknown) ||
		errors.Is(err, cluster.ErrUnreplicated) || errors.Is(err, context.DeadlineExceeded)
}

// answerLost answers a request for items by fallback items, since nobody knows where the user is.
func (v *visit) answerLost(w *server.Response, q *query) error {
	s := v.f.scratch.Get().(*scratch)
	defer v.f.scratch.Put(s)
	given, err := v.give(q, s, moved{})
	if err != nil {
		return err
	}
	v.f.stats.lost.Add(v.stripe, 1)
	w.Field("Cache-Control", "no-store")
	w.Field("Weir-Degraded", "positions cannot be asked for, these are fallback items")
	if !q.meta {
		w.Body = appendItems(w.Body, v.g, nil, given.fill)
		return nil
	}
	w.Body = appendItems(append(w.Body, `{"items":`...), v.g, nil, given.fill)
	w.Body = append(w.Body, `,"fallback":`...)
	w.Body = strconv.AppendInt(w.Body, int64(len(given.fill)), 10)
	w.Body = append(w.Body, `,"degraded":true}`...)
	return nil
}

// resubmit is submit under the lists that serve now, or soon do, on a goroutine of its own, since submit may
// be what has called. The old lists are let go of after that, so that Close waits for either.
func resubmit(c *server.Completion, old visit, q query) {
	disk.Go(func() error {
		defer old.end()
		if q.waited && !old.f.from.follow.newer(c.Context(), old.g) {
			return errOutdated
		}
		v, err := old.f.visit(old.id, old.stripe, false)
		if err != nil {
			return err
		}
		if err = v.begin(&q); err == nil {
			err = v.checkAll()
		}
		if err != nil {
			v.end()
			return err
		}
		submit(c, v, q)
		return nil
	}, func(err error) {
		if err != nil {
			c.Complete(func(w *server.Response) { conclude(w, err) })
		}
	})
}

// answer fills in the answer to a request that has moved the user so.
func (v *visit) answer(w *server.Response, q *query, at moved) error {
	if q.position {
		w.Field("Cache-Control", "no-store")
		w.Body = v.appendPosition(append(w.Body, '{'), at.position)
		w.Body = append(w.Body, `,"length":`...)
		w.Body = strconv.AppendInt(w.Body, int64(v.list.Len()), 10)
		w.Body = append(v.appendList(w.Body), '}')
		return nil
	}
	s := v.f.scratch.Get().(*scratch)
	defer v.f.scratch.Put(s)
	given, err := v.give(q, s, at)
	if err != nil {
		return err
	}
	w.Field("Cache-Control", "no-store")
	if !q.meta {
		w.Body = appendItems(w.Body, v.g, given.own, given.fill)
		return nil
	}
	w.Body = appendItems(append(w.Body, `{"items":`...), v.g, given.own, given.fill)
	w.Body = v.appendPosition(append(w.Body, ','), at.position)
	w.Body = append(w.Body, `,"fallback":`...)
	w.Body = strconv.AppendInt(w.Body, int64(len(given.fill)), 10)
	w.Body = append(v.appendList(w.Body), '}')
	return nil
}

func (v *visit) appendPosition(dst []byte, position int) []byte {
	dst = append(dst, `"position":`...)
	dst = strconv.AppendInt(dst, int64(position), 10)
	dst = append(dst, `,"remaining":`...)
	return strconv.AppendInt(dst, int64(v.list.Len()-position), 10)
}

func (v *visit) appendList(dst []byte) []byte {
	return append(appendToken(append(dst, `,"list":"`...), v.list.Tag()), '"')
}

// conclude turns what became of a request into an outcome; of an error it makes a problem.
func conclude(w *server.Response, err error) server.Outcome {
	status, title, detail := http.StatusUnprocessableEntity, "", ""
	switch {
	case err == nil:
		return server.Done
	case err == errCostly:
		return server.Offload
	case errors.As(err, new(*valueError)):
		detail = err.Error()
	case err == errOtherList:
		status, detail = http.StatusConflict,
			"the user's list is another than the one named by list; ask with meta=1 for the present one"
	case err == errNoList:
		status, detail = http.StatusNotFound, "there is no list for this user, so no position"
	case err == errNoItems:
		status, title, detail = http.StatusInternalServerError, "no feed items",
			"the user has no items left and there are no fallback items"
	case err == errWaiting:
		status, detail = http.StatusServiceUnavailable, "this server has no lists yet; /health says why"
	case err == errOutdated:
		status, detail = http.StatusServiceUnavailable,
			"newer lists than those of this server are in use; it will take them up"
	case errors.Is(err, record.ErrCorrupt):
		status, detail = http.StatusServiceUnavailable, "the list cannot be read at the moment"
	default:
		status, detail = http.StatusServiceUnavailable,
			"positions cannot be saved at the moment, so no items are given"
	}
	w.ProblemTitle(status, cmp.Or(title, http.StatusText(status)), detail)
	return server.Done
}

// appendItems appends a JSON array of a list's items and of fallback items.
func appendItems(dst []byte, g *generation, items []uint64, fill []uint16) []byte {
	dst = append(dst, '[')
	if g.lists.Items() == snapshot.String {
		for _, id := range items {
			dst = append(dst, g.lists.NameJSON(id)...)
			dst = append(dst, ',')
		}
	} else {
		for _, id := range items {
			dst = appendNumber(dst, id)
			dst = append(dst, ',')
		}
	}
	for _, i := range fill {
		dst = append(dst, g.fallback.items[i].json...)
		dst = append(dst, ',')
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, ']')
}

// parseQuery reads the parameters of a request for items; false means that w holds the problem.
func parseQuery(w *server.Response, r *server.Request) (query, bool) {
	q := query{size: defaultSize, from: -1, peek: r.Method == http.MethodHead}
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, "the query holds a malformed percent-escape")
			return q, false
		}
		if !more {
			break
		}
		rest = tail
		switch string(key) {
		case "size":
			n, ok := parseNumber(value)
			if !ok || n > maxSize {
				w.Problem(http.StatusUnprocessableEntity,
					"size must be a whole number from 1 to 255; absent or 0 is 10")
				return q, false
			}
			q.size = int(n)
			if n == 0 {
				q.size = defaultSize
			}
		case "from":
			n, ok := parseNumber(value)
			if !ok || n > snapshot.MaxListLen {
				w.Problem(http.StatusUnprocessableEntity,
					"from must be a whole number from 0 to the length of the user's list, at most 65535")
				return q, false
			}
			q.from = int(n)
		case "list":
			if q.list, ok = parseToken(value); !ok {
				w.Problem(http.StatusUnprocessableEntity,
					"list must be the 12 hexadecimal digits that an answer with meta=1 carries")
				return q, false
			}
			q.hasList = true
		case "meta":
			if q.meta, ok = parseSwitch(value); !ok {
				w.Problem(http.StatusUnprocessableEntity, "meta must be 1 or 0")
				return q, false
			}
		case "peek":
			peek, ok := parseSwitch(value)
			if !ok {
				w.Problem(http.StatusUnprocessableEntity, "peek must be 1 or 0")
				return q, false
			}
			q.peek = peek || r.Method == http.MethodHead
		}
	}
	if q.hasList != (q.from >= 0) {
		w.Problem(http.StatusUnprocessableEntity,
			"from and list go together: both come with an answer to meta=1")
		return q, false
	}
	return q, true
}

func parseSwitch(v []byte) (on, ok bool) {
	switch string(v) {
	case "1", "true":
		return true, true
	case "0", "false":
		return false, true
	}
	return false, false
}

// A list's token is its tag in hexadecimal.
const tokenDigits = 12

func appendToken(dst []byte, tag uint64) []byte {
	const hex = "0123456789abcdef"
	for shift := 4 * (tokenDigits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hex[tag>>shift&15])
	}
	return dst
}

func parseToken(v []byte) (uint64, bool) {
	if len(v) != tokenDigits {
		return 0, false
	}
	tag, err := strconv.ParseUint(string(v), 16, 64)
	return tag, err == nil
}

func (f *Feed) getPosition(w *server.Response, r *server.Request) server.Outcome {
	return f.onPosition(w, r, progress.Get())
}

func (f *Feed) deletePosition(w *server.Response, r *server.Request) server.Outcome {
	return f.onPosition(w, r, progress.Set(0))
}

func (f *Feed) putPosition(w *server.Response, r *server.Request) server.Outcome {
	var body struct {
		Position *int `json:"position"`
	}
	err := strictjson.Read(bytes.NewReader(r.Body), &body)
	if err == nil && body.Position == nil {
		err = errors.New("position must be there")
	}
	if err != nil {
		return conclude(w, &valueError{`the body must be {"position":N}, N a whole number from 0 to the length ` +
			`of the user's list: ` + err.Error()})
	}
	return f.onPosition(w, r, progress.Set(*body.Position))
}

// onPosition does op to a position, and answers with it.
func (f *Feed) onPosition(w *server.Response, r *server.Request, op progress.Op) server.Outcome {
	return f.handle(w, r, func(*server.Response, *server.Request) (query, bool) {
		return query{position: true, set: op}, true
	})
}

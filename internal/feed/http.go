package feed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

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
		{Pattern: "POST /admin/feeds/reload", Admin: true, Handler: f.postReload},
		{Pattern: "DELETE /admin/feeds/users/{userId}", Admin: true, Handler: f.deleteUser},
	}
}

// next answers GET and POST /feed/{userId}.
func (f *Feed) next(w *server.Response, r *server.Request) server.Outcome {
	err := f.tryNext(w, r)
	for err == progress.ErrSuperseded {
		err = f.tryNext(w, r)
	}
	return conclude(w, err)
}

func (f *Feed) tryNext(w *server.Response, r *server.Request) error {
	v, err := f.visit(r.Param(0), r.Stripe, r.Inline())
	if err != nil {
		return err
	}
	defer v.end()
	q, ok := parseQuery(w, r) // while what visit has asked for comes from memory
	if !ok {
		return nil
	}
	q.peek = q.peek || r.Method == http.MethodHead
	s := f.scratch.Get().(*scratch)
	defer f.scratch.Put(s)
	given, err := v.next(&q, s)
	if err != nil {
		return err
	}
	w.Field("Cache-Control", "no-store")
	if q.meta {
		w.Body = append(w.Body, `{"items":`...)
	}
	w.Body = appendItems(w.Body, v.g, given.own, given.fill)
	if q.meta {
		w.Body = append(w.Body, `,"position":`...)
		w.Body = strconv.AppendInt(w.Body, int64(given.position), 10)
		w.Body = append(w.Body, `,"remaining":`...)
		w.Body = strconv.AppendInt(w.Body, int64(v.list.Len()-given.position), 10)
		w.Body = append(w.Body, `,"fallback":`...)
		w.Body = strconv.AppendInt(w.Body, int64(len(given.fill)), 10)
		w.Body = append(w.Body, `,"list":"`...)
		w.Body = appendToken(w.Body, v.list.Tag())
		w.Body = append(w.Body, `"}`...)
	}
	return nil
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
		status, detail = http.StatusConflict, "the user's list is another than the one named by list; ask with meta=1 for the present one"
	case err == errNoList:
		status, detail = http.StatusNotFound, "there is no list for this user, so no position"
	case err == errNoItems:
		status, title, detail = http.StatusInternalServerError, "no feed items", "the user has no items left and there are no fallback items"
	case errors.Is(err, record.ErrCorrupt):
		status, detail = http.StatusServiceUnavailable, "the list cannot be read at the moment"
	default:
		status, detail = http.StatusServiceUnavailable, "positions cannot be saved at the moment, so no items are given"
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
	q := query{size: defaultSize, from: -1}
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
				w.Problem(http.StatusUnprocessableEntity, "size must be a whole number from 1 to 255; absent or 0 is 10")
				return q, false
			}
			q.size = int(n)
			if n == 0 {
				q.size = defaultSize
			}
		case "from":
			n, ok := parseNumber(value)
			if !ok || n > snapshot.MaxListLen {
				w.Problem(http.StatusUnprocessableEntity, "from must be a whole number from 0 to the length of the user's list, at most 65535")
				return q, false
			}
			q.from = int(n)
		case "list":
			if q.list, ok = parseToken(value); !ok {
				w.Problem(http.StatusUnprocessableEntity, "list must be the 12 hexadecimal digits that an answer with meta=1 carries")
				return q, false
			}
			q.hasList = true
		case "meta":
			if q.meta, ok = parseSwitch(value); !ok {
				w.Problem(http.StatusUnprocessableEntity, "meta must be 1 or 0")
				return q, false
			}
		case "peek":
			if q.peek, ok = parseSwitch(value); !ok {
				w.Problem(http.StatusUnprocessableEntity, "peek must be 1 or 0")
				return q, false
			}
		}
	}
	if q.hasList != (q.from >= 0) {
		w.Problem(http.StatusUnprocessableEntity, "from and list go together: both come with an answer to meta=1")
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
	return f.onPosition(w, r, (*visit).position)
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
		return conclude(w, &valueError{`the body must be {"position":N}, N a whole number from 0 to the length of the user's list: ` + err.Error()})
	}
	return f.onPosition(w, r, func(v *visit) (int, error) { return v.setPosition(*body.Position) })
}

func (f *Feed) deletePosition(w *server.Response, r *server.Request) server.Outcome {
	return f.onPosition(w, r, func(v *visit) (int, error) { return v.setPosition(0) })
}

// onPosition runs a function that reads or changes a position, and answers with the position it
// returns.
func (f *Feed) onPosition(w *server.Response, r *server.Request, do func(*visit) (int, error)) server.Outcome {
	err := f.tryPosition(w, r, do)
	for err == progress.ErrSuperseded {
		err = f.tryPosition(w, r, do)
	}
	return conclude(w, err)
}

func (f *Feed) tryPosition(w *server.Response, r *server.Request, do func(*visit) (int, error)) error {
	v, err := f.visit(r.Param(0), r.Stripe, r.Inline())
	if err != nil {
		return err
	}
	defer v.end()
	if err := v.read(); err != nil {
		return err
	}
	if err := v.g.lists.Check(v.list, 0, 0); err != nil {
		return err
	}
	if !v.known() {
		return errNoList
	}
	pos, err := do(&v)
	if err != nil {
		return err
	}
	w.Field("Cache-Control", "no-store")
	w.Body = fmt.Appendf(w.Body, `{"position":%d,"remaining":%d,"length":%d,"list":"`, pos, v.list.Len()-pos, v.list.Len())
	w.Body = append(appendToken(w.Body, v.list.Tag()), `"}`...)
	return nil
}

// deleteUser answers DELETE /admin/feeds/users/{userId}: it may have to look through all keys.
func (f *Feed) deleteUser(w *server.Response, r *server.Request) server.Outcome {
	if r.Inline() {
		return server.Offload
	}
	id := r.Param(0)
	if len(id) > snapshot.MaxUserName {
		return conclude(w, &valueError{fmt.Sprintf("userId must be of 1 to %d bytes", snapshot.MaxUserName)})
	}
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	forgotten, err := g.positions.Forget(f.background.Context(), userOf(g.lists, id))
	if err != nil {
		f.log.Error("a user could not be forgotten", "error", err)
		return conclude(w, err)
	}
	w.JSON(struct {
		Forgotten bool `json:"forgotten"`
	}{forgotten})
	return server.Done
}

// postReload answers POST /admin/feeds/reload.
func (f *Feed) postReload(w *server.Response, r *server.Request) server.Outcome {
	force := false
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if more && ok && string(key) == "force" {
			force, ok = parseSwitch(value)
		}
		if !ok {
			return conclude(w, &valueError{"force must be 1 or 0"})
		}
		if !more {
			break
		}
		rest = tail
	}
	if err := f.reloadBy(f.background.Context(), force); err != nil {
		w.Problem(http.StatusConflict, err.Error())
		return server.Done
	}
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	s := g.lists.Stats()
	w.JSON(struct {
		Generation uint64 `json:"generation"`
		Users      uint64 `json:"users"`
		Items      uint64 `json:"items"`
	}{g.number, s.Users, s.Items})
	return server.Done
}

package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/feed/snapshot"
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
		{Pattern: "GET /feed/{userId}", Fast: f.next, Ahead: f.ahead},
		{Pattern: "POST /feed/{userId}", Fast: f.next},
		{Pattern: "GET /feed/{userId}/position", Fast: f.getPosition},
		{Pattern: "PUT /feed/{userId}/position", Fast: f.putPosition},
		{Pattern: "DELETE /feed/{userId}/position", Fast: f.deletePosition},
		{Pattern: "POST /admin/feeds/reload", Admin: true, HTTP: http.HandlerFunc(f.postReload)},
	}
}

// query is what a request for items asks for.
type query struct {
	size       int
	meta, peek bool
	from       int // -1 when absent
	list       uint64
	hasList    bool
}

// next answers GET and POST /feed/{userId}.
func (f *Feed) next(w *server.Response, r *server.Request) {
	for {
		err := f.tryNext(w, r)
		if err == nil {
			return
		}
		if err != errSwapped {
			unavailable(w, err)
			return
		}
	}
}

func (f *Feed) tryNext(w *server.Response, r *server.Request) error {
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	u, ok := f.find(g, w, r)
	if !ok {
		return nil
	}
	q, ok := parseQuery(w, r) // while what find has asked for comes from memory
	if !ok || !u.read(g, w) {
		return nil
	}
	peek := q.peek || r.Method == http.MethodHead
	length := u.list.Len()
	if q.hasList && q.list != u.list.Tag() {
		w.Problem(http.StatusConflict, "the user's list is another than the one named by list; ask with meta=1 for the present one")
		return nil
	}
	if q.from > length {
		w.Problem(http.StatusUnprocessableEntity, fmt.Sprintf("from must be a whole number from 0 to %d, the length of the user's list", length))
		return nil
	}
	if q.size > maxNamesInline && g.lists.Items() == snapshot.String && w.Defer() {
		return nil
	}

	var at moved
	var err error
	switch {
	case !u.known():
		if g.fallback.costly(0) && w.Defer() {
			return nil
		}
	default:
		if at.position, err = f.position(g, &u); err != nil {
			return err
		}
		at.from = at.position
		if q.from >= 0 {
			at.from = q.from
		}
		at.to = min(at.from+q.size, length)
		// What may take long is stated before anything moves. Between here and there others
		// may move the user on, to a fill that was not foreseen: rare, and merely slow.
		if at.to-at.from < q.size && g.fallback.costly(length) && w.Defer() {
			return nil
		}
		switch {
		case peek:
		case q.from >= 0:
			at, err = f.replay(g, &u, q.from, q.size)
		default:
			at, err = f.advance(g, &u, q.size)
		}
		if err != nil {
			return err
		}
	}

	s := f.scratch.Get().(*scratch)
	defer f.scratch.Put(s)
	var fill []uint16
	if missing := q.size - (at.to - at.from); missing > 0 {
		var user []byte
		if g.fallback.ranking != nil {
			user = textOf(s, g, r.Param(0))
		}
		fill = g.fallback.pick(s, user, u.list, missing)
		f.stats.fallback.Add(r.Stripe, uint64(len(fill)))
		if len(fill) < missing {
			f.stats.short.Add(r.Stripe, 1)
			f.noteShort(g, r.Param(0), q.size, q.size-missing+len(fill))
		}
	}
	if at.from == at.to && len(fill) == 0 {
		f.stats.empty.Add(r.Stripe, 1)
		w.ProblemTitle(http.StatusInternalServerError, "no feed items", "the user has no items left and there are no fallback items")
		return nil
	}
	f.stats.items.Add(r.Stripe, uint64(at.to-at.from))

	w.Field("Cache-Control", "no-store")
	if q.meta {
		w.Body = append(w.Body, `{"items":`...)
	}
	s.items = u.list.Append(s.items[:0], at.from, at.to)
	w.Body = appendItems(w.Body, g, s.items, fill)
	if q.meta {
		w.Body = append(w.Body, `,"position":`...)
		w.Body = strconv.AppendInt(w.Body, int64(at.position), 10)
		w.Body = append(w.Body, `,"remaining":`...)
		w.Body = strconv.AppendInt(w.Body, int64(length-at.position), 10)
		w.Body = append(w.Body, `,"fallback":`...)
		w.Body = strconv.AppendInt(w.Body, int64(len(fill)), 10)
		w.Body = append(w.Body, `,"list":"`...)
		w.Body = appendToken(w.Body, u.list.Tag())
		w.Body = append(w.Body, `"}`...)
	}
	return nil
}

// textOf returns the text of a user's id as others know it: of a number without leading zeros.
func textOf(s *scratch, g *generation, id []byte) []byte {
	if g.lists.Users() == snapshot.String {
		return id
	}
	n, _ := parseNumber(id) // find has seen that it is one
	s.user = appendNumber(s.user[:0], n)
	return s.user
}

// maxNamesInline bounds the items with names that are rendered inline.
const maxNamesInline = 64

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

// find looks the request's user up and asks the processor for what read and the look at the
// position will want. It answers by itself, and returns false, when the id is malformed or the
// request is to be deferred. A user that is not in the snapshot is found as unknown.
func (f *Feed) find(g *generation, w *server.Response, r *server.Request) (u user, ok bool) {
	if !g.lists.Dense() && !g.lists.InMemory() && w.Defer() {
		return user{}, false // finding may wait for the disk
	}
	id := r.Param(0)
	var number uint64
	var name []byte
	var found bool
	if g.lists.Users() == snapshot.String {
		if len(id) > snapshot.MaxUserName {
			w.Problem(http.StatusUnprocessableEntity, fmt.Sprintf("userId must be of 1 to %d bytes", snapshot.MaxUserName))
			return user{}, false
		}
		name = id
		u.rank, found = g.lists.FindString(id)
	} else {
		if number, ok = parseNumber(id); !ok {
			w.Problem(http.StatusUnprocessableEntity, "userId must be a whole number from 0 to 18446744073709551615")
			return user{}, false
		}
		u.rank, found = g.lists.FindNumber(number)
	}
	if !found {
		return user{}, true
	}
	if !g.lists.Resident(u.rank) {
		if w.Defer() {
			return user{}, false // reading may wait for the disk
		}
		g.lists.Fetch(u.rank)
	}
	u.store, u.cell = f.slots.cell(g, u.rank, number, name)
	// Both are far apart and in no cache, 0.28 us each where that was measured: asked for
	// together, the two waits are one.
	u.store.Prefetch(u.cell)
	g.lists.Prefetch(u.rank)
	return u, true
}

// ahead asks the processor for what find will ask it for, of several users at once: most of such a wait is for the address to be
// translated, and waits that begin close together are one. Only lists are asked for that are found without waiting.
func (f *Feed) ahead(stripe int, params [][]byte) {
	g := f.pin(stripe)
	defer g.unpin(stripe)
	if !g.lists.Dense() || !g.lists.InMemory() {
		return
	}
	var ranks [64]uint64
	for len(params) > 0 {
		n := 0
		for ; n < len(ranks) && len(params) > 0; params = params[1:] {
			if rank, ok := parseNumber(params[0]); ok && rank < g.lists.Slots() {
				ranks[n] = rank
				n++
			}
		}
		for _, rank := range ranks[:n] {
			store, cell := f.slots.cell(g, rank, rank, nil)
			store.Prefetch(cell)
			g.lists.Prefetch(rank)
		}
	}
}

// read reads the list of a user that find has found. It answers by itself and returns false when
// the list is damaged.
func (u *user) read(g *generation, w *server.Response) bool {
	if u.store == nil {
		return true
	}
	list, err := g.lists.List(u.rank)
	if err != nil {
		unavailable(w, err)
		return false
	}
	u.list = list
	return true
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

// unavailable answers when positions cannot be saved or lists not be read.
func unavailable(w *server.Response, err error) {
	if errors.Is(err, snapshot.ErrCorrupt) {
		w.Problem(http.StatusServiceUnavailable, "the list cannot be read at the moment")
		return
	}
	w.Problem(http.StatusServiceUnavailable, "positions cannot be saved at the moment, so no items are given")
}

func (f *Feed) noteShort(g *generation, id []byte, asked, came int) {
	a := shortAnswer{asked: asked, came: came}
	if g.lists.Users() == snapshot.String {
		a.name = string(id)
	} else {
		a.number, _ = parseNumber(id)
	}
	f.short.note(a)
}

func (f *Feed) getPosition(w *server.Response, r *server.Request) {
	f.onPosition(w, r, func(g *generation, u *user) (int, error) { return f.position(g, u) })
}

func (f *Feed) putPosition(w *server.Response, r *server.Request) {
	var body struct {
		Position *int `json:"position"`
	}
	err := strictjson.Read(bytes.NewReader(r.Body), &body)
	if err == nil && body.Position == nil {
		err = errors.New("position must be there")
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, `the body must be {"position":N}, N a whole number from 0 to the length of the user's list: `+err.Error())
		return
	}
	f.onPosition(w, r, func(g *generation, u *user) (int, error) {
		if *body.Position < 0 || *body.Position > u.list.Len() {
			w.Problem(http.StatusUnprocessableEntity, fmt.Sprintf("position must be a whole number from 0 to %d, the length of the user's list", u.list.Len()))
			return 0, errAnswered
		}
		_, position, err := f.set(g, u, func(int) int { return *body.Position })
		return position, err
	})
}

func (f *Feed) deletePosition(w *server.Response, r *server.Request) {
	f.onPosition(w, r, func(g *generation, u *user) (int, error) {
		_, position, err := f.set(g, u, func(int) int { return 0 })
		return position, err
	})
}

// errAnswered means that the answer is written already.
var errAnswered = errors.New("answered")

// onPosition runs a function that reads or changes a position, and answers with the position it
// returns.
func (f *Feed) onPosition(w *server.Response, r *server.Request, do func(*generation, *user) (int, error)) {
	for {
		err := f.tryPosition(w, r, do)
		if err == nil || err == errAnswered {
			return
		}
		if err != errSwapped {
			unavailable(w, err)
			return
		}
	}
}

func (f *Feed) tryPosition(w *server.Response, r *server.Request, do func(*generation, *user) (int, error)) error {
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	u, ok := f.find(g, w, r)
	if !ok || !u.read(g, w) {
		return nil
	}
	if !u.known() {
		w.Problem(http.StatusNotFound, "there is no list for this user, so no position")
		return nil
	}
	pos, err := do(g, &u)
	if err != nil {
		return err
	}
	w.Field("Cache-Control", "no-store")
	w.Body = fmt.Appendf(w.Body, `{"position":%d,"remaining":%d,"length":%d,"list":"`, pos, u.list.Len()-pos, u.list.Len())
	w.Body = append(appendToken(w.Body, u.list.Tag()), `"}`...)
	return nil
}

// postReload answers POST /admin/feeds/reload.
func (f *Feed) postReload(w http.ResponseWriter, r *http.Request) {
	if err := f.Reload(r.Context()); err != nil {
		server.WriteProblem(w, http.StatusConflict, err.Error())
		return
	}
	g := f.pin(0)
	defer g.unpin(0)
	s := g.lists.Stats()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct { //nolint:errcheck // the client may be gone
		Generation uint64 `json:"generation"`
		Users      uint64 `json:"users"`
		Items      uint64 `json:"items"`
	}{g.number, s.Users, s.Items})
}

package mock

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/server"
)

// query is what a request for a feed asks for.
type query struct {
	seed   uint64
	format Format
	knobs  Knobs
	always bool // the URL has a status and no error: every answer has that status
	head   bool // no body is sent
	// What the request says besides.
	path, raw                        []byte // its URL, as it came
	accept, noneMatch, modifiedSince []byte // of its header
}

// parse reads a feed's name and the parameters. The error is for the client.
func (s *Server) parse(q *query, name []byte, r *server.Request) error {
	q.knobs = *s.knobs.Load()
	if err := q.parseName(name); err != nil {
		return err
	}
	if len(r.Query) == 0 {
		return nil
	}
	given := 0
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !ok {
			return fmt.Errorf("the query holds a malformed percent-escape: write %%25 for a percent sign")
		}
		if !more {
			break
		}
		rest = tail
		i := find(key)
		switch {
		case i < 0:
			return fmt.Errorf("there is no parameter %.60q; there are %s", key, strings.Join(Names(), ", "))
		case given&(1<<i) != 0:
			return fmt.Errorf("%s is given twice", table[i].name)
		case !table[i].set(&q.knobs, string(value)):
			return table[i].wrong(string(value))
		}
		given |= 1 << i
	}
	q.always = given&statusBit != 0 && given&errorBit == 0
	if q.format == JSON {
		if given&charsetBit != 0 && q.knobs.Charset != 0 {
			return fmt.Errorf("charset must be utf-8 for a JSON feed: JSON has no other; ask for .rss or " +
				".atom")
		}
		q.knobs.Charset = 0 // whatever the default is
		if d := &damages[q.knobs.Malformed]; given&malformedBit != 0 && !d.json {
			return fmt.Errorf("malformed must not be %s for a JSON feed: %s are XML's; ask for .rss or .atom",
				d.name, d.what)
		}
	}
	return q.knobs.together()
}

// Bits of the table, for those knobs that depend on each other.
var (
	statusBit    = 1 << find([]byte("status"))
	errorBit     = 1 << find([]byte("error"))
	charsetBit   = 1 << find([]byte("charset"))
	malformedBit = 1 << find([]byte("malformed"))
)

// parseName reads {seed}.{rss,atom,json}.
func (q *query) parseName(name []byte) error {
	seed, ending, _ := bytes.Cut(name, []byte{'.'})
	for f, n := range formatNames {
		if string(ending) != n {
			continue
		}
		n, err := strconv.ParseUint(string(seed), 10, 64)
		if err != nil || len(seed) > 1 && seed[0] == '0' || seed[0] == '+' {
			return fmt.Errorf("seed must be a whole number from 0 to 18446744073709551615, got %.60q", seed)
		}
		q.seed, q.format = n, Format(f)
		return nil
	}
	return fmt.Errorf("the path must be /feed/{seed}.rss, .atom or .json, got %.60q", name)
}

// draw is what happens to the request of that number.
func (q *query) draw(step int64, number uint64) outcome {
	f := q.knobs.draw(q.seed, step, number)
	if q.always {
		f.fail = true
	}
	return f
}

// fails says whether an outcome's answer has no feed in it.
func (q *query) fails(f outcome) bool {
	return f.fail && (q.knobs.Status >= 300 || q.knobs.Status == http.StatusNoContent)
}

// refuse answers a request that was not understood.
func (s *Server) refuse(w *server.Response, err error) {
	w.Problem(http.StatusBadRequest, err.Error())
	s.stats.asked("refused")
	s.stats.answered(w, false)
}

// answer answers with a feed, or with the status that errors have.
func (s *Server) answer(w *server.Response, q *query, f outcome, step int64) {
	if q.fails(f) {
		s.fail(w, q)
		return
	}
	p := s.page(q, f.damage, step, q.knobs.negotiate(q.accept))
	body, ok := s.pages.GetIfPresent(p)
	if !ok {
		body = s.render(p)
		s.stats.count(func(c *Stats) { c.Rendered++ })
		s.keep(p, body)
	}
	s.give(w, q, p, body, f)
}

// atHand says whether an answer needs no rendering, and is short enough for an event loop.
func (s *Server) atHand(q *query, f outcome, step int64) bool {
	if q.fails(f) {
		return true
	}
	body, ok := s.pages.GetIfPresent(s.page(q, f.damage, step, q.knobs.negotiate(q.accept)))
	return ok && len(body.body) <= server.InlineBytes-2048
}

// fail answers with the status that errors have.
func (s *Server) fail(w *server.Response, q *query) {
	s.stats.count(func(c *Stats) { c.Errors++ })
	switch status := q.knobs.Status; status {
	case http.StatusNoContent, http.StatusNotModified:
		w.Status = status
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		w.Problem(status, "the feed is where Location says")
		w.Field("Location", q.whereToGo())
	default:
		title := http.StatusText(status)
		if title == "" {
			title = "Made-up status"
		}
		w.Status, w.ContentType = status, "application/problem+json"
		w.Field("Cache-Control", "no-store")
		if k := &q.knobs; k.Retry > 0 &&
			(status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
			w.FieldInt("Retry-After", int((k.Retry+time.Second-1)/time.Second))
		}
		w.Body = server.AppendProblem(w.Body[:0], status, title,
			"this status was asked for, by error= and status= or by the defaults of --error and --status")
	}
	s.stats.answered(w, q.head)
}

// whereToGo is where a redirect leads: Location, or the same feed, without the error once all redirects of
// the chain are behind.
func (q *query) whereToGo() string {
	k := &q.knobs
	if k.Location != "" {
		return k.Location
	}
	to := fmt.Appendf(nil, "%s?error=0", q.path)
	if k.Redirects != 1 {
		to = fmt.Appendf(nil, "%s?status=%d&redirects=%d", q.path, k.Status, max(k.Redirects-1, 0))
	}
	for pair := range bytes.SplitSeq(q.raw, []byte{'&'}) {
		switch name, _, _ := bytes.Cut(pair, []byte{'='}); string(name) {
		case "", "error", "status", "redirects":
		default:
			to = append(append(to, '&'), pair...)
		}
	}
	return string(to)
}

// give answers with a feed, or says that the client has it.
func (s *Server) give(w *server.Response, q *query, p page, r *rendered, f outcome) {
	k := &q.knobs
	conditional := len(q.noneMatch) > 0 || len(q.modifiedSince) > 0
	w.Status = http.StatusOK
	if f.fail { // with a status that means success
		w.Status = k.Status
	}
	if k.ETag != None {
		var memory [48]byte
		tag := memory[:0]
		if k.ETag == Weak {
			tag = append(tag, "W/"...)
		}
		tag = append(append(append(tag, '"'), r.tag...), '"')
		w.Field("ETag", string(tag))
		if conditional && len(q.noneMatch) > 0 && matches(q.noneMatch, r.tag) {
			w.Status = http.StatusNotModified
		}
	}
	if k.LastModified {
		w.Field("Last-Modified", r.lastModified)
		if conditional && len(q.noneMatch) == 0 && notSince(q.modifiedSince, r) {
			w.Status = http.StatusNotModified
		}
	}
	if k.TTL > 0 {
		w.Field("Cache-Control", "max-age="+strconv.Itoa(int(k.TTL/time.Second)))
	}
	if k.Gzip == Auto || k.Brotli == Auto {
		w.Field("Vary", "Accept-Encoding")
	}
	if w.Status == http.StatusNotModified {
		s.stats.feed(q, p, w)
		return
	}
	w.ContentType = r.contentType
	if p.coding != identity {
		w.Field("Content-Encoding", codingNames[p.coding])
	}
	w.Body = append(w.Body, r.body...)
	s.stats.feed(q, p, w)
}

// matches says whether an If-None-Match field names a tag. It compares weakly (RFC 9110, 13.1.2).
func matches(field []byte, tag string) bool {
	for len(field) > 0 {
		var one []byte
		one, field, _ = bytes.Cut(field, []byte{','})
		one = bytes.TrimPrefix(bytes.TrimSpace(one), []byte("W/"))
		if string(one) == "*" {
			return true
		}
		if n := len(one); n >= 2 && one[0] == '"' && one[n-1] == '"' && string(one[1:n-1]) == tag {
			return true
		}
	}
	return false
}

// notSince says whether a page has not changed since the time of an If-Modified-Since field.
func notSince(field []byte, r *rendered) bool {
	if string(field) == r.lastModified { // nearly always
		return true
	}
	t, err := http.ParseTime(string(field))
	return err == nil && r.modified <= t.Unix()
}

package mock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/server"
)

// Routes implements server.Service.
func (s *Server) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /feed/{name}", Handler: s.feed, Stream: http.HandlerFunc(s.slowFeed)},
		{Pattern: "GET /", Class: server.Critical, Handler: s.index},
		{Pattern: "GET /knobs", Class: server.Critical, Handler: s.getKnobs},
		{Pattern: "PUT /knobs", Class: server.Critical, MaxBody: 16 << 10, Handler: notFromPages(s.putKnobs)},
		{Pattern: "GET /clock", Class: server.Critical, Handler: s.getClock},
		{Pattern: "POST /clock", Class: server.Critical, MaxBody: 4 << 10,
			Handler: notFromPages(s.postClock)},
		{Pattern: "GET /stats", Class: server.Critical, Handler: s.getStats},
		{Pattern: "DELETE /stats", Class: server.Critical, Handler: notFromPages(s.deleteStats)},
	}
}

// notFromPages refuses what browsers ask for pages: any site could change the feeds else.
func notFromPages(handle func(*server.Response, *server.Request) server.Outcome) func(*server.Response,
	*server.Request) server.Outcome {
	return func(w *server.Response, r *server.Request) server.Outcome {
		if len(r.Header("Origin")) > 0 || len(r.Header("Sec-Fetch-Site")) > 0 {
			return refuseWith(w, http.StatusForbidden,
				"pages may not change this: ask with curl, or from a program")
		}
		return handle(w, r)
	}
}

// ServeHTTP answers without a kernel.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// feed answers what can be answered at once, and gives what waits or ends in the middle to net/http, which
// may hold a connection or cut it off. A request gets its number only when it is answered here: until then
// another one may.
func (s *Server) feed(w *server.Response, r *server.Request) server.Outcome {
	q := query{head: r.Method == http.MethodHead, path: r.Path, raw: r.Query}
	if err := s.parse(&q, r.Param(0), r); err != nil {
		s.refuse(w, err)
		return server.Done
	}
	if q.knobs.Delay > 0 || q.knobs.Jitter > 0 || q.knobs.Trickle > 0 {
		return server.NetHTTP
	}
	q.accept, q.noneMatch, q.modifiedSince = r.Header("Accept-Encoding"), r.Header("If-None-Match"),
		r.Header("If-Modified-Since")
	step := s.clock.step()
	count := s.numbers.of(q.seed)
	for {
		number := count.Load()
		f := q.draw(step, number)
		if f.hang || f.damage == cut {
			return server.NetHTTP
		}
		if r.Inline() && !s.atHand(&q, f, step) {
			return server.Offload
		}
		if count.CompareAndSwap(number, number+1) {
			s.stats.asked(formatNames[q.format])
			s.answer(w, &q, f, step)
			return server.Done
		}
	}
}

// slowFeed answers everything: it may wait.
func (s *Server) slowFeed(w http.ResponseWriter, r *http.Request) {
	var resp server.Response
	q := query{head: r.Method == http.MethodHead, path: []byte(r.URL.EscapedPath()),
		raw: []byte(r.URL.RawQuery)}
	if err := s.parse(&q, []byte(r.PathValue("name")), &server.Request{Query: q.raw}); err != nil {
		s.refuse(&resp, err)
		resp.Write(w, r)
		return
	}
	field := func(name string) []byte { return []byte(strings.Join(r.Header.Values(name), ",")) }
	q.accept, q.noneMatch, q.modifiedSince = field("Accept-Encoding"), field("If-None-Match"),
		[]byte(r.Header.Get("If-Modified-Since"))
	s.stats.asked(formatNames[q.format])
	number := s.numbers.of(q.seed).Add(1) - 1
	f := q.draw(s.clock.step(), number)
	if !s.wait(r, f) {
		panic(http.ErrAbortHandler)
	}
	s.answer(&resp, &q, f, s.clock.step())
	out := paced{ResponseWriter: w, wait: s.pause(r), left: len(resp.Body)}
	if !q.fails(f) {
		out.over = q.knobs.Trickle
	}
	half := f.damage == cut && !q.fails(f) && len(resp.Body) > 0 && !q.head
	if half {
		out.left /= 2
	}
	resp.Write(&out, r)
	if half {
		http.NewResponseController(w).Flush() //nolint:errcheck // the client may be gone
		panic(http.ErrAbortHandler)
	}
}

// wait holds a request back. It returns false when there is nobody, or nothing, to be answered.
func (s *Server) wait(r *http.Request, f outcome) bool {
	if !f.hang && f.wait == 0 {
		return true
	}
	s.stats.count(func(c *Stats) { c.Waiting++ })
	defer s.stats.count(func(c *Stats) { c.Waiting-- })
	if f.hang {
		s.stats.count(func(c *Stats) { c.Hung++ })
		select {
		case <-r.Context().Done():
		case <-s.stopped.Done():
		}
		return false
	}
	s.stats.count(func(c *Stats) { c.Delayed++ })
	return s.pause(r)(f.wait)
}

// pause returns what waits for a while, or until the mock is stopped. It returns false once the client has
// gone.
func (s *Server) pause(r *http.Request) func(time.Duration) bool {
	return func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.stopped.Done():
		case <-r.Context().Done():
			return false
		}
		return true
	}
}

// paced sends a body over a while, at least one piece a second, and drops what is beyond left.
type paced struct {
	http.ResponseWriter
	wait func(time.Duration) bool
	over time.Duration
	left int
}

func (p *paced) Write(body []byte) (int, error) {
	sent := body[:min(len(body), p.left)]
	p.left -= len(sent)
	pieces := 1
	if p.over > 0 {
		pieces = max(10, int(p.over/time.Second))
	}
	for i := range pieces {
		if p.over > 0 {
			http.NewResponseController(p.ResponseWriter).Flush() //nolint:errcheck // the client may be gone
			if !p.wait(p.over / time.Duration(pieces)) {
				return 0, http.ErrAbortHandler
			}
		}
		if _, err := p.ResponseWriter.Write(sent[len(sent)*i/pieces : len(sent)*(i+1)/pieces]); err != nil {
			return 0, err
		}
	}
	return len(body), nil
}

// writeJSON answers with what is only true now.
func writeJSON(w *server.Response, v any) server.Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(v)
	return server.Done
}

func refuseWith(w *server.Response, status int, detail string) server.Outcome {
	w.Problem(status, detail)
	return server.Done
}

func (s *Server) index(w *server.Response, _ *server.Request) server.Outcome {
	var b strings.Builder
	b.WriteString("weir mock: feeds made up for tests\n\n" +
		"GET    /feed/{seed}.rss, .atom, .json   a feed; parameters below\n" +
		"GET    /knobs                           the defaults of the parameters\n" +
		"PUT    /knobs                           changes some: {\"delay\":\"50ms\",\"error\":0.01}\n" +
		"GET    /clock                           the step it is\n" +
		"POST   /clock                           moves a stepped clock: {\"advance\":1} or {\"step\":10}\n" +
		"GET    /stats                           what was asked and answered; ?seed=7 how often for that " +
		"seed\n" +
		"DELETE /stats                           sets the counts to 0\n\nParameters, and their defaults " +
		"now:\n\n")
	k := s.Knobs()
	for i := range table {
		value, _ := table[i].show(&k)
		fmt.Fprintf(&b, "  %-10s %-10s %s\n", table[i].name, value,
			strings.ReplaceAll(table[i].usage, "--", ""))
	}
	b.WriteString("\nmalformed is one of\n\n")
	for i := range damages {
		fmt.Fprintf(&b, "  %-12s %s\n", damages[i].name, damages[i].what)
	}
	b.WriteString("\ncharset is one of " + strings.Join(charsetNames(), ", ") + "\n")
	w.ContentType = "text/plain; charset=utf-8"
	w.Field("Cache-Control", "no-store")
	w.Body = append(w.Body, b.String()...)
	return server.Done
}

func (s *Server) getKnobs(w *server.Response, _ *server.Request) server.Outcome {
	return writeJSON(w, s.Knobs())
}

// putKnobs answers PUT /knobs: what the body names is changed, all of it or nothing.
func (s *Server) putKnobs(w *server.Response, r *server.Request) server.Outcome {
	s.turning.Lock()
	k := s.Knobs()
	err := json.Unmarshal(r.Body, &k)
	if err == nil {
		s.knobs.Store(&k)
	}
	s.turning.Unlock()
	if _, none := errors.AsType[*json.SyntaxError](err); none {
		err = fmt.Errorf(`the body must be a JSON object of knobs, such as {"delay":"50ms","error":0.01}: %w`,
			err)
	}
	if err != nil {
		return refuseWith(w, http.StatusBadRequest, err.Error())
	}
	return writeJSON(w, k)
}

type moment struct {
	Clock   string    `json:"clock"` // real or stepped
	Step    int64     `json:"step"`
	Seconds float64   `json:"step_seconds"`
	Time    time.Time `json:"time"` // when the step began
}

func (s *Server) getClock(w *server.Response, _ *server.Request) server.Outcome {
	m := moment{Clock: "real", Step: s.clock.step(), Seconds: s.clock.length.Seconds()}
	if s.clock.stepped {
		m.Clock = "stepped"
	}
	m.Time = time.Unix(epoch.Unix()+int64(float64(m.Step)*m.Seconds), 0).UTC()
	return writeJSON(w, m)
}

// postClock answers POST /clock; without a body it moves on by one step.
func (s *Server) postClock(w *server.Response, r *server.Request) server.Outcome {
	const expected = `the body must be {"advance":N} or {"step":N}, N a whole number, or nothing for one step`
	var move struct{ Advance, Step *int64 }
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	err := d.Decode(&move)
	if err == io.EOF {
		one := int64(1)
		move.Advance, err = &one, nil
	} else if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("more than one value")
	}
	switch {
	case err != nil || (move.Advance == nil) == (move.Step == nil):
		return refuseWith(w, http.StatusBadRequest, expected)
	case move.Advance != nil:
		err = s.clock.advance(*move.Advance)
	default:
		err = s.clock.set(*move.Step)
	}
	switch {
	case errors.Is(err, errRealClock):
		return refuseWith(w, http.StatusConflict, err.Error())
	case err != nil:
		return refuseWith(w, http.StatusBadRequest, err.Error())
	default:
		return s.getClock(w, r)
	}
}

func (s *Server) getStats(w *server.Response, r *server.Request) server.Outcome {
	params, err := url.ParseQuery(string(r.Query))
	if err != nil || len(params) > 1 || len(params) == 1 && len(params["seed"]) != 1 {
		return refuseWith(w, http.StatusBadRequest, "the only parameter is seed")
	}
	if !params.Has("seed") {
		return writeJSON(w, s.Stats())
	}
	seed, err := strconv.ParseUint(params.Get("seed"), 10, 64)
	if err != nil {
		return refuseWith(w, http.StatusBadRequest,
			fmt.Sprintf("seed must be a whole number from 0 to 18446744073709551615, got %.60q",
				params.Get("seed")))
	}
	return writeJSON(w, struct {
		Seed     uint64 `json:"seed"`
		Requests uint64 `json:"requests"`
	}{seed, s.Requests(seed)})
}

func (s *Server) deleteStats(w *server.Response, _ *server.Request) server.Outcome {
	s.ResetStats()
	w.Status = http.StatusNoContent
	return server.Done
}

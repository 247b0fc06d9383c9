package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/shed"
)

// netHTTPLane answers by net/http what the event loops do not: requests handed off, TLS and HTTP/2, the admin
// port, and everything on systems without epoll. It runs the same handlers.
type netHTTPLane struct {
	s      *Server
	routes *router
	calls  sync.Pool // of *netHTTPCall
}

// netHTTPCall is what a fast handler needs when net/http calls it.
type netHTTPCall struct {
	req  Request
	resp Response
	path []byte
	qry  []byte
	body []byte

	sheds bool // whether it may be rejected
	draw  uint32
}

// rejects implements lane.
func (call *netHTTPCall) rejects(c Class) bool {
	return call.sheds && call.req.s.shed.RejectProbability().Rejects(c, call.draw)
}

func newNetHTTPLane(s *Server, routes *router) *netHTTPLane {
	return &netHTTPLane{s: s, routes: routes, calls: sync.Pool{New: func() any { return new(netHTTPCall) }}}
}

// NewHandler returns what answers routes through net/http alone, without a Server.
func NewHandler(routes ...Route) http.Handler {
	s := new(Server)
	if err := s.cfg.Fill(); err != nil {
		panic("BUG: the defaults cannot work: " + err.Error())
	}
	s.live.Store(&s.cfg)
	s.registerMetrics()
	s.routes.nothing, s.unrouted = NothingHere, s.newRoute(Route{Pattern: "unrouted"})
	for _, r := range routes {
		s.routes.add(s.newRoute(r))
	}
	return newNetHTTPLane(s, &s.routes)
}

// handedOffKey marks the context of connections over which requests are handed off.
type handedOffKey struct{}

// fromLoop is such a connection.
type fromLoop interface{ fromLoop() }

// ServeHTTP routes a request exactly as the event loops do.
func (l *netHTTPLane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	call := l.calls.Get().(*netHTTPCall)
	defer l.calls.Put(call)
	call.path = append(call.path[:0], cmp.Or(r.URL.EscapedPath(), "/")...)
	call.req = Request{Method: r.Method, Path: call.path, Stripe: l.s.cfg.sharedStripe(), s: l.s,
		ctx:    r.Context(),
		header: call.req.header[:0], decoded: call.req.decoded[:0]}
	call.resp.reset()

	answer := func() {
		call.resp.Write(w, r)
		if call.req.route != nil {
			l.s.count(call.req.route, call.req.Stripe, call.resp.Status, time.Since(start))
		} else if l.routes == &l.s.routes {
			l.s.count(l.s.unrouted, call.req.Stripe, call.resp.Status, time.Since(start))
		}
	}
	route, at := l.routes.find(r.Method, call.path, &call.req.params)
	handed := r.Context().Value(handedOffKey{}) != nil
	if !handed && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// net/http hides a Content-Length beside the chunks, after which RFC 9112 wants the connection
		// closed.
		w.Header().Set("Connection", "close")
	}
	if handed {
		call.body = call.body[:0]
	} else if err := l.receive(call, route, w, r, start); err != nil {
		w.Header().Set("Connection", "close")
		call.resp.Problem(err.status, err.detail)
		answer()
		return
	}
	if route != nil && !call.req.decodeParams() {
		route, at = nil, nil
	}
	if route == nil {
		l.routes.noRoute(&call.resp, r.Method, at)
		answer()
		return
	}
	debug.SetPanicOnFault(true)
	call.req.route, call.req.class = route, route.Class
	if !handed && !route.Admin {
		l.s.detached.Add(1)
		defer l.s.detached.Add(-1)
	}
	// What a loop has handed off has been admitted, and has passed its handler.
	call.sheds, call.draw = l.s.shed != nil && !handed && !route.Admin, shed.Draw()
	stream := handed
	rejected := call.rejects(route.Class)
	switch {
	case rejected:
	case isCoded(r):
		refuseCoding(&call.resp)
	case !handed:
		var done func()
		done, stream = l.handle(call, route, w, r)
		if rejected = call.req.rejected; done != nil && !rejected {
			answer = done
		}
	}
	switch {
	case rejected:
		l.s.reject(&call.resp, &call.req)
		call.resp.Write(w, r)
		return
	case call.sheds:
		l.s.shed.Count(call.req.Stripe, call.req.class, 1, 0)
	}
	if !stream {
		answer()
		return
	}
	for i, name := range route.names {
		r.SetPathValue(name, string(call.req.params[i]))
	}
	status := &statusWriter{ResponseWriter: w}
	defer func() { l.s.count(route, call.req.Stripe, status.status(), time.Since(start)) }()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			fault := l.s.panicked(route, p)
			if status.code != 0 {
				// Part of the answer has left: only cutting it off tells the client.
				panic(http.ErrAbortHandler)
			}
			writePanicked(status, fault)
		}
	}()
	route.Stream.ServeHTTP(status, r)
}

// isCoded reports whether a request has a body with a content coding.
func isCoded(r *http.Request) bool {
	return r.Body != http.NoBody && slices.ContainsFunc(r.Header["Content-Encoding"],
		func(v string) bool { return isCoding([]byte(v)) })
}

func writePanicked(w http.ResponseWriter, fault bool) {
	if fault {
		WriteProblem(w, http.StatusServiceUnavailable,
			"the data behind this answer cannot be read at the moment")
		return
	}
	WriteProblem(w, http.StatusInternalServerError,
		"the request failed inside the server and has been logged")
}

// receive reads the body of a request, or returns why the request is refused: for what the event loops
// refuse, too, as far as net/http shows it. With an error the deadline stays, as net/http goes on reading
// then.
func (l *netHTTPLane) receive(call *netHTTPCall, route *route, w http.ResponseWriter, r *http.Request,
	start time.Time) *parseError {
	if r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") {
		h := head{method: r.Method, target: []byte(r.RequestURI)}
		if err := h.otherForm(); err != nil {
			return err
		}
	}
	if !isHost([]byte(r.Host)) && (r.Host != "" || r.ProtoAtLeast(1, 1)) {
		return errHost
	}
	if !isTarget(r.RequestURI) {
		return errTarget
	}
	if r.Body == http.NoBody {
		call.body = call.body[:0]
		return nil
	}
	control := http.NewResponseController(w)
	control.SetReadDeadline(
		start.Add(l.s.live.Load().RequestTimeout)) //nolint:errcheck // every connection here has one
	var err error
	call.body, err = readBody(call.body[:0], r.Body, l.s.maxBody(route))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.s.closed[closedRequest].Add(call.req.Stripe, 1)
		return errRequestTimeout
	case errors.Is(err, errBodyTooLong):
		return l.s.tooLong(route)
	case err != nil:
		return errBody
	}
	control.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	return nil
}

var errBody = bad("the body could not be read to its end")

// handle calls the route's handler. It returns what answers the request, nil where that is in the response,
// or that the route's Stream does.
func (l *netHTTPLane) handle(call *netHTTPCall, route *route, w http.ResponseWriter,
	r *http.Request) (answer func(), stream bool) {
	call.qry = append(call.qry[:0], r.URL.RawQuery...)
	call.req.Query, call.req.Body = call.qry, call.body
	call.req.header = appendFields(call.req.header, r)
	call.req.lane, call.req.remote = call, r.RemoteAddr
	call.req.inline = route.Limits != nil // which then says what runs on a goroutine that it can leave behind
	if l.s.isDown(&call.resp, route) {
		return nil, false
	}
	outcome := l.s.run(&call.resp, &call.req)
	if outcome == WhenIdle {
		call.req.inline = false
		call.resp.reset()
		outcome = l.s.run(&call.resp, &call.req)
	}
	switch {
	case call.req.rejected:
	case outcome == Offload:
		if b := l.s.bound(&call.resp, &call.req); b != nil {
			stripe := call.req.Stripe
			l.s.bounded.Go(func() { b.run(stripe) })
			return func() { l.s.answerPending(b.by, w, r) }, false
		}
	case outcome == Pending:
		return func() { l.s.answerPending(call.req.completion, w, r) }, false
	case outcome == NetHTTP:
		if r.Body != http.NoBody {
			r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(call.body)))
		}
		return nil, true
	}
	return nil, false
}

// answerPending awaits the answer to a request and writes it.
func (s *Server) answerPending(c *Completion, w http.ResponseWriter, r *http.Request) {
	there := make(chan struct{})
	c.deliver(func() { close(there) })
	select {
	case <-there:
	case <-r.Context().Done():
		c.abandon()
		panic(http.ErrAbortHandler)
	}
	a := c.take()
	a.Write(w, r)
	s.count(c.route, s.cfg.sharedStripe(), a.Status, time.Since(c.since))
}

// appendFields writes a request's headers as the event loops see them.
func appendFields(dst []byte, r *http.Request) []byte {
	dst = fmt.Appendf(dst, "Host: %s\r\n", r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			dst = fmt.Appendf(dst, "%s: %s\r\n", name, v)
		}
	}
	return dst
}

var errBodyTooLong = errors.New("body too long")

func readBody(dst []byte, body io.Reader, limit int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, errBodyTooLong
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// wildcards returns the names in a pattern's path, in order.
func wildcards(path string) []string {
	var names []string
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, "{") {
			names = append(names, strings.TrimSuffix(strings.Trim(segment, "{}"), "..."))
		}
	}
	return names
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the writer beneath, for Flush and deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush keeps handlers that look for http.Flusher working.
func (w *statusWriter) Flush() {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	http.NewResponseController(w.ResponseWriter).Flush() //nolint:errcheck // the client may be gone
}

func (w *statusWriter) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// newHTTPServer returns an http.Server with the kernel's bounds.
func (s *Server) newHTTPServer(h http.Handler) *http.Server {
	config := s.cfg.TLS.Clone()
	if config != nil {
		// One server has listeners with TLS and without. Unless h2 is named here, it speaks
		// HTTP/2 only when the one with TLS happens to be served first.
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.cfg.RequestTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeader,
		TLSConfig:         config,
		ErrorLog:          log.New(logWriter{s.cfg.Log}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if _, ok := c.(fromLoop); ok {
				return context.WithValue(ctx, handedOffKey{}, true)
			}
			return ctx
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if t, ok := c.(connStater); ok {
				t.state(state)
			}
		},
	}
}

// connStater is a connection that follows what net/http does with it.
type connStater interface{ state(http.ConnState) }

// patientConn is a TCP connection under net/http, whose writes end when the client takes nothing
// for the WriteTimeout. It wraps a *net.TCPConn, not a net.Conn, so that net/http sees CloseWrite and can
// end a connection without a reset.
type patientConn struct {
	*net.TCPConn
	s *Server
}

func (c patientConn) Write(p []byte) (int, error) {
	const piece = 64 << 10 // a client that takes this much in time is alive
	written := 0
	for {
		timeout := c.s.live.Load().WriteTimeout
		c.SetWriteDeadline(time.Now().Add(timeout)) //nolint:errcheck // the write fails as well
		n, err := c.TCPConn.Write(p[written:min(written+piece, len(p))])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// ReadFrom hides that of TCPConn, which knows no timeout.
func (c patientConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// logWriter turns net/http's lines into debug records: nearly all are about clients' mistakes.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("net/http", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}

// run calls a handler; a panic truncates its answer and becomes a 500, a memory fault in
// mapped data a 503 that fails readiness. The goroutine must have SetPanicOnFault on for that.
func (s *Server) run(w *Response, r *Request) (outcome Outcome) {
	defer func() {
		p := recover()
		if p != nil {
			outcome = Done
			s.answerPanic(r.route, w, p)
		}
		if r.completion != nil && outcome != Pending {
			r.completion.abandon()
		}
	}()
	outcome = r.route.Handler(w, r)
	switch {
	case r.refusal != "":
		w.Problem(http.StatusServiceUnavailable, r.refusal)
		return Done
	case outcome == NetHTTP && r.route.Stream == nil:
		panic("BUG: a handler returned NetHTTP and its route has no Stream")
	case (outcome == WhenIdle || outcome == Offload) && !r.inline:
		panic("BUG: a handler that is not on a loop put its request off")
	case outcome == Pending && r.completion == nil:
		panic("BUG: a handler returned Pending without Pend")
	}
	return outcome
}

// answerPanic answers a request whose handler has panicked.
func (s *Server) answerPanic(route *route, w *Response, p any) {
	w.drop()
	if s.panicked(route, p) {
		w.Problem(http.StatusServiceUnavailable, "the data behind this answer cannot be read at the moment")
	} else {
		w.Problem(http.StatusInternalServerError, "the request failed inside the server and has been logged")
	}
}

// prefetch calls a route's Prefetch. What panics there does for the requests, too, which then fail as they
// should.
func (s *Server) prefetch(route *route, stripe int, params [][]byte) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(route, p)
		}
	}()
	route.Prefetch(stripe, params)
}

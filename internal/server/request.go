package server

import (
	"bytes"
	"context"
	"iter"
	"net"
	"net/netip"

	"weir/internal/shed"
)

// Request is a request as its handler sees it. Its slices point into the connection's buffer: they
// are the handler's to read until it returns, never to keep or to modify.
type Request struct {
	// Method is one of the constants of net/http, HEAD included.
	Method string
	// Path is the path as sent, still percent-encoded.
	Path []byte
	// Query is what follows the '?', still percent-encoded; see NextQuery.
	Query []byte
	// Body is the whole body, at most Config.MaxBody bytes.
	Body []byte
	// Stripe numbers the loop or worker that runs the handler, for striped counters.
	Stripe int

	s          *Server
	lane       lane // nil in tests of handlers
	route      *route
	ctx        context.Context // see Context; nil on the loops
	class      Class
	rejected   bool
	completion *Completion
	counted    bool   // for its route's Limits, by the Completion behind it
	refusal    string // the detail of the 503, after Pend has returned nil
	fd         int    // of the socket, on the loops
	remote     string // address and port of the client, over net/http

	header  []byte // field lines, each with its CRLF
	params  [maxParams][]byte
	decoded []byte // what unescape wrote
	inline  bool
}

// maxParams bounds the wildcards of one pattern.
const maxParams = 4

// Inline reports whether the handler runs on an event loop and may return WhenIdle or Offload. Elsewhere it
// must not.
func (r *Request) Inline() bool { return r.inline }

// Context ends when the client has gone, or the request's time is over (Limits.Time), as far as that is known
// while its handler runs: on a worker, if the route has Limits, and over net/http.
func (r *Request) Context() context.Context {
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}

// lane is what runs a handler.
type lane interface {
	// rejects decides about the request at hand as one of another class.
	rejects(c Class) bool
}

// Admit says that a request is of another class than its route: that it is about to cost much more, say. It
// returns false when the request is rejected because of that; then the handler returns Done, and nothing that
// it has done shows.
func (r *Request) Admit(c Class) bool {
	r.class = c
	r.rejected = r.lane != nil && r.lane.rejects(c)
	return !r.rejected
}

// OnLoop makes r a request as a loop first shows it to a handler, for tests of handlers.
func OnLoop(r *Request) *Request {
	r.inline = true
	return r
}

// Client returns the address of the client's end of the connection: that of a proxy, where there is one. On
// the loops it takes a system call.
func (r *Request) Client() netip.Addr {
	if r.remote != "" {
		at, _ := netip.ParseAddrPort(r.remote) // the zero Addr for what is none
		return at.Addr()
	}
	if at, ok := peerAddr(r.fd).(*net.TCPAddr); ok && at.IP != nil {
		return at.AddrPort().Addr()
	}
	return netip.Addr{}
}

// Param returns the decoded value of the pattern's i-th wildcard, counted from 0.
func (r *Request) Param(i int) []byte { return r.params[i] }

// Header returns the value of the first field of that name, nil if there is none. The name is
// compared without regard to case.
func (r *Request) Header(name string) []byte {
	for value := range r.HeaderValues(name) {
		return value
	}
	return nil
}

// HeaderValues iterates over the values of all fields of a name, in their order.
func (r *Request) HeaderValues(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := r.header; len(rest) > 0; {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				return
			}
			line := rest[:end]
			rest = rest[end+1:]
			if len(line) > len(name) && line[len(name)] == ':' && equalFold(line[:len(name)], name) &&
				!yield(trimOWS(bytes.TrimSuffix(line[len(name)+1:], []byte{'\r'}))) {
				return
			}
		}
	}
}

// NextQuery cuts the first key=value pair off a query and decodes it: rest is what follows.
// more is false when q held no pair, ok is false when an escape in it is malformed.
//
//	for q := r.Query; ; {
//		key, value, rest, more, ok := r.NextQuery(q)
//		...
//		q = rest
//	}
func (r *Request) NextQuery(q []byte) (key, value, rest []byte, more, ok bool) {
	for len(q) > 0 && q[0] == '&' {
		q = q[1:]
	}
	if len(q) == 0 {
		return nil, nil, nil, false, true
	}
	pair := q
	if i := bytes.IndexByte(q, '&'); i >= 0 {
		pair, rest = q[:i], q[i+1:]
	}
	key = pair
	if i := bytes.IndexByte(pair, '='); i >= 0 {
		key, value = pair[:i], pair[i+1:]
	}
	key, okKey := r.unescape(key, true)
	value, okValue := r.unescape(value, true)
	return key, value, rest, true, okKey && okValue
}

// begin makes r ready for the next request, whose slices are to be set.
func (r *Request) begin() {
	r.params = [maxParams][]byte{}
	r.decoded = r.decoded[:0]
	r.class, r.rejected, r.completion, r.refusal = shed.Critical, false, nil, ""
}

// decodeParams decodes the wildcards; false means a malformed escape.
func (r *Request) decodeParams() bool {
	for i, p := range r.params {
		if p == nil {
			return true
		}
		decoded, ok := r.unescape(p, false)
		if !ok {
			return false
		}
		r.params[i] = decoded
	}
	return true
}

// unescape decodes percent-escapes; in a query '+' is a space. What holds neither, as nearly
// everything, is returned as it is; the rest is decoded into memory of the request's own, since
// the buffer must stay as it came, for net/http to read.
func (r *Request) unescape(s []byte, query bool) ([]byte, bool) {
	i := 0
	for ; i < len(s); i++ {
		if s[i] == '%' || (query && s[i] == '+') {
			break
		}
	}
	if i == len(s) {
		return s, true
	}
	start := len(r.decoded)
	r.decoded = append(r.decoded, s[:i]...)
	for ; i < len(s); i++ {
		switch {
		case s[i] == '%':
			if i+2 >= len(s) || unhex(s[i+1]) > 15 || unhex(s[i+2]) > 15 {
				return nil, false
			}
			r.decoded = append(r.decoded, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		case query && s[i] == '+':
			r.decoded = append(r.decoded, ' ')
		default:
			r.decoded = append(r.decoded, s[i])
		}
	}
	return r.decoded[start:len(r.decoded):len(r.decoded)], true
}

// unhex returns the value of a hexadecimal digit, or a value above 15.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// equalFold compares ASCII without regard to case; lower need not be lower case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		if lower[b[i]] != lower[s[i]] {
			return false
		}
	}
	return true
}

func trimOWS(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

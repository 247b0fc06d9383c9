package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"weir/internal/metrics"
)

// What a server answers, as the detail of a 404, where it has no route; by it one can tell a server of weir.
const (
	NothingHere    = "there is nothing at this path; docs/api.md lists the routes"
	NothingOnAdmin = "there is nothing at this path of the admin port; docs/api.md lists the routes"
)

// router finds the route of a request: a tree by path segments, the same for the event loops
// and for net/http, so that a path means the same on every port. Static segments win over
// wildcards, also where only the wildcard would lead on; paths are taken as they are, without
// cleaning or redirects.
type router struct {
	root     node
	all      node     // what OPTIONS * asks about: all paths
	nothing  string   // the detail of a 404
	table    []*route // in the order they were added
	prefetch []*route // those that have a Prefetch
}

type node struct {
	static  []edge
	param   *node
	rest    *node // "{name...}"
	methods []methodRoute
	allow   string // the Allow header's value; OPTIONS is answered on every path
}

type edge struct {
	segment string
	next    *node
}

type methodRoute struct {
	method string
	route  *route
}

// route is a Route with what the kernel keeps of it.
type route struct {
	Route
	state    *serviceState // of its service; nil for what is the kernel's own
	service  int           // its index, whose workers are the route's; 0 of what is the kernel's own
	path     string        // the pattern without its method
	names    []string      // of its wildcards
	begins   []byte        // how its requests do, up to the wildcard, if it has a Prefetch
	latency  *metrics.Histogram
	requests [600]atomic.Pointer[metrics.Counter] // by status, made at first use
}

// patterns returns those of all routes, in the order they were added.
func (t *router) patterns() []string {
	all := make([]string, len(t.table))
	for i, r := range t.table {
		all[i] = r.Pattern
	}
	return all
}

// add registers a route; it panics on a pattern that is malformed or taken, as a wrong table of
// routes is a bug.
func (t *router) add(r *route) {
	method, path, ok := strings.Cut(r.Pattern, " ")
	if !ok || methodName([]byte(method)) == "" || !strings.HasPrefix(path, "/") {
		panic(fmt.Sprintf("BUG: route pattern %q is not a method, a space and a path", r.Pattern))
	}
	if r.Handler == nil && r.Stream == nil {
		panic(fmt.Sprintf("BUG: route %q must have a Handler or a Stream", r.Pattern))
	}
	if r.Handler == nil {
		r.Handler = func(*Response, *Request) Outcome { return NetHTTP }
	}
	if r.Limits != nil && r.Stream != nil {
		panic(fmt.Sprintf("BUG: route %q has Limits, which do not hold what its Stream does", r.Pattern))
	}
	r.path, r.names = path, wildcards(path)
	n, params, ended := &t.root, 0, false
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch {
		case ended:
			panic(fmt.Sprintf("BUG: route %q goes on after a rest wildcard", r.Pattern))
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}"):
			if n.rest == nil {
				n.rest = new(node)
			}
			n = n.rest
			params++
			ended = true
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}"):
			if n.param == nil {
				n.param = new(node)
			}
			n = n.param
			params++
		default:
			n = n.child(segment)
		}
	}
	if params > maxParams {
		panic(fmt.Sprintf("BUG: route %q has more than %d wildcards", r.Pattern, maxParams))
	}
	if r.Prefetch != nil {
		begins, _, _ := strings.Cut(r.Pattern, "{")
		if params != 1 || ended || r.Handler == nil || !strings.HasSuffix(path, "}") {
			panic(fmt.Sprintf("BUG: route %q has a Prefetch, but no Handler or not one wildcard at its end",
				r.Pattern))
		}
		r.begins = []byte(begins)
		t.prefetch = append(t.prefetch, r)
	}
	t.table = append(t.table, r)
	n.bind(method, r)
	if method == http.MethodGet {
		n.bind(http.MethodHead, r)
	}
	for _, m := range n.methods {
		if !slices.ContainsFunc(t.all.methods, func(o methodRoute) bool { return o.method == m.method }) {
			t.all.bind(m.method, r)
		}
	}
}

func (n *node) child(segment string) *node {
	for _, e := range n.static {
		if e.segment == segment {
			return e.next
		}
	}
	next := new(node)
	n.static = append(n.static, edge{segment, next})
	return next
}

func (n *node) bind(method string, r *route) {
	for _, m := range n.methods {
		if m.method == method {
			panic(fmt.Sprintf("BUG: route %q is there twice", r.Pattern))
		}
	}
	n.methods = append(n.methods, methodRoute{method, r})
	allowed := []string{http.MethodOptions}
	for _, m := range n.methods {
		if m.method != http.MethodOptions {
			allowed = append(allowed, m.method)
		}
	}
	slices.Sort(allowed)
	n.allow = strings.Join(allowed, ", ")
}

// find returns the route of method and path, and the still encoded values of its wildcards in
// params. Without a route it returns the node the path leads to, or nil: 405 and 404.
func (t *router) find(method string, path []byte, params *[maxParams][]byte) (*route, *node) {
	if len(path) == 0 || path[0] != '/' {
		if string(path) == "*" { // which only OPTIONS may have
			return nil, &t.all
		}
		return nil, nil
	}
	n, rest, i := &t.root, path[1:], 0
walk:
	for {
		segment, tail, more := rest, []byte(nil), false
		if j := bytes.IndexByte(rest, '/'); j >= 0 {
			segment, tail, more = rest[:j], rest[j+1:], true
		}
		next := n.next(segment)
		switch {
		case next != nil:
		case n.param != nil && len(segment) > 0:
			next = n.param
			params[i] = segment
			i++
		case n.rest != nil:
			params[i] = rest
			n = n.rest
			break walk
		default:
			return nil, nil
		}
		n = next
		if !more {
			break
		}
		rest = tail
	}
	for i := range n.methods {
		if m := &n.methods[i]; m.method == method {
			return m.route, n
		}
	}
	if len(n.methods) == 0 {
		return nil, nil
	}
	return nil, n
}

func (n *node) next(segment []byte) *node {
	for i := range n.static {
		if e := &n.static[i]; e.segment == string(segment) {
			return e.next
		}
	}
	return nil
}

// refuseCoding fills in the answer to a request whose body has a content coding: no handler decodes any.
func refuseCoding(w *Response) {
	w.Problem(http.StatusUnsupportedMediaType,
		"the body has a Content-Encoding: send it uncompressed, without that field")
	w.Field("Accept-Encoding", "identity")
}

// tooLong returns the refusal of a body that is longer than its route takes.
func (s *Server) tooLong(r *route) *parseError {
	detail := fmt.Sprintf("the body is longer than %d bytes", s.maxBody(r))
	if r == nil || r.MaxBody == 0 {
		detail += " (--max-body)"
	}
	return &parseError{http.StatusRequestEntityTooLarge, detail}
}

// maxBody returns how long a body of a route's requests may be; r is nil where there is no route.
func (s *Server) maxBody(r *route) int {
	if r == nil || r.MaxBody == 0 {
		return s.live.Load().MaxBody
	}
	return min(r.MaxBody, int(s.live.Load().MaxInput)-s.cfg.MaxHeader)
}

// noRoute fills in the answer to a request that no route takes.
func (t *router) noRoute(w *Response, method string, n *node) {
	if n == nil {
		w.Problem(http.StatusNotFound, t.nothing)
		return
	}
	if method == http.MethodOptions {
		w.Status = http.StatusNoContent
		w.Field("Allow", n.allow)
		return
	}
	w.Problem(http.StatusMethodNotAllowed, "this path answers "+n.allow+", not "+method)
	w.Field("Allow", n.allow)
}

package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func noHandler(*Response, *Request) Outcome { return Done }

func newRouter(patterns ...string) *router {
	t := new(router)
	for _, p := range patterns {
		t.add(&route{Route: Route{Pattern: p, Handler: noHandler}})
	}
	return t
}

func TestRoutesAreFoundBySegments(t *testing.T) {
	r := newRouter("GET /", "GET /feed/{user}", "POST /feed/{user}", "GET /feed/{user}/position",
		"GET /feed/health",
		"GET /files/{rest...}", "GET /files/readme", "POST /files/{all...}", "DELETE /a/{b}/c/{d}",
		"OPTIONS /own", "GET /own")
	for _, c := range []struct{ request, want string }{
		{"GET /", "GET / []"},
		{"HEAD /", "GET / []"},
		{"GET /feed/7", "GET /feed/{user} [7]"},
		{"HEAD /feed/7", "GET /feed/{user} [7]"},
		{"POST /feed/7", "POST /feed/{user} [7]"},
		{"GET /feed/a%2Fb", "GET /feed/{user} [a%2Fb]"},
		{"GET /feed/7/position", "GET /feed/{user}/position [7]"},
		{"GET /feed/health", "GET /feed/health []"}, // static over wildcard
		{"GET /files/a/b/c", "GET /files/{rest...} [a/b/c]"},
		{"GET /files/", "GET /files/{rest...} []"},
		{"GET /files/readme", "GET /files/readme []"},
		{"DELETE /a/1/c/2", "DELETE /a/{b}/c/{d} [1 2]"},
		{"GET /feed/health/position", "404"}, // also where only the wildcard leads on
		{"GET /files/readme/x", "404"},
		{"PUT /files/a", "405 GET, HEAD, OPTIONS, POST"},
		{"POST /files/a", "POST /files/{all...} [a]"},
		{"PUT /feed/7", "405 GET, HEAD, OPTIONS, POST"},
		{"POST /feed/health", "405 GET, HEAD, OPTIONS"},
		{"OPTIONS /feed/7", "405 GET, HEAD, OPTIONS, POST"}, // which is answered 204: see noRoute
		{"PUT /own", "405 GET, HEAD, OPTIONS"},
		{"OPTIONS /own", "OPTIONS /own []"}, // a route of its own
		{"GET /feed", "404"},
		{"GET /feed/", "404"}, // a wildcard is not empty
		{"GET /feed/7/", "404"},
		{"GET //", "404"},
		{"GET /Feed/7", "404"},
		{"GET /feed/7/position/x", "404"},
		{"GET /a/1/c", "404"},
		{"GET ", "404"},
		{"GET feed/7", "404"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		var params [maxParams][]byte
		found, at := r.find(method, []byte(path), &params)
		got := "404"
		switch {
		case found != nil:
			values := []string{}
			for _, p := range params {
				if len(p) > 0 {
					values = append(values, string(p))
				}
			}
			got = fmt.Sprintf("%s %v", found.Pattern, values)
		case at != nil:
			got = "405 " + at.allow
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.request, got, c.want)
		}
	}
}

func TestAWrongTableOfRoutesPanics(t *testing.T) {
	fast, slow := Handler(noHandler), http.NotFoundHandler()
	for name, routes := range map[string][]Route{
		"no method":             {{Pattern: "/a", Handler: fast}},
		"empty":                 {{Pattern: "", Handler: fast}},
		"no path":               {{Pattern: "GET a", Handler: fast}},
		"method that is none":   {{Pattern: "G(T /a", Handler: fast}},
		"no handler":            {{Pattern: "GET /a"}},
		"the same twice":        {{Pattern: "GET /a", Handler: fast}, {Pattern: "GET /a", Stream: slow}},
		"same under other name": {{Pattern: "GET /{a}", Handler: fast}, {Pattern: "GET /{b}", Handler: fast}},
		"HEAD taken by GET":     {{Pattern: "GET /a", Handler: fast}, {Pattern: "HEAD /a", Handler: fast}},
		"on after a rest":       {{Pattern: "GET /{a...}/b", Handler: fast}},
		"too many wildcards":    {{Pattern: "GET /{a}/{b}/{c}/{d}/{e}", Handler: fast}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "BUG:") {
					t.Errorf("got %v, want a panic that says BUG:", p)
				}
			}()
			r := new(router)
			for _, def := range routes {
				r.add(&route{Route: def})
			}
		})
	}
}

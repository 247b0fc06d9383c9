package webui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOnlyNamesOfLoopbackAreThisMachine(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8090": true, "127.9.9.9": true, "localhost": true, "LocalHost:1": true,
		"[::1]:8090": true, "::1": true,
		"": false, ":8090": false, "192.0.2.1": false, "localhost.example": false,
		"127.0.0.1.example:80": false, "0.0.0.0": false, "localhost@example": false,
	} {
		if got := LoopbackHost(host); got != want {
			t.Errorf("%q: %t, expected %t", host, got, want)
		}
	}
}

func TestOnlyPagesOfItsOwnOriginMayUseWhatIsGuarded(t *testing.T) {
	g := Guard{Refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) }}
	h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	g.Open = func(r *http.Request) bool { return r.URL.Path == "/page" }
	withPages := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		name, method, path, host string
		header                   map[string]string
		body                     string
		want                     int
	}{
		{"curl", "GET", "/", "127.0.0.1:8081", nil, "", 200},
		{"curl -X POST", "POST", "/", "localhost", nil, "", 200},
		{"JSON", "POST", "/", "localhost",
			map[string]string{"Content-Type": "Application/JSON; charset=utf-8"}, "{}", 200},
		{"nothing said of the body", "POST", "/", "localhost", nil, "{}", 200},
		{"a form", "POST", "/", "localhost",
			map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "{}", 415},
		{"text", "PATCH", "/", "localhost", map[string]string{"Content-Type": "text/plain"}, "{}", 415},
		{"a name that was bound again", "GET", "/", "evil.example:8081", nil, "", 421},
		{"no host", "GET", "/", "", nil, "", 421},
		{"a page elsewhere", "POST", "/", "127.0.0.1:8081",
			map[string]string{"Origin": "https://evil.example"}, "", 403},
		{"a page without an origin", "POST", "/", "127.0.0.1:8081", map[string]string{"Origin": "null"}, "",
			403},
		{"its own page", "POST", "/", "127.0.0.1:8081", map[string]string{"Origin": "http://127.0.0.1:8081",
			"Sec-Fetch-Site": "same-origin"}, "", 200},
		{"another port", "GET", "/", "127.0.0.1:8081", map[string]string{"Sec-Fetch-Site": "same-site"}, "",
			403},
		{"an image on a page elsewhere", "GET", "/", "127.0.0.1:8081",
			map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
		{"a link to a page", "GET", "/page", "127.0.0.1:8081",
			map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 200},
		{"a form for a page", "POST", "/page", "127.0.0.1:8081",
			map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
	} {
		r := httptest.NewRequest(c.method, "http://"+"x"+c.path, strings.NewReader(c.body))
		r.Host = c.host
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		if c.path == "/page" {
			withPages.ServeHTTP(w, r)
		} else {
			h.ServeHTTP(w, r)
		}
		if w.Code != c.want || w.Header().Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %d, want %d; %v", c.name, w.Code, c.want, w.Header())
		}
	}
}

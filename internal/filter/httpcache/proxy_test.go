package httpcache_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"weir/internal/filter/httpcache"
)

// proxyOf returns a proxy before an origin in memory, and the directory of its cache.
func proxyOf(t *testing.T, u *upstream) (http.Handler, string) {
	t.Helper()
	dir := t.TempDir()
	c := open(t, dir, httpcache.Options{Fetch: u, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // tested elsewhere
	to, err := url.Parse("http://origin.test/base/")
	if err != nil {
		t.Fatal(err)
	}
	return httpcache.NewProxy(c, to), dir
}

func ask(h http.Handler, method, target string, lines ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAProxyAnswersConditionsAndRangesFromTheCache(t *testing.T) {
	u := &upstream{handle: func(a *answer, _ *http.Request) {
		a.set("Cache-Control: max-age=60", `ETag: "1"`, "Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT",
			"X-Other: y")
		a.body = "0123456789"
	}}
	p, _ := proxyOf(t, u)
	first := ask(p, "GET", "/a%2Fb?q=1", `If-None-Match: "0"`, "Range: bytes=0-3")
	if got := text(t, first); first.StatusCode != 206 || got != "0123" ||
		first.Header.Get("Cache-Status") != "weir; fwd=miss" {
		t.Errorf("%d %q %v", first.StatusCode, got, first.Header)
	}
	if r := u.asked[0]; r.URL.String() != "http://origin.test/base/a%2Fb?q=1" ||
		r.Header.Get("If-None-Match") != "" ||
		r.Header.Get("Range") != "" || r.Header.Get("Via") != "1.1 weir" {
		t.Errorf("the origin is asked for %s with %v", r.URL, r.Header)
	}
	for _, test := range []struct {
		method, line string
		status       int
		body         string
	}{
		{"GET", "X: y", 200, "0123456789"},
		{"HEAD", "X: y", 200, ""},
		{"GET", `If-None-Match: "0", W/"1"`, 304, ""},
		{"GET", "If-Modified-Since: Fri, 31 Dec 1999 00:00:00 GMT", 304, ""},
		{"GET", `If-None-Match: "2"`, 200, "0123456789"},
		{"GET", "Range: bytes=-2", 206, "89"},
		{"GET", "Range: bytes=20-", 416, "invalid range: failed to overlap\n"},
	} {
		resp := ask(p, test.method, "/a%2Fb?q=1", test.line)
		if got := text(t, resp); resp.StatusCode != test.status || got != test.body {
			t.Errorf("%s with %s: %d %q", test.method, test.line, resp.StatusCode, got)
		}
		if test.status == 200 && (resp.Header.Get("Age") != "0" || resp.Header.Get("X-Other") != "y") {
			t.Errorf("%s with %s: %v", test.method, test.line, resp.Header)
		}
	}
	wantAsked(t, u, 1)
}

func TestAProxyInvalidatesWhatIsChanged(t *testing.T) {
	for _, test := range []struct {
		lines   string
		status  int
		fetched []string
	}{
		{"", 200, []string{"/a"}},
		{"", 404, nil},
		{"Location: /base/b", 201, []string{"/a", "/b"}},
		{"Content-Location: http://origin.test/base/b", 200, []string{"/a", "/b"}},
		{"Location: http://other.test/base/b", 302, []string{"/a"}},
	} {
		u := &upstream{}
		u.handle = func(a *answer, r *http.Request) {
			a.set("Cache-Control: max-age=60")
			if r.Method == "POST" {
				a.status = test.status
				a.set(test.lines)
			}
		}
		p, _ := proxyOf(t, u)
		ask(p, "GET", "/a")
		ask(p, "GET", "/b")
		if resp := ask(p, "POST", "/a"); resp.StatusCode != test.status {
			t.Errorf("%d for %d", resp.StatusCode, test.status)
		}
		before := u.count()
		ask(p, "GET", "/a")
		ask(p, "GET", "/b")
		if got := u.asked[before:]; len(got) != len(test.fetched) {
			t.Errorf("%d %q: %d are fetched again, want %v", test.status, test.lines, len(got), test.fetched)
		}
	}
}

func TestAHeadUpdatesWhatIsStored(t *testing.T) {
	tag := `"1"`
	u := &upstream{handle: func(a *answer, r *http.Request) {
		a.set("ETag: "+tag, "Cache-Control: max-age=0")
		if r.Method == "HEAD" {
			a.body = ""
			a.header.Set("Cache-Control", "max-age=60")
		}
	}}
	p, _ := proxyOf(t, u)
	ask(p, "GET", "/a")
	if resp := ask(p, "HEAD", "/a"); resp.StatusCode != 200 {
		t.Errorf("%d", resp.StatusCode)
	}
	if resp := ask(p, "GET", "/a"); text(t, resp) != "body" ||
		resp.Header.Get("Cache-Control") != "max-age=60" {
		t.Errorf("%v", resp.Header)
	}
	wantAsked(t, u, 2)
	ask(p, "GET", "/b")
	tag = `"2"`
	ask(p, "HEAD", "/b")
	ask(p, "GET", "/b", "Cache-Control: max-stale")
	wantAsked(t, u, 5)
}

func TestAProxySaysThatItsOriginFails(t *testing.T) {
	p, _ := proxyOf(t, &upstream{handle: func(a *answer, _ *http.Request) { a.err = errDown }})
	for line, want := range map[string]int{"X: y": 502, "Cache-Control: only-if-cached": 504} {
		for _, method := range []string{"GET", "HEAD"} {
			resp := ask(p, method, "/", line)
			if resp.StatusCode != want && method == "GET" || resp.StatusCode < 500 ||
				strings.Contains(text(t, resp), "origin.test") {
				t.Errorf("%s with %s: %d", method, line, resp.StatusCode)
			}
		}
	}
	if resp := ask(p, "POST", "/"); resp.StatusCode != 502 {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

// truncating truncates a file when the answer begins.
type truncating struct {
	*httptest.ResponseRecorder
	path string
}

func (w truncating) WriteHeader(status int) {
	if err := os.Truncate(w.path, 0); err != nil {
		panic(err)
	}
	w.ResponseRecorder.WriteHeader(status)
}

func TestAFileThatIsTruncatedWhileItIsSentEndsTheAnswerAlone(t *testing.T) {
	u := &upstream{handle: func(a *answer, _ *http.Request) {
		a.set("Cache-Control: max-age=60")
		a.body = strings.Repeat("x", 1<<20)
	}}
	p, dir := proxyOf(t, u)
	ask(p, "GET", "/")
	func() {
		defer func() {
			if r := recover(); r != http.ErrAbortHandler {
				t.Errorf("it ended with %v", r)
			}
		}()
		p.ServeHTTP(truncating{httptest.NewRecorder(), files(t, dir)[0]},
			httptest.NewRequest("GET", "/", nil))
	}()
	if resp := ask(p, "GET", "/"); resp.StatusCode != 200 || len(text(t, resp)) != 1<<20 {
		t.Errorf("%d afterwards", resp.StatusCode)
	}
	wantAsked(t, u, 2)
}

// BenchmarkGet gets what is fresh, 24 kB, and looks at every page of it.
func BenchmarkGet(b *testing.B) {
	u := &upstream{handle: func(a *answer, _ *http.Request) {
		a.set("Cache-Control: max-age=6000", `ETag: "1"`, "Content-Type: application/rss+xml", "Server: x",
			"Vary: Accept")
		a.body = strings.Repeat("x", 24<<10)
	}}
	c, err := httpcache.Open(b.TempDir(), httpcache.Options{Fetch: u})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	sum := 0
	for b.Loop() {
		e, err := c.Get(b.Context(), feed, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < len(e.Body()); i += 4096 {
			sum += int(e.Body()[i])
		}
		e.Release()
	}
	if err := c.Close(); err != nil || sum == 0 {
		b.Fatal(fmt.Sprint(err, sum))
	}
}

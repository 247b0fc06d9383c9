package httpcache_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"weir/internal/filter/httpcache"
)

const feed = "http://feeds.test/a.rss"

// upstream is an origin in memory. handle answers; what it was asked is kept.
type upstream struct {
	handle func(w *answer, r *http.Request)
	mu     sync.Mutex
	asked  []*http.Request
}

// answer is what an upstream answers with.
type answer struct {
	status int
	header http.Header
	body   string
	cut    bool // the body ends before it is whole
	err    error
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	u.asked = append(u.asked, r)
	u.mu.Unlock()
	a := &answer{status: 200, header: make(http.Header), body: "body"}
	u.handle(a, r)
	if a.err == nil {
		a.err = r.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	body := io.Reader(strings.NewReader(a.body))
	if a.cut {
		body = io.MultiReader(body, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(body), Request: r}, nil
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.asked)
}

// with answers with header lines.
func with(lines ...string) func(*answer, *http.Request) {
	return func(a *answer, _ *http.Request) { a.set(lines...) }
}

func (a *answer) set(lines ...string) {
	for _, line := range lines {
		if line == "" {
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		a.header.Add(name, value)
	}
}

// inBubble runs a test of a cache in a bubble of its own time.
func inBubble(t *testing.T, o httpcache.Options, handle func(*answer, *http.Request),
	test func(t *testing.T, c *httpcache.Cache, u *upstream)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{handle: handle}
		o.Fetch = u
		c := open(t, dir, o)
		defer c.Close() //nolint:errcheck // tested elsewhere
		test(t, c, u)
	})
}

func open(t *testing.T, dir string, o httpcache.Options) *httpcache.Cache {
	t.Helper()
	c, err := httpcache.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get gets a URL and releases the entry, whose body it returns.
func get(t *testing.T, c *httpcache.Cache, url string, lines ...string) (*httpcache.Entry, string) {
	t.Helper()
	a := answer{header: make(http.Header)}
	a.set(lines...)
	e, err := c.Get(t.Context(), url, a.header)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	return e, string(e.Body())
}

func wantAsked(t *testing.T, u *upstream, n int) {
	t.Helper()
	if got := u.count(); got != n {
		t.Errorf("the upstream was asked %d times, not %d", got, n)
	}
}

func TestAFreshResponseIsNotFetchedAgain(t *testing.T) {
	inBubble(t, httpcache.Options{}, with("Cache-Control: max-age=60"),
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			get(t, c, feed)
			time.Sleep(59 * time.Second)
			e, body := get(t, c, feed)
			if body != "body" || e.Age != 59*time.Second || e.Fresh != time.Second || e.Stale {
				t.Errorf("%q of age %v, fresh for %v, stale %v", body, e.Age, e.Fresh, e.Stale)
			}
			wantAsked(t, u, 1)
			time.Sleep(time.Second)
			get(t, c, feed)
			wantAsked(t, u, 2)
		})
}

func TestAStaleResponseIsValidated(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		a.set("Cache-Control: max-age=60", `ETag: "1"`, "X-Seen: "+r.Header.Get("If-None-Match"))
		if r.Header.Get("If-None-Match") != "" {
			a.status, a.body = 304, ""
		}
	}
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		first, _ := get(t, c, feed)
		time.Sleep(time.Hour)
		e, body := get(t, c, feed)
		if body != "body" || e.Status != 200 || e.Header.Get("X-Seen") != `"1"` || e.Age != 0 ||
			e.Version != first.Version {
			t.Errorf("%d %q %v of age %v", e.Status, body, e.Header, e.Age)
		}
		get(t, c, feed)
		wantAsked(t, u, 2)
		if c.Stats().Validated != 1 {
			t.Errorf("%+v", c.Stats())
		}
	})
}

func TestRequestsUnderWayShareAFetch(t *testing.T) {
	handle := func(a *answer, _ *http.Request) { time.Sleep(time.Second); a.set("Cache-Control: max-age=60") }
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { get(t, c, feed) })
		}
		all.Wait()
		wantAsked(t, u, 1)
		if s := c.Stats(); s.Pinned != 0 || s.Fetching != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAFetchOutlivesAllWhoWaitForIt(t *testing.T) {
	handle := func(a *answer, _ *http.Request) { time.Sleep(time.Second); a.set("Cache-Control: max-age=60") }
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Get(ctx, feed, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		get(t, c, feed)
		wantAsked(t, u, 1)
	})
}

func TestAResponseSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	u := &upstream{handle: with("Cache-Control: max-age=60")}
	c := open(t, dir, httpcache.Options{Fetch: u})
	first, _ := get(t, c, feed)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, httpcache.Options{Fetch: u})
	defer c.Close() //nolint:errcheck // tested above
	e, body := get(t, c, feed)
	if body != "body" || e.Version != first.Version {
		t.Errorf("%q, version %x after %x", body, e.Version, first.Version)
	}
	wantAsked(t, u, 1)
}

package httpcache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/filter/httpcache"
)

// files returns the paths of a cache's responses.
func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.response"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// big answers with 10 kB that say which URL and when.
func big(a *answer, r *http.Request) {
	a.set("Cache-Control: max-age=60", `ETag: "1"`)
	a.body = fmt.Sprintf("%s %-10000d", r.URL, time.Now().Unix())
	if r.Header.Get("If-None-Match") != "" {
		a.status, a.body = 304, ""
	}
}

func page(i int) string { return fmt.Sprintf("http://feeds.test/%d", i) }

func TestWhatWasUsedLeastRecentlyIsEvicted(t *testing.T) {
	inBubble(t, httpcache.Options{MaxBytes: 55_000}, big,
		func(t *testing.T, c *httpcache.Cache, _ *upstream) {
			for i := range 5 {
				get(t, c, page(i))
			}
			get(t, c, page(0))
			get(t, c, page(5))
			for i := range 6 {
				e, ok := c.Peek(page(i))
				if ok {
					e.Release()
				}
				if ok != (i != 1) {
					t.Errorf("page %d is there: %v", i, ok)
				}
			}
			if s := c.Stats(); s.Evicted != 1 || s.Entries != 5 || s.Bytes > 55_000 {
				t.Errorf("%+v", s)
			}
		})
}

func TestWhatIsHeldIsNotEvictedAndStaysReadable(t *testing.T) {
	dir := t.TempDir()
	u := &upstream{handle: big}
	c := open(t, dir, httpcache.Options{Fetch: u, MaxBytes: 25_000})
	held, err := c.Get(t.Context(), page(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := string(held.Body())
	for i := range 10 {
		get(t, c, page(i+1))
	}
	if e, ok := c.Peek(page(0)); !ok {
		t.Error("it was evicted")
	} else {
		e.Release()
	}
	if s := c.Stats(); s.Pinned != 1 || s.Bytes > 25_000 {
		t.Errorf("%+v", s)
	}
	u.handle = func(a *answer, _ *http.Request) { a.set("Cache-Control: max-age=60"); a.body = "another" }
	if _, now := get(t, c, page(0), "Cache-Control: no-cache"); now != "another" {
		t.Errorf("%.20q after it was replaced", now)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if string(held.Body()) != body {
		t.Error("its body has changed")
	}
	held.Release()
	held.Release()
	if s := c.Stats(); s.Pinned != 0 {
		t.Errorf("%+v", s)
	}
}

// TestAFetchProtectsWhatItValidates: all who wait for a fetch may give up, and then nobody but the fetch
// itself keeps the response that it validates from being evicted.
func TestAFetchProtectsWhatItValidates(t *testing.T) {
	inBubble(t, httpcache.Options{MaxBytes: 25_000}, big,
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			get(t, c, page(0))
			time.Sleep(time.Hour)
			u.handle = func(a *answer, r *http.Request) {
				if r.URL.Path == "/0" {
					time.Sleep(10 * time.Second)
				}
				big(a, r)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Get(ctx, page(0), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			for i := range 10 {
				get(t, c, page(i+1))
			}
			time.Sleep(time.Minute / 2)
			asked := u.count()
			if e, _ := get(t, c, page(0)); e.Fresh != 39*time.Second || c.Stats().Validated != 1 {
				t.Errorf("fresh for %v, %+v", e.Fresh, c.Stats())
			}
			wantAsked(t, u, asked)
			if s := c.Stats(); s.Pinned != 0 {
				t.Errorf("%+v", s)
			}
		})
}

// TestAFetchProtectsWhatItStores: the response that a fetch brings is there for those who wait, also if it
// alone takes more than all may.
func TestAFetchProtectsWhatItStores(t *testing.T) {
	handle := func(a *answer, r *http.Request) { time.Sleep(time.Second); big(a, r) }
	inBubble(t, httpcache.Options{MaxBytes: 5_000}, handle,
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if _, body := get(t, c, feed); len(body) < 10_000 {
						t.Errorf("%d bytes", len(body))
					}
				})
			}
			all.Wait()
			wantAsked(t, u, 1)
			get(t, c, page(1))
			if s := c.Stats(); s.Entries != 1 || s.Evicted == 0 {
				t.Errorf("%+v", s)
			}
		})
}

func TestFilesThatVanishHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	u := &upstream{handle: big}
	c := open(t, dir, httpcache.Options{Fetch: u, MaxBytes: 55_000})
	defer c.Close() //nolint:errcheck // tested elsewhere
	for i := range 5 {
		get(t, c, page(i))
	}
	for _, path := range files(t, dir) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	u.handle = func(a *answer, r *http.Request) { big(a, r); a.body += strings.Repeat("x", 30_000) }
	get(t, c, page(5)) // makes room for itself in the place of several that are gone
	if s := c.Stats(); s.Bytes > 55_000 || s.Evicted < 3 {
		t.Errorf("%+v", s)
	}
	u.handle = big
	for i := range 8 {
		if _, body := get(t, c, page(i)); !strings.HasPrefix(body, page(i)) {
			t.Errorf("%.20q for page %d", body, i)
		}
	}
	if s := c.Stats(); s.Bytes > 55_000 || len(files(t, dir)) != s.Entries {
		t.Errorf("%+v, %d files", s, len(files(t, dir)))
	}
}

func TestDamagedFilesCostAFetch(t *testing.T) {
	whole := func() []byte {
		dir := t.TempDir()
		c := open(t, dir, httpcache.Options{Fetch: &upstream{handle: big}})
		get(t, c, feed)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(files(t, dir)[0])
		if err != nil {
			t.Fatal(err)
		}
		return data
	}()
	at := func(i int) func([]byte) []byte { return func(b []byte) []byte { b[i] ^= 1; return b } }
	for what, damage := range map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"cut off":      func(b []byte) []byte { return b[:len(b)-1] },
		"half":         func(b []byte) []byte { return b[:5000] },
		"magic":        at(0),
		"length":       at(9),
		"checksum":     at(16),
		"body":         at(100),
		"frame":        at(10_100),
		"last byte":    at(len(whole) - 1),
		"all zero":     func(b []byte) []byte { return make([]byte, len(b)) },
		"another file": func([]byte) []byte { return []byte("hello") },
	} {
		dir := t.TempDir()
		u := &upstream{handle: big}
		c := open(t, dir, httpcache.Options{Fetch: u})
		get(t, c, feed)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		path := files(t, dir)[0]
		if err := os.WriteFile(path, damage([]byte(string(whole))), 0o600); err != nil {
			t.Fatal(err)
		}
		c = open(t, dir, httpcache.Options{Fetch: u})
		if _, body := get(t, c, feed); !strings.HasPrefix(body, feed) {
			t.Errorf("%s: %.20q", what, body)
		}
		if s := c.Stats(); u.count() != 2 || s.Damaged != 1 || s.Entries != 1 {
			t.Errorf("%s: asked %d times, %+v", what, u.count(), s)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAFileIsAppendedToAndWrittenAnewWhenItHasGrown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{handle: func(a *answer, r *http.Request) {
			big(a, r)
			a.set("X-Long: " + strings.Repeat("x", 10_000))
		}}
		c := open(t, dir, httpcache.Options{Fetch: u})
		held, err := c.Get(t.Context(), feed, nil)
		if err != nil {
			t.Fatal(err)
		}
		largest, shrunk := int64(0), false
		for i := range 60 {
			time.Sleep(time.Hour)
			e, body := get(t, c, feed)
			if body != string(held.Body()) || e.Version != held.Version || e.Age != 0 ||
				!e.Fetched.Equal(held.Fetched) {
				t.Fatalf("%d: %.40q of age %v", i, body, e.Age)
			}
			size := c.Stats().Bytes
			if info, err := os.Stat(files(t, dir)[0]); err != nil || info.Size() != size {
				t.Fatalf("%d: a file of %v bytes, %d counted, %v", i, info, size, err)
			}
			shrunk = shrunk || size < largest
			largest = max(largest, size)
		}
		if c.Stats().Validated != 60 || !shrunk || largest > 300_000 {
			t.Errorf("%+v, at most %d bytes, written anew %v", c.Stats(), largest, shrunk)
		}
		held.Release()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		// What was torn is not there; the frame before counts.
		data, err := os.ReadFile(files(t, dir)[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files(t, dir)[0], data[:len(data)-1], 0o600); err != nil {
			t.Fatal(err)
		}
		c = open(t, dir, httpcache.Options{Fetch: u})
		if e, ok := c.Peek(feed); !ok || e.Age != time.Hour {
			t.Errorf("%v: age %v", ok, e.Age)
		} else {
			e.Release()
		}
		time.Sleep(time.Hour)
		if e, _ := get(t, c, feed); e.Age != 0 {
			t.Errorf("age %v", e.Age)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHeadersMayHoldAnyBytes(t *testing.T) {
	dir := t.TempDir()
	u := &upstream{handle: func(a *answer, _ *http.Request) {
		a.set("Cache-Control: max-age=60", "X-Name: caf\xe9 \xc3\xa9 \xff", "Vary: X-Who")
	}}
	c := open(t, dir, httpcache.Options{Fetch: u})
	defer c.Close() //nolint:errcheck // tested elsewhere
	for range 2 {
		e, _ := get(t, c, feed+"?\xe9", "X-Who: \xe9")
		if got := e.Header.Get("X-Name"); got != "caf\xe9 \xc3\xa9 \xff" {
			t.Errorf("%q", got)
		}
	}
	get(t, c, feed+"?\xe9", "X-Who: \xe8")
	wantAsked(t, u, 2)
}

func TestADirectoryIsOneCaches(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, httpcache.Options{Fetch: &upstream{}})
	if _, err := httpcache.Open(dir, httpcache.Options{Fetch: &upstream{}}); err == nil {
		t.Error("a second cache was opened")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestManyAtOnce: whatever is evicted, replaced, validated and cancelled meanwhile, whoever gets a body gets
// one of its URL, whole.
func TestManyAtOnce(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		switch r.Header.Get("X-Kind") {
		case "1":
			a.set("Cache-Control: no-store")
		case "2":
			a.set("Cache-Control: max-age=0, stale-while-revalidate=60", `ETag: "1"`)
		case "3":
			a.set("Cache-Control: max-age=60", "Vary: X-Kind")
		}
		a.body = strings.Repeat(r.URL.Path, 1000)
		if r.Header.Get("If-None-Match") != "" {
			a.status, a.body = 304, ""
		}
	}
	u := &upstream{handle: handle}
	dir := t.TempDir()
	c := open(t, dir, httpcache.Options{Fetch: u, MaxBytes: 40_000})
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%7 == 0 {
					cancel()
				}
				n := (g*31 + i) % 10
				e, err := c.Get(ctx, page(n), http.Header{"X-Kind": {fmt.Sprint((g + i) % 4)}})
				if err == nil {
					if want := strings.Repeat(fmt.Sprintf("/%d", n), 1000); string(e.Body()) != want {
						t.Errorf("page %d: %d bytes, %.10q", n, len(e.Body()), e.Body())
					}
					e.Release()
				} else if ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Pinned != 0 || s.Fetching != 0 || s.Damaged != 0 || s.Bytes > 40_000 ||
		len(files(t, dir)) != s.Entries {
		t.Errorf("%+v, %d files", s, len(files(t, dir)))
	}
	c = open(t, dir, httpcache.Options{Fetch: u})
	if s := c.Stats(); s.Damaged != 0 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

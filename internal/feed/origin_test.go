package feed

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/server"
	"weir/internal/systest"
)

// origins serves the snapshot at a path that may change, by its SHA-256 as the ETag, and may fail.
type origins struct {
	*httptest.Server
	path   atomic.Pointer[string]
	named  sync.Map // paths of URLs that end in a name of their own
	fails  atomic.Bool
	bodies atomic.Int32
}

func newOrigins(t *testing.T) *origins {
	o := new(origins)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := o.path.Load()
		if named, ok := o.named.Load(filepath.Base(r.URL.Path)); ok {
			path = named.(*string)
		}
		if o.fails.Load() || path == nil {
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			http.NotFound(w, r)
			return
		}
		name := filepath.Base(*path)
		w.Header().Set("ETag", `"`+name+`"`)
		if !strings.Contains(r.Header.Get("If-None-Match"), name) {
			o.bodies.Add(1)
		}
		f, err := os.Open(*path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		http.ServeContent(w, r, "", time.Time{}, f)
	}))
	t.Cleanup(o.Close)
	return o
}

// set has the origin serve a file, at the URL that ends in its name from then on.
func (o *origins) set(path string) {
	o.path.Store(&path)
	o.named.Store(filepath.Base(path), &path)
}

func TestListsOfAURLAreServedAndRenewed(t *testing.T) {
	paths, _ := versions(t, t.TempDir(), 2, 6, 40)
	o := newOrigins(t)
	dir := t.TempDir()
	from := func(c *Config) {
		c.Path, c.Poll, c.pause = o.URL+"/lists.weir?token=secret", time.Millisecond, time.Millisecond
	}
	s := serveFeed(t, dir, server.Config{}, from)
	s.problem(503, "GET", "/feed/1", "", "no lists yet")
	if h := s.Health(); h.State != server.StateDown {
		t.Errorf("health without lists: %v", h)
	}
	o.set(paths[0])
	systest.Eventually(t, "the first lists", func() bool { return s.Health().State == server.StateReady })
	if got := s.ok("GET", "/feed/1?size=2", ""); got != "[41,42]" {
		t.Errorf("of the first lists: %s", got)
	}
	o.set(paths[1])
	systest.Eventually(t, "the second lists", func() bool { return s.Feed.Generation() == 2 })
	if got := s.ok("GET", "/feed/1?size=2", ""); got != "[281,282]" {
		t.Errorf("of the second lists: %s", got)
	}
	o.fails.Store(true)
	systest.Eventually(t, "health", func() bool { return s.Health().State == server.StateDegraded })
	if n := o.bodies.Load(); n != 2 {
		t.Errorf("downloaded %d times, want 2", n)
	}
	if strings.Contains(s.logged.String(), "secret") {
		t.Error("the log holds the token")
	}
}

func TestListsOfAURLServeAfterARestartWithoutIt(t *testing.T) {
	paths, all := versions(t, t.TempDir(), 1, 6, 40)
	o := newOrigins(t)
	o.set(paths[0])
	f := open(t, t.TempDir(), func(c *Config) {
		c.Path, c.Poll, c.pause = o.URL+"/lists.weir", time.Hour, time.Millisecond
	})
	systest.Eventually(t, "the lists", func() bool { return f.Health().State == server.StateReady })
	f.take(0, 0, 3)
	f.close()
	o.fails.Store(true)
	f.reopen()
	if got, _ := f.take(0, 0, 3); len(got) != 3 || got[0] != all[0][0][3] {
		t.Errorf("after a restart: %v, want those after %v", got, all[0][0][:3])
	}
}

func TestListsOfAURLThatLookLikeAMistakeAreRefusedUntilForced(t *testing.T) {
	dir := t.TempDir()
	many, few := filepath.Join(dir, "many"), filepath.Join(dir, "few")
	numbered(10, 5).write(t, many, dense, false)
	numbered(2, 5).write(t, few, dense, false)
	o := newOrigins(t)
	o.set(many)
	s := serveFeed(t, t.TempDir(), server.Config{}, func(c *Config) {
		c.Path, c.Poll, c.MinShare = o.URL+"/lists.weir", -1, 0.5
	})
	systest.Eventually(t, "the lists", func() bool { return s.Health().State == server.StateReady })
	o.set(few)
	for range 2 { // and still at the next look
		if err := s.Feed.Reload(t.Context()); s.Feed.Generation() != 1 {
			t.Fatalf("generation %d, %v", s.Feed.Generation(), err)
		}
		if h := s.Health(); h.State != server.StateDegraded || !strings.Contains(h.Reason, "force=1") {
			t.Errorf("health: %v", h)
		}
	}
	if err := s.Feed.reloadBy(t.Context(), true); err != nil || s.Feed.Generation() != 2 {
		t.Errorf("forced: generation %d, %v", s.Feed.Generation(), err)
	}
	if h := s.Health(); h.State != server.StateReady {
		t.Errorf("health: %v", h)
	}
}

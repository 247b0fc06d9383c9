package feed

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/server"
	"weir/internal/systest"
)

// byNumber is a ranking in which items with larger numbers are better.
type byNumber struct {
	items  []string
	off    *atomic.Bool
	asked  *atomic.Value // the last user
	scores []float64
}

func (r *byNumber) Sample(dst []float64, user []byte) bool {
	r.asked.Store(string(user))
	if r.off.Load() {
		return false
	}
	copy(dst, r.scores)
	return true
}

func TestShortFeedsAreFilledWithTheBestByARanking(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := writeDemo(t, dense, false, 500, 900, 700, 3, 800, 600)
		f := open(t, dir, func(c *Config) { c.RankFallback = true })
		var off atomic.Bool
		var asked atomic.Value
		if err := f.SetRanker(func(items []string) Ranking {
			r := &byNumber{items: items, off: &off, asked: &asked}
			for _, item := range items {
				n, err := strconv.ParseFloat(item, 64)
				if err != nil {
					t.Errorf("item %q is no number", item)
				}
				r.scores = append(r.scores, n)
			}
			return r
		}); err != nil {
			t.Fatal(err)
		}
		s := serveOpen(t, f, kernel)
		want(t, "the best three", s.items("GET", "/feed/0099999?size=3"), []uint64{900, 800, 700})
		if asked.Load() != "99999" {
			t.Errorf("scores were asked for user %q, want the number without zeros", asked.Load())
		}
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "after a reload", s.items("GET", "/feed/99999?size=2"), []uint64{900, 800})

		// Without scores the fill is a random one: it does not stay the same.
		off.Store(true)
		first := s.items("GET", "/feed/99999?size=3")
		systest.Eventually(t, "another fill",
			func() bool { return !slices.Equal(first, s.items("GET", "/feed/99999?size=3")) })
	})
}

// waiting is a ranking that takes as long as the test wants.
type waiting struct{ begun, over chan struct{} }

func (r waiting) Sample([]float64, []byte) bool {
	r.begun <- struct{}{}
	<-r.over
	return false
}

// A fill of many scored items is made by a worker, whoever it is for: both loops answer others meanwhile.
func TestLongFillsKeepNobodyWaiting(t *testing.T) {
	dir := writeDemo(t, dense, false)
	var items strings.Builder
	for i := range 2 * maxRankedInline {
		fmt.Fprintln(&items, 1000+i)
	}
	file := filepath.Join(dir, "fallback")
	if err := os.WriteFile(file, []byte(items.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, dir, func(c *Config) { c.RankFallback, c.Fallback = true, file })
	r := waiting{make(chan struct{}), make(chan struct{})}
	if err := f.SetRanker(func([]string) Ranking { return r }); err != nil {
		t.Fatal(err)
	}
	<-f.current.Load().warmed
	s := serveOpen(t, f, server.Config{})
	// Each request is on another loop than the one before.
	s.client.Transport.(*http.Transport).DisableKeepAlives = true
	for _, user := range []string{"9", "99999"} {
		filled := make(chan []uint64)
		go func() { filled <- s.items("GET", "/feed/"+user) }()
		<-r.begun
		for range 4 {
			if got := s.items("GET", "/feed/4?size=1"); len(got) != 1 {
				t.Errorf("%d items came while user %s's are ranked", len(got), user)
			}
		}
		r.over <- struct{}{}
		if got := <-filled; len(got) != 10 {
			t.Errorf("user %s has got %d items, want 10", user, len(got))
		}
	}
}

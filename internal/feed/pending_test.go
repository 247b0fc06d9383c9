package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
	"weir/internal/server"
	"weir/internal/systest"
)

// elsewhere has positions kept by an engine that takes a round trip to answer.
func elsewhere(c *Config) { c.positions = &positionstest.Reference{Slow: true} }

func TestPositionsThatAreKeptElsewhereAreAwaited(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		eachShape(t, func(t *testing.T, as shape, names bool) {
			dir := t.TempDir()
			l := numbered(3, 20)
			l.write(t, filepath.Join(dir, "feeds.weir"), as, names, 91, 92, 93)
			s := serveFeed(t, dir, kernel, elsewhere)
			items := func(ids ...uint64) string {
				if b, err := json.Marshal(ids); err == nil && !names {
					return string(b)
				}
				b, _ := json.Marshal(texts(ids))
				return string(b)
			}
			for _, step := range []struct{ method, path, body, want string }{
				{"GET", "/feed/1?size=3", "", items(l[1][:3]...)},
				{"POST", "/feed/1?size=2", "", items(l[1][3:5]...)},
				{"GET", "/feed/1?size=2&peek=1", "", items(l[1][5:7]...)},
				{"GET", "/feed/2?size=1", "", items(l[2][:1]...)},
			} {
				if got := s.ok(step.method, step.path, step.body); got != step.want {
					t.Errorf("%s %s: %s, want %s", step.method, step.path, got, step.want)
				}
			}
			at := func(method, body string, want int) {
				t.Helper()
				var p struct{ Position, Remaining, Length int }
				if err := json.Unmarshal([]byte(s.ok(method, "/feed/1/position", body)), &p); err != nil ||
					p.Position != want || p.Remaining != 20-want || p.Length != 20 {
					t.Errorf("%s: %+v, %v; want position %d", method, p, err, want)
				}
			}
			at("GET", "", 5)
			at("PUT", `{"position":19}`, 19)
			var got struct{ Position, Remaining, Fallback int }
			if err := json.Unmarshal([]byte(s.ok("GET", "/feed/1?size=4&meta=1", "")), &got); err != nil ||
				got.Position != 20 || got.Fallback != 3 {
				t.Errorf("at the end: %+v, %v", got, err)
			}
			at("DELETE", "", 0)
			if a := s.do("HEAD", "/feed/1", ""); a.status != 200 {
				t.Errorf("HEAD: %d", a.status)
			}
			at("GET", "", 0)
			s.problem(409, "GET", "/feed/1?from=0&list=0123456789ab", "", "list")
			s.problem(422, "GET", "/feed/1?size=256", "", "size")
			s.problem(404, "GET", "/feed/7/position", "", "no list")
			s.ok("GET", "/feed/7?size=2", "")
		})
	})
}

func texts(ids []uint64) (all []string) {
	for _, id := range ids {
		all = append(all, fmt.Sprint(id))
	}
	return all
}

func TestNoItemIsGivenTwiceByPositionsKeptElsewhereWhateverIsSwapped(t *testing.T) {
	const users, items, clients = 6, 400, 8
	paths, all := versions(t, t.TempDir(), 12, users, items)
	given := make([]atomic.Uint32, len(all)*users*items+1)
	dir := t.TempDir()
	f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	elsewhere(&f.cfg)
	f.use(paths[0])
	f.reopen()
	s := serveOpen(t, f, server.Config{})
	var answers atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for i := range clients {
		load.Go(func() {
			for n := i; ctx.Err() == nil && !t.Failed(); n++ {
				resp, err := s.client.Get(fmt.Sprintf("%s/feed/%d?size=2&meta=1", s.url, n%users))
				if err != nil {
					t.Error(err)
					return
				}
				var got struct {
					Items    []json.Number
					Fallback int
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if answers.Add(1); resp.StatusCode == 500 {
					continue // nothing is left, nor any fallback
				}
				if quoted := json.Unmarshal(body, &got); err != nil || quoted != nil ||
					resp.StatusCode != 200 {
					t.Errorf("%d %s: %v, %v", resp.StatusCode, body, err, quoted)
					return
				}
				for _, item := range got.Items[:len(got.Items)-got.Fallback] {
					if id, err := item.Int64(); err != nil || given[id].Add(1) != 1 {
						t.Errorf("item %s was given twice, or is none: %v", item, err)
					}
				}
			}
		})
	}
	for _, path := range paths[1:] {
		f.use(path)
		for want := answers.Load() + 100; answers.Load() < want && !t.Failed(); {
			systest.Eventually(t, "answers", func() bool { return answers.Load() >= want || t.Failed() })
		}
	}
	stop()
	load.Wait()
}

// held are positions whose answers wait for the end of their request.
type held struct {
	progress.Positions
	submitted, ended atomic.Int32
	err              error // the answer of Submit, at once, if there is one
}

type heldGeneration struct {
	progress.Generation
	*held
}

func (h *held) Prepare(lists progress.Lists) (progress.Generation, error) {
	g, err := h.Positions.Prepare(lists)
	return heldGeneration{g, h}, err
}

func (h heldGeneration) Submit(ctx context.Context, _ progress.User, _ progress.List, _ progress.Op,
	done func(progress.Move, error)) {
	h.submitted.Add(1)
	if h.err != nil {
		done(progress.Move{}, h.err)
		return
	}
	go func() {
		<-ctx.Done()
		h.ended.Add(1)
		done(progress.Move{}, ctx.Err())
	}()
}

func TestWhoWaitsForAPositionIsLetGoOf(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		h := &held{Positions: &positionstest.Reference{Slow: true}}
		dir := t.TempDir()
		numbered(3, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
		var clients sync.WaitGroup
		t.Cleanup(func() {
			clients.Wait() // the server has stopped, though a request was pending
			if h.ended.Load() != 2 {
				t.Error("the server does not give up a request to stop")
			}
		})
		kernel.ShutdownTimeout = 100 * time.Millisecond
		s := serveFeed(t, dir, kernel, func(c *Config) { c.positions = h })
		t.Cleanup(func() { s.Feed = nil }) // Run may say that a request was given up
		gone, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(gone, "GET /feed/1 HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		systest.Eventually(t, "a request that is pending", func() bool { return h.submitted.Load() == 1 })
		// A reset: who merely sends no more is answered.
		if err := gone.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		gone.Close()
		systest.Eventually(t, "its end", func() bool { return h.ended.Load() == 1 })
		clients.Go(func() {
			if resp, err := s.client.Get(s.url + "/feed/1"); err == nil {
				resp.Body.Close()
			}
		})
		systest.Eventually(t, "another", func() bool { return h.submitted.Load() == 2 })
	})
}

// An engine knows of newer lists than this server: trying again would not end.
func TestListsThatAreOutdatedElsewhereAreRefused(t *testing.T) {
	h := &held{Positions: &positionstest.Reference{Slow: true}, err: progress.ErrSuperseded}
	dir := t.TempDir()
	numbered(3, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions = h })
	s.problem(503, "GET", "/feed/1", "", "newer lists")
	s.problem(503, "PUT", "/feed/1/position", `{"position":3}`, "newer lists")
	if n := h.submitted.Load(); n != 2 {
		t.Errorf("%d attempts, want one a request", n)
	}
}

// An engine is lost: nobody knows where users are, so that only fallback items can be given.
func TestFeedsAreRefusedOrFallbackItemsWhileTheEngineIsLost(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		h := &held{Positions: &positionstest.Reference{Slow: true},
			err: fmt.Errorf("a shard: %w", cluster.ErrUnavailable)}
		dir := t.TempDir()
		numbered(3, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false, 91)
		s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions, c.FallbackWhenLost = h, fallback })
		s.problem(503, "PUT", "/feed/1/position", `{"position":3}`, "saved")
		if !fallback {
			s.problem(503, "GET", "/feed/1", "", "no items")
			continue
		}
		for path, want := range map[string]string{"/feed/1": "[91]",
			"/feed/1?meta=1": `{"items":[91],"fallback":1,"degraded":true}`} {
			if a := s.do("GET", path, ""); a.body != want || a.header.Get("Weir-Degraded") == "" {
				t.Errorf("%s: %s, %v; want %s and Weir-Degraded", path, a.body, a.header, want)
			}
		}
		if a := s.do("GET", "/feed/7", ""); a.body != "[91]" || a.header.Get("Weir-Degraded") != "" {
			t.Errorf("a user without a list: %s, %v", a.body, a.header)
		}
	}
}

package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/members"
	"weir/internal/cluster/publications"
	"weir/internal/feed/source"
	"weir/internal/server"
	"weir/internal/systest"
)

// quiet is a log of nothing.
var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// onBoth runs a test on a cluster of each server, with a function that connects to it, each time as another
// node does.
func onBoth(t *testing.T, test func(t *testing.T, connect func() *cluster.Client)) {
	t.Parallel()
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			t.Parallel()
			s := clustertest.Start(t, clustertest.Options{Server: server, Replicas: 1})
			test(t, func() *cluster.Client {
				c, err := cluster.Open(t.Context(), cluster.Options{Addrs: s.Addrs(), Replicas: 1,
					Prefix: clustertest.Prefix(t), Timeout: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			})
		})
	}
}

// node serves the feeds of one node of a cluster.
func node(t *testing.T, connect func() *cluster.Client, id string, change ...func(*Config)) *served {
	t.Helper()
	c := connect()
	return serveFeed(t, t.TempDir(), server.Config{}, append([]func(*Config){func(cfg *Config) {
		cfg.Path, cfg.Cluster, cfg.pause = Published, c, time.Millisecond
		cfg.Members = members.Join(c, members.Member{ID: id, Address: id}, quiet)
		t.Cleanup(func() { cfg.Members.Close() })
	}}, change...)...)
}

// publishing returns a context for a publication that all nodes have soon.
func publishing(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// sourceOf has an origin serve a file, and returns what to publish.
func (o *origins) sourceOf(t *testing.T, path string) publications.Options {
	t.Helper()
	o.set(path)
	sum, err := source.SumOfLists(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return publications.Options{Source: o.URL + "/" + filepath.Base(path) + "?token=secret", SHA256: sum}
}

// serving returns the number of the publication that a node serves.
func (s *served) serving() uint64 { return s.Feed.current.Load().from.publication.Number }

func TestNodesOfAClusterGiveNoItemTwiceWhileListsArePublished(t *testing.T) {
	onBoth(t, func(t *testing.T, connect func() *cluster.Client) {
		const users, items, clients = 12, 400, 6
		paths, all := versions(t, t.TempDir(), 6, users, items)
		o := newOrigins(t)
		nodes := []*served{node(t, connect, "a"), node(t, connect, "b"), node(t, connect, "c")}
		c := connect()
		first, err := publications.Publish(publishing(t), c, o.sourceOf(t, paths[0]))
		if err != nil {
			t.Fatal(err)
		}
		given := make([]atomic.Uint32, len(all)*users*items+1)
		var answers, refused atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var load sync.WaitGroup
		for i := range clients {
			load.Go(func() {
				for n := i; ctx.Err() == nil && !t.Failed(); n++ {
					s := nodes[rand.IntN(len(nodes))]
					resp, err := s.client.Get(fmt.Sprintf("%s/feed/%d?size=2&meta=1", s.url, n%users))
					if err != nil {
						t.Error(err)
						return
					}
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					answers.Add(1)
					switch resp.StatusCode {
					case http.StatusServiceUnavailable:
						if refused.Add(1); resp.Header.Get("Retry-After") == "" {
							t.Errorf("503 without Retry-After: %s", body)
						}
						continue
					case http.StatusInternalServerError: // nothing is left, nor any fallback
						continue
					}
					var got struct {
						Items    []json.Number
						Fallback int
					}
					if wrong := json.Unmarshal(body, &got); err != nil || wrong != nil || resp.StatusCode != 200 {
						t.Errorf("%d %s: %v, %v", resp.StatusCode, body, err, wrong)
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
		moment := func() {
			for want := answers.Load() + 100; answers.Load() < want && !t.Failed(); {
				systest.Eventually(t, "answers", func() bool { return answers.Load() >= want || t.Failed() })
			}
		}
		last, here := first.Number, slices.Clone(nodes)
		for i, path := range paths[1:] {
			moment()
			if i == 3 {
				late := node(t, connect, "late")
				if n := late.serving(); n != 0 && n != last {
					t.Errorf("a node that joins late serves %x, others %x", n, last)
				}
				here = append(here, late)
			}
			p, err := publications.Publish(publishing(t), c, o.sourceOf(t, path))
			if err != nil {
				t.Fatal(err)
			}
			if last >= p.Number {
				t.Errorf("number %x comes after %x", p.Number, last)
			}
			last = p.Number
			for _, s := range here {
				if s.serving() != last {
					t.Errorf("a node serves %x, published is %x", s.serving(), last)
				}
			}
		}
		moment()
		stop()
		load.Wait()
		t.Logf("%d answers, of which %d were 503", answers.Load(), refused.Load())
		if refused.Load() > answers.Load()/10 {
			t.Errorf("%d of %d answers were 503", refused.Load(), answers.Load())
		}
		for _, s := range nodes {
			if strings.Contains(s.logged.String(), "secret") {
				t.Error("the log holds the token")
			}
		}
	})
}

func TestARollBackIsAPublicationWithANewNumber(t *testing.T) {
	onBoth(t, func(t *testing.T, connect func() *cluster.Client) {
		paths, all := versions(t, t.TempDir(), 2, 6, 40)
		o := newOrigins(t)
		a, b := node(t, connect, "a"), node(t, connect, "b")
		c := connect()
		var numbers []uint64
		for _, path := range paths {
			p, err := publications.Publish(publishing(t), c, o.sourceOf(t, path))
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, p.Number)
			a.ok("GET", "/feed/0?size=2", "") // the list is the same in all
			b.ok("GET", "/feed/1?size=2", "")
		}
		o.fails.Store(true) // nodes have the lists still
		back, err := publications.Publish(publishing(t), c, publications.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if back.Number <= numbers[1] || back.Again != numbers[0] || b.serving() != back.Number {
			t.Errorf("rolled back from %x to %x by %+v", numbers[1], numbers[0], back)
		}
		if got := b.ok("GET", "/feed/0?size=1", ""); got != fmt.Sprintf("[%d]", all[0][0][4]) {
			t.Errorf("of a list that was the same all the time: %s", got)
		}
		if got := a.ok("GET", "/feed/1?size=1", ""); got != fmt.Sprintf("[%d]", all[0][1][0]) {
			t.Errorf("of a list that has begun anew: %s", got)
		}
	})
}

func TestAPublicationWaitsForNodesThatAreThereAndForNoneThatWasKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, connect func() *cluster.Client) {
		paths, _ := versions(t, t.TempDir(), 2, 6, 40)
		damaged := filepath.Join(t.TempDir(), "damaged")
		content, err := os.ReadFile(paths[1])
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-40] ^= 1
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		o := newOrigins(t)
		s := node(t, connect, "a")
		c := connect()
		if _, err := publications.Publish(publishing(t), c, o.sourceOf(t, paths[0])); err != nil {
			t.Fatal(err)
		}
		// What comes is not what was published.
		next := o.sourceOf(t, paths[1])
		o.named.Store(filepath.Base(paths[1]), &damaged)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		next.Report = func(_ uint64, nodes []publications.Node) {
			if len(nodes) == 1 && strings.Contains(nodes[0].Error, "SHA-256") {
				stop()
			}
		}
		behind := (*publications.BehindError)(nil)
		if _, err := publications.Publish(ctx, c, next); !errors.As(err, &behind) || len(behind.Nodes) != 1 {
			t.Fatalf("a download that is damaged: %v", err)
		}
		before := s.serving()
		if got := s.ok("GET", "/feed/1?size=1", ""); got != "[41]" {
			t.Errorf("the lists of before serve %s", got)
		}
		other := o.sourceOf(t, paths[0])
		other.SHA256 = strings.Repeat("0", 64)
		if _, err := publications.Publish(publishing(t), c, other); !errors.Is(err, publications.ErrUnderWay) {
			t.Errorf("another publication meanwhile: %v", err)
		}
		// Right again; and a node that is killed is waited for no longer than it takes to see that it is gone.
		killed := connect()
		ghost := members.Join(killed, members.Member{ID: "ghost", Address: "ghost"}, quiet)
		ghost.Set(publications.FactName, publications.Fact{Serves: before})
		systest.Eventually(t, "the node that will be killed", func() bool {
			nodes, err := publications.Nodes(t.Context(), c)
			return err == nil && len(nodes) == 2
		})
		killed.Close()
		t.Cleanup(func() { ghost.Close() })
		next = o.sourceOf(t, paths[1])
		p, err := publications.Publish(publishing(t), c, next)
		if err != nil || s.serving() != p.Number || p.Number <= before {
			t.Fatalf("%+v, %v; the node serves %x, before %x", p, err, s.serving(), before)
		}
		if got := s.ok("GET", "/feed/1?size=1", ""); got != "[281]" {
			t.Errorf("the new lists serve %s", got)
		}
	})
}

func TestTheListsOfTheFlagsAreTheFirstPublication(t *testing.T) {
	onBoth(t, func(t *testing.T, connect func() *cluster.Client) {
		paths, _ := versions(t, t.TempDir(), 2, 6, 40)
		use := func(path string) func(*Config) { return func(cfg *Config) { cfg.Path = path } }
		a := node(t, connect, "a", use(paths[0]))
		systest.Eventually(t, "lists", func() bool { return a.Health().State == server.StateReady })
		b := node(t, connect, "b", use(paths[1])) // which are not what the cluster has
		systest.Eventually(t, "lists", func() bool { return b.Health().State == server.StateReady })
		if got := a.ok("GET", "/feed/1?size=1", "") + b.ok("GET", "/feed/1?size=1", ""); got != "[41][42]" {
			t.Errorf("two nodes serve %s", got)
		}
		if a.serving() == 0 || a.serving() != b.serving() {
			t.Errorf("two nodes serve %x and %x", a.serving(), b.serving())
		}
	})
}

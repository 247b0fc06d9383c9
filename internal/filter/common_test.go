package filter_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/filter"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/systest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// editions is an origin of feeds whose editions a test publishes, and counts who asks.
type editions struct {
	*upstream
	edition atomic.Int64
	since   time.Time

	mu    sync.Mutex
	asked map[string]int
}

func newEditions(t testing.TB) *editions {
	e := &editions{asked: make(map[string]int), since: time.Now()}
	e.upstream = newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.asked[r.URL.Path]++
		e.mu.Unlock()
		if path, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
			http.Redirect(w, r, "/new"+path, http.StatusFound)
			return
		}
		n := e.edition.Load()
		tag := strconv.Quote(fmt.Sprint(n))
		w.Header().Set("Content-Type", "application/rss+xml")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(304)
			return
		}
		undated := fmt.Sprintf("<item><title>Without date or id, of %s, edition %d</title></item>", r.URL.Path, n)
		io.WriteString(w, strings.Replace(rss, "<item>", undated+"<item>", 1))
	})
	return e
}

// nodes serve the same filters.
func nodes(t *testing.T, o cluster.Options, up *upstream, count int, change func(*filter.Config)) []*served {
	all := make([]*served, count)
	for i := range all {
		client, err := cluster.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		all[i], _ = serve(t, t.TempDir(), up, server.Config{}, func(c *filter.Config) {
			c.Cluster = client
			if change != nil {
				change(c)
			}
		})
	}
	return all
}

// inCluster runs a test on both servers.
func inCluster(t *testing.T, test func(t *testing.T, o cluster.Options)) {
	t.Parallel()
	for _, kind := range clustertest.Servers() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: kind, Shards: 2, Replicas: 1})
			test(t, cluster.Options{Addrs: c.Addrs(), Prefix: clustertest.Prefix(t), Replicas: 1,
				Timeout: 10 * time.Second})
		})
	}
}

// said is what of an answer must not depend on the node.
func said(a answer) string {
	body := a.body
	if a.header.Get("Content-Encoding") != "" {
		body = fmt.Sprintf("%d bytes, SHA-256 %x", len(body), sha256.Sum256([]byte(body)))
	}
	return fmt.Sprintln(a.status, a.header.Get("ETag"), a.header.Get("Last-Modified"),
		a.header.Get("Cache-Control"), a.header.Get("Content-Type"), a.header.Get("Weir-Stale"), body)
}

func TestNodesAnswerAlikeAndAskASourceAsOneDoes(t *testing.T) {
	inCluster(t, func(t *testing.T, o cluster.Options) {
		const interval = time.Second
		up := newEditions(t)
		all := nodes(t, o, up.upstream, 3, func(c *filter.Config) { c.Interval = interval })
		var paths []string
		var sources [][]string
		for i := range 10 {
			spec := fmt.Sprintf(`{"url":"%s/%d","rules":["title contains \"advert\""]}`, up.URL, i)
			of := []string{fmt.Sprint("/", i)}
			if i >= 8 {
				of = append(of, fmt.Sprint("/new", i))
				spec = fmt.Sprintf(`{"urls":["%s/%d","%s/moved%d"],"limit":7,"report_failures":true}`, up.URL, i,
					up.URL, i)
			}
			a := all[i%3]
			sources = append(sources, of)
			paths = append(paths, strings.TrimPrefix(a.add(spec), a.public))
		}
		alike := func() {
			t.Helper()
			for i, path := range paths {
				for _, source := range sources[i] {
					now := fmt.Sprintf("of %s, edition %d<", source, up.edition.Load())
					systest.Eventually(t, now+" on all nodes", func() bool {
						for _, n := range all {
							if got := n.do("GET", n.public+path, ""); got.status != 200 || !strings.Contains(got.body, now) {
								return false
							}
						}
						return true
					})
				}
				for _, suffix := range []string{"", ".json", ".atom"} {
					for _, encoding := range []string{"", "gzip"} {
						first := all[0].want(all[0].public+path+suffix, 200, "Accept-Encoding", encoding)
						for _, n := range all[1:] {
							if got := n.want(n.public+path+suffix, 200, "Accept-Encoding", encoding); said(got) != said(first) {
								t.Errorf("%s%s %s: nodes answer\n%s\n%s", path, suffix, encoding, said(first), said(got))
							}
							n.want(n.public+path+suffix, 304, "Accept-Encoding", encoding, "If-None-Match",
								first.header.Get("ETag"))
						}
					}
				}
			}
		}
		for range 3 {
			alike()
			up.edition.Add(1)
		}
		alike()
		up.mu.Lock()
		defer up.mu.Unlock()
		most := 1 + int(time.Since(up.since)/interval)
		for path, n := range up.asked {
			if n > most {
				t.Errorf("%s was asked for %d times, one node had asked for it %d times", path, n, most)
			}
		}
		if len(up.asked) != 14 {
			t.Errorf("asked for %v", up.asked)
		}
	})
}

func TestNodesFailAlike(t *testing.T) {
	inCluster(t, func(t *testing.T, o cluster.Options) {
		up := newUpstream(t, feed(rss))
		all := nodes(t, o, up, 3, polled)
		at := strings.TrimPrefix(all[0].add(`{"url":"`+up.URL+`/one","report_failures":true}`), all[0].public)
		for _, n := range all {
			systest.Eventually(t, "the feed on all nodes", func() bool {
				return n.do("GET", n.public+at, "").status == 200
			})
		}
		up.set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		})
		systest.Eventually(t, "all nodes say that it fails", func() bool {
			for _, n := range all {
				if n.want(n.public+at, 200).header.Get("Weir-Stale") == "" {
					return false
				}
			}
			return true
		})
		before := up.asked.Load()
		first := all[0].want(all[0].public+at, 200)
		if !strings.Contains(first.body, "cannot be fetched") {
			t.Errorf("%s", first.body)
		}
		for _, n := range all {
			if got := n.want(n.public+at, 200); said(got) != said(first) {
				t.Errorf("nodes answer\n%s\n%s", said(first), said(got))
			}
			st, one := n.state(up.URL+"/one"), all[0].state(up.URL+"/one")
			if st.Failures != 1 || st.Status != 503 || !st.Next.Equal(*one.Next) || time.Until(*st.Next) < time.Hour/2 {
				t.Errorf("%+v", st)
			}
		}
		if n := up.asked.Load(); n != before {
			t.Errorf("asked %d times more", n-before)
		}
	})
}

func TestWhatAnOwnerHasFetchedIsOnAllNodes(t *testing.T) {
	inCluster(t, func(t *testing.T, o cluster.Options) {
		up := newEditions(t)
		all := nodes(t, o, up.upstream, 3, nil) // asks once an hour
		at := strings.TrimPrefix(all[0].add(`{"url":"`+up.URL+`/one"}`), all[0].public)
		has := func(text string) {
			t.Helper()
			for _, n := range all {
				systest.Eventually(t, text, func() bool { return strings.Contains(n.do("GET", n.public+at, "").body, text) })
			}
		}
		has("edition 0")
		up.edition.Add(1)
		id := at[strings.LastIndexByte(at, '/')+1:]
		if got := all[1].do("POST", all[1].admin+"/admin/filters/"+id+"/fetch", ""); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		has("edition 1")
		if up.upstream.asked.Load() != 2 {
			t.Errorf("asked for %v", up.asked)
		}
		// A node that is new takes what there is, and a change that nobody else has made since.
		all = append(all, nodes(t, o, up.upstream, 1, nil)...)
		has("edition 1")
		if up.upstream.asked.Load() != 2 {
			t.Errorf("asked for %v", up.asked)
		}
		// One that comes when what came is no longer there fetches it, and dates it as the others do.
		was := all[0].want(all[0].public+at, 200)
		client, err := cluster.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if n := forgetBodies(t, client, o.Prefix); n != 1 {
			t.Fatalf("%d bodies in the engine", n)
		}
		systest.Eventually(t, "a second has passed", func() bool {
			modified, _ := http.ParseTime(was.header.Get("Last-Modified")) //nolint:errcheck // it is one
			return time.Since(modified) > 2*time.Second
		})
		all = append(all, nodes(t, o, up.upstream, 1, nil)...)
		if got := all[4].want(all[4].public+at, 200); said(got) != said(was) || up.upstream.asked.Load() != 3 {
			t.Errorf("asked for %v; nodes answer\n%s\n%s", up.asked, said(was), said(got))
		}
		if got := all[3].do("PATCH", all[3].admin+"/admin/filters/"+id,
			`{"rules":["title contains \"edition\""]}`); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		for _, n := range all {
			systest.Eventually(t, "the change on all nodes", func() bool {
				return !strings.Contains(n.want(n.public+at, 200).body, "edition")
			})
		}
		if got := all[2].do("PUT", all[2].admin+"/admin/filters/rules", `{"rules":"title contains \"sports\""}`); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		for _, n := range all {
			systest.Eventually(t, "the global rules on all nodes", func() bool {
				return !strings.Contains(n.want(n.public+at, 200).body, "Sports")
			})
		}
		if got := all[0].do("DELETE", all[0].admin+"/admin/filters/"+id, ""); got.status != 204 {
			t.Fatalf("%+v", got)
		}
		for _, n := range all {
			systest.Eventually(t, "the filter is gone on all nodes", func() bool {
				return n.do("GET", n.public+at, "").status == 404
			})
		}
	})
}

// forgetBodies removes what nodes have published of sources, and returns of how many.
func forgetBodies(t *testing.T, c *cluster.Client, prefix string) (n int) {
	err := c.Each(t.Context(), func(ctx context.Context, node cluster.Node) error {
		if !node.Primary {
			return nil
		}
		reply, err := node.Do(ctx, "KEYS", prefix+":fb:*")
		if err != nil {
			return err
		}
		keys, err := reply.AsStrSlice()
		for _, key := range keys {
			n++
			_, derr := node.Do(ctx, "DEL", key)
			err = errors.Join(err, derr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWithoutTheEngineFeedsAreServedAndChangesAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range clustertest.Servers() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: kind, Shards: 1, Replicas: 1, Own: true})
			up := newEditions(t)
			all := nodes(t, cluster.Options{Addrs: c.Addrs(), Replicas: 1, Timeout: 2 * time.Second}, up.upstream, 2,
				func(c *filter.Config) { c.Interval = 100 * time.Millisecond })
			at := strings.TrimPrefix(all[0].add(`{"url":"`+up.URL+`/one"}`), all[0].public)
			unread := strings.TrimPrefix(all[0].add(`{"url":"`+up.URL+`/two"}`), all[0].public)
			for _, n := range all {
				systest.Eventually(t, "the feed on all nodes", func() bool {
					return n.do("GET", n.public+at, "").status == 200
				})
			}
			for _, n := range c.Nodes {
				if err := n.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			id := at[strings.LastIndexByte(at, '/')+1:]
			for _, n := range all {
				for path, body := range map[string]string{"POST ": `{"url":"` + up.URL + `/three"}`,
					"PATCH /" + id: `{"title":"x"}`, "DELETE /" + id: "", "PUT /rules": `{"rules":"title exists"}`} {
					method, path, _ := strings.Cut(path, " ")
					got := n.do(method, n.admin+"/admin/filters"+path, body)
					if got.status != 503 || got.header.Get("Retry-After") == "" {
						t.Errorf("%s %s: %+v", method, path, got)
					}
				}
				n.want(n.public+at, 200)
				if got := n.want(n.public+unread, 200); !strings.Contains(got.body, "of /two") {
					t.Errorf("what nobody has read before: %s", got.body)
				}
			}
			up.edition.Add(1) // is fetched in the end, by each node for itself
			for _, n := range all {
				systest.Eventually(t, "a fetch without the engine", func() bool {
					return strings.Contains(n.want(n.public+at, 200).body, "edition 1")
				})
			}
			for _, n := range c.Nodes {
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := c.AwaitHealthy(ctx); err != nil {
				t.Fatal(err)
			}
			systest.Eventually(t, "changes are made again", func() bool {
				return all[1].do("PATCH", all[1].admin+"/admin/filters/"+id, `{"title":"x"}`).status == 200
			})
			systest.Eventually(t, "all nodes have the same filters, and date them alike", func() bool {
				var lists [2]struct{ Filters []filter.Shown }
				for i, n := range all {
					if err := json.Unmarshal([]byte(n.do("GET", n.admin+"/admin/filters", "").body), &lists[i]); err != nil {
						t.Fatal(err)
					}
				}
				return len(lists[0].Filters) == 2 && len(lists[1].Filters) == 2 &&
					lists[0].Filters[0].Title == lists[1].Filters[0].Title &&
					lists[0].Filters[1].Title == lists[1].Filters[1].Title &&
					said(all[0].want(all[0].public+at, 200)) == said(all[1].want(all[1].public+at, 200))
			})
		})
	}
}

func TestTheFiltersOfAServerByItselfAreBroughtIntoACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, o cluster.Options) {
		up := newUpstream(t, feed(rss))
		box := t.TempDir()
		s, stop := serve(t, box, up, server.Config{}, nil)
		at := strings.TrimPrefix(s.add(`{"url":"`+up.URL+`/one","rules":["title contains \"advert\""]}`), s.public)
		if got := s.do("PUT", s.admin+"/admin/filters/rules", `{"rules":"title contains \"sports\""}`); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		stop()
		client, err := cluster.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		log := slog.New(slog.DiscardHandler)
		config := filter.Config{Path: "/filtered", Memory: 1 << 20, Interval: time.Hour, Cluster: client}
		if _, err := filter.Open(config, server.Env{DataDir: box, Metrics: metrics.New(1), Log: log}); err == nil ||
			!strings.Contains(err.Error(), "weir cluster import") {
			t.Fatalf("a node with filters of its own starts: %v", err)
		}
		all, err := store.Open(filepath.Join(box, filter.Folder, filter.StoreFile), log)
		if err != nil {
			t.Fatal(err)
		}
		brought, err := shared.OpenRows(t.Context(), shared.Options{Client: client, Store: all, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{2, 0} {
			if n, err := brought.Import(t.Context()); err != nil || n != want {
				t.Fatalf("%d filters and rules are brought, want %d: %v", n, want, err)
			}
		}
		if err := all.Close(); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes(t, o, up, 2, nil) {
			got := n.want(n.public+at, 200)
			if strings.Contains(got.body, "advert") || strings.Contains(got.body, "Sports") ||
				!strings.Contains(got.body, "Go 1.26") {
				t.Errorf("%s", got.body)
			}
		}
		s, _ = serve(t, box, up, server.Config{}, nil) // and as a server by itself again
		if got := s.want(s.public+at, 200); strings.Contains(got.body, "Sports") {
			t.Errorf("%s", got.body)
		}
	})
}

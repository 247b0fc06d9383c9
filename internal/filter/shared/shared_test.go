package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
	"weir/internal/systest"
)

const victimEnv = "WEIR_TEST_SHARED_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		fmt.Fprintln(os.Stderr, victim())
		os.Exit(1)
	}
	if addr, prefix, ok := strings.Cut(os.Getenv(leaserEnv), " "); ok {
		fmt.Fprintln(os.Stderr, leaser(addr, prefix))
		os.Exit(1)
	}
	os.Exit(clustertest.Main(m))
}

// on runs a test on both servers.
func on(t *testing.T, test func(t *testing.T, o cluster.Options)) {
	t.Parallel()
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: server, Shards: 2, Replicas: 1})
			test(t, cluster.Options{Addrs: c.Addrs(), Prefix: clustertest.Prefix(t), Replicas: 1,
				Timeout: 10 * time.Second})
		})
	}
}

func connect(t testing.TB, o cluster.Options) *cluster.Client {
	t.Helper()
	c, err := cluster.Open(t.Context(), o)
	if err == nil {
		err = c.Load(t.Context(), shared.Functions)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// node is a node's rows, and what it was told of them.
type node struct {
	*shared.Rows
	store *store.Store

	mu      sync.Mutex
	filters map[store.ID]string // titles
	rules   string
	fetched []string
}

func newNode(t testing.TB, o cluster.Options) *node {
	n, err := openNode(t.Context(), connect(t, o), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.store.Close() })
	return n
}

func openNode(ctx context.Context, c *cluster.Client, path string) (*node, error) {
	log := slog.New(slog.DiscardHandler)
	n := &node{filters: make(map[store.ID]string)}
	var err error
	if n.store, err = store.Open(path, log); err != nil {
		return nil, err
	}
	n.Rows, err = shared.OpenRows(ctx, shared.Options{Client: c, Store: n.store, Log: log,
		Changed: func(before, after *store.Filter) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if before != nil {
				if n.filters[before.ID] != before.Title {
					panic(fmt.Sprintf("%q was %q before", before.Title, n.filters[before.ID]))
				}
				delete(n.filters, before.ID)
			}
			if after != nil {
				n.filters[after.ID] = after.Title
			}
		},
		Set: func(name, value string) {
			n.mu.Lock()
			n.rules = name + " " + value
			n.mu.Unlock()
		},
		Fetched: func(url string) {
			n.mu.Lock()
			n.fetched = append(n.fetched, url)
			n.mu.Unlock()
		}})
	return n, err
}

// rows returns what a node's store has.
func (n *node) rows(t testing.TB) map[string]string {
	all := make(map[string]string)
	for row, err := range n.store.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[row.Key] = row.Value
	}
	return all
}

// same fails unless all nodes have what the first one has, which is so many rows.
func same(t testing.TB, count int, nodes ...*node) {
	t.Helper()
	if err := nodes[0].CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := nodes[0].rows(t)
	if len(want) != count {
		t.Fatalf("%d rows, want %d", len(want), count)
	}
	for i, n := range nodes {
		if err := n.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(n.rows(t), want) {
			t.Errorf("node %d has other rows", i)
		}
	}
}

func newFilter(title string) store.Filter {
	at := time.Date(2026, 2, 10, 10, 0, 0, 0, time.UTC)
	return store.Filter{ID: store.NewID(), Created: at, Changed: at,
		Spec: store.Spec{URLs: []string{"https://example.org/" + title}, Title: title}}
}

func many(n int) (all []store.Filter) {
	for i := range n {
		all = append(all, newFilter(fmt.Sprint(i)))
	}
	return all
}

func TestWhatIsChangedOnANodeIsOnAllNodes(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, b := newNode(t, o), newNode(t, o)
		first, second := newFilter("first"), newFilter("second")
		if err := errors.Join(a.Add(ctx, first), b.Add(ctx, second), b.Set(ctx, "rules", "[]"),
			b.Tell(ctx, "https://a.example/")); err != nil {
			t.Fatal(err)
		}
		same(t, 3, b, a)
		changed := first
		changed.Title = "changed"
		if err := b.Update(ctx, first, changed); err != nil {
			t.Fatal(err)
		}
		if err := a.Update(ctx, first, changed); err != nil {
			t.Errorf("a change that was made already: %v", err)
		}
		other := first
		other.Title = "other"
		if err := a.Update(ctx, first, other); !errors.Is(err, store.ErrChanged) {
			t.Errorf("a change of what has changed meanwhile: %v", err)
		}
		if got, err := a.store.Get(ctx, first.ID); err != nil || got.Title != "changed" {
			t.Errorf("who is told of a change finds %+v, %v", got, err)
		}
		if err := a.Delete(ctx, second); err != nil {
			t.Fatal(err)
		}
		gone := second
		gone.Title = "gone"
		if err := b.Update(ctx, second, gone); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a change of what is removed: %v", err)
		}
		if err := b.Add(ctx, other); !errors.Is(err, store.ErrChanged) {
			t.Errorf("an id that is taken: %v", err)
		}
		same(t, 2, a, b)
		want := map[store.ID]string{first.ID: "changed"}
		for _, n := range []*node{a, b} {
			if !maps.Equal(n.filters, want) || n.rules != "rules []" ||
				fmt.Sprint(n.fetched) != "[https://a.example/]" {
				t.Errorf("a node was told of %v, %v, %v", n.filters, n.rules, n.fetched)
			}
		}
	})
}

func TestANewNodeHasAllAndOneThatWasAwayForLongHasThemAgain(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, away := newNode(t, o), newNode(t, o)
		all := many(1500)
		if err := a.Add(ctx, all...); err != nil {
			t.Fatal(err)
		}
		same(t, 1500, a, away, newNode(t, o))
		for i := range 1200 { // more entries than are kept
			f := all[i%10]
			if all[i%10].Title = fmt.Sprint("edition ", i); i < 1190 {
				all[i%10].Title = fmt.Sprint("again ", i)
			}
			if err := a.Update(ctx, f, all[i%10]); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Delete(ctx, all[700]); err != nil {
			t.Fatal(err)
		}
		before := reloads(away)
		same(t, 1499, a, away, newNode(t, o))
		if n := reloads(away) - before; n != 1 {
			t.Errorf("all rows were read %d times", n)
		}
		if away.filters[all[3].ID] != "edition 1193" || away.filters[all[700].ID] != "" {
			t.Errorf("it was told of %q and %q", away.filters[all[3].ID], away.filters[all[700].ID])
		}
	})
}

func reloads(n *node) int64 {
	_, count := n.Counts()
	return count
}

func TestANodeThatDiffersIsMended(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, b := newNode(t, o), newNode(t, o)
		if err := a.Add(ctx, many(20)...); err != nil {
			t.Fatal(err)
		}
		same(t, 20, a, b)
		// As if a failover had taken back an entry that the node has applied.
		path := filepath.Join(t.TempDir(), "db")
		if err := b.store.Backup(ctx, path); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		lost := newFilter("lost")
		if err := errors.Join(s.Add(ctx, lost), s.Close()); err != nil {
			t.Fatal(err)
		}
		c, err := openNode(ctx, connect(t, o), path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.store.Close()
		c.filters[lost.ID] = lost.Title
		before := reloads(c)
		if err := a.Add(ctx, newFilter("next")); err != nil {
			t.Fatal(err)
		}
		same(t, 21, a, b, c)
		if reloads(c) == before || c.filters[lost.ID] != "" {
			t.Errorf("it was read %d times and has %q", reloads(c)-before, c.filters[lost.ID])
		}
	})
}

func TestAnEngineThatHasLostTheFiltersTakesThemFromNobody(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, b := newNode(t, o), newNode(t, o)
		if err := a.Add(ctx, many(20)...); err != nil {
			t.Fatal(err)
		}
		same(t, 20, a, b)
		c := connect(t, o)
		for _, name := range []string{"f:{filters}", "fc:{filters}"} {
			if _, err := c.Do(ctx, cluster.Command{Slot: cluster.Slot(c.Key(name)),
				Args: []string{"DEL", c.Key(name)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.CatchUp(ctx); !errors.Is(err, shared.ErrLost) {
			t.Errorf("reading on: %v", err)
		}
		if err := a.Add(ctx, newFilter("one")); !errors.Is(err, shared.ErrLost) {
			t.Errorf("a change: %v", err)
		}
		other := newNode(t, o) // knows nothing of what there was
		if err := other.Add(ctx, newFilter("one")); err != nil {
			t.Fatal(err)
		}
		if err := b.CatchUp(ctx); !errors.Is(err, shared.ErrLost) {
			t.Errorf("reading on where others have begun anew: %v", err)
		}
		if _, err := b.Status(); !errors.Is(err, shared.ErrLost) {
			t.Errorf("the status: %v", err)
		}
		if len(a.rows(t)) != 20 || len(b.rows(t)) != 20 {
			t.Errorf("%d and %d rows are left", len(a.rows(t)), len(b.rows(t)))
		}
		for i, want := range []int{20, 0} {
			if added, err := []*node{a, b}[i].Import(ctx); err != nil || added != want {
				t.Errorf("brought back %d, want %d: %v", added, want, err)
			}
		}
		same(t, 21, a, b, other)
	})
}

func TestFiltersThatTheEngineDoesNotHaveAreNotRemoved(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, box := newNode(t, o), newNode(t, o)
		own := many(20)
		if err := box.store.Add(ctx, own...); err != nil {
			t.Fatal(err)
		}
		reopen := func() *node {
			t.Helper()
			path := filepath.Join(t.TempDir(), "db")
			if err := box.store.Backup(ctx, path); err != nil {
				t.Fatal(err)
			}
			n, err := openNode(ctx, connect(t, o), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { n.store.Close() })
			return n
		}
		n := reopen()
		if err := n.CatchUp(ctx); !errors.Is(err, shared.ErrForeign) {
			t.Errorf("with an engine without filters: %v", err)
		}
		if err := a.Add(ctx, newFilter("of the cluster")); err != nil {
			t.Fatal(err)
		}
		if err := n.CatchUp(ctx); !errors.Is(err, shared.ErrForeign) || len(n.rows(t)) != 20 {
			t.Errorf("with filters of a cluster: %v, and %d are left", err, len(n.rows(t)))
		}
		for range 2 { // the second time nothing is left to do
			if added, err := n.Import(ctx); err != nil || added > 20 {
				t.Fatal(added, err)
			}
		}
		same(t, 21, a, reopen(), n)
	})
}

// victim applies changes and says how far it has come, until it is killed.
func victim() error {
	ctx := context.Background()
	env := strings.Split(os.Getenv(victimEnv), " ")
	if env[1] == loads {
		return loader(ctx, env[0], env[2], env[3:])
	}
	c, err := cluster.Open(ctx, cluster.Options{Addrs: env[2:], Prefix: env[1], Replicas: 1})
	if err != nil {
		return err
	}
	if err := c.Load(ctx, shared.Functions); err != nil {
		return err
	}
	n, err := openNode(ctx, c, env[0])
	if err != nil {
		return err
	}
	for f, err := range n.store.All(ctx) {
		if err != nil {
			return err
		}
		n.filters[f.ID] = f.Title
	}
	for i := 0; ; i++ {
		f := newFilter(fmt.Sprint("of the victim ", i))
		if err := n.Add(ctx, f); err != nil {
			return err
		}
		fmt.Println("added", f.ID)
		if err := n.Set(ctx, "rules", f.ID.String()); err != nil {
			return err
		}
		if i%2 == 1 {
			fmt.Println("deleting", f.ID) // from now on it may be gone
			if err := n.Delete(ctx, f); err != nil {
				return err
			}
			fmt.Println("deleted", f.ID)
		}
	}
}

// loads is in the place of a prefix where a victim only reads what there is.
const loads = "loads"

// loader reads all rows and says of each filter that it has it, until it is killed.
func loader(ctx context.Context, path, prefix string, addrs []string) error {
	c, err := cluster.Open(ctx, cluster.Options{Addrs: addrs, Prefix: prefix})
	if err != nil {
		return err
	}
	s, err := store.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	r, err := shared.OpenRows(ctx, shared.Options{Client: c, Store: s, Log: slog.New(slog.DiscardHandler),
		Changed: func(_, after *store.Filter) { fmt.Println(after.ID) }})
	if err != nil {
		return err
	}
	if err := r.CatchUp(ctx); err != nil {
		return err
	}
	select {}
}

func TestANodeThatIsKilledWhileItReadsAllHasAllInTheEnd(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		a := newNode(t, o)
		if err := a.Add(t.Context(), many(3000)...); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "db")
		for range 2 { // after some pages, of four or more
			systest.KillAfter(t, 600, victimEnv+"="+
				strings.Join(append([]string{path, loads, o.Prefix}, o.Addrs...), " "))
		}
		n, err := openNode(t.Context(), connect(t, o), path)
		if err != nil {
			t.Fatal(err)
		}
		defer n.store.Close()
		for f, err := range n.store.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n.filters[f.ID] = f.Title
		}
		if had := len(n.filters); had < 600 {
			t.Errorf("it had %d filters", had)
		}
		same(t, 3000, a, n)
	})
}

func TestAKillLosesNothingThatWasAcknowledgedByANode(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		watcher := newNode(t, o)
		path := filepath.Join(t.TempDir(), "db")
		want, gone := make(map[store.ID]bool), make(map[store.ID]bool)
		for i := range 20 {
			for _, line := range systest.KillAfter(t, 1+i%7, victimEnv+"="+
				strings.Join(append([]string{path, o.Prefix}, o.Addrs...), " ")) {
				what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				id, _ := store.ParseID(text)
				switch what {
				case "added":
					want[id] = true
				case "deleting":
					delete(want, id)
				case "deleted":
					gone[id] = true
				}
			}
			if err := watcher.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n, err := openNode(t.Context(), connect(t, o), path)
		if err != nil {
			t.Fatal(err)
		}
		defer n.store.Close()
		for f, err := range n.store.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n.filters[f.ID] = f.Title
		}
		if err := errors.Join(n.CatchUp(t.Context()), watcher.CatchUp(t.Context())); err != nil {
			t.Fatal(err)
		}
		same(t, len(watcher.rows(t)), watcher, n)
		for id := range want {
			if watcher.filters[id] == "" {
				t.Errorf("the filter %v is lost", id)
			}
		}
		for id := range gone {
			if watcher.filters[id] != "" {
				t.Errorf("the filter %v is back", id)
			}
		}
		if reloads(n) > 0 {
			t.Error("all rows were read again")
		}
	})
}

package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/feed/snapshot"
	"weir/internal/metrics"
	"weir/internal/progress"
	"weir/internal/server"
)

// shape is how a snapshot keeps its users.
type shape int

const (
	dense shape = iota // numbers that are ranks
	keyed              // scattered numbers
	named              // strings, decimal ones here
)

// lists is everybody's list, items by user, whatever the shape of the snapshot they are in.
type lists map[uint64][]uint64

// numbered returns lists of n users, 0 to n-1, whose items are all different.
func numbered(users, items int) lists {
	l := make(lists, users)
	for u := range uint64(users) {
		l[u] = make([]uint64, items)
		for i := range l[u] {
			l[u][i] = u*uint64(items) + uint64(i) + 1
		}
	}
	return l
}

// write writes lists as a snapshot and puts it at path. Items are written as strings, too, when
// names is set. No fallback items means none.
func (l lists) write(t testing.TB, path string, as shape, names bool, fallback ...uint64) {
	t.Helper()
	o := snapshot.Options{UserCount: uint64(len(l)), Fallback: -1}
	if as == keyed {
		o.MaxUser = math.MaxUint64
	}
	index := make(map[uint64]uint64) // of items with names
	add := func(item uint64) uint64 {
		if _, ok := index[item]; names && !ok {
			index[item] = uint64(len(index))
		}
		if names {
			return index[item]
		}
		o.MaxItem = max(o.MaxItem, item)
		return item
	}
	for user, items := range l {
		for _, item := range items {
			add(item)
		}
		if as == dense {
			o.MaxUser = max(o.MaxUser, user)
		}
	}
	for _, item := range fallback {
		o.Fallbacks = append(o.Fallbacks, add(item))
	}
	if names {
		o.Items = snapshot.String
		ordered := make([]string, len(index))
		for item, i := range index {
			ordered[i] = strconv.FormatUint(item, 10)
		}
		o.Names = slices.Values(ordered)
		o.MaxItem = uint64(max(1, len(index)) - 1)
	}
	users := slices.Sorted(maps.Keys(l))
	if as == named {
		o.Users = snapshot.String
		slices.SortFunc(users, func(a, b uint64) int {
			x, y := strconv.FormatUint(a, 10), strconv.FormatUint(b, 10)
			return slices.Compare([]byte(x), []byte(y))
		})
	}
	w, err := snapshot.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, user := range users {
		items := slices.Clone(l[user])
		for i := range items {
			items[i] = add(items[i])
		}
		if as == named {
			err = w.AddString(strconv.FormatUint(user, 10), items)
		} else {
			err = w.AddNumber(user, items)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// fixture is a feed with what it was opened with.
type fixture struct {
	*Feed
	t       testing.TB
	dir     string
	metrics *metrics.Registry
	logged  logged
	cfg     Config
}

// logged collects what is logged.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// stripes is how many goroutines of a test count apart.
const stripes = 8

// open opens a feed whose snapshot is dir/feeds.weir, for the length of the test.
func open(t testing.TB, dir string, change ...func(*Config)) *fixture {
	t.Helper()
	x := &fixture{t: t, dir: dir, metrics: metrics.New(stripes),
		cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	for _, change := range change {
		change(&x.cfg)
	}
	f, err := Open(context.Background(), x.cfg, x.env())
	if err != nil {
		t.Fatal(err)
	}
	x.Feed = f
	t.Cleanup(x.close)
	return x
}

func (x *fixture) env() server.Env {
	return server.Env{DataDir: x.dir, Metrics: x.metrics, Log: slog.New(slog.NewJSONHandler(&x.logged, nil))}
}

// close closes the feed before the test ends.
func (x *fixture) close() {
	if x.Feed != nil {
		if err := x.Feed.Close(); err != nil {
			x.t.Errorf("close: %v", err)
		}
		x.Feed = nil
	}
}

// reopen is a restart.
func (x *fixture) reopen() {
	x.t.Helper()
	x.close()
	x.metrics = metrics.New(stripes)
	f, err := Open(context.Background(), x.cfg, x.env())
	if err != nil {
		x.t.Fatal(err)
	}
	x.Feed = f
}

// use makes the snapshot at path the one that serves.
func (x *fixture) use(path string) {
	x.t.Helper()
	link := x.cfg.Path + ".new"
	if err := os.Symlink(path, link); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Rename(link, x.cfg.Path); err != nil {
		x.t.Fatal(err)
	}
	if x.Feed == nil {
		return
	}
	if err := x.Reload(context.Background()); err != nil {
		x.t.Fatal(err)
	}
}

// value returns a metric, summed over its labels.
func (x *fixture) value(name string) (sum float64) {
	x.t.Helper()
	found := false
	for _, s := range x.metrics.Snapshot(nil) {
		if s.Name == name {
			sum, found = sum+s.Value, true
		}
	}
	if !found {
		x.t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// visitUnder looks a user up as a request does, under a generation that is pinned.
func (x *fixture) visitUnder(g *generation, id uint64) (v visit, ok bool) {
	v = visit{f: x.Feed, g: g, id: strconv.AppendUint(nil, id, 10)}
	if err := errors.Join(v.find(), v.read()); err != nil {
		panic(err)
	}
	return v, v.known()
}

// with runs do for a user of the generation that serves, again when that is replaced meanwhile.
// It is false for unknown users.
func (x *fixture) with(stripe int, id uint64, do func(v *visit) error) bool {
	try := func() (known bool, err error) {
		g := x.pin(stripe)
		defer g.unpin(stripe)
		v, ok := x.visitUnder(g, id)
		if !ok {
			return false, nil
		}
		return true, do(&v)
	}
	for {
		known, err := try()
		if err == progress.ErrSuperseded {
			continue
		}
		if err != nil {
			panic(err)
		}
		return known
	}
}

// take advances a user by up to n items and returns them as numbers.
func (x *fixture) take(stripe int, id uint64, n int) (items []uint64, at progress.Move) {
	x.with(stripe, id, func(v *visit) (err error) {
		if at, err = v.do(progress.Advance(n)); err != nil {
			return err
		}
		items = v.list.Append(items[:0], at.From, at.To)
		if v.g.lists.Items() == snapshot.String {
			for i, index := range items {
				if items[i], err = strconv.ParseUint(v.g.lists.Name(index), 10, 64); err != nil {
					return fmt.Errorf("item of no name: %w", err)
				}
			}
		}
		return nil
	})
	return items, at
}

// reset puts a user back to the beginning.
func (x *fixture) reset(stripe int, id uint64) {
	x.with(stripe, id, func(v *visit) error {
		_, err := v.do(progress.Set(0))
		return err
	})
}

// at returns a user's position, -1 for the unknown.
func (x *fixture) at(id uint64) int {
	pos := -1
	x.with(0, id, func(v *visit) (err error) {
		at, err := v.do(progress.Get())
		pos = at.To
		return err
	})
	return pos
}

// wantAt checks users' positions.
func (x *fixture) wantAt(pos int, ids ...uint64) {
	x.t.Helper()
	for _, id := range ids {
		if got := x.at(id); got != pos {
			x.t.Errorf("user %d is at %d, want %d", id, got, pos)
		}
	}
}

// wantError checks that an error says all of these.
func wantError(t testing.TB, what string, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error is %q, want it to say %q", what, err, s)
		}
	}
}

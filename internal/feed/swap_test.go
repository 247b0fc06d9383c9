package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/progress"
	"weir/internal/systest"
)

// versions makes n snapshots of changing shape. A third of the users has the same list in all of
// them, a third a new one in each, and a third the same whenever it is there at all. An item
// belongs to one user and one list alone.
func versions(t *testing.T, dir string, n, users, items int) (paths []string, all []lists) {
	for v := range n {
		l := make(lists)
		for u := range uint64(users) {
			version := uint64(0)
			switch {
			case u%3 == 1:
				version = uint64(v)
			case u%3 == 2 && (v+int(u))%2 == 0:
				continue
			}
			for i := range items {
				l[u] = append(l[u], (version*uint64(users)+u)*uint64(items)+uint64(i)+1)
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.weir", v))
		l.write(t, path, shape(v/2%3), v%5 == 4)
		paths, all = append(paths, path), append(all, l)
	}
	return paths, all
}

func TestNoItemIsGivenTwiceWhateverIsSwapped(t *testing.T) {
	const users, items = 12, 2500
	dir := t.TempDir()
	paths, all := versions(t, t.TempDir(), 40, users, items)
	given := make([]atomic.Uint32, len(all)*users*items+1)
	f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	f.use(paths[0])
	f.reopen()
	t.Cleanup(f.close)

	var answers atomic.Int64
	advance := func(stripe int, r *rand.Rand) {
		got, _ := f.take(stripe, r.Uint64N(users), 1+r.IntN(3))
		for _, item := range got {
			if n := given[item].Add(1); n != 1 {
				t.Errorf("item %d was given %d times", item, n)
			}
		}
		answers.Add(1)
	}
	const perRound = 15
	for next := 1; next < len(paths); {
		ctx, stop := context.WithCancel(t.Context())
		seed := uint64(next)
		var load sync.WaitGroup
		for i := range stripes {
			load.Go(func() {
				for r := rand.New(rand.NewPCG(seed, uint64(i))); ctx.Err() == nil && !t.Failed(); {
					advance(i, r)
				}
			})
		}
		for range perRound {
			if next == len(paths) {
				break
			}
			f.use(paths[next])
			next++
			// A moment for the load, in answers and not in time.
			for want := answers.Load() + 200; answers.Load() < want && !t.Failed(); {
				time.Sleep(time.Microsecond)
			}
		}
		stop()
		load.Wait()
		if t.Failed() {
			return
		}
		if next < len(paths) {
			// A restart, with the next snapshot.
			f.close()
			f.use(paths[next])
			next++
			f.reopen()
		}
	}
	// Whoever has kept their list has been given all that is before their position, and no more.
	for id, list := range all[len(all)-1] {
		pos := f.at(id)
		for i, item := range list {
			if was := given[item].Load() == 1; was != (i < pos) {
				t.Fatalf("user %d is at %d, but item %d was given: %t", id, pos, i, was)
			}
		}
		if id%3 != 1 && pos == 0 {
			t.Errorf("user %d was never served", id)
		}
	}
	t.Logf("%d answers over %d swaps", answers.Load(), len(paths)-1)
}

func TestPositionsStayForEqualListsAndRestartForOthers(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		dir, files := t.TempDir(), t.TempDir()
		first, second := numbered(30, 20), numbered(30, 20)
		second[7][19]++            // another last item is another list
		second[8] = second[8][:19] // as is a shorter one
		delete(second, 9)
		first.write(t, filepath.Join(files, "first"), dense, false)
		second.write(t, filepath.Join(files, "second"), as, names)
		f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
		f.use(filepath.Join(files, "first"))
		f.reopen()
		t.Cleanup(f.close)
		move := func() {
			for id := range first {
				f.take(0, id, 5)
			}
		}
		restart := as%2 == 0 // the same by a swap and by a restart
		to := func(name string) {
			if restart {
				f.close()
			}
			f.use(filepath.Join(files, name))
			if restart {
				f.reopen()
			}
		}
		move()
		to("second")
		f.wantAt(5, 1, 6, 29)
		f.wantAt(0, 7, 8)
		f.wantAt(-1, 9)
		// Nobody has been given anything of the second lists: the first ones are where they were.
		to("first")
		f.wantAt(5, 6, 7, 8, 9)
		to("second")
		move()
		f.wantAt(10, 6)
		f.wantAt(5, 7, 8)
		to("first")
		f.wantAt(10, 6)
		f.wantAt(5, 9)
		// These went on with other lists: what came before is forgotten.
		f.wantAt(0, 7, 8)
	})
}

func TestABrokenSnapshotIsRefusedAndTheOldOneServesOn(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	good := filepath.Join(files, "good")
	numbered(300, 20).write(t, good, dense, false)
	f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	f.use(good)
	f.reopen()
	t.Cleanup(f.close)
	f.take(0, 1, 5)
	image, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []struct {
		what, reason string
		do           func(b []byte) []byte
	}{
		{"a list", "block 0 of the lists", func(b []byte) []byte { b[5000] ^= 1; return b }},
		{"the header", "header", func(b []byte) []byte { b[100] ^= 1; return b }},
		{"its end", "has", func(b []byte) []byte { return b[:len(b)-1] }},
		{"everything", "not a weir snapshot", func(b []byte) []byte { return nil }},
	} {
		bad := filepath.Join(files, "bad")
		if err := os.WriteFile(bad, damage.do(append([]byte(nil), image...)), 0o644); err != nil {
			t.Fatal(err)
		}
		before := f.value("weir_feed_generation")
		if err := os.Rename(bad, f.cfg.Path); err != nil {
			t.Fatal(err)
		}
		err := f.Reload(t.Context())
		wantError(t, "damage to "+damage.what, err, "generation 1 serves on", f.cfg.Path, damage.reason)
		if after := f.value("weir_feed_generation"); after != before {
			t.Errorf("damage to %s: generation %v serves, want %v", damage.what, after, before)
		}
		f.wantAt(5, 1)
		if err := f.Health().Err(); err != nil {
			t.Errorf("damage to %s: not ready: %v", damage.what, err)
		}
	}
	if err := os.Remove(f.cfg.Path); err != nil {
		t.Fatal(err)
	}
	wantError(t, "no file", f.Reload(t.Context()), "no such file")
	if got, _ := f.take(0, 1, 5); len(got) != 5 {
		t.Errorf("%d items, want 5", len(got))
	}
	f.use(good)
	f.wantAt(10, 1)
}

func TestAGenerationIsUnmappedWhenItsLastReaderHasLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, path, dense, false)
	f := open(t, dir)
	old := f.pin(3)
	numbered(10, 30).write(t, path, dense, false)
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := f.pin(3); now == old || now.number != 2 {
		t.Fatalf("generation %d is pinned after the swap", now.number)
	} else {
		now.unpin(3)
	}
	// The new one's lists are walked when the old one has gone, so it is still there.
	select {
	case <-f.current.Load().warmed:
		t.Fatal("the old generation was given up under its reader")
	case <-time.After(20 * time.Millisecond):
	}
	list, err := old.lists.List(4)
	if err != nil || list.Len() != 20 || list.Append(nil, 0, 1)[0] != 81 {
		t.Fatalf("a pinned list cannot be read: %v", err)
	}
	if old.lists.ChangedOnDisk() != nil {
		t.Error("the file of a pinned generation is closed")
	}
	old.unpin(3)
	systest.Eventually(t, "the end of the old generation",
		func() bool { return old.lists.ChangedOnDisk() != nil })
	<-f.current.Load().warmed
}

// A request may load the pointer to a generation, which is replaced before the request has pinned it.
func TestAGenerationThatServesNoMoreIsNotPinned(t *testing.T) {
	dir := t.TempDir()
	numbered(10, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	old := f.current.Load()
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.pins(old, 3) {
		t.Error("it is pinned, and may be unmapped already")
		old.unpin(3)
	}
	if n := old.stripes[3].Load(); n != 0 {
		t.Errorf("it stays pinned %d times", n)
	}
}

// A reload that has begun does not hold up the end: it gives up.
func TestTheEndCancelsAReload(t *testing.T) {
	dir := t.TempDir()
	numbered(10, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	f.background.Cancel() // as Close begins
	// That ends the reload a moment after it has begun, which this one may not last.
	systest.Eventually(t, "a reload that was cancelled",
		func() bool { return errors.Is(f.Reload(t.Context()), context.Canceled) })
}

// TestWhoEndsUnderAnOldGenerationIsCountedByTheNew has a request that began before a swap and ends after it.
func TestWhoEndsUnderAnOldGenerationIsCountedByTheNew(t *testing.T) {
	dir := t.TempDir()
	numbered(10, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	f.take(0, 4, 1)
	old := f.pin(0)
	if err := f.Reload(t.Context()); err != nil {
		old.unpin(0)
		t.Fatal(err)
	}
	now := f.current.Load()
	select {
	case <-now.warmed:
		t.Error("users were counted while an old generation had a reader")
	case <-time.After(20 * time.Millisecond):
	}
	v, _ := f.visitUnder(old, 4)
	if at, err := v.do(progress.Advance(20)); err != nil || at.To != 20 {
		t.Errorf("the advance led to %d, %v; want 20", at.To, err)
	}
	old.unpin(0)
	<-now.warmed
	if n := f.value("weir_feed_exhausted_users"); n != 1 {
		t.Errorf("%v users are counted as exhausted, want 1", n)
	}
}

// TestNoReaderSeesAnUnmappedGeneration swaps as fast as it goes between two snapshots while lists are read.
// Whoever reads one that is unmapped ends the process or, as addresses are used again, finds the other
// one's items.
func TestNoReaderSeesAnUnmappedGeneration(t *testing.T) {
	const items = 5000
	dir, files := t.TempDir(), t.TempDir()
	paths := []string{filepath.Join(files, "0"), filepath.Join(files, "1")}
	for version, path := range paths {
		l := numbered(stripes, items)
		for _, list := range l {
			for i := range list {
				list[i] += uint64(version) * stripes * items
			}
		}
		l.write(t, path, dense, false)
	}
	f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	f.use(paths[0])
	f.reopen()
	t.Cleanup(f.close)
	over := make(chan struct{})
	var readers sync.WaitGroup
	for i := range stripes {
		readers.Go(func() {
			var got []uint64
			for {
				select {
				case <-over:
					return
				default:
				}
				for range 100 {
					g := f.pin(i)
					list, err := g.lists.List(uint64(i))
					got = list.Append(got[:0], items-1, items)
					want := uint64(i+1) * items
					if g.number%2 == 0 {
						want += stripes * items
					}
					g.unpin(i)
					if err != nil || len(got) != 1 || got[0] != want {
						t.Errorf("generation %d: the last item of user %d is %v, %v; want %d", g.number, i,
							got, err, want)
						return
					}
				}
			}
		})
	}
	for n := range 800 {
		f.use(paths[(n+1)%2])
	}
	close(over)
	readers.Wait()
	for i := range f.current.Load().stripes {
		if n := f.current.Load().stripes[i].Load(); n != 0 {
			t.Errorf("stripe %d is still pinned %d times", i, n)
		}
	}
}

func TestReloadsWhileWarmingAndClosing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	l := numbered(20_000, 100)
	l.write(t, path, keyed, false)
	for range 5 {
		f := open(t, dir)
		var reloads sync.WaitGroup
		for i := range 4 {
			reloads.Go(func() {
				for n := range 5 {
					if err := f.Feed.Reload(t.Context()); err != nil && f.background.Context().Err() == nil {
						t.Errorf("reload %d: %v", n, err)
					}
					if err := f.Feed.Health().Err(); err != nil {
						t.Errorf("not ready: %v", err)
					}
					f.take(i, uint64(n), 1)
				}
			})
		}
		reloads.Wait()
		var last sync.WaitGroup
		feed := f.Feed
		last.Go(func() {
			for feed.Reload(t.Context()) == nil { // until it is closed
			}
		})
		f.close()
		last.Wait()
		if err := feed.Reload(t.Context()); err != errClosed {
			t.Errorf("a reload after the end: %v", err)
		}
	}
}

func TestTheWatcherActsOnRenamesOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	l := numbered(10, 20)
	l.write(t, path, dense, false)
	f := open(t, dir, func(c *Config) { c.Watch = time.Millisecond })
	generation := func(n float64) func() bool {
		return func() bool { return f.value("weir_feed_generation") == n }
	}
	l.write(t, path, dense, false)
	systest.Eventually(t, "generation 2", generation(2))

	// Written in place: an alarm, once, and nothing is taken up.
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "the alarm", func() bool { return f.value("weir_feed_changed_in_place") == 1 })
	if !generation(2)() {
		t.Error("a file changed in place was taken up")
	}

	// A broken one is refused once, not at every look.
	if err := os.WriteFile(path+".bad", []byte("weirfeed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".bad", path); err != nil {
		t.Fatal(err)
	}
	refused := func() float64 { return float64(f.stats.refused.Value()) }
	systest.Eventually(t, "the refusal", func() bool { return refused() == 1 })
	// It is tried again when it was written to.
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "the second refusal", func() bool { return refused() == 2 })
	// A good one behind it is taken up, which shows that looks went on meanwhile.
	l.write(t, path, dense, false)
	systest.Eventually(t, "generation 3", generation(3))
	if refused() != 2 || f.value("weir_feed_changed_in_place") != 0 {
		t.Errorf("%v refusals, want 2; alarm %v, want 0", refused(), f.value("weir_feed_changed_in_place"))
	}
	if n := f.stats.reloaded.Value(); n != 2 {
		t.Errorf("%d reloads, want 2", n)
	}
}

// A snapshot that is replaced before all of it was read is read no further: the new one's turn comes after
// that.
func TestASwapEndsTheWarmingOfTheOldSnapshot(t *testing.T) {
	dir := t.TempDir()
	numbered(10, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	old, stopped := f.current.Load(), make(chan struct{})
	stop := old.stopWarming
	old.stopWarming = func() { close(stopped); stop() }
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Error("the old snapshot is warmed on")
	}
}

// Which file a snapshot is, is what the watcher goes by.
func TestSnapshotsThatAreRenamedWhileTheyAreOpenedAreKnownForWhatTheyAre(t *testing.T) {
	files := t.TempDir()
	path, other := filepath.Join(files, "feeds.weir"), filepath.Join(files, "other")
	numbered(10, 20).write(t, path, dense, false)
	f := open(t, files)
	numbered(2000, 20).write(t, other, dense, false)
	over := make(chan struct{})
	var renamer sync.WaitGroup
	renamer.Go(func() { // one over the other, and another one made of that
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			spare := filepath.Join(files, "spare")
			if err := errors.Join(os.Link(path, spare), os.Rename(other, path),
				os.Rename(spare, other)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 1000 {
		g, err := f.load(t.Context(), listsAt{path: f.cfg.Path}, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		g.lists.Close()
		if g.file.Size() != g.lists.Stats().Bytes {
			t.Errorf("a snapshot of %d bytes is taken for a file of %d", g.lists.Stats().Bytes, g.file.Size())
			break
		}
	}
	close(over)
	renamer.Wait()
}

package learning

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/journal"
	"weir/internal/metrics"
)

// local is a Local with what it logs.
type local struct {
	*Local
	log *logged
}

type logged struct {
	sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func open(t testing.TB, dir string, change ...func(*Options)) *local {
	t.Helper()
	l := &local{log: new(logged)}
	o := Options{Memory: 1 << 24, ClientIDs: 1, Sync: time.Hour, Checkpoint: 1 << 30,
		Go:      func(_ string, fn func(context.Context)) { go fn(context.Background()) },
		Metrics: metrics.New(1), Log: slog.New(slog.NewTextHandler(l.log, nil))}
	for _, c := range change {
		c(&o)
	}
	var err error
	if l.Local, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	closing := sync.OnceValue(l.Close)
	t.Cleanup(func() { closing() }) //nolint:errcheck // tests that close it look
	return l
}

func key(n uint64) arms.Key { return arms.NumberKey(n) }

// event is one with a reward of 1 for an item; id 0 is none.
func event(item, id uint64) Event {
	e := Event{Reward: 1, Arms: Arms{key(item)}}
	if id > 0 {
		e.ID = key(1<<40 + id)
	}
	return e
}

// learn teaches events of a client and waits.
func (l *Local) learn(client string, list ...Event) (duplicates int, err error) {
	b := Batch{Events: list}
	if client != "" {
		b.Client = netip.MustParseAddr(client)
	}
	done := make(chan struct{})
	b.Done = func(n int, e error) { duplicates, err = n, e; close(done) }
	l.Learn(b)
	<-done
	return duplicates, err
}

func (l *Local) teach(t testing.TB, list ...Event) {
	t.Helper()
	if _, err := l.learn("", list...); err != nil {
		t.Fatal(err)
	}
}

// alpha is what was learned of an item.
func (l *Local) alpha(item uint64) float64 {
	a, _, _ := l.View(arms.Item, time.Now().UnixMicro()).Find(key(item))
	return a
}

func same(t testing.TB, got, want *Local) {
	t.Helper()
	a, b := got.State(), want.State()
	byKey := func(x, y arms.Key) int { return cmp.Or(cmp.Compare(x.Hi, y.Hi), cmp.Compare(x.Lo, y.Lo)) }
	for level := range a.Arms {
		for _, s := range []*State{&a, &b} {
			slices.SortFunc(s.Arms[level], func(x, y arms.Arm) int { return byKey(x.Key, y.Key) })
		}
		near := func(x, y float64) bool { return x-y < 1e-9*y+1e-300 && y-x < 1e-9*y+1e-300 }
		// A moment has passed between the two.
		if !slices.EqualFunc(a.Arms[level], b.Arms[level], func(x, y arms.Arm) bool {
			return x.Key == y.Key && (near(x.Alpha, y.Alpha) && near(x.Beta, y.Beta) || want.o.HalfLife > 0 &&
				x.Alpha-y.Alpha < 1e-3*y.Alpha+1e-9)
		}) {
			t.Errorf("level %d: %d arms, want %d: %v, want %v", level, len(a.Arms[level]), len(b.Arms[level]),
				a.Arms[level], b.Arms[level])
		}
	}
	if a.Day != b.Day {
		t.Errorf("the day began at %d, want %d", a.Day, b.Day)
	}
	for i := range a.IDs {
		slices.SortFunc(a.IDs[i], byKey)
		slices.SortFunc(b.IDs[i], byKey)
		if !slices.Equal(a.IDs[i], b.IDs[i]) {
			t.Errorf("day %d: %d ids, want %d", i, len(a.IDs[i]), len(b.IDs[i]))
		}
	}
}

// copied copies a directory as a kill of its process at this moment would leave it.
func copied(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestARestartKnowsWhatWasKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for _, halfLife := range []time.Duration{0, time.Hour} {
		dir := filepath.Join(t.TempDir(), "bandit")
		change := func(o *Options) { o.HalfLife = halfLife }
		l := open(t, dir, change)
		send := func() {
			for range 20 {
				var list []Event
				for i := range 50 {
					e := Event{Reward: r.Float64(),
						Arms: Arms{key(r.Uint64N(300)), key(1000 + r.Uint64N(300)),
							key(2000 + r.Uint64N(3000))}}
					if i%3 == 0 {
						e.ID = key(r.Uint64())
					}
					if i%7 == 0 {
						e.At = time.Now().Add(-time.Duration(r.Int64N(int64(3 * time.Hour)))).UnixMicro()
					}
					list = append(list, e)
				}
				l.teach(t, list...)
			}
			if _, err := l.Forget(Forgetting{Arms: Arms{key(r.Uint64N(300))}}); err != nil {
				t.Fatal(err)
			}
		}
		send()
		same(t, open(t, copied(t, dir), change).Local, l.Local) // by replay alone
		if err := l.checkpoint(); err != nil {
			t.Fatal(err)
		}
		same(t, open(t, copied(t, dir), change).Local, l.Local) // by the checkpoint alone
		send()
		again := open(t, copied(t, dir), change) // by both
		same(t, again.Local, l.Local)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, dir, change)
		same(t, l.Local, again.Local)
	}
}

func TestWhatIsForgottenTakesNoRoomAfterARestart(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.teach(t, event(1, 0), event(2, 0), event(3, 0))
	if n, err := l.Forget(Forgetting{Arms: Arms{key(2)}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l := open(t, dir); l.learned[arms.Item].Cells() != 2 || l.Len(arms.Item) != 2 {
		t.Errorf("%d arms in %d cells", l.Len(arms.Item), l.learned[arms.Item].Cells())
	}
}

func TestTheRoomIsForArmsOfAllLevels(t *testing.T) {
	l := open(t, t.TempDir(), func(o *Options) { o.Memory = armBytes * 4 * 4 / 3 })
	three := Event{Reward: 1, Arms: Arms{key(1), key(2), key(3)}}
	l.teach(t, three)
	if _, err := l.learn("", Event{Reward: 1, Arms: Arms{key(1), key(4), key(5)}}); !errors.Is(err, ErrArms) {
		t.Errorf("two arms more, of four in all: %v", err)
	}
	l.teach(t, three, event(1, 0))
	// Batches of one group make the same arm.
	var refused atomic.Int64
	var group sync.WaitGroup
	l.queue.Lock()
	for _, item := range []uint64{7, 7, 7, 7, 8} {
		group.Add(1)
		l.queue.batches = append(l.queue.batches,
			Batch{Events: []Event{event(item, 0)}, Done: func(_ int, err error) {
				if err != nil {
					refused.Add(1)
				}
				group.Done()
			}})
	}
	l.queue.Unlock()
	l.wake <- struct{}{}
	group.Wait()
	if a := l.alpha(7); a != 4 || refused.Load() != 1 {
		t.Errorf("the arm is at %v, and %d batches are refused", a, refused.Load())
	}
}

func TestAClientHasAPartOfTheRoomForIDs(t *testing.T) {
	l := open(t, t.TempDir(), func(o *Options) { o.Memory, o.ClientIDs = idBytes*idShare*10, 0.5 })
	send := func(client string, id uint64, want error) {
		t.Helper()
		if _, err := l.learn(client, event(1, id)); !errors.Is(err, want) {
			t.Errorf("%s, id %d: %v, want %v", client, id, err, want)
		}
	}
	for id := range uint64(5) {
		send("192.0.2.1", id+1, nil)
	}
	send("192.0.2.1", 6, ErrClientID)
	send("::ffff:192.0.2.1", 6, ErrClientID)
	send("192.0.2.1", 5, nil) // it is there already
	for id := range uint64(4) {
		send("2001:db8::"+string(rune('1'+id)), id+10, nil)
	}
	send("2001:db8:0:1::1", 20, nil) // another network
	send("192.0.2.9", 21, ErrIDs)
	send("192.0.2.9", 0, nil) // without an id
	if n, err := l.Forget(Forgetting{IDs: true}); n != 10 || err != nil {
		t.Errorf("%d ids are forgotten: %v", n, err)
	}
	send("192.0.2.1", 6, nil)
	if n := l.Len(arms.Item); n != 1 {
		t.Errorf("%d arms are left", n)
	}
}

func TestIDsOfDaysAgoAreReplayedAsForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bandit")
	j, err := journal.Open(dir, journal.Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var batch journal.Batch
	now := time.Now().UnixMicro()
	ages := []time.Duration{50 * time.Hour, 49 * time.Hour, 22 * time.Hour, 20 * time.Hour, time.Hour}
	for _, ago := range ages {
		r := record{Event: event(7, uint64(ago)), came: now - ago.Microseconds()}
		batch.Add(r.append(nil))
	}
	if err := errors.Join(j.Append(&batch), j.Close()); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir)
	for _, ago := range ages {
		if n, err := l.learn("", event(7, uint64(ago))); (n == 1) != (ago < 48*time.Hour) || err != nil {
			t.Errorf("an id of %v ago is a duplicate: %d: %v", ago, n, err)
		}
	}
}

func TestIDsAreRememberedForADay(t *testing.T) {
	l := open(t, t.TempDir())
	send := func(id uint64, duplicate bool) {
		t.Helper()
		if n, err := l.learn("", event(1, id)); (n == 1) != duplicate || err != nil {
			t.Errorf("id %d is a duplicate: %d, want %t: %v", id, n, duplicate, err)
		}
	}
	later := func(d time.Duration) { l.ids.began -= d.Microseconds() }
	send(1, false)
	later(23 * time.Hour)
	send(1, true)
	send(2, false)
	later(2 * time.Hour) // 25 hours after 1, 2 after 2
	send(2, true)
	later(21 * time.Hour) // 23 hours after 2
	send(2, true)
	later(26 * time.Hour)
	send(1, false)
	send(2, false)
	later(49 * time.Hour)
	send(1, false)
	if l.ids.len() != 1 {
		t.Errorf("%d ids are remembered, want 1", l.ids.len())
	}
	later(-400 * 24 * time.Hour) // a clock that was ahead for more than a year, and is right now
	send(1, true)
	later(48 * time.Hour)
	send(1, false)
}

// TestIDsAreForgottenAfterADayOrTwo runs through weeks in explicit times.
func TestIDsAreForgottenAfterADayOrTwo(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	ids := newEventIDs(1<<30, 1<<30)
	added := make(map[arms.Key]int64)
	now := int64(1_700_000_000_000_000)
	for range 5000 {
		now += r.Int64N(1 + r.Int64N(day/4))
		if r.IntN(100) == 0 {
			now += r.Int64N(3 * day)
		}
		ids.turn(now)
		for k, at := range added {
			switch has := ids.has(k); {
			case !has && now-at < day:
				t.Fatalf("an id is forgotten after %v", time.Duration(now-at)*time.Microsecond)
			case has && now-at > 2*day:
				t.Fatalf("an id is remembered after %v", time.Duration(now-at)*time.Microsecond)
			case !has:
				delete(added, k)
			}
		}
		if ids.len() != len(added) {
			t.Fatalf("%d ids, want %d", ids.len(), len(added))
		}
		k := arms.NumberKey(r.Uint64())
		ids.add(k, 0)
		added[k] = now
	}
	ids.turn(now - 3*day)
	if ids.len() != len(added) {
		t.Error("a clock that was set back has made forget")
	}
}

// A machine that starts with a clock that is ahead, and is set right later, counts what comes then in full.
func TestAClockThatWasAheadOnceIsForgotten(t *testing.T) {
	const ahead = 60 * 24 * time.Hour
	future := time.Now().Add(ahead).UnixMicro()
	change := func(o *Options) { o.HalfLife = 7 * 24 * time.Hour }
	near := func(got, want float64) bool { return got > 0.99*want && got < 1.01*want }

	t.Run("in the journal", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "bandit")
		l := open(t, dir, change)
		for range 100 {
			l.teach(t, event(1, 0))
		}
		l.batch.Reset()
		l.batch.Add((&record{Event: Event{At: future, Reward: 1, Arms: Arms{key(1)}, ID: key(99)},
			came: future}).append(nil))
		if err := l.journal.Append(&l.batch); err != nil {
			t.Fatal(err)
		}
		l = open(t, copied(t, dir), change)
		if a := l.alpha(1); !near(a, 101) {
			t.Errorf("101 events are worth %v", a)
		}
		l.teach(t, event(1, 0))
		if a := l.alpha(1); !near(a, 102) {
			t.Errorf("102 events are worth %v", a)
		}
		if began := l.ids.began; began > time.Now().UnixMicro() {
			t.Error("the day of ids is in the future")
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		l := open(t, t.TempDir(), change)
		l.teach(t, event(1, 0))
		if err := l.learned[arms.Item].Add(key(2), 1, future); err != nil {
			t.Fatal(err)
		}
		if a := l.alpha(2); !near(a, 1) {
			t.Fatalf("an event is worth %v", a)
		}
		l.teach(t, event(3, 0), event(2, 0))
		if a, b := l.alpha(3), l.alpha(2); !near(a, 1) || !near(b, 2) {
			t.Errorf("one event is worth %v, two are %v", a, b)
		}
	})
	t.Run("in a checkpoint", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "bandit")
		l := open(t, dir, change)
		if err := l.learned[arms.Item].Add(key(2), 1, future); err != nil {
			t.Fatal(err)
		}
		l.ids.began = future
		l.ids.add(key(99), 0)
		if err := l.journal.Checkpoint(l.journal.Position(), (&State{
			At: future, Day: future, Arms: [Levels][]arms.Arm{{{Key: key(2), Alpha: 1}}},
			IDs: [2][]arms.Key{{key(99)}},
		}).write); err != nil {
			t.Fatal(err)
		}
		l = open(t, copied(t, dir), change)
		l.teach(t, event(2, 0))
		if a := l.alpha(2); !near(a, 2) || l.ids.len() != 1 {
			t.Errorf("two events are worth %v; %d ids", a, l.ids.len())
		}
		l.ids.turn(time.Now().Add(48 * time.Hour).UnixMicro())
		if l.ids.len() != 0 {
			t.Error("its ids do not expire")
		}
	})
}

func TestFailuresDoNotFillTheLog(t *testing.T) {
	var broken atomic.Bool
	l := open(t, t.TempDir(), func(o *Options) {
		o.Sync = time.Millisecond
		o.Faults.FailSync = func() error {
			if broken.Load() {
				return errors.New("the disk is on fire")
			}
			return nil
		}
	})
	l.teach(t, event(1, 1))
	broken.Store(true)
	l.teach(t, event(1, 2)) // it is written, and not yet synced
	for deadline := time.Now().Add(time.Minute); l.Err() == nil &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	for range 100 {
		if _, err := l.learn("", event(1, 3), event(2, 0)); !errors.Is(err, ErrNotSaved) ||
			strings.Contains(err.Error(), "fire") {
			t.Fatal(err)
		}
	}
	if _, err := l.learn("", event(1, 1)); !errors.Is(err, ErrNotSaved) {
		t.Errorf("a duplicate: %v", err)
	}
	if l.alpha(1) != 2 || l.alpha(2) != 0 || l.ids.len() != 2 {
		t.Errorf("what was refused counts: %v, %v, %d ids", l.alpha(1), l.alpha(2), l.ids.len())
	}
	l.log.Lock()
	defer l.log.Unlock()
	if n := strings.Count(l.log.text.String(), "events could not be saved"); n == 0 || n > 20 {
		t.Errorf("of 101 failures %d are logged", n)
	}
}

// While a checkpoint is written every event asks for one. That must not have all be written once more as
// soon as it is done.
func TestAJournalThatIsShortAgainIsNoCheckpoint(t *testing.T) {
	l := open(t, t.TempDir())
	l.teach(t, event(1, 0))
	for range 3 { // the third goes in once the first has been dealt with
		l.full <- struct{}{}
	}
	if at := l.journal.Checkpointed(); at > 0 {
		t.Errorf("a checkpoint was written of a journal of %d bytes", l.journal.Position())
	}
}

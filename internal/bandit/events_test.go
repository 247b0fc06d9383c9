package bandit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/systest"
)

// accepted is the answer to events.
type accepted struct{ Accepted, Duplicates int }

func (s *served) events(body string, want accepted) {
	s.t.Helper()
	var got accepted
	s.post("/events", body, &got)
	if got != want {
		s.t.Errorf("POST /events %.200s: %+v, want %+v", body, got, want)
	}
}

// memory is all that events have taught, and the ids that are remembered.
type memory struct {
	arms [levels]map[arms.Key][2]float64
	ids  [2][]arms.Key
	day  int64 // when the first began
}

func (f *fixture) memory() (m memory) {
	state := f.learner.State()
	for level, list := range state.Arms {
		m.arms[level] = make(map[arms.Key][2]float64)
		for _, a := range list {
			m.arms[level][a.Key] = [2]float64{a.Alpha, a.Beta}
		}
	}
	m.day, m.ids = state.Day, state.IDs
	for _, ids := range m.ids {
		slices.SortFunc(ids, func(a, b arms.Key) int {
			return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
		})
	}
	return m
}

// learnedArms returns how many arms events have taught of.
func (f *fixture) learnedArms() (n int) {
	for level := range arms.Level(levels) {
		n += f.learner.Len(level)
	}
	return n
}

// accept has events count, and waits for it.
func (f *fixture) accept(list []event) (duplicates int, err error) {
	return f.learn(list, nil, netip.Addr{})
}

// metric returns the value of a metric without labels.
func (f *fixture) metric(name string) float64 {
	for _, s := range f.env.Metrics.Snapshot(nil) {
		if s.Name == name {
			return s.Value
		}
	}
	f.t.Fatalf("there is no metric %s", name)
	return 0
}

func sameMemory(t testing.TB, got, want memory) {
	t.Helper()
	for level := range want.arms {
		if len(got.arms[level]) != len(want.arms[level]) {
			t.Errorf("level %d has %d arms, want %d", level, len(got.arms[level]), len(want.arms[level]))
		}
		for k, sums := range want.arms[level] {
			if got.arms[level][k] != sums {
				t.Fatalf("level %d, arm %x: %v, want %v", level, k, got.arms[level][k], sums)
			}
		}
	}
	if got.day != want.day {
		t.Errorf("the day began at %d, want %d", got.day, want.day)
	}
	for i := range want.ids {
		if !slices.Equal(got.ids[i], want.ids[i]) {
			t.Errorf("day %d: %d ids, want %d", i, len(got.ids[i]), len(want.ids[i]))
		}
	}
}

func TestEventsTeachTheArmsThatThereAre(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3},
			{segment: "young", item: "a", alpha: 20, beta: 30},
			{user: "u1", item: "a", alpha: 200, beta: 300},
			{segment: "old", item: "b", alpha: 7, beta: 7}}, "u1", "young", "u2", "young")
		s := serve(t, open(t, dir, func(c *Config) { c.Arms, c.Prior = path, [2]float64{1, 4} }), kernel)
		s.events(`{"user":"u1","item":"a","reward":0.25}`, accepted{1, 0})
		s.posterior(`{"items":["a"]`, 2.25, 3.75, "item")
		s.posterior(`{"user":"u2","items":["a"]`, 20.25, 30.75, "segment")
		s.posterior(`{"user":"u1","items":["a"]`, 200.25, 300.75, "pair")
		// A user of the segment, or nobody: the pair is not concerned.
		s.events(`[{"user":"u2","item":"a","reward":1},{"item":"a","reward":0}]`, accepted{2, 0})
		s.posterior(`{"items":["a"]`, 3.25, 4.75, "item")
		s.posterior(`{"user":"u2","items":["a"]`, 21.25, 30.75, "segment")
		s.posterior(`{"user":"u1","items":["a"]`, 200.25, 300.75, "pair")
		// What is new begins at the prior, and only items are made.
		s.events("{\"user\":\"u1\",\"item\":\"new\",\"reward\":1}\n"+
			"{\"user\":\"u1\",\"item\":7,\"reward\":0.5}\n", accepted{2, 0})
		s.posterior(`{"user":"u1","items":["new"]`, 2, 4, "item")
		s.posterior(`{"user":"u1","items":["7"]`, 1.5, 4.5, "item")
		// A segment that the event names wins over the user's.
		s.events(`{"user":"u1","segment":"old","item":"b","reward":1}`, accepted{1, 0})
		s.posterior(`{"segment":"old","items":["b"]`, 8, 7, "segment")
		s.posterior(`{"segment":"young","items":["b"]`, 2, 4, "item")
		s.events(`[]`, accepted{0, 0})
		if n := s.learnedArms(); n != 7 {
			t.Errorf(
				"%d arms are learned, want the items a, new, 7 and b, a segment's a and b, a user's a: 7", n)
		}
	})
}

func TestLearnSaysHowFineArmsEventsMake(t *testing.T) {
	for _, c := range []struct {
		learn   arms.Level
		segment string // where the other user of the segment gets it from
		user    string
	}{{arms.Item, "item", "item"}, {arms.Segmented, "segment", "segment"}, {arms.Pair, "segment", "pair"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{{item: "a", alpha: 50, beta: 50}}, "u1", "young", "u2", "young")
		s := serve(t, open(t, dir, func(c2 *Config) { c2.Arms, c2.Learn = path, c.learn }), server.Config{})
		s.events(`{"user":"u1","item":"a","reward":1}`, accepted{1, 0})
		s.posterior(`{"items":["a"]`, 51, 50, "item")
		// Both finer arms begin with what is known of the item, worth a prior.
		segment := [2]float64{2*51./101 + 1, 2 * 50. / 101}
		shapes := map[string][2]float64{"item": {51, 50}, "segment": segment, "pair": segment}
		s.posterior(`{"user":"u2","items":["a"]`, shapes[c.segment][0], shapes[c.segment][1], c.segment)
		s.posterior(`{"user":"u1","items":["a"]`, shapes[c.user][0], shapes[c.user][1], c.user)
	}
}

func TestAnIDMakesAnEventCountOnce(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		s := serve(t, open(t, dir), kernel)
		s.events(
			`[{"item":"a","reward":1,"id":"x"},{"item":"a","reward":1,"id":"x"},{"item":"b","reward":1,"id":7},{"item":"a","reward":1}]`, accepted{3, 1})
		s.events(
			`[{"item":"a","reward":0,"id":"x"},{"item":"c","reward":1,"id":"7"},{"item":"a","reward":1,"id":null}]`, accepted{1, 2})
		s.posterior(`{"items":["a"]`, 4, 1, "item")
		s.posterior(`{"items":["b"]`, 2, 1, "item")
		s.posterior(`{"items":["c"]`, 1, 1, "prior")
		s.problem(s.do("POST", s.url+"/events", `[{"item":"a","reward":1,"id":"y"},{"item":"a","reward":2}]`),
			422)
		if a, r := s.stats.accepted.Value(), s.stats.rejected.Value(); a != 4 || r != 1 {
			t.Errorf("%d are counted as accepted and %d as rejected, want 4 and the one that was read", a, r)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 3 {
			f := open(t, dir)
			n, err := f.accept([]event{{item: []byte("a"), reward: 1, id: []byte("x")},
				{item: []byte("a"), reward: 1, id: fmt.Append(nil, i)}})
			if want := min(i, 1); n != want || err != nil {
				t.Errorf("start %d: %d were there before, want %d: %v", i, n, want, err)
			}
			f.close()
		}
	})
	t.Run("after a kill", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 3 {
			f := open(t, dir)
			n, err := f.accept([]event{{item: []byte("a"), reward: 1, id: []byte("x")},
				{item: []byte("a"), reward: 1, id: fmt.Append(nil, i)}})
			if want := min(i, 1); n != want || err != nil {
				t.Errorf("start %d: %d were there before, want %d: %v", i, n, want, err)
			}
			dir = copied(t, dir)
		}
	})
}

func TestARequestOfEventsCountsAsAWholeOrNotAtAll(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		// For 11 arms and 6 ids.
		f := open(t, t.TempDir(), func(c *Config) { c.Memory, c.ClientIDs, c.MaxEvents = 1920, 1, 8 })
		s := serve(t, f, kernel)
		s.events(`[{"item":1,"reward":1,"id":"one"},{"item":2,"reward":1},{"item":3,"reward":1}]`,
			accepted{3, 0})
		for item := range 6 {
			s.events(fmt.Sprintf(`{"item":"i%d","reward":1}`, item), accepted{1, 0})
		}
		before, position := f.memory(), f.metric("weir_bandit_journal_bytes_total")
		const good = `{"item":1,"reward":1,"id":"two"},{"item":"new","reward":1}`
		for _, c := range []struct {
			body   string
			status int
			says   string
		}{
			{`[` + good + `,{"item":1,"reward":1.5}]`, 422, "events[2].reward must be a number from 0 to 1"},
			{`[` + good + `,{"item":1,"reward":-0.1}]`, 422, "events[2].reward must be a number from 0 to 1"},
			{`[` + good + `,{"item":1,"reward":NaN}]`, 400, "the body is not JSON: a value that is none"},
			{`[` + good + `,{"item":1,"reward":null}]`, 422, "events[2].reward must be a number from 0 to 1"},
			{`[` + good + `,{"item":1,"reward":1e400}]`, 422,
				"events[2].reward must be a number from 0 to 1"},
			{`[` + good + `,{"item":1}]`, 422, "events[2].reward must be there: a number from 0 to 1"},
			{`[` + good + `,{"reward":1}]`, 422,
				"events[2].item must be there: a text of 1 to 255 bytes or a whole number"},
			{`[` + good + `,{"item":"","reward":1}]`, 422, "events[2].item must be a text of 1 to 255 bytes"},
			{`[` + good + `,{"item":null,"reward":1}]`, 422, "events[2].item must be"},
			{`[` + good + `,{"item":1,"reward":1,"user":{}}]`, 422, "events[2].user must be"},
			{`[` + good + `,{"item":1,"reward":1,"id":""}]`, 422, "events[2].id must be"},
			{`[` + good + `,{"item":1,"reward":1,"segment":""}]`, 422, "events[2].segment must be"},
			{`[` + good + `,{"item":1,"reward":1,"ts":"noon"}]`, 422,
				"events[2].ts must be seconds since 1970 as a number, or a time as in 2026-01-31T12:00:00Z"},
			{`[` + good + `,{"item":1,"reward":1,"ts":1700000000000}]`, 422,
				"it is seconds, not milliseconds"},
			{`[` + good + `,{"item":1,"reward":1,"ts":"2200-01-01T00:00:00Z"}]`, 422,
				"events[2].ts is more than 1h0m0s ahead of the server's clock (--bandit-max-ahead)"},
			{`[` + good + `,{"item":1,"reward":1,"time":1}]`, 422,
				`events[2] may have user, item, reward, ts, id and segment, and not "time"`},
			{`[` + good + `,{"item":1,"reward":1,"reward":1}]`, 422, "events[2].reward must be there once"},
			{`[` + good + `,7]`, 422, "events[2] must be an object"},
			{`[` + good + `]]`, 400, "something follows the value"},
			{`{"item":1,"reward":1,"id":"two"}` + "\n" + `{"item":1}`, 422, "events[1].reward"},
			{`{"item":1,"reward":1,"id":"two"}` + "\n" + `oops`, 400, "the body is not JSON"},
			{``, 422, "the body is empty: send an event, an array of events, or lines of events"},
			{`"event"`, 422, "events[0] must be an object"},
			{strings.Repeat(`{"item":1,"reward":1}`+"\n", 9), 422,
				"more than 8 events (--bandit-max-events): send them in several requests"},
			{`[` + good + `,{"item":"newer","reward":1},{"item":"newest","reward":1}]`, 503,
				"no room for more arms that events teach of (--bandit-memory)"},
			{`[` + good +
				`,{"item":1,"reward":1,"id":3},{"item":1,"reward":1,"id":4},{"item":1,"reward":1,"id":5},{"item":1,"reward":1,"id":6},{"item":1,"reward":1,"id":7}]`, 503, "no room for more ids of events (--bandit-memory)"},
		} {
			s.problem(s.do("POST", s.url+"/events", c.body), c.status, c.says)
			sameMemory(t, f.memory(), before)
			if f.metric("weir_bandit_journal_bytes_total") != position {
				t.Fatalf("%s is in the journal", c.body)
			}
		}
		// After that they count, also where one new arm comes several times.
		s.events(
			`[`+good+
				`,{"item":"new","reward":0},{"item":"newer","reward":1},{"item":"newer","reward":1},{"item":1,"reward":0,"id":"one"}]`, accepted{5, 1})
		s.posterior(`{"items":["new"]`, 2, 2, "item")
		s.problem(s.do("POST", s.url+"/events", `{"item":"one more","reward":1}`), 503, "--bandit-memory")
		s.events(`{"item":1,"reward":1}`, accepted{1, 0})
		if err := f.Health().Err(); err != nil {
			t.Errorf("a table that is full is no reason not to be ready: %v", err)
		}
	})
}

func TestOneClientHasAPartOfTheRoomForIDs(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		// 4 ids, 2 for a client.
		s := serve(t, open(t, t.TempDir(), func(c *Config) { c.Memory = 80 * 4 * 4 }), kernel)
		s.events(`[{"item":1,"reward":1,"id":1},{"item":1,"reward":1,"id":2}]`, accepted{2, 0})
		s.problem(s.do("POST", s.url+"/events", `{"item":1,"reward":1,"id":3}`), 503, "--bandit-client-ids")
		long := `[{"item":1,"reward":1,"id":4}` + strings.Repeat(" ", inlineEvents) + `]` // a worker reads it
		s.problem(s.do("POST", s.url+"/events", long), 503, "--bandit-client-ids")
		s.events(`{"item":1,"reward":1}`, accepted{1, 0})
		s.forgets(`{"ids":true}`, 2)
		s.events(long, accepted{1, 0})
	})
}

func TestATimeBefore1970IsNotTakenForMilliseconds(t *testing.T) {
	s := serve(t, open(t, t.TempDir()), server.Config{})
	a := s.do("POST", s.url+"/events", `{"item":1,"reward":1,"ts":-1}`)
	s.problem(a, 422,
		"events[0].ts must be seconds since 1970 as a number, or a time as in 2026-01-31T12:00:00Z")
	if strings.Contains(a.body, "milliseconds") {
		t.Errorf("%s", a.body)
	}
}

func TestEventsFadeByTheirTime(t *testing.T) {
	s := serve(t, open(t, t.TempDir(), func(c *Config) { c.HalfLife = 100 * time.Hour }), server.Config{})
	at := func(ago time.Duration) string { return time.Now().Add(-ago).Format(time.RFC3339Nano) }
	s.events(fmt.Sprintf(
		`[{"item":"now","reward":1},{"item":"old","reward":1,"ts":%q},{"item":"older","reward":1,"ts":%d},{"item":"future","reward":1,"ts":%q},{"item":"ancient","reward":1,"ts":0}]`,
		at(100*time.Hour), time.Now().Add(-300*time.Hour).Unix(), at(-50*time.Minute)), accepted{5, 0})
	p := s.explain(`{"items":["now","old","older","future","ancient"]`)
	for i, want := range []float64{2, 1.5, 1.125, 2, 1} {
		source := "item"
		if want == 1 { // it has faded to less than a double can say
			source = "prior"
		}
		if got := p.Explain[i]; math.Abs(got.Alpha-want) > 1e-3 || got.Beta != 1 || got.Source != source {
			t.Errorf("item %d: %+v, want alpha %v of %s", i, got, want, source)
		}
	}
}

func TestAFailedSyncStopsEventsAndNothingElse(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		var broken atomic.Bool
		f := open(t, t.TempDir(), func(c *Config) {
			c.Sync = time.Millisecond
			c.faults.FailSync = func() error {
				if broken.Load() {
					return errors.New("the disk is on fire")
				}
				return nil
			}
		})
		s := serve(t, f, kernel)
		s.events(`{"item":"a","reward":1}`, accepted{1, 0})
		if a := s.do("GET", s.url+"/health", ""); a.status != 200 {
			t.Errorf("/health: %d %s", a.status, a.body)
		}
		systest.Eventually(t, "a sync",
			func() bool { return f.metric("weir_bandit_journal_unsynced_bytes") == 0 })
		broken.Store(true)
		s.events(`{"item":"a","reward":1}`, accepted{1, 0}) // it is written, and not yet synced
		systest.Eventually(t, "a failed sync", func() bool { return f.learner.Err() != nil })
		before := f.memory()
		a := s.do("POST", s.url+"/events", `{"item":"a","reward":1,"id":"x"}`)
		s.problem(a, 503, "events cannot be saved at the moment, so none of this request counts")
		if strings.Contains(a.body, "fire") {
			t.Errorf("%s tells of the inside", a.body)
		}
		sameMemory(t, f.memory(), before)
		h := s.do("GET", s.url+"/health", "")
		if h.status != 200 || !strings.Contains(h.body, `"status":"degraded"`) ||
			!strings.Contains(h.body, "events cannot be saved: a write to the disk failed") {
			t.Errorf("/health: %d %s", h.status, h.body)
		}
		if v2 := s.do("GET", s.url+"/v2/health/ready", ""); v2.status != 200 { // predictions are made
			t.Errorf("/v2/health/ready: %d %s", v2.status, v2.body)
		}
		s.posterior(`{"items":["a"]`, 3, 1, "item")
		if !strings.Contains(s.log.String(), "the disk is on fire") {
			t.Error("the log does not say why")
		}
		broken.Store(false)
		f.learner.Close() //nolint:errcheck // the error is the one above; the server's Close then has none
	})
}

func TestManyClientsSendEvents(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		f := open(t, dir)
		s := serve(t, f, kernel)
		const clients, requests, items = 8, 30, 20
		var duplicates, done atomic.Int64
		var senders sync.WaitGroup
		for c := range clients {
			senders.Go(func() {
				r := rand.New(rand.NewPCG(27, uint64(c)))
				for i := range requests {
					// Every request is sent by two clients, one of which counts.
					body := fmt.Sprintf(`[{"item":%d,"reward":%d,"id":"%d-%d"},{"item":%d,"reward":0.5}]`,
						r.IntN(items), i%2, c/2, i, i%items)
					a, err := s.try("POST", s.url+"/events", body)
					switch {
					case err != nil || a.status != 200:
						t.Errorf("%v %d %s", err, a.status, a.body)
					case strings.Contains(a.body, `"duplicates":1`):
						duplicates.Add(1)
					}
				}
			})
		}
		checked := make(chan struct{})
		go func() { // somebody lists the arms beside them
			defer close(checked)
			for done.Load() == 0 {
				f.learner.State()
			}
		}()
		senders.Wait()
		done.Store(1)
		<-checked
		if n := duplicates.Load(); n != clients/2*requests {
			t.Errorf("%d duplicates, want %d", n, clients/2*requests)
		}
		sum := 0.0
		m := f.memory()
		for _, a := range m.arms[arms.Item] {
			sum += a[0] + a[1]
		}
		if want := float64(clients*requests + clients/2*requests); sum != want {
			t.Errorf("the arms hold %v events, want %v", sum, want)
		}
		sameMemory(t, open(t, copied(t, dir)).memory(), m)
	})
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

func TestAnotherHalfLifeTakesUpWhatThereIs(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if _, err := f.accept([]event{{item: []byte("a"), reward: 1}}); err != nil {
		t.Fatal(err)
	}
	f.close()
	f = open(t, dir, func(c *Config) { c.HalfLife = time.Hour })
	now := time.Now().UnixMicro()
	a, _, ok := f.learner.View(arms.Item, now+int64(time.Hour/time.Microsecond)).Find(arms.KeyOf([]byte("a")))
	if !ok || math.Abs(a-0.5) > 1e-3 {
		t.Errorf("after an hour %v %t, want 0.5", a, ok)
	}
	f.close()
	f = open(t, dir)
	a, _, ok = f.learner.View(arms.Item, now*2).Find(arms.KeyOf([]byte("a")))
	if !ok || math.Abs(a-1) > 1e-3 {
		t.Errorf("without a half-life %v %t, want 1", a, ok)
	}
}

// What was learned with more memory is not thrown away for want of it, nor does the process end.
func TestAStartWithLessMemoryServesWhatFitsAndTakesNoEvents(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		dir := t.TempDir()
		f := open(t, dir)
		for i := range 10 {
			if _, err := f.accept([]event{{item: fmt.Append(nil, i), reward: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		from := copied(t, dir)
		if checkpoint {
			f.close()
			from = dir
		}
		less, err := tryOpen(t, from, func(c *Config) { c.Memory = memoryFor(9) })
		if err != nil {
			t.Fatal(err)
		}
		const says = "not all that events have taught fits into"
		if err := less.Health().Err(); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "raise --bandit-memory") {
			t.Errorf("checkpoint %t: ready: %v", checkpoint, err)
		}
		s := serve(t, less, server.Config{})
		s.problem(s.do("POST", s.url+"/events", `{"item":0,"reward":1}`), 503, says)
		if n := less.learnedArms(); n != 9 {
			t.Errorf("%d arms, want 9", n)
		}
		if err := less.learner.Close(); err != nil {
			t.Error(err)
		}
		if n := open(t, copied(t, from),
			func(c *Config) { c.Memory = memoryFor(10) }).learnedArms(); n != 10 {
			t.Errorf("%d arms with memory enough, want 10", n)
		}
	}
}

// memoryFor returns a Config.Memory that is enough for so many arms.
func memoryFor(arms int) int64 { return int64(arms)*128*4/3 + 4 }

func TestALongJournalIsWrittenAsACheckpoint(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, func(c *Config) { c.Checkpoint = 1 << 20 })
	list := make([]event, 10_000)
	for i := range list {
		list[i] = event{item: fmt.Append(nil, i%100), reward: 1}
	}
	for range 4 {
		if _, err := f.accept(list); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "a checkpoint",
		func() bool { return f.metric("weir_bandit_journal_checkpoints_total") > 0 })
	sameMemory(t, open(t, copied(t, dir)).memory(), f.memory())
}

func TestAStopWithNothingNewWritesNoCheckpoint(t *testing.T) {
	dir := t.TempDir()
	stopped := func(list ...event) os.FileInfo {
		t.Helper()
		f := open(t, dir)
		if _, err := f.accept(list); err != nil {
			t.Fatal(err)
		}
		f.close()
		info, err := os.Stat(filepath.Join(dir, "bandit", "checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	empty := stopped()
	if !os.SameFile(empty, stopped()) {
		t.Error("it was written again without any event")
	}
	first := stopped(event{item: []byte("a"), reward: 1})
	if os.SameFile(empty, first) {
		t.Error("it was not written")
	}
	if !os.SameFile(first, stopped()) {
		t.Error("it was written again, and nothing had come")
	}
}

func TestTheLagIsThatOfEventsThatSayWhenTheyHappened(t *testing.T) {
	f := open(t, t.TempDir())
	s := serve(t, f, server.Config{})
	hourAgo := time.Now().Add(-time.Hour).Unix()
	s.events(fmt.Sprintf(
		`[{"item":"a","reward":1},{"item":"a","reward":1,"ts":%d},{"item":"a","reward":1,"ts":null}]`,
		hourAgo), accepted{3, 0})
	var lag *metrics.Distribution
	for _, sample := range f.env.Metrics.Snapshot(nil) {
		if sample.Name == "weir_bandit_event_lag_seconds" {
			lag = sample.Distribution
		}
	}
	if q := lag.Quantile(0.9); lag.Count() != 1 || q < 55*time.Minute || q > 65*time.Minute {
		t.Errorf("%d lags, %v", lag.Count(), q)
	}
}

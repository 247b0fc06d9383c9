package bandit

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
	"weir/internal/server"
)

// forgets asks to forget, which must be of so many arms.
func (s *served) forgets(body string, arms int) {
	s.t.Helper()
	a := s.do("POST", s.admin+"/admin/bandit/forget", body)
	if want := fmt.Sprintf(`{"forgotten":%d}`, arms); a.status != 200 || a.body != want ||
		a.header.Get("Content-Type") != "application/json" {
		s.t.Errorf("POST /admin/bandit/forget %s: %d %s, want %s", body, a.status, a.body, want)
	}
}

func TestWhatEventsHaveTaughtIsForgotten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3},
		{segment: "young", item: "a", alpha: 20, beta: 30}}, "u1", "young", "u2", "young")
	f := open(t, dir, func(c *Config) { c.Arms, c.Learn = path, arms.Pair })
	s := serve(t, f, server.Config{})
	s.forgets(`{"all":true}`, 0)
	s.events(
		`[{"user":"u1","item":"a","reward":1,"id":"x"},{"user":"u1","item":"b","reward":1},{"item":7,"reward":0.5}]`, accepted{3, 0})
	if n := f.learnedArms(); n != 7 {
		t.Fatalf("%d arms are learned, want a and b for everybody, the segment and the user, and 7", n)
	}
	position := f.metric("weir_bandit_journal_bytes_total")
	s.forgets(`{"item":"nobody's"}`, 0)
	s.forgets(`{"item":"a","segment":"old"}`, 0)
	s.forgets(`{"item":"a","user":"u2"}`, 0)
	if now := f.metric("weir_bandit_journal_bytes_total"); now != position {
		t.Errorf("what changes nothing takes %v bytes of the journal", now-position)
	}

	// The arms that are left decide, as if the one had never been taught.
	s.posterior(`{"user":"u1","items":["a"]`, 2, 1, "pair") // of the item at 3, 3
	s.forgets(`{"item":"a","user":"u1"}`, 1)
	s.posterior(`{"user":"u1","items":["a"]`, 21, 30, "segment")
	s.forgets(`{"item":"a","segment":"young"}`, 1)
	s.posterior(`{"user":"u1","items":["a"]`, 20, 30, "segment") // it was imported
	s.forgets(`{"item":"b","user":"u1","segment":null}`, 1)
	s.forgets(`{"item":"b","segment":"young"}`, 1)
	s.posterior(`{"user":"u1","items":["b"]`, 2, 1, "item")
	s.posterior(`{"items":["a"]`, 3, 3, "item")
	s.forgets(`{"item":"a"}`, 1)
	s.posterior(`{"items":["a"]`, 2, 3, "item")
	s.forgets(`{"item":"7","all":false}`, 1)
	s.forgets(`{"item":7}`, 0)
	s.posterior(`{"items":[7]`, 1, 1, "prior")
	if n := f.learnedArms(); n != 1 {
		t.Errorf("%d arms are left, want b", n)
	}
	// What is forgotten is learned anew, from nothing; an event that has counted once does not count again.
	s.events(`[{"user":"u1","item":"a","reward":1,"id":"x"},{"item":7,"reward":1}]`, accepted{1, 1})
	s.posterior(`{"items":[7]`, 2, 1, "item")
	s.posterior(`{"items":["a"]`, 2, 3, "item")

	s.events(`{"user":"u2","item":"c","reward":1}`, accepted{1, 0})
	s.forgets(`{"all":true}`, 5)
	s.posterior(`{"user":"u2","items":["c"]`, 1, 1, "prior")
	s.posterior(`{"user":"u1","items":["a"]`, 20, 30, "segment")
	s.events(`{"user":"u2","item":"c","reward":1}`, accepted{1, 0})
	s.posterior(`{"user":"u2","items":["c"]`, 7./3, 2./3, "pair") // of the item at 2, 1
	text := s.do("GET", s.admin+"/metrics", "").body
	for _, line := range []string{"weir_bandit_forgotten_arms_total 11\n",
		`weir_bandit_learned_arms{level="item"} 1` + "\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the metrics have no line %s", line)
		}
	}
	if log := s.log.String(); !strings.Contains(log,
		"bandit has forgotten what events have taught\" item=a segment=young") {
		t.Errorf("the log does not say what was forgotten: %s", log)
	}
}

// An arm for a segment or a user that was forgotten is as if it had never been: events do not make it
// unless --bandit-learn says so.
func TestEventsDoNotMakeAForgottenArmAgain(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, func(c *Config) { c.Learn = arms.Pair })
	teach := func() {
		t.Helper()
		if _, err := f.accept(
			[]event{{user: []byte("u"), segment: []byte("s"), item: []byte("a"), reward: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	teach()
	f.close()
	f = open(t, dir)
	s := serve(t, f, server.Config{})
	s.forgets(`{"item":"a","segment":"s"}`, 1)
	teach()
	s.posterior(`{"segment":"s","items":["a"]`, 3, 1, "item")
	s.posterior(`{"user":"u","items":["a"]`, 3.5, 0.5, "pair")
}

func TestForgettingIsReplayedInItsPlace(t *testing.T) {
	for _, halfLife := range []time.Duration{0, time.Hour} {
		dir := t.TempDir()
		change := func(c *Config) { c.Learn, c.HalfLife = arms.Pair, halfLife }
		f := open(t, dir, change)
		teach := func(items ...string) {
			t.Helper()
			for _, item := range items {
				list := []event{{user: []byte("u"), segment: []byte("s"), item: []byte(item), reward: 0.25,
					id: fmt.Append(nil, item, rand.Uint64())}}
				if _, err := f.accept(list); err != nil {
					t.Fatal(err)
				}
			}
		}
		forget := func(want int, what forgetting) {
			t.Helper()
			if n, err := f.learner.Forget(what.keys()); n != want || err != nil {
				t.Fatalf("%d arms are forgotten, want %d: %v", n, want, err)
			}
		}
		// same compares what predictions see with what a start sees after a kill.
		same := func(when string) {
			t.Helper()
			got, want := open(t, copied(t, dir), change), f
			if n, m := got.learnedArms(), want.learnedArms(); n != m {
				t.Errorf("%s: a start has %d arms, want %d", when, n, m)
			}
			now := time.Now().Add(time.Minute).UnixMicro()
			for level := range levels {
				a, b := got.learner.View(arms.Level(level), now), want.learner.View(arms.Level(level), now)
				for k := range want.memory().arms[level] {
					a1, b1, _ := a.Find(k)
					a2, b2, _ := b.Find(k)
					if diff := a1 - a2 + b1 - b2; diff > 1e-9 || diff < -1e-9 {
						t.Errorf("%s: an arm is at %v, %v, want %v, %v", when, a1, b1, a2, b2)
					}
				}
			}
			if !strings.Contains(when, "checkpoint") {
				sameMemory(t, memory{ids: got.memory().ids, day: got.memory().day},
					memory{ids: want.memory().ids, day: want.memory().day})
			}
		}
		teach("a", "b", "c", "b")
		forget(1, forgetting{item: []byte("a")})
		same("after an arm")
		teach("a", "a")
		forget(1, forgetting{item: []byte("b"), segment: []byte("s")})
		forget(1, forgetting{item: []byte("c"), user: []byte("u")})
		same("taught anew")
		f.close()
		f = open(t, dir, change)
		same("after a checkpoint")
		teach("c")
		forget(1, forgetting{item: []byte("a"), user: []byte("u")})
		same("behind a checkpoint")
		forget(7, forgetting{all: true})
		same("after all")
		teach("d", "a")
		same("after all and two events")
		f.close()
		same("after an orderly end and its checkpoint")
	}
}

func TestForgettingMakesRoom(t *testing.T) {
	dir := t.TempDir()
	change := func(c *Config) { c.Memory = memoryFor(3) }
	f := open(t, dir, change)
	s := serve(t, f, server.Config{})
	s.events(`[{"item":1,"reward":1},{"item":2,"reward":1},{"item":3,"reward":1}]`, accepted{3, 0})
	s.problem(s.do("POST", s.url+"/events", `{"item":4,"reward":1}`), 503, "--bandit-memory")
	s.forgets(`{"item":1}`, 1)
	s.forgets(`{"item":2}`, 1)
	// One of them comes back, beside a new one: there is room for these two, and no third.
	s.problem(s.do("POST", s.url+"/events",
		`[{"item":1,"reward":1},{"item":4,"reward":1},{"item":5,"reward":1}]`), 503, "--bandit-memory")
	s.events(`[{"item":1,"reward":0},{"item":4,"reward":1}]`, accepted{2, 0})
	s.posterior(`{"items":[1]`, 1, 2, "item")
	s.posterior(`{"items":[2]`, 1, 1, "prior")
	s.posterior(`{"items":[3]`, 2, 1, "item")
	if n := f.learnedArms(); n != 3 {
		t.Errorf("%d arms, want 3", n)
	}
	sameMemory(t, open(t, copied(t, dir), change).memory(), f.memory())
	s.forgets(`{"all":true}`, 3)
	s.events(`[{"item":5,"reward":1},{"item":6,"reward":1},{"item":7,"reward":1}]`, accepted{3, 0})
	sameMemory(t, open(t, copied(t, dir), change).memory(), f.memory())
}

func TestWhatCannotBeForgottenIsNamed(t *testing.T) {
	f := open(t, t.TempDir())
	s := serve(t, f, server.Config{})
	s.events(`{"item":"a","reward":1}`, accepted{1, 0})
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		``: {422,
			"the body is empty: send {\"item\":...} or {\"all\":true}"},
		`{`:              {400, "the body is not JSON"},
		`{"item":"a"} x`: {400, "something follows the value"},
		`[]`:             {422, "the body must be an object"},
		`{}`: {422,
			`item must be there: a text of 1 to 255 bytes or a whole number; or {"all":true} to forget everything`},
		`{"all":false}`:           {422, "item must be there"},
		`{"segment":"s"}`:         {422, "item must be there"},
		`{"all":1}`:               {422, "all must be true or false"},
		`{"all":true,"item":"a"}`: {422, "all must be alone"},
		`{"all":true,"ids":true}`: {422, "all must be alone"},
		`{"ids":true,"user":"a"}`: {422, "ids must be alone"},
		`{"item":""}`:             {422, "item must be a text"},
		`{"item":null}`:           {422, "item must be a text"},
		`{"item":"a","item":"a"}`: {422, "item must be there once"},
		`{"item":"a","user":1.5}`: {422, "user must be a text"},
		`{"item":"a","user":1,"segment":"s"}`: {422,
			"segment must be left out where there is a user"},
		`{"items":["a"]}`: {422, `the body may have all, ids, item, segment and user, and not "items"`},
		`{"item":"a"` + strings.Repeat(" ", 16<<10) + `}`: {413, "longer than 16384 bytes"},
	} {
		s.problem(s.do("POST", s.admin+"/admin/bandit/forget", body), want.status, want.says)
	}
	s.posterior(`{"items":["a"]`, 2, 1, "item")
	if a := s.do("POST", s.url+"/admin/bandit/forget", `{"all":true}`); a.status != 404 {
		t.Errorf("on the public port: %d %s", a.status, a.body)
	}

	// What cannot be saved is not forgotten.
	f.close()
	s.problem(s.do("POST", s.admin+"/admin/bandit/forget", `{"item":"a"}`), 503, "nothing is forgotten")
	if n := f.learnedArms(); n != 1 {
		t.Errorf("%d arms, want 1", n)
	}
}

// Whatever order events, forgetting, checkpoints and predictions come in, a start after a kill knows what
// was known.
func TestForgettingBesideAllElseIsReplayedAlike(t *testing.T) {
	dir := t.TempDir()
	// Of 150 items: at times there is no room.
	change := func(c *Config) { c.Learn, c.Memory = arms.Segmented, memoryFor(100) }
	f := open(t, dir, change)
	var others, events sync.WaitGroup
	var done atomic.Bool
	var forgotten atomic.Int64
	beside := func(do func(r *rand.Rand)) {
		others.Go(func() {
			for r := rand.New(rand.NewPCG(rand.Uint64(), 1)); !done.Load(); runtime.Gosched() {
				do(r)
			}
		})
	}
	id := func(r *rand.Rand) []byte { return fmt.Append(nil, r.IntN(150)) }
	for range 2 {
		events.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for i := 0; (i < 20_000 || forgotten.Load() < 1000) && !t.Failed(); i++ {
				e := event{item: id(r), reward: float64(r.IntN(5)) / 4}
				if r.IntN(2) == 0 {
					e.segment = []byte("s")
				}
				if _, err := f.accept([]event{e}); err != nil && !errors.Is(err, learning.ErrArms) {
					t.Error(err)
					return
				}
			}
		})
	}
	beside(func(r *rand.Rand) {
		what := forgetting{item: id(r)}
		switch r.IntN(30) {
		case 0:
			what = forgetting{all: true}
		default:
			if r.IntN(2) == 0 {
				what.segment = []byte("s")
			}
		}
		n, err := f.learner.Forget(what.keys())
		if forgotten.Add(int64(n)); err != nil {
			t.Error(err)
		}
	})
	beside(func(*rand.Rand) { f.learner.State() })
	beside(func(r *rand.Rand) {
		sc := f.getScratch()
		defer f.putScratch(sc)
		if !f.lookUp(sc, nil, []byte("s"), []arms.Key{arms.KeyOf(id(r)), arms.KeyOf(id(r))}, nil) ||
			!(sc.alpha[0] > 0 && sc.beta[0] > 0 && sc.alpha[0]+sc.beta[0] >= 2) {
			t.Errorf("a posterior is %v, %v", sc.alpha[0], sc.beta[0])
		}
	})
	events.Wait()
	done.Store(true)
	others.Wait()
	taught := func(f *fixture) (m [levels]map[arms.Key][2]float64) {
		m = f.memory().arms
		for level := range m {
			maps.DeleteFunc(m[level], func(_ arms.Key, sums [2]float64) bool { return sums == [2]float64{} })
			if n := f.learner.Len(arms.Level(level)); n != len(m[level]) {
				t.Errorf("level %d is said to have %d arms and has %d", level, n, len(m[level]))
			}
		}
		return m
	}
	if got, want := taught(open(t, copied(t, dir), change)), taught(f); !reflect.DeepEqual(got, want) {
		t.Errorf("after a kill %v, want %v", got, want)
	}
	f.close()
	if got, want := taught(open(t, dir, change)), taught(f); !reflect.DeepEqual(got, want) {
		t.Errorf("after an orderly end %v, want %v", got, want)
	}
}

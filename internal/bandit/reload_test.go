package bandit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/server"
	"weir/internal/systest"
)

func TestUntilTheArmsAreLoadedItIsNotReady(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}})
		hold := make(chan struct{})
		f, err := tryOpen(t, dir, func(c *Config) { c.Arms, c.loading = path, func() { <-hold } })
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, f, kernel)
		const reason = "the arms are being loaded"
		if a := s.do("GET", s.url+"/health", ""); a.status != 503 || !strings.Contains(a.body, reason) {
			t.Errorf("/health: %d %s", a.status, a.body)
		}
		for path, body := range map[string]string{
			"/predict": `{"items":["a"]}`, "/predict/batch": `[{"items":["a"]}]`,
			"/events":                 `{"item":"a","reward":1}`,
			"/v2/models/bandit/infer": `{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`,
		} {
			s.problem(s.do("POST", s.url+path, body), 503, reason)
		}
		close(hold)
		f.loaded()
		if a := s.do("GET", s.url+"/health", ""); a.status != 200 {
			t.Errorf("/health: %d %s", a.status, a.body)
		}
		s.posterior(`{"items":["a"]`, 2, 3, "item")
		if n := f.learnedArms(); n != 0 {
			t.Errorf("an event that was refused has taught %d arms", n)
		}
	})
}

func TestClosingWhileArmsAreLoadedIsNoError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}})
	hold := make(chan struct{})
	f, err := tryOpen(t, dir, func(c *Config) { c.Arms, c.loading = path, func() { <-hold } })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-f.background.Done()
		close(hold)
	}()
	f.close()
	if strings.Contains(f.log.String(), "ERROR") {
		t.Errorf("the log holds %s", f.log)
	}
	if err := f.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a reload after the end: %v", err)
	}
}

func TestArmsThatAreDamagedInsideAreSaidAndMayBeReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[4096] ^= 1 // of a cell: only loading finds that
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := tryOpen(t, dir, func(c *Config) { c.Arms = path })
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, f, server.Config{})
	systest.Eventually(t, "a failure", func() bool { return f.failed.Load() != nil })
	if a := s.do("GET", s.url+"/health", ""); a.status != 503 ||
		!strings.Contains(a.body, "the arms cannot be used; see the log, and replace the file") {
		t.Errorf("/health: %d %s", a.status, a.body)
	}
	s.problem(s.do("POST", s.url+"/predict", `{"items":["a"]}`), 503, "the arms cannot be used")
	if !strings.Contains(s.log.String(), "checksum of its arms is wrong") {
		t.Errorf("the log does not say why: %s", s.log)
	}
	writeArms(t, path, []arm{{item: "a", alpha: 4, beta: 5}})
	if a := s.do("POST", s.admin+"/admin/bandit/reload", ""); a.status != 200 {
		t.Errorf("reload: %d %s", a.status, a.body)
	}
	s.posterior(`{"items":["a"]`, 4, 5, "item")
	if err := f.Health().Err(); err != nil {
		t.Error(err)
	}
}

func TestReloadTakesUpNewArmsAndKeepsWhatWasLearned(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}, {item: "gone", alpha: 9, beta: 9}})
	f := open(t, dir, func(c *Config) { c.Arms = path })
	s := serve(t, f, server.Config{})
	s.events(`[{"user":"u","item":"a","reward":1},{"item":"gone","reward":0}]`, accepted{2, 0})
	writeArms(t, path, []arm{{item: "a", alpha: 20, beta: 30}, {user: "u", item: "a", alpha: 5, beta: 6}},
		"v", "s")
	a := s.do("POST", s.admin+"/admin/bandit/reload", "")
	if want := `{"generation":2,"arms":2,"users":1,"segments":1}`; a.status != 200 || a.body != want {
		t.Errorf("reload: %d %s, want %s", a.status, a.body, want)
	}
	s.posterior(`{"items":["a"]`, 21, 30, "item")
	s.posterior(`{"user":"u","items":["a"]`, 5, 6, "pair")
	s.posterior(`{"items":["gone"]`, 1, 2, "item")

	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct {
		data []byte
		says string
	}{
		"no arms": {[]byte("item,alpha,beta\n"), "not a file of arms"},
		"cut off": {good[:len(good)-1], "file is damaged"},
		"a bit less": {append(append([]byte(nil), good[:4200]...),
			append([]byte{good[4200] ^ 1}, good[4201:]...)...), "checksum"},
	} {
		if err := os.WriteFile(path+".new", bad.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		s.problem(s.do("POST", s.admin+"/admin/bandit/reload", ""), 409,
			"the new arms are refused, generation 2 serves on", bad.says)
		if err := f.Health().Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.posterior(`{"items":["a"]`, 21, 30, "item")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.problem(s.do("POST", s.admin+"/admin/bandit/reload", ""), 409, "generation 2 serves on", "no such file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	writeArms(t, path, []arm{{item: "a", alpha: 1, beta: 1}})
	if err := f.Reload(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a reload that was called off: %v", err)
	}
	s.posterior(`{"items":["a"]`, 21, 30, "item")
}

func TestReloadsUnderLoadLoseNoRequest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	const items = 300
	put := func(generation int) {
		var all []arm
		for i := range items {
			all = append(all, arm{item: fmt.Sprint(i), alpha: float64(generation), beta: 1},
				arm{user: "u", item: fmt.Sprint(i), alpha: float64(generation), beta: 2})
		}
		writeArms(t, path, all, "u", "s")
	}
	put(1)
	f := open(t, dir, func(c *Config) { c.Arms = path })
	s := serve(t, f, server.Config{})
	var ended atomic.Bool
	var clients sync.WaitGroup
	for c := range 4 {
		query := `{"user":"u","items":` + list(0, []int{10, items}[c%2])
		clients.Go(func() {
			last := 0.0
			for !ended.Load() {
				p := s.explain(query)
				for i, e := range p.Explain {
					if e.Beta != 2 || e.Source != "pair" || e.Alpha != p.Explain[0].Alpha {
						t.Errorf("item %d: %+v beside %+v: of two generations", i, e, p.Explain[0])
						return
					}
				}
				if p.Explain[0].Alpha < last || p.Segment != "s" {
					t.Errorf("after generation %v there is %v", last, p.Explain[0].Alpha)
				}
				last = p.Explain[0].Alpha
			}
		})
	}
	clients.Go(func() {
		for !ended.Load() {
			s.post("/events", `{"item":"other","reward":1}`, nil)
		}
	})
	for generation := 2; generation <= 15; generation++ {
		put(generation)
		if a := s.do("POST", s.admin+"/admin/bandit/reload", ""); a.status != 200 {
			t.Errorf("reload: %d %s", a.status, a.body)
		}
		runtime.GC() // the maps of files that nobody reads go
	}
	ended.Store(true)
	clients.Wait()
	s.posterior(`{"items":["0"]`, 15, 1, "item")
}

func TestAFileThatNobodyReadsIsUnmapped(t *testing.T) {
	for _, watch := range []time.Duration{-1, time.Hour} {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}})
		f := open(t, dir, func(c *Config) { c.Arms, c.Watch = path, watch })
		gone := make(chan struct{})
		func() {
			runtime.AddCleanup(f.model.Load().file, func(struct{}) { close(gone) }, struct{}{})
			sc := f.getScratch() // a request that is over keeps nothing
			if !f.lookUp(sc, []byte("u"), nil, []arms.Key{arms.NumberKey(1)}, nil) {
				t.Error("no arms")
			}
			f.putScratch(sc)
		}()
		writeArms(t, path, []arm{{item: "a", alpha: 4, beta: 5}})
		if err := f.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		systest.Eventually(t, fmt.Sprintf("the end of the old file, watched every %v", watch), func() bool {
			runtime.GC()
			select {
			case <-gone:
				return true
			default:
				return false
			}
		})
	}
}

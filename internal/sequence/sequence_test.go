package sequence

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/metrics"
	"weir/internal/progress/cells"
	"weir/internal/server"
)

// env is what a sequence is opened with, its data in dir.
func env(dir string) server.Env {
	return server.Env{DataDir: dir, Metrics: metrics.New(4), Log: slog.New(slog.DiscardHandler)}
}

// open opens the sequence of a data directory until the test ends.
func open(t testing.TB, dir string, cfg Config) *Sequence {
	t.Helper()
	s, err := Open(cfg, env(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// at returns the index.
func (s *Sequence) at() uint64 {
	at, err := s.index.Get(context.Background())
	if err != nil {
		panic(err)
	}
	return at
}

// step moves the index as a request does, and returns where it then was.
func (s *Sequence) step(t testing.TB, step step) (uint64, error) {
	for {
		at := s.at()
		to, err := s.target(at, step)
		if err != nil {
			return at, err
		}
		moved, err := s.move(t.Context(), at, to)
		if err != nil {
			t.Error(err)
			return at, err
		}
		if moved {
			return to, nil
		}
	}
}

func TestConcurrentStepsForwardSeeDifferentIndices(t *testing.T) {
	const each, goroutines = 5_000, 8
	s := open(t, t.TempDir(), Config{})
	seen := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for g := range seen {
		wg.Go(func() {
			for range each {
				at, err := s.step(t, forward)
				if err != nil {
					t.Error(err)
				}
				seen[g] = append(seen[g], at)
			}
		})
	}
	wg.Wait()
	times := make([]int, each*goroutines+1)
	for _, indices := range seen {
		for i, at := range indices {
			times[at]++
			if i > 0 && at <= indices[i-1] {
				t.Fatalf("%d after %d", at, indices[i-1])
			}
		}
	}
	for at, n := range times[1:] {
		if n != 1 {
			t.Fatalf("index %d was seen %d times", at+1, n)
		}
	}
}

// Whoever has a value at hand, and finds that the index has moved meanwhile, lets go of it.
func TestAStepThatCameTooLateLetsItsValueGo(t *testing.T) {
	s := open(t, t.TempDir(), Config{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			next := s.answerStep([]step{forward, back}[i%2])
			var w server.Response
			for range 300_000 { // among the first values, which are all at hand
				w = server.Response{Body: w.Body[:0]}
				next(&w, &server.Request{Method: http.MethodGet, Stripe: i})
			}
		})
	}
	wg.Wait()
	notPinned(t, s)
}

func TestTheIndexStaysWithinItsBoundsUnderRaces(t *testing.T) {
	s := open(t, t.TempDir(), Config{MaxIndex: 3})
	var moved [2]int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			ups, downs := 0, 0
			for i := range 20_000 {
				at := s.at()
				way := forward
				if (i+g)%2 == 0 {
					way = back
				}
				to, err := s.target(at, way)
				switch {
				case to > 3:
					t.Errorf("from %d to %d", at, to)
				case err != nil && (at != 3 || way != forward || !errors.Is(err, errAtEnd)):
					t.Errorf("from %d: %v", at, err)
				case err != nil || to == at:
					continue
				}
				if ok, err := s.move(t.Context(), at, to); err != nil {
					t.Error(err)
				} else if ok && way == forward {
					ups++
				} else if ok {
					downs++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			moved[0] += int64(ups)
			moved[1] += int64(downs)
		})
	}
	wg.Wait()
	if at := int64(s.at()); at != moved[0]-moved[1] {
		t.Errorf("the index is %d after %d steps forward and %d back", at, moved[0], moved[1])
	}
	for range 5 {
		if _, err := s.step(t, back); err != nil {
			t.Error(err)
		}
	}
	if at := s.at(); at != 0 {
		t.Errorf("the index is %d and cannot go below 0", at)
	}
}

func TestTheIndexOutlivesTheService(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{}, env(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.set(77); err != nil {
		t.Fatal(err)
	}
	if at, err := s.step(t, forward); at != 78 || err != nil {
		t.Fatal(at, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := open(t, dir, Config{}); again.at() != 78 {
		t.Errorf("the index is %d, want 78", again.at())
	}
	if _, err := os.Stat(filepath.Join(dir, "sequence", "current.cells")); err != nil {
		t.Error(err)
	}
}

func TestTheFileOfTheIndexCanBeElsewhereAndIsLocked(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "f")
	s, err := Open(Config{File: file}, env(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.set(5); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{File: file}, env(t.TempDir())); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second one on the file: %v", err)
	}
	open(t, dir, Config{File: file + "2"}) // beside it is room
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := open(t, t.TempDir(), Config{File: file}); again.at() != 5 {
		t.Errorf("the index is %d, want 5", again.at())
	}
}

func TestAFileThatIsNoIndexIsRefusedWithWhatToChange(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, n uint64, value uint64) string {
		path := filepath.Join(dir, name)
		store, err := cells.Open(path, n, cells.Options{MaxCells: n})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.CompareAndSwap(0, 0, value); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := filepath.Join(dir, "text")
	if err := os.WriteFile(other, []byte("42\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		says []string
	}{
		"another store": {Config{File: file("many", 2, 0)}, []string{"2 cursors", "--sequence-file"}},
		"no index":      {Config{File: file("large", 1, 1<<40)}, []string{"no index", "--sequence-file"}},
		"beyond the end": {Config{File: file("beyond", 1, 11), MaxIndex: 10},
			[]string{"is 11, beyond --sequence-max-index 10", "11 at least"}},
		"another file": {Config{File: other}, []string{"text", "--sequence-file"}},
		"no directory": {Config{File: filepath.Join(other, "f")}, []string{"text/f", "--sequence-file"}},
	} {
		if _, err := Open(c.cfg, env(dir)); err == nil {
			t.Errorf("%s was opened", name)
		} else {
			for _, say := range c.says {
				if !strings.Contains(err.Error(), say) {
					t.Errorf("%s: %q does not say %q", name, err, say)
				}
			}
		}
	}
	// What was refused can be used as the error says, so nothing is locked or changed.
	if s := open(t, dir, Config{File: filepath.Join(dir, "beyond"), MaxIndex: 11}); s.at() != 11 {
		t.Errorf("the index is %d", s.at())
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "42\n" {
		t.Errorf("a file of somebody else's is now %q, %v", text, err)
	}
}

func TestAConfigThatCannotWorkNamesItsFlag(t *testing.T) {
	for flag, cfg := range map[string]Config{
		"--sequence-max-index":     {MaxIndex: HardMaxIndex + 1},
		"--sequence-cache-bytes":   {CacheBytes: -1},
		"--sequence-compute-bytes": {ComputeBytes: -1},
		"--sequence-range-bytes":   {RangeBytes: -1},
		"--sequence-computations":  {Computations: maxComputations + 1},
		"--sequence-waiting":       {Waiting: -1},
		"--sequence-sync":          {Sync: -time.Second},
	} {
		if _, err := Open(cfg, env(t.TempDir())); err == nil || !strings.Contains(err.Error(), flag+" must") {
			t.Errorf("%+v: %v does not name %s", cfg, err, flag)
		}
	}
}

func TestIndicesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "007": 7, "4294967295": HardMaxIndex,
		"0000000000000004294967295": HardMaxIndex} {
		if n, ok := parseIndex(text, HardMaxIndex); !ok || n != want {
			t.Errorf("%q is %d, %t", text, n, ok)
		}
	}
	for _, text := range []string{"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "4294967296",
		"18446744073709551617", "99999999999999999999999", "²"} {
		if n, ok := parseIndex(text, HardMaxIndex); ok {
			t.Errorf("%q is taken for %d", text, n)
		}
	}
	if _, ok := parseIndex("11", 10); ok {
		t.Error("an index beyond the limit is taken")
	}
}

// The admin port is the last to go: who asks there then gets an answer that is no panic.
func TestAClosedSequenceCanBeLookedAt(t *testing.T) {
	e := env(t.TempDir())
	s, err := Open(Config{}, e)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var put server.Response
	s.putCurrent(&put, &server.Request{Method: http.MethodPut, Body: []byte(`{"index":7}`)})
	if put.Status != http.StatusServiceUnavailable {
		t.Errorf("PUT /current is answered %d", put.Status)
	}
	w := httptest.NewRecorder()
	e.Metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "weir_sequence_index NaN") {
		t.Errorf("/metrics is answered %d without weir_sequence_index NaN", w.Code)
	}
}

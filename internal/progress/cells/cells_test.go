package cells

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/disk"
)

// inBothModes runs a test on mapped cells and on those of systems without shared maps.
func inBothModes(t *testing.T, test func(t *testing.T, o Options)) {
	for _, o := range []Options{{}, {unmapped: true}} {
		t.Run(fmt.Sprintf("unmapped=%v", o.unmapped), func(t *testing.T) { test(t, o) })
	}
}

func mustOpen(t *testing.T, path string, cells uint64, o Options) *Store {
	t.Helper()
	s, err := Open(path, cells, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // for tests that fail halfway; others check their own Close
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// advance adds one to cell i, as its users do, and returns what it then held.
func advance(s *Store, i uint64) (uint64, error) {
	for {
		old := s.Load(i)
		if swapped, err := s.CompareAndSwap(i, old, old+1); err != nil || swapped {
			return old + 1, err
		}
	}
}

func mustAdvance(t *testing.T, s *Store, i uint64) {
	t.Helper()
	if _, err := advance(s, i); err != nil {
		t.Fatal(err)
	}
}

func wantCell(t *testing.T, s *Store, i, want uint64) {
	t.Helper()
	if got := s.Load(i); got != want {
		t.Errorf("cell %d holds %d, want %d", i, got, want)
	}
}

func temp(t *testing.T) string { return filepath.Join(t.TempDir(), "test.cells") }

func TestNoAdvanceIsLostOrGivenTwice(t *testing.T) {
	const goroutines, each = 64, 500
	for _, cells := range []uint64{1, 7, 4096} {
		t.Run(fmt.Sprintf("cells=%d", cells), func(t *testing.T) {
			inBothModes(t, func(t *testing.T, o Options) {
				s := mustOpen(t, temp(t), cells, o)
				given := make([]map[[2]uint64]bool, goroutines)
				var wg sync.WaitGroup
				for g := range goroutines {
					given[g] = make(map[[2]uint64]bool)
					wg.Go(func() {
						for n := range each {
							i := uint64(g*31+n) % cells
							v, err := advance(s, i)
							if err != nil {
								t.Error(err)
								return
							}
							given[g][[2]uint64{i, v}] = true
						}
					})
				}
				wg.Wait()
				all := make(map[[2]uint64]bool)
				for _, of := range given {
					for k := range of {
						if all[k] {
							t.Fatalf("value %d of cell %d was given twice", k[1], k[0])
						}
						all[k] = true
					}
				}
				var sum uint64
				for i := range cells {
					sum += s.Load(i)
				}
				if sum != goroutines*each || len(all) != goroutines*each {
					t.Errorf("cells add up to %d, %d values were given, want %d", sum, len(all),
						goroutines*each)
				}
				mustClose(t, s)
			})
		})
	}
}

func TestGrowUnderAdvances(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		path := temp(t)
		s := mustOpen(t, path, 4, o)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for range 5_000 {
					if _, err := advance(s, uint64(g%4)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for n := uint64(1); n <= 16; n++ {
			cells := n * 5_003
			if err := s.Grow(cells); err != nil {
				t.Fatal(err)
			}
			if s.Len() != cells {
				t.Fatalf("Len() = %d after Grow(%d)", s.Len(), cells)
			}
			wantCell(t, s, cells-1, 0)
			mustAdvance(t, s, cells-1)
		}
		wg.Wait()
		mustClose(t, s)

		s = mustOpen(t, path, 0, o)
		for i := range uint64(4) {
			wantCell(t, s, i, 10_000)
		}
		for n := uint64(1); n <= 16; n++ {
			wantCell(t, s, n*5_003-1, 1)
		}
		mustClose(t, s)
	})
}

func TestReopenKeepsValues(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		path := temp(t)
		s := mustOpen(t, path, 100, o)
		for i := range uint64(100) {
			if ok, err := s.CompareAndSwap(i, 0, ^i); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		mustClose(t, s)
		for _, cells := range []uint64{0, 50, 100, 100_000} { // fewer never shrink the file
			s = mustOpen(t, path, cells, o)
			if want := max(cells, 100); s.Len() != want {
				t.Errorf("Len() = %d, want %d", s.Len(), want)
			}
			for i := range uint64(100) {
				wantCell(t, s, i, ^i)
			}
			wantCell(t, s, s.Len()-1, map[bool]uint64{true: 0, false: ^uint64(99)}[cells > 100])
			mustClose(t, s)
		}
	})
}

// What one way of keeping cells wrote the other must read.
func TestBothModesShareTheFormat(t *testing.T) {
	path := temp(t)
	for turn := range uint64(4) {
		s := mustOpen(t, path, 10+turn*20_000, Options{unmapped: turn%2 == 1})
		for i := range uint64(10) {
			wantCell(t, s, i, turn)
			mustAdvance(t, s, i)
		}
		mustClose(t, s)
	}
}

func TestSwapOfAnotherValueDoesNothing(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		s := mustOpen(t, temp(t), 1, o)
		if ok, err := s.CompareAndSwap(0, 5, 6); ok || err != nil {
			t.Errorf("swap of a value that is not there: %v, %v", ok, err)
		}
		wantCell(t, s, 0, 0)
	})
}

func TestBeyondTheLastCellPanics(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		s := mustOpen(t, temp(t), 3, o)
		for _, closed := range []bool{false, true} {
			if closed {
				mustClose(t, s)
			}
			for name, call := range map[string]func(){
				"Load":           func() { s.Load(3) },
				"CompareAndSwap": func() { s.CompareAndSwap(3, 0, 1) },
				"Load of 2^64-1": func() { s.Load(^uint64(0)) },
			} {
				func() {
					defer func() {
						if msg, _ := recover().(string); !strings.HasPrefix(msg, "BUG: cell ") {
							t.Errorf("%s (closed: %v) recovered %q, want a panic that starts with BUG:", name,
								closed, msg)
						}
					}()
					call()
				}()
			}
		}
	})
}

func TestClosedStoreSaysSo(t *testing.T) {
	s := mustOpen(t, temp(t), 3, Options{})
	mustClose(t, s)
	mustClose(t, s) // does nothing
	if err := s.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Sync: %v, want ErrClosed", err)
	}
	if err := s.Grow(10); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Grow: %v, want ErrClosed", err)
	}
}

func TestMaxCellsBoundsGrowthAndNotWhatIsThere(t *testing.T) {
	path := temp(t)
	o := Options{MaxCells: 20_000}
	s := mustOpen(t, path, 20_000, o)
	if err := s.Grow(20_001); err == nil || !strings.Contains(err.Error(), "raise MaxCells") {
		t.Errorf("Grow beyond MaxCells: %v, want an error that names it", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("a refused Grow poisoned the store: %v", err)
	}
	mustAdvance(t, s, 19_999)
	mustClose(t, s)

	s = mustOpen(t, path, 0, Options{MaxCells: 1})
	wantCell(t, s, 19_999, 1)
	if _, err := Open(temp(t), 1<<62, Options{}); err == nil {
		t.Error("2^62 cells were opened")
	}
}

func TestPlacesThatCannotBeWrittenAreClearErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"missing directory": {filepath.Join(dir, "missing", "test.cells"),
			"create " + filepath.Join(dir, "missing")},
		"a file as directory":   {filepath.Join(file, "test.cells"), "choose another directory"},
		"a directory as a file": {dir, "choose another directory"},
	} {
		_, err := Open(c.path, 10, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: error %v does not say %q and the path", name, err, c.want)
		}
	}
}

func TestFailedAllocationLeavesTheStoreAsItWas(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		full := errors.New("no room")
		var fail error
		o.Faults = disk.Faults{FailAllocate: func() error { return fail }}
		path := temp(t)
		s := mustOpen(t, path, 10, o)
		mustAdvance(t, s, 9)

		fail = full
		if err := s.Grow(100_000); !errors.Is(err, full) {
			t.Fatalf("Grow: %v", err)
		}
		if s.Len() != 10 || s.Err() != nil {
			t.Errorf("Len() = %d, Err() = %v after a refused Grow", s.Len(), s.Err())
		}
		mustAdvance(t, s, 9)
		if _, err := Open(temp(t), 10, o); !errors.Is(err, full) {
			t.Errorf("Open of a new file: %v", err)
		}
		fail = nil
		if err := s.Grow(100_000); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		s = mustOpen(t, path, 0, o)
		wantCell(t, s, 9, 2)
		if s.Len() != 100_000 {
			t.Errorf("Len() = %d", s.Len())
		}
	})
}

package cells

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"weir/internal/systest"
)

// crashes collects the files that a power failure could leave: between two syncs the disk may hold what was
// there at the first or at the second, or new bytes without the new size.
type crashes struct {
	path   string
	synced []byte // the file at the last sync
	images [][]byte
	syncs  int
}

// sync is called before every sync of the file.
func (c *crashes) sync() error {
	now, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	c.syncs++
	c.images = append(c.images, c.synced, now, now[:min(len(now), len(c.synced))])
	c.synced = now
	return nil
}

func TestPowerFailureWhileGrowingLosesNothing(t *testing.T) {
	systest.LongRun(t, "many copies of files as a power failure leaves them")
	for _, c := range []struct {
		name          string
		before, after uint64
	}{
		{"a new file", 0, 10},
		{"within what is allocated", 10, 11},
		{"beyond what is allocated", 10, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := temp(t)
			mustClose(t, mustOpen(t, path, c.before, Options{}))
			if c.before == 0 { // as it is before Open has taken any space
				if err := os.Truncate(path, dataOffset); err != nil {
					t.Fatal(err)
				}
			} else {
				s := mustOpen(t, path, c.before, Options{})
				for i := range c.before {
					if ok, err := s.CompareAndSwap(i, 0, i+1); !ok || err != nil {
						t.Fatal(ok, err)
					}
				}
				mustClose(t, s)
			}
			disk := crashes{path: path}
			var err error
			if disk.synced, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
			o := Options{SyncInterval: time.Hour}
			o.Faults.FailSync = disk.sync
			s := mustOpen(t, path, c.after, o)
			mustClose(t, s)
			if disk.syncs < 3 {
				t.Fatalf("%d syncs, want three or more: to begin, for space and for the header", disk.syncs)
			}

			lengths := make(map[uint64]int)
			for n, image := range disk.images {
				s, err := Open(file(t, image), 0, Options{})
				if err != nil {
					t.Fatalf("image %d: %v", n, err)
				}
				for i := range s.Len() {
					if i < c.before {
						wantCell(t, s, i, i+1)
					} else {
						wantCell(t, s, i, 0)
					}
				}
				lengths[s.Len()]++
				if err := s.Grow(c.after); err != nil {
					t.Fatalf("image %d: %v", n, err)
				}
				mustClose(t, s)
			}
			if len(lengths) != 2 || lengths[c.before] == 0 || lengths[c.after] == 0 {
				t.Errorf("images have these numbers of cells: %v, want some with %d and some with %d",
					lengths, c.before, c.after)
			}
		})
	}
}

// The test binary is its own victim: with victimEnv set it advances cells of that file and says so until it
// is killed.
const (
	victimEnv        = "WEIR_TEST_ADVANCE"
	unmappedEnv      = "WEIR_TEST_UNMAPPED"
	victimCells      = 16
	victimGoroutines = 4
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimEnv); path != "" {
		err := victim(path, Options{unmapped: os.Getenv(unmappedEnv) != ""})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim returns only with an error. Lines are "CELL VALUE" after an advance and "len CELLS" after a
// growth, each in one write.
func victim(path string, o Options) error {
	o.SyncInterval = 10 * time.Millisecond // be killed in the middle of syncs too
	s, err := Open(path, victimCells, o)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range victimGoroutines {
		go func() {
			for {
				i := rand.Uint64N(victimCells)
				v, err := advance(s, i)
				if err == nil {
					_, err = fmt.Fprintln(os.Stdout, i, v)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	go func() {
		for {
			err := s.Grow(s.Len() + 1 + rand.Uint64N(1000))
			if err == nil {
				_, err = fmt.Fprintln(os.Stdout, "len", s.Len())
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

func TestKillLosesNoAcknowledgedAdvance(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	inBothModes(t, func(t *testing.T, o Options) {
		const rounds = 20
		path := temp(t)
		acknowledged := make([]map[uint64]bool, victimCells) // the values of each cell
		highest := make([]uint64, victimCells)
		for i := range acknowledged {
			acknowledged[i] = make(map[uint64]bool)
		}
		var longest uint64
		environment := []string{victimEnv + "=" + path}
		if o.unmapped {
			environment = append(environment, unmappedEnv+"=1")
		}
		for round := 1; round <= rounds; round++ {
			for _, line := range systest.KillAfter(t, 1+rand.IntN(3000), environment...) {
				var i, v uint64
				if _, err := fmt.Sscanf(line, "len %d", &v); err == nil {
					longest = max(longest, v)
					continue
				}
				if _, err := fmt.Sscanf(line, "%d %d", &i, &v); err != nil {
					t.Fatalf("line %q: %v", line, err)
				}
				if acknowledged[i][v] {
					t.Fatalf("round %d: value %d of cell %d was given twice", round, v, i)
				}
				acknowledged[i][v] = true
				highest[i] = max(highest[i], v)
			}

			s := mustOpen(t, path, 0, o)
			if s.Len() < longest {
				t.Fatalf("round %d: %d cells, but %d were acknowledged", round, s.Len(), longest)
			}
			var ahead uint64
			for i, want := range highest {
				got := s.Load(uint64(i))
				if got < want {
					t.Fatalf("round %d: cell %d went back from %d to %d", round, i, want, got)
				}
				ahead += got - uint64(len(acknowledged[i]))
			}
			// Ahead by what was in flight, no more: values were advanced but never said.
			if most := uint64(round * victimGoroutines); ahead > most {
				t.Fatalf("round %d: cells are %d advances ahead, at most %d were in flight", round, ahead,
					most)
			}
			mustClose(t, s)
		}
		var total int
		for _, of := range acknowledged {
			total += len(of)
		}
		if total < rounds {
			t.Errorf("%d advances in %d rounds", total, rounds)
		}
		t.Logf("%d acknowledged advances and growth to %d cells survived %d kills", total, longest, rounds)
	})
}

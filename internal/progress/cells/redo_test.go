package cells

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
	"weir/internal/systest"
)

// mapped skips a test of the redo log where there is none.
func mapped(t *testing.T) {
	t.Helper()
	if _, err := disk.Reserve(1); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not map cells, so there is no redo log")
	}
}

// image is what a disk holds of a store.
type image struct{ cells, redo []byte }

// look reads what the page cache holds.
func look(t *testing.T, path string) (now image) {
	t.Helper()
	var err error
	if now.cells, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if now.redo, err = os.ReadFile(redoPath(path)); err != nil {
		t.Fatal(err)
	}
	return now
}

// restore writes an image to files of its own.
func (m image) restore(t *testing.T) (path string) {
	t.Helper()
	path = file(t, m.cells)
	if err := os.WriteFile(redoPath(path), m.redo, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// mix returns bytes of which each unit is of any one of the versions.
func mix(r *rand.Rand, unit int, versions ...[]byte) []byte {
	mixed := bytes.Clone(versions[len(versions)-1])
	for at := 0; at < len(mixed); at += unit {
		v := versions[r.IntN(len(versions))]
		if at < len(v) {
			copy(mixed[at:min(at+unit, len(mixed))], v[at:])
		}
	}
	return mixed
}

func values(s *Store) []uint64 {
	v := make([]uint64, s.Len())
	for i := range v {
		v[i] = s.Load(uint64(i))
	}
	return v
}

// The disk may hold any page of the cells as it was at any time since the last checkpoint, and any sector
// of the log that the sync in progress was writing. Whatever it is, no cell may be behind the last sync
// that has returned.
func TestPowerFailureLosesNoSyncedAdvance(t *testing.T) {
	systest.LongRun(t, "many copies of files as a power failure leaves them")
	mapped(t)
	const cells, rounds, sector = 5000, 80, 512
	rng := rand.New(rand.NewPCG(1, 2))
	path := temp(t)
	r := metrics.New(1)
	s := mustOpen(t, path, cells, Options{SyncInterval: time.Hour, Metrics: r})
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	durable := look(t, path)
	versions := [][]byte{durable.cells} // of the cells, since the last checkpoint
	synced := values(s)
	check := func(what string, m image) {
		t.Helper()
		m.cells = rebooted(m.cells, cells)
		s := mustOpen(t, m.restore(t), 0, Options{})
		for i, low := range synced {
			if got, high := s.Load(uint64(i)),
				binary.NativeEndian.Uint64(
					versions[len(versions)-1][dataOffset+8*int(word(uint64(i))):]); got < low || got > high {
				t.Fatalf("power failure %s: cell %d holds %d, synced was %d, written %d", what, i, got, low,
					high)
			}
		}
		mustClose(t, s)
	}
	for range rounds {
		for range 1 + rng.IntN(3) {
			for range rng.IntN(400) {
				mustAdvance(t, s, rng.Uint64N(cells))
			}
			versions = append(versions, look(t, path).cells)
		}
		check("between syncs", image{mix(rng, record.PageSize, versions...), durable.redo})
		checkpoints := metric(t, r, "weir_progress_checkpoints_total")
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		now := look(t, path)
		torn := mix(rng, sector, durable.redo, now.redo)
		if metric(t, r, "weir_progress_checkpoints_total") > checkpoints {
			check("in a checkpoint, before the cells are on the disk",
				image{mix(rng, record.PageSize, versions...), durable.redo})
			check("in a checkpoint, while the log begins anew", image{now.cells, torn})
			versions = [][]byte{now.cells}
		} else {
			check("while the log is written", image{mix(rng, record.PageSize, versions...), torn})
		}
		durable, synced = now, values(s)
		check("after a sync", image{mix(rng, record.PageSize, versions...), durable.redo})
	}
	if got := metric(t, r, "weir_progress_checkpoints_total"); got < 3 || got > rounds/2 {
		t.Errorf("%v checkpoints in %d syncs: the test wants some of both", got, rounds)
	}
}

// store3 leaves cell 0 at 3, of which 2 are in the log, as a process does that is killed.
func store3(t *testing.T) image {
	t.Helper()
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	for range 2 {
		mustAdvance(t, s, 0)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	mustAdvance(t, s, 0)
	return look(t, path)
}

// After kill -9 the cells are newer than the log, whether the system was started anew in between or not.
func TestLogTakesNothingBack(t *testing.T) {
	mapped(t)
	m := store3(t)
	for range 3 { // nobody lives long enough to sync
		s := mustOpen(t, m.restore(t), 0, Options{SyncInterval: time.Hour})
		wantCell(t, s, 0, 3)
	}
	// A change beside it counts as well.
	path := m.restore(t)
	s := mustOpen(t, path, 0, Options{SyncInterval: time.Hour})
	for i := range uint64(10) {
		mustAdvance(t, s, i)
	}
	s = mustOpen(t, look(t, path).restore(t), 0, Options{SyncInterval: time.Hour})
	wantCell(t, s, 0, 4)
	for i := uint64(1); i < 10; i++ {
		wantCell(t, s, i, 1)
	}
}

func TestLogBringsBackWhatTheDiskLacks(t *testing.T) {
	mapped(t)
	m := store3(t)
	old := bytes.Clone(m.cells)
	clear(old[dataOffset:])
	path := image{old, m.redo}.restore(t)
	s := mustOpen(t, path, 0, Options{SyncInterval: time.Hour})
	wantCell(t, s, 0, 2) // and not 1, which the checkpoint had
	mustAdvance(t, s, 0)
	mustAdvance(t, s, 0)
	// Killed.
	s = mustOpen(t, image{look(t, path).cells, m.redo}.restore(t), 0, Options{SyncInterval: time.Hour})
	wantCell(t, s, 0, 4)
}

// What several processes leave behind that are killed early must not add up.
func TestWhatIsThereIsSyncedAtOnce(t *testing.T) {
	mapped(t)
	synctest.Test(t, func(t *testing.T) {
		m := store3(t)
		clear(m.cells[dataOffset:])
		r := metrics.New(1)
		s := mustOpen(t, m.restore(t), 0, Options{SyncInterval: time.Hour, Metrics: r})
		synctest.Wait()
		if got := metric(t, r, "weir_progress_checkpoints_total"); got != 1 {
			t.Errorf("%v checkpoints at once, want 1", got)
		}
		mustClose(t, s)
	})
}

// A sync reads cells while others change them, and its entries must not be taken for newer than they are.
func TestEntriesAreNotNewerThanTheirCount(t *testing.T) {
	mapped(t)
	path := temp(t)
	const cells = 14
	s := mustOpen(t, path, cells, Options{SyncInterval: time.Hour})
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := advance(s, rand.Uint64N(cells)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 2000 {
		fits, err := s.redo.append(s.changed[:1], s.words, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if !fits {
			if err := s.redo.Restart(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	want := values(s) // all of it acknowledged
	killed := mustOpen(t, look(t, path).restore(t), 0, Options{SyncInterval: time.Hour})
	if got := values(killed); !slices.Equal(got, want) {
		t.Errorf("cells after a kill: %v, before: %v", got, want)
	}
}

func TestClosedCellsAreWholeWithoutTheirLog(t *testing.T) {
	mapped(t)
	path := store3(t).restore(t)
	s := mustOpen(t, path, 0, Options{SyncInterval: time.Hour})
	mustAdvance(t, s, 0)
	mustClose(t, s)
	m := look(t, path)
	s = mustOpen(t, m.restore(t), 0, Options{})
	wantCell(t, s, 0, 4)
	s = mustOpen(t, file(t, m.cells), 0, Options{})
	wantCell(t, s, 0, 4)
}

// With one cell in use, its value is the number of its changes, or one more when a change is not counted
// yet. Were it less, an entry would pass for newer than it is.
func TestCellsAreReadWithTheirCount(t *testing.T) {
	mapped(t)
	s := mustOpen(t, temp(t), 1, Options{SyncInterval: time.Hour})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := advance(s, 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for count := uint64(0); count < 1_000_000 && !t.Failed(); {
		var value uint64
		if value, count = readCounted(s.words, 0); value != count && value != count+1 {
			t.Errorf("value %d was read with count %d", value, count)
		}
	}
	close(stop)
	<-stopped
}

func TestNewCellsForgetAnOldLog(t *testing.T) {
	mapped(t)
	path := store3(t).restore(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	wantCell(t, s, 0, 0)
	s = mustOpen(t, look(t, path).restore(t), 0, Options{}) // before the first sync
	wantCell(t, s, 0, 0)
}

func TestCheckpointSyncsTheCellsBeforeTheLogBeginsAnew(t *testing.T) {
	mapped(t)
	path := temp(t)
	var seen [][]byte // the log's first batch at each sync
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour, Faults: disk.Faults{FailSync: func() error {
		log, err := os.ReadFile(redoPath(path))
		seen = append(seen, log[:min(len(log), record.PageSize)])
		return err
	}}})
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	seen = seen[:0]
	first := look(t, path).redo[:record.PageSize]
	if err := s.checkpoint(func() {}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || !bytes.Equal(seen[0], first) || bytes.Equal(seen[1], first) {
		t.Errorf("%d syncs, want one of the cells with the log as it was and one of the log anew", len(seen))
	}
}

func TestLogOfMoreCellsThanThereAre(t *testing.T) {
	mapped(t)
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	few := look(t, path).cells
	if err := errors.Join(s.Grow(100_000), s.Sync()); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, s, 0)
	mustAdvance(t, s, 99_999)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, image{few, look(t, path).redo}.restore(t), 0, Options{})
	wantCell(t, s, 0, 2)
	if s.Len() != 10 {
		t.Errorf("%d cells, want 10", s.Len())
	}
}

func TestFailedWriteOfTheLogPoisons(t *testing.T) {
	mapped(t)
	broken := errors.New("input/output error")
	var fail error
	s := mustOpen(t, temp(t), 10,
		Options{SyncInterval: time.Hour, Faults: disk.Faults{FailSync: func() error { return fail }}})
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, s, 0)
	fail = broken
	if err := s.Sync(); !errors.Is(err, record.ErrPoisoned) || !errors.Is(err, broken) {
		t.Errorf("Sync: %v, want ErrPoisoned that wraps the cause", err)
	}
	if ok, err := s.CompareAndSwap(0, 2, 3); ok || !errors.Is(err, record.ErrPoisoned) {
		t.Errorf("swap afterwards: %v, %v", ok, err)
	}
}

func TestLogIsFoundThroughLinks(t *testing.T) {
	mapped(t)
	m := store3(t)
	clear(m.cells[dataOffset:])
	link := temp(t)
	if err := os.Symlink(m.restore(t), link); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, link, 0, Options{})
	wantCell(t, s, 0, 2)
}

func TestLogIsNotPassedOverWhereThereAreNone(t *testing.T) {
	mapped(t)
	path := store3(t).restore(t)
	if _, err := Open(path, 0, Options{unmapped: true}); err == nil ||
		!strings.Contains(err.Error(), redoPath(path)) {
		t.Errorf("error %v, want one that names the log", err)
	}
}

// The unmapped mode refuses a log with entries, so it takes what Close has left.
func TestCloseLeavesNothingInTheLog(t *testing.T) {
	mapped(t)
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	for range 3 { // a checkpoint, and two batches of the log
		mustAdvance(t, s, 0)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, path, 10, Options{unmapped: true})
	wantCell(t, s, 0, 3)
}

// An entry for the cell after the last is of a store that had more, and new cells are zero.
func TestLogOfTheCellAfterTheLast(t *testing.T) {
	mapped(t)
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	few := look(t, path).cells
	if err := errors.Join(s.Grow(11), s.Sync()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustAdvance(t, s, 10)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	s = mustOpen(t, image{few, look(t, path).redo}.restore(t), 0, Options{})
	if err := s.Grow(11); err != nil {
		t.Fatal(err)
	}
	wantCell(t, s, 10, 0)
}

// What the system could not write of the cells by itself must not come out when the log is full, with cells
// lost by then.
func TestSyncByTheLogAsksForTheCellsToo(t *testing.T) {
	mapped(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, temp(t), 10, Options{SyncInterval: time.Hour})
		mustAdvance(t, s, 0)
		if err := s.Sync(); err != nil { // a checkpoint; from now on by the log
			t.Fatal(err)
		}
		mustAdvance(t, s, 0)
		synctest.Wait()                     // nobody reads the file any more
		if err := s.f.Close(); err != nil { // which the log does not need
			t.Fatal(err)
		}
		if err := s.Sync(); !errors.Is(err, record.ErrPoisoned) {
			t.Errorf("Sync: %v, want ErrPoisoned", err)
		}
		s.Close() // or its goroutine would stay
	})
}

func TestALookAtManyUnchangedCellsIsInSteps(t *testing.T) {
	mapped(t)
	s := mustOpen(t, temp(t), 10, Options{SyncInterval: time.Hour})
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil { // a checkpoint; from now on by the log
		t.Fatal(err)
	}
	rests := 0
	fits, err := s.redo.append(make([]atomic.Uint64, 3*redoScanned+1), nil, func() { rests++ })
	if !fits || err != nil || rests != 3 {
		t.Errorf("fits %t, error %v, %d rests; want 3", fits, err, rests)
	}
}

// A bit of the log that is another is damage where later frames prove that it was on the disk; at the end
// of the log it cannot be told from a write that the loss of power has torn.
func TestAFlippedBitInsideTheLogIsRefused(t *testing.T) {
	mapped(t)
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour})
	for range 4 { // a checkpoint, and three frames
		mustAdvance(t, s, 0)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	m := look(t, path)
	clear(m.cells[dataOffset:]) // as if the power had gone before any was written
	m.cells = rebooted(m.cells, 10)
	frame := record.FrameHeader + redoEntryLen
	for at, left := range map[int]uint64{1: 0, 2: 2} { // what the frames before come to
		for bit := 0; bit < 8*frame; bit += 7 {
			damaged := image{m.cells, flip(m.redo, 8*record.PageSize*at+bit)}
			path := damaged.restore(t)
			if _, err := Open(path, 0, Options{}); !errors.Is(err, record.ErrCorrupt) ||
				!strings.Contains(err.Error(), "--accept-loss") {
				t.Fatalf("bit %d of frame %d: %v, want record.ErrCorrupt", bit, at, err)
			}
			wantUntouched(t, redoPath(path), damaged.redo)
			s := mustOpen(t, path, 0, Options{AcceptLoss: true, SyncInterval: time.Hour})
			wantCell(t, s, 0, left)
			mustClose(t, s)
		}
	}
	s = mustOpen(t, m.restore(t), 0, Options{SyncInterval: time.Hour})
	wantCell(t, s, 0, 4)
}

// After a failed write the system takes pages for written that are not on the disk. The next process writes
// all of them again before it begins the log anew, which was all that had them.
func TestWhatAFailedWriteLeftIsWrittenAgain(t *testing.T) {
	mapped(t)
	const cells = 5000
	path := temp(t)
	s := mustOpen(t, path, cells, Options{SyncInterval: time.Hour})
	for i := range uint64(cells) {
		mustAdvance(t, s, i)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	m := look(t, path)
	for clean, want := range map[bool]bool{false: true, true: false} {
		copy(m.cells, header{cells: cells, boot: thisBoot(), clean: clean}.encode())
		var log bytes.Buffer
		mustClose(t, mustOpen(t, m.restore(t), 0, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		if got := strings.Contains(log.String(), "written again"); got != want {
			t.Errorf("closed before: %t; written again: %t", clean, got)
		}
	}
}

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

// windowLen is how much of a file is read at once.
const windowLen = 256 << 10

// keeper is what a journal is kept for: it knows all records, in order.
type keeper struct{ records []string }

func (k *keeper) load(r io.Reader) error  { return json.NewDecoder(r).Decode(&k.records) }
func (k *keeper) save(w io.Writer) error  { return json.NewEncoder(w).Encode(k.records) }
func (k *keeper) replay(rec []byte) error { k.records = append(k.records, string(rec)); return nil }

// open opens a journal whose syncs are the test's own.
func open(dir string, o Options) (*Journal, *keeper, error) {
	if o.Sync == 0 {
		o.Sync = time.Hour
	}
	k := new(keeper)
	j, err := Open(dir, o, k.load, k.replay)
	return j, k, err
}

func mustOpen(t testing.TB, dir string, o Options) (*Journal, *keeper) {
	t.Helper()
	j, k, err := open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, k
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func batchOf(records ...string) *Batch {
	b := new(Batch)
	for _, r := range records {
		b.Add([]byte(r))
	}
	return b
}

func mustAppend(t testing.TB, j *Journal, records ...string) {
	t.Helper()
	if err := j.Append(batchOf(records...)); err != nil {
		t.Fatal(err)
	}
}

// numbered appends a batch of one record for each number in [from, to), and returns the records.
func numbered(t testing.TB, j *Journal, from, to int) (records []string) {
	t.Helper()
	for i := from; i < to; i++ {
		records = append(records, fmt.Sprintf("record %d", i))
		mustAppend(t, j, records[len(records)-1])
	}
	return records
}

func wantRecords(t testing.TB, k *keeper, want ...string) {
	t.Helper()
	if !slices.Equal(k.records, want) {
		t.Fatalf("%d records %.200q, want %d, %.200q", len(k.records), k.records, len(want), want)
	}
}

// files returns the names in dir, LOCK left out.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "LOCK" {
			names = append(names, e.Name())
		}
	}
	return names
}

// segmentFiles returns the paths of the segments in dir, in their order.
func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(paths) == 0 {
		t.Fatalf("segments %q, error %v", paths, err)
	}
	return paths
}

// copyDir copies what a journal has in dir to a new directory: what a process finds that is started after a
// kill.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range files(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestRecordsAreReplayedInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	j, k := mustOpen(t, dir, Options{})
	wantRecords(t, k)
	long := strings.Repeat("x", 3*windowLen)
	want := []string{"one", "two", "", "\x00\xff", long, "last"}
	mustAppend(t, j, want[0], want[1])
	mustAppend(t, j) // writes nothing
	at := j.Position()
	mustAppend(t, j, want[2:]...)
	if j.Position() < at+Position(len(long)) {
		t.Errorf("position %d after %d and %d bytes", j.Position(), at, len(long))
	}
	mustClose(t, j)
	for range 3 { // reading is repeatable, and a closed journal does not grow by being opened
		j, k = mustOpen(t, dir, Options{})
		wantRecords(t, k, want...)
		end := j.Position()
		mustClose(t, j)
		j, _ = mustOpen(t, dir, Options{})
		if j.Position() != end {
			t.Errorf("opened at %d and closed, then opened at %d", end, j.Position())
		}
		mustClose(t, j)
	}
	j, _ = mustOpen(t, dir, Options{})
	mustAppend(t, j, "more")
	mustClose(t, j)
	_, k = mustOpen(t, dir, Options{})
	wantRecords(t, k, append(want, "more")...)
}

func TestABatchIsReused(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	b := batchOf("a", "bc")
	if b.Len() != 2 || b.Size() != 5 { // a byte of length before each
		t.Errorf("%d records of %d bytes, want 2 of 5", b.Len(), b.Size())
	}
	for range 2 { // a batch stays as it is
		if err := j.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 {
		t.Errorf("%d records of %d bytes after Reset", b.Len(), b.Size())
	}
	b.Add([]byte("d"))
	if err := j.Append(b); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, "a", "bc", "a", "bc", "d")
}

func TestTooLargeABatchIsRefused(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	half := strings.Repeat("x", MaxBatch/2)
	if err := j.Append(batchOf(half, half)); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "split it") {
		t.Errorf("error %v, want ErrTooLarge that says what to do", err)
	}
	mustAppend(t, j, half)
	mustClose(t, j)
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, half)
}

func TestSegmentsFollowEachOther(t *testing.T) {
	dir := t.TempDir()
	const segment = 3 * record.PageSize
	j, _ := mustOpen(t, dir, Options{Segment: segment})
	want := numbered(t, j, 0, 500)
	mustAppend(t, j, strings.Repeat("longer than a segment ", 1000))
	want = append(want, strings.Repeat("longer than a segment ", 1000))
	want = append(want, numbered(t, j, 500, 600)...)
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)

	longer := 0
	var end Position
	paths := segmentFiles(t, dir)
	for i, path := range paths {
		base, ok := parseSegmentName(filepath.Base(path))
		if !ok || base != end {
			t.Errorf("%s does not begin at %d, where the one before it ends", path, end)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > segment && i < len(paths)-1 { // the mark of Close has always room
			longer++
		}
		end += Position(info.Size())
	}
	if longer != 1 {
		t.Errorf("%d segments are longer than asked for, want the one with the long record", longer)
	}
	j, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, want...)
	if j.Position() != end {
		t.Errorf("position %d, want the size of all files, %d", j.Position(), end)
	}
}

// Each sync has the next frame begin a page, and that page has to fit too.
func TestSegmentsHaveRoomForTheirGaps(t *testing.T) {
	dir := t.TempDir()
	const segment = 3*record.PageSize + 100
	j, _ := mustOpen(t, dir, Options{Segment: segment})
	for range 20 {
		mustAppend(t, j, strings.Repeat("x", 90))
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range segmentFiles(t, dir) {
		if info, err := os.Stat(path); err != nil || info.Size() > segment {
			t.Errorf("%s has %d bytes, want %d at most; error %v", path, info.Size(), segment, err)
		}
	}
}

func TestAppendsFromManyGoroutinesKeepTheirOrder(t *testing.T) {
	const goroutines, each = 8, 200
	dir := t.TempDir()
	k := new(keeper)
	j, err := Open(dir, Options{Segment: 2 * record.PageSize, Sync: time.Millisecond}, k.load, k.replay)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				if err := j.Append(batchOf(fmt.Sprint(g, " ", i),
					fmt.Sprint(g, " ", i, " too"))); err != nil {
					t.Error(err)
					return
				}
				if g == 0 && i%20 == 0 {
					if err := j.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	mustClose(t, j)
	_, k = mustOpen(t, dir, Options{})
	if len(k.records) != 2*goroutines*each {
		t.Fatalf("%d records, want %d", len(k.records), 2*goroutines*each)
	}
	var next [goroutines]int
	for n := 0; n < len(k.records); n += 2 {
		var g, i int
		if _, err := fmt.Sscan(k.records[n], &g, &i); err != nil || next[g] != i ||
			k.records[n+1] != k.records[n]+" too" {
			t.Fatalf("records %q, error %v, want number %d of %d", k.records[n:n+2], err, next[g], g)
		}
		next[g]++
	}
}

func TestErrorsOfTheUserEndOpen(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{})
	mustAppend(t, j, "before")
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "after")
	mustClose(t, j)
	mine := errors.New("mine")
	if _, err := Open(dir, Options{}, func(io.Reader) error { return mine }, k.replay); !errors.Is(err,
		mine) || !strings.Contains(err.Error(), "checkpoint") {
		t.Errorf("load failed: %v, want its error with the file", err)
	}
	_, err := Open(dir, Options{}, k.load, func([]byte) error { return mine })
	if !errors.Is(err, mine) || !strings.Contains(err.Error(), segmentFiles(t, dir)[0]) ||
		!strings.Contains(err.Error(), "offset") {
		t.Errorf("replay failed: %v, want its error with file and offset", err)
	}
	mustOpen(t, dir, Options{}) // the lock is free
}

func TestNothingIsWrittenAfterClose(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	mustClose(t, j)
	mustClose(t, j) // does nothing
	if err := j.Append(batchOf("two")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append: %v, want os.ErrClosed", err)
	}
	if err := j.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Sync: %v, want os.ErrClosed", err)
	}
	if err := j.Checkpoint(j.Position(), k.save); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Checkpoint: %v, want os.ErrClosed", err)
	}
	_, k = mustOpen(t, dir, Options{})
	wantRecords(t, k, "one")
}

func TestADirectoryIsForOneJournal(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, Options{})
	if _, _, err := open(dir, Options{}); !errors.Is(err, disk.ErrLocked) ||
		!strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("second Open: %v, want ErrLocked that says what to do", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, _, err := open(filepath.Join(missing, "journal"), Options{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "create "+missing+" first") {
		t.Errorf("Open without a parent: %v, want ErrNotExist that says what to do", err)
	}
}

// What is not more than the bounds is taken: a batch of MaxBatch bytes, and a frame that ends where a
// segment may.
func TestBoundsAreIncluded(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	largest := strings.Repeat("x", MaxBatch-4) // and four bytes of length
	b := batchOf(largest)
	if b.Size() != MaxBatch {
		t.Fatalf("a batch of %d bytes, want %d", b.Size(), MaxBatch)
	}
	if err := j.Append(b); err != nil {
		t.Error(err)
	}
	mustClose(t, j)
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, largest)

	const frame = record.FrameHeader + 1 + 100
	j, _ = mustOpen(t, t.TempDir(), Options{Segment: record.PageSize + 3*frame})
	for n, want := range []int64{1, 1, 1, 2, 2, 2, 3} {
		mustAppend(t, j, strings.Repeat("x", 100))
		if got := j.segments.Load(); got != want {
			t.Errorf("%d segments after %d of three frames each, want %d", got, n+1, want)
		}
	}
}

// A frame that no segment has room for goes into the one there is, if that is empty.
func TestAnEmptySegmentTakesAFrameOfAnyLength(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{Segment: 2 * record.PageSize})
	mustAppend(t, j, strings.Repeat("x", 3*record.PageSize))
	if got := j.segments.Load(); got != 1 {
		t.Errorf("%d segments, want 1", got)
	}
}

// Of several who find a segment full one begins the next, and the others go on in that.
func TestARotationThatWasMadeIsNotMadeAgain(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{Segment: 2 * record.PageSize})
	mustAppend(t, j, "one")
	if err := j.rotate(100); err != nil || j.segments.Load() != 1 {
		t.Errorf("%d segments, error %v, want the one that has room", j.segments.Load(), err)
	}
	if err := j.rotate(2 * record.PageSize); err != nil || j.segments.Load() != 2 {
		t.Errorf("%d segments, error %v, want 2", j.segments.Load(), err)
	}
}

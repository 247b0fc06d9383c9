package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

func TestCheckpointReplacesWhatIsBeforeIt(t *testing.T) {
	dir := t.TempDir()
	o := Options{Segment: 2 * record.PageSize}
	var want []string
	for round := range 5 {
		j, k := mustOpen(t, dir, o)
		wantRecords(t, k, want...)
		for range 3 {
			k.records = append(k.records, numbered(t, j, round*1000, round*1000+200)...)
			at := j.Position()
			state := keeper{slices.Clone(k.records)}
			k.records = append(k.records, numbered(t, j, round*1000+200, round*1000+300)...)
			if err := j.Checkpoint(at, state.save); err != nil {
				t.Fatal(err)
			}
			if j.Checkpointed() != at {
				t.Errorf("checkpoint of %d says %d", at, j.Checkpointed())
			}
			if first, _ := parseSegmentName(filepath.Base(segmentFiles(t, dir)[0])); first > at ||
				len(j.bases) > 1 && j.bases[1] <= at {
				t.Errorf("segments %d and the first file %d after a checkpoint of %d", j.bases, first, at)
			}
		}
		want = k.records
		mustClose(t, j)
	}
	_, k := mustOpen(t, dir, o)
	wantRecords(t, k, want...)
}

// Whoever makes a checkpoint before Close, if there is anything new, need not make another one when there
// was nothing in between.
func TestNothingFollowsACheckpointBeforeClose(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{})
	k.records = numbered(t, j, 0, 10)
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustClose(t, j)
		j, _ = mustOpen(t, dir, Options{})
		if j.Position() != j.Checkpointed() {
			t.Errorf("position %d after a checkpoint of %d", j.Position(), j.Checkpointed())
		}
	}
	mustAppend(t, j, "more")
	mustClose(t, j)
	_, k = mustOpen(t, dir, Options{})
	if n := len(k.records); n != 11 || k.records[10] != "more" {
		t.Errorf("%d records %q", n, k.records)
	}
}

// At every step that a kill or a power failure may come at, what is in the directory is enough.
func TestAKillAtAnyStepLosesNothing(t *testing.T) {
	dir := t.TempDir()
	type image struct{ step, dir string }
	var images []image
	o := Options{Segment: 2 * record.PageSize, step: func(step string) {
		images = append(images, image{step, copyDir(t, dir)})
	}}
	j, k := mustOpen(t, dir, o)
	k.records = append(k.records, numbered(t, j, 0, 500)...)
	images = nil
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, i := range images {
		seen[i.step]++
		j, got := mustOpen(t, i.dir, o)
		wantRecords(t, got, k.records...)
		for _, name := range files(t, i.dir) {
			if strings.HasSuffix(name, ".tmp") {
				t.Errorf("killed at %q: %s is still there", i.step, name)
			}
		}
		if i.step == "checkpoint renamed" && len(segmentFiles(t, i.dir)) != 1 {
			t.Errorf("killed at %q: %d segments are left", i.step, len(segmentFiles(t, i.dir)))
		}
		mustAppend(t, j, "more")
		mustClose(t, j)
		_, got = mustOpen(t, i.dir, Options{})
		wantRecords(t, got, append(slices.Clone(k.records), "more")...)
	}
	if seen["checkpoint written"] != 1 || seen["checkpoint renamed"] != 1 || seen["segment removed"] < 2 {
		t.Errorf("steps %v", seen)
	}

	images = nil
	clear(seen)
	sizes := len(k.records)
	for range 500 {
		numbered(t, j, sizes, sizes+1)
		sizes++
		k.records = append(k.records, fmt.Sprintf("record %d", sizes-1))
		for _, i := range images {
			seen[i.step]++
			_, got := mustOpen(t, i.dir, Options{})
			wantRecords(t, got, k.records[:sizes-1]...) // all but the one that had to wait
		}
		images = nil
	}
	if seen["old segment synced"] < 2 || seen["new segment written"] < 2 || seen["new segment created"] < 2 {
		t.Errorf("steps %v", seen)
	}
}

// A process killed right after a rename has left a name that a power failure can still take back. It must
// be on the disk before anything relies on it.
func TestOpenSyncsTheDirectoryBeforeItRemoves(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	k.records = numbered(t, j, 0, 200)
	var killed string
	j.step = func(step string) {
		if step == "checkpoint renamed" {
			killed = copyDir(t, dir)
		}
	}
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	before := files(t, killed)
	failing := Options{Faults: disk.Faults{FailSyncDir: func() error { return syscall.EIO }}}
	if _, _, err := open(killed, failing); !errors.Is(err, syscall.EIO) {
		t.Errorf("Open with a directory that cannot be synced: %v, want its error", err)
	}
	if after := files(t, killed); !slices.Equal(before, after) {
		t.Errorf("files %q, then %q", before, after)
	}
	synced := false
	mustOpen(t, killed, Options{
		Faults: disk.Faults{FailSyncDir: func() error { synced = true; return nil }},
		step: func(step string) {
			if !synced {
				t.Errorf("%s before the directory was synced", step)
			}
		},
	})
	if after := files(t, killed); len(after) >= len(before) || !synced {
		t.Errorf("files %q, then %q", before, after)
	}
}

func TestCheckpointsGoOnBesideAppends(t *testing.T) {
	dir := t.TempDir()
	j, _, err := open(dir, Options{Segment: 2 * record.PageSize, Sync: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // as a user has one: state and position belong together
	var records []string
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer close(done)
		for i := range 3000 {
			mu.Lock()
			records = append(records, fmt.Sprint(i))
			err := j.Append(batchOf(records[i]))
			mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	checkpoints := 0
	work.Go(func() {
		for {
			mu.Lock()
			state, at := keeper{records[:len(records):len(records)]}, j.Position()
			mu.Unlock()
			if err := j.Checkpoint(at, state.save); err != nil {
				t.Error(err)
				return
			}
			checkpoints++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	work.Wait()
	mustClose(t, j)
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, records...)
	if checkpoints < 2 {
		t.Errorf("%d checkpoints", checkpoints)
	}
}

func TestAFailedCheckpointLeavesTheFormerOne(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	k.records = numbered(t, j, 0, 100)
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	was := j.Checkpointed()
	k.records = append(k.records, numbered(t, j, 100, 200)...)
	before := files(t, dir)
	mine := errors.New("mine")
	err := j.Checkpoint(j.Position(), func(w io.Writer) error {
		io.WriteString(w, strings.Repeat("x", 1<<20)) //nolint:errcheck // fails anyway
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("error %v, want the one of the state", err)
	}
	for _, at := range []Position{was - 1, j.Position() + 1} {
		if err := j.Checkpoint(at, k.save); err == nil || !strings.Contains(err.Error(), "BUG") {
			t.Errorf("checkpoint at %d of %d to %d: %v", at, was, j.Position(), err)
		}
	}
	if after := files(t, dir); !slices.Equal(before, after) || j.Checkpointed() != was {
		t.Errorf("files %q, then %q", before, after)
	}
	if j.metrics.checkpointErrors.Value() != 3 || j.metrics.checkpoints.Value() != 1 {
		t.Errorf("%d errors and %d checkpoints were counted", j.metrics.checkpointErrors.Value(),
			j.metrics.checkpoints.Value())
	}
	if err := j.Err(); err != nil {
		t.Error(err)
	}
	_, got := mustOpen(t, copyDir(t, dir), Options{})
	wantRecords(t, got, k.records...)
}

// The disk must not know more from the checkpoint than from the segments.
func TestCheckpointSyncsWhatItCovers(t *testing.T) {
	j, k := mustOpen(t, t.TempDir(), Options{})
	k.records = numbered(t, j, 0, 10)
	at := j.Position()
	numbered(t, j, 10, 20)
	j.step = func(step string) {
		if step == "log synced" && Position(j.synced.Load()) < at {
			t.Errorf("synced up to %d before a checkpoint of %d is put in place", j.synced.Load(), at)
		}
	}
	if err := j.Checkpoint(at, k.save); err != nil {
		t.Fatal(err)
	}
	if bytes, _ := j.Lag(); bytes != 0 {
		t.Errorf("%d bytes are not synced", bytes)
	}
}

func TestASegmentThatCannotBeRemovedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	k.records = numbered(t, j, 0, 300)
	// A directory that is not empty cannot be removed, whoever asks.
	first := segmentFiles(t, dir)[0]
	if err := os.Rename(first, first+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(first, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	if n := j.segments.Load(); n < 3 {
		t.Fatalf("%d segments are left, want all", n)
	}
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	if n := j.segments.Load(); n != 1 {
		t.Errorf("%d segments are left, want 1", n)
	}
}

func TestACheckpointAtTheEndOfASegmentMakesItSuperfluous(t *testing.T) {
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	k.records = numbered(t, j, 0, 10)
	at, state := j.Position(), keeper{slices.Clone(k.records)}
	k.records = append(k.records, strings.Repeat("x", 2*record.PageSize))
	mustAppend(t, j, k.records[10])
	if err := j.Checkpoint(at, state.save); err != nil {
		t.Fatal(err)
	}
	if paths := segmentFiles(t, dir); len(paths) != 1 || filepath.Base(paths[0]) != segmentName(at) {
		t.Errorf("segments %q, want the one that begins at %d", paths, at)
	}
	mustClose(t, j)
	_, got := mustOpen(t, dir, Options{})
	wantRecords(t, got, k.records...)
}

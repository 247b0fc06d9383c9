package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
)

func TestASyncFollowsEachIntervalWithAppends(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var o Options
		var syncs atomic.Int64
		o.Faults.FailSync = func() error { syncs.Add(1); return nil }
		j, err := Open(dir, o, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		wait := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := syncs.Load(); got != want {
				t.Fatalf("%d syncs, want %d", got, want)
			}
		}
		lag := func(want time.Duration) {
			t.Helper()
			if bytes, age := j.Lag(); age != want || (bytes == 0) != (want == 0) {
				t.Errorf("%d bytes are behind for %v, want %v", bytes, age, want)
			}
		}
		wait(10*DefaultSync, 0)
		lag(0)
		mustAppend(t, j, "one")
		wait(DefaultSync/2, 0)
		mustAppend(t, j, "two")
		lag(DefaultSync / 2)
		wait(DefaultSync/2-1, 0)
		wait(1, 1)
		lag(0)
		wait(10*DefaultSync, 1)
		mustAppend(t, j, "three")
		wait(DefaultSync, 2)
		if err := j.Sync(); err != nil || syncs.Load() != 2 {
			t.Errorf("Sync of nothing: %d syncs, error %v", syncs.Load(), err)
		}
	})
}

func TestAppendsGoOnDuringASync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var o Options
		disk := make(chan error)
		o.Faults.FailSync = func() error { return <-disk }
		j, err := Open(dir, o, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultSync / 2)
		mustAppend(t, j, "one")
		first := j.Position()
		time.Sleep(DefaultSync / 2)
		synctest.Wait() // the sync has begun and waits for the disk
		time.Sleep(time.Second)
		mustAppend(t, j, "two")
		if _, age := j.Lag(); age != DefaultSync/2+time.Second {
			t.Errorf("lag %v, want that of the first record, which is not on the disk yet", age)
		}
		if second := j.Position(); second/record.PageSize == first/record.PageSize {
			t.Errorf("frames before and behind the start of a sync end at %d and %d, on one page",
				first, second)
		}
		time.Sleep(time.Second)
		disk <- nil
		synctest.Wait()
		if bytes, age := j.Lag(); age != time.Second || bytes != int64(j.Position()-first) {
			t.Errorf("%d bytes are behind for %v, want the second record", bytes, age)
		}
		close(disk)
		mustClose(t, j)
	})
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, "one", "two")
}

func TestANewSegmentBeginsWithoutLag(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(dir, Options{Segment: 2 * record.PageSize, Sync: time.Hour}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mustAppend(t, j, "one")
		time.Sleep(time.Second)
		at := j.Position()
		// This waits for the disk, for it goes to the next segment.
		mustAppend(t, j, strings.Repeat("x", record.PageSize))
		if bytes, age := j.Lag(); j.segments.Load() != 2 || bytes >= int64(j.Position()-at) || age != 0 {
			t.Errorf("%d bytes of %d are behind for %v in segment %d", bytes, j.Position(), age,
				j.segments.Load())
		}
		time.Sleep(time.Second)
		if _, age := j.Lag(); age != time.Second {
			t.Errorf("lag %v after a second", age)
		}
		mustClose(t, j)
		if bytes, age := j.Lag(); bytes != 0 || age != 0 {
			t.Errorf("%d bytes are behind for %v after Close", bytes, age)
		}
	})
}

func TestAFailedSyncPoisons(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	registry := metrics.New(1)
	o := Options{Log: slog.New(slog.NewTextHandler(&said, nil)), Metrics: registry, Name: "test"}
	failing := false
	syncs := 0
	o.Faults.FailSync = func() error {
		syncs++
		if failing {
			return syscall.EIO
		}
		return nil
	}
	j, k := mustOpen(t, dir, o)
	k.records = numbered(t, j, 0, 5)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	k.records = append(k.records, numbered(t, j, 5, 10)...)
	failing = true
	poisoned := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, record.ErrPoisoned) || !errors.Is(err, syscall.EIO) ||
			!strings.Contains(err.Error(), "check the disk of "+dir) {
			t.Errorf("%s: %v, want ErrPoisoned with its cause and what to do", what, err)
		}
	}
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	poisoned("Sync", j.Sync())
	failing = false // it stays poisoned all the same
	syncs = 0
	poisoned("Append", j.Append(batchOf("x")))
	poisoned("Append of nothing", j.Append(new(Batch)))
	poisoned("Sync", j.Sync())
	poisoned("Checkpoint", j.Checkpoint(j.Position(), k.save))
	poisoned("Err", j.Err())
	if v := value(t, registry, "weir_sync_poisoned"); v != 1 {
		t.Errorf("the metric says %v", v)
	}
	if bytes, age := j.Lag(); bytes == 0 || age == 0 {
		t.Errorf("%d bytes are behind for %v, want what was not synced", bytes, age)
	}
	poisoned("Close", j.Close())
	if syncs != 0 {
		t.Errorf("%d syncs were tried after the one that failed", syncs)
	}
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors in the log, want 1: %s", n, said.String())
	}
	_, got := mustOpen(t, dir, Options{})
	wantRecords(t, got, k.records...)
}

// What Open replays it promises to be on the disk: frames to come will say so.
func TestOpenSyncsWhatItReplays(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	want := numbered(t, j, 0, 10)
	killed := copyDir(t, dir)
	var o Options
	o.Faults.FailSync = func() error { return syscall.EIO }
	if _, _, err := open(killed, o); !errors.Is(err, syscall.EIO) {
		t.Errorf("Open with a disk that fails: %v, want its error", err)
	}
	j, k := mustOpen(t, killed, Options{})
	wantRecords(t, k, want...)
	if bytes, age := j.Lag(); bytes != 0 || age != 0 || Position(j.synced.Load()) != j.Position() {
		t.Errorf("%d bytes are behind for %v", bytes, age)
	}
}

func TestAFailedSyncAtRotationAcknowledgesNothing(t *testing.T) {
	dir := t.TempDir()
	o := Options{Segment: 2 * record.PageSize}
	failing := false
	o.Faults.FailSync = func() error {
		if failing {
			return syscall.EIO
		}
		return nil
	}
	j, _ := mustOpen(t, dir, o)
	failing = true
	var want []string
	for len(want) < 1000 {
		r := "record"
		if err := j.Append(batchOf(r)); err != nil {
			if !errors.Is(err, record.ErrPoisoned) {
				t.Errorf("error %v, want ErrPoisoned", err)
			}
			break
		}
		want = append(want, r)
	}
	if len(files(t, dir)) != 1 {
		t.Errorf("files %q", files(t, dir))
	}
	j.Close()
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, want...)
}

func TestATornWriteIsCutOffAndTheNextOneWorks(t *testing.T) {
	dir := t.TempDir()
	torn := -1
	o := Options{Faults: disk.Faults{FailWrite: func(n int) (int, error) {
		if torn >= 0 {
			return min(torn, n), syscall.ENOSPC
		}
		return n, nil
	}}}
	j, _ := mustOpen(t, dir, o)
	var want []string
	for n := range 60 {
		want = append(want, numbered(t, j, n, n+1)...)
		if n%7 == 0 {
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		at := j.Position()
		torn = n
		err := j.Append(batchOf("never"))
		if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, record.ErrPoisoned) ||
			!strings.Contains(err.Error(), "make room on the disk of "+dir) {
			t.Fatalf("error %v, want ENOSPC that says what to do and no poison", err)
		}
		torn = -1
		info, err := os.Stat(segmentFiles(t, dir)[0])
		if err != nil || Position(info.Size()) != at || j.Position() != at {
			t.Fatalf("%d bytes torn: size %d and position %d, error %v, want %d", n, info.Size(),
				j.Position(), err, at)
		}
	}
	if n := j.metrics.appendErrors.Value(); n != 60 {
		t.Errorf("%d failed appends were counted, want 60", n)
	}
	_, k := mustOpen(t, copyDir(t, dir), Options{})
	wantRecords(t, k, want...)
}

func TestTheFirstCauseOfPoisonIsReported(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} { // a sync, and an append beside it
		if err := j.syncer.Poison(cause); !errors.Is(err, syscall.EIO) || j.Err() != err {
			t.Errorf("poisoned by %v: %v and %v, want the first one", cause, err, j.Err())
		}
	}
}

func TestATornWriteThatCannotBeCutOffPoisons(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	if err := j.last.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(batchOf("two")); !errors.Is(err, record.ErrPoisoned) {
		t.Errorf("error %v, want ErrPoisoned", err)
	}
	if err := j.Append(batchOf("three")); !errors.Is(err, record.ErrPoisoned) {
		t.Errorf("error %v, want ErrPoisoned", err)
	}
	j.Close()
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, "one")
}

// When the next segment cannot be begun, records are refused; when it can again, they are taken.
func TestASegmentThatCannotBeBegunRefusesUntilItCan(t *testing.T) {
	parent := t.TempDir()
	dir, away := filepath.Join(parent, "journal"), filepath.Join(parent, "away")
	j, _ := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	var want []string
	for len(want) < 1000 {
		at := j.Position()
		want = append(want, numbered(t, j, len(want), len(want)+1)...)
		if n := int64(j.Position() - at); int64(j.Position())+n > 2*record.PageSize {
			break
		}
	}
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := j.Append(batchOf(want[0])); !errors.Is(err, os.ErrNotExist) ||
			errors.Is(err, record.ErrPoisoned) {
			t.Fatalf("error %v, want ErrNotExist and no poison", err)
		}
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "more")
	if n := len(segmentFiles(t, dir)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
	mustClose(t, j)
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, append(want, "more")...)
}

// A segment whose name may not outlast a power failure must not be written to.
func TestASegmentThatMayVanishPoisons(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{Segment: 2 * record.PageSize})
	numbered(t, j, 0, 10)
	j.step = func(step string) {
		if step == "new segment written" { // what cannot be replaced looks just as what could not be synced
			if err := os.MkdirAll(filepath.Join(dir, segmentName(j.Position()), "x"), 0o755); err != nil {
				t.Error(err)
			}
		}
	}
	var err error
	for range 1000 {
		if err = j.Append(batchOf("record")); err != nil {
			break
		}
	}
	if !errors.Is(err, record.ErrPoisoned) || !errors.Is(err, record.ErrUncertain) {
		t.Errorf("error %v, want ErrPoisoned", err)
	}
}

// value returns what a registry says of a metric without labels.
func value(t *testing.T, r *metrics.Registry, name string) float64 {
	t.Helper()
	for _, s := range r.Snapshot(nil) {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestMetricsSayWhatHappened(t *testing.T) {
	dir := t.TempDir()
	registry := metrics.New(2)
	o := Options{Segment: 2 * record.PageSize, Metrics: registry, Name: "test"}
	want := func(name string, v float64) {
		t.Helper()
		if got := value(t, registry, "weir_test_journal_"+name); got != v {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	j, k := mustOpen(t, dir, o)
	mustAppend(t, j, "one", "two")
	mustAppend(t, j, "three")
	bytes := 2*record.FrameHeader + len("one") + len("two") + len("three") + 3
	want("appends_total", 2)
	want("records_total", 3)
	want("bytes_total", float64(bytes))
	want("unsynced_bytes", float64(bytes))
	want("replay_bytes", float64(record.PageSize+bytes))
	if value(t, registry, "weir_sync_lag_seconds") <= 0 ||
		value(t, registry, "weir_test_journal_checkpoint_age_seconds") <= 0 {
		t.Error("no lag, or no age")
	}
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	if lag := value(t, registry, "weir_sync_lag_seconds"); lag != 0 {
		t.Errorf("a lag of %v", lag)
	}
	want("unsynced_bytes", 0)
	want("checkpoints_total", 1)
	want("replay_bytes", 0)
	want("segments", 1)
	numbered(t, j, 0, 500)
	want("segments", float64(len(segmentFiles(t, dir))))
	want("cut_bytes", 0)
	want("append_errors_total", 0)
	want("checkpoint_errors_total", 0)

	torn := copyDir(t, dir)
	last := slices.Max(segmentFiles(t, torn))
	change(t, last, func(b []byte) []byte { return append(b, "torn"...) })
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(torn, checkpointName), old, old); err != nil {
		t.Fatal(err)
	}
	registry = metrics.New(1)
	o.Metrics = registry
	mustOpen(t, torn, o)
	want("cut_bytes", 4)
	if age := value(t, registry, "weir_test_journal_checkpoint_age_seconds"); age < 3600 || age > 7200 {
		t.Errorf("checkpoint age %v after a restart, want an hour", age)
	}
	// Two journals, one with a name and one without, live in one registry.
	mustOpen(t, t.TempDir(), Options{Metrics: registry})
	if v := value(t, registry, "weir_journal_segments"); v != 1 {
		t.Errorf("a journal without a name has %v segments", v)
	}
}

// A mark says that all before it is on the disk, so it follows nothing that may not be.
func TestWhatIsNotSyncedIsNotMarked(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	mustAppend(t, j, "one")
	end := j.Position()
	j.mark()
	if j.Position() != end {
		t.Error("a mark follows what was not synced")
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	j.mark()
	if j.Position() == end {
		t.Error("no mark follows what was synced")
	}
}

func TestCloseSyncsItsMark(t *testing.T) {
	var o Options
	syncs, failing := 0, 0
	o.Faults.FailSync = func() error {
		if syncs++; syncs == failing {
			return syscall.EIO
		}
		return nil
	}
	for failing = 1; failing <= 2; failing++ { // the sync of what was appended, and that of the mark
		j, _ := mustOpen(t, t.TempDir(), o)
		mustAppend(t, j, "one")
		syncs = 0
		if err := j.Close(); !errors.Is(err, record.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d failed: %v, want ErrPoisoned with its cause", failing, err)
		}
	}
}

// All that was replayed and that nobody knows to be synced is written again, to the last byte.
func TestOpenRewritesWhatMayBeMissing(t *testing.T) {
	for more := range int64(3) {
		dir := t.TempDir()
		j, _ := mustOpen(t, dir, Options{})
		mustAppend(t, j, strings.Repeat("x", int(windowLen-1+more)-record.FrameHeader-3))
		killed := copyDir(t, dir)
		written := int64(0)
		mustOpen(t, killed, Options{Faults: disk.Faults{FailWrite: func(n int) (int, error) {
			written += int64(n)
			return n, nil
		}}})
		if want := windowLen - 1 + more; written != want {
			t.Errorf("%d bytes were written again, want the %d of the frame", written, want)
		}
	}
}

package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"weir/internal/disk"
)

var kind = Format{Magic: "weirtest", Version: 3, Is: "a test's file", Replace: "make it again"}

func frame(payload string) []byte { return append(make([]byte, FrameHeader), payload...) }

func mustAppend(t testing.TB, l *Log, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		if err := l.Append(frame(p)); err != nil {
			t.Fatal(err)
		}
	}
}

func mustSync(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

// reopen opens the log at path and returns it with its payloads.
func reopen(t testing.TB, path string, o LogOptions) (*Log, []string) {
	t.Helper()
	var payloads []string
	l, _, err := OpenLog(path, kind, o, func(p []byte) error {
		payloads = append(payloads, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, payloads
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%d payloads %.60q, want %d %.60q", len(got), got, len(want), want)
	}
}

func TestALogKeepsItsFramesInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, got := reopen(t, path, LogOptions{})
	want(t, got)
	large := strings.Repeat("x", 3*windowLen)
	mustAppend(t, l, "one", "", large)
	mustSync(t, l)
	mustAppend(t, l, "four")
	l.Close()
	l, got = reopen(t, path, LogOptions{})
	want(t, got, "one", "", large, "four")
	mustAppend(t, l, "five")
	l.Close()
	_, got = reopen(t, path, LogOptions{})
	want(t, got, "one", "", large, "four", "five")
}

func TestWhatFollowsASyncBeginsOnAnotherPage(t *testing.T) {
	l, _ := reopen(t, filepath.Join(t.TempDir(), "log"), LogOptions{})
	mustAppend(t, l, "one", "two")
	before := l.End()
	if before >= 2*PageSize {
		t.Fatalf("two small frames end at %d", before)
	}
	mustSync(t, l)
	if after := l.After(FrameHeader); after != 2*PageSize+FrameHeader {
		t.Errorf("the frame after a sync would end at %d", after)
	}
}

func TestAFailedAppendLeavesNothing(t *testing.T) {
	for _, reserved := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "log")
		full := false
		o := LogOptions{Reserved: reserved, Faults: disk.Faults{FailWrite: func(n int) (int, error) {
			if full {
				return n - 1, syscall.ENOSPC
			}
			return n, nil
		}}}
		l, _ := reopen(t, path, o)
		if reserved {
			begin(t, l, 1<<20)
		}
		mustAppend(t, l, "one")
		full = true
		if err := l.Append(frame("two")); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrUncertain) {
			t.Fatalf("error %v", err)
		}
		full = false
		mustAppend(t, l, "three")
		l.Close()
		_, got := reopen(t, path, o)
		want(t, got, "one", "three")
	}
}

// begin takes space for a reserved log and begins it.
func begin(t testing.TB, l *Log, size int64) {
	t.Helper()
	if err := l.Reserve(size); err != nil {
		t.Fatal(err)
	}
	if err := l.Restart(); err != nil {
		t.Fatal(err)
	}
}

func TestAReservedLogHasRoomAfterRestartAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := reopen(t, path, LogOptions{Reserved: true})
	if l.Has(FrameHeader) {
		t.Error("there is room before anything was reserved")
	}
	begin(t, l, 3*PageSize)
	mustAppend(t, l, "one", "two")
	if l.Has(FrameHeader) {
		t.Error("there is room for a third page of two")
	}
	l.Close()
	l, got := reopen(t, path, LogOptions{Reserved: true})
	want(t, got, "one", "two")
	if err := l.Reserve(3 * PageSize); err != nil {
		t.Fatal(err)
	}
	if l.Has(FrameHeader) {
		t.Error("there is room before Restart")
	}
	begin(t, l, 3*PageSize)
	mustAppend(t, l, "three") // and behind it "two", of another epoch
	l.Close()
	_, got = reopen(t, path, LogOptions{Reserved: true})
	want(t, got, "three")
}

// TestEveryFlippedBitIsRefusedOrTorn flips a bit of each byte of a log of which only the last frames may be
// torn.
func TestEveryFlippedBitIsRefusedOrTorn(t *testing.T) {
	for _, reserved := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "log")
		l, _ := reopen(t, path, LogOptions{Reserved: reserved})
		if reserved {
			begin(t, l, 5*PageSize)
		}
		all := []string{"one", "two", "three", "four"}
		mustAppend(t, l, all[:2]...)
		mustSync(t, l)
		synced := int(l.End())
		mustAppend(t, l, all[2:]...)
		end := int(l.End())
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused, torn := 0, 0
		for at := range end {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			got, err := parse(bad, reserved)
			switch {
			case errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "make it again"):
				refused++
			case errors.Is(err, ErrVersion) && inVersion(at):
				refused++
			case err != nil:
				t.Fatalf("byte %d: %v", at, err)
			case slices.Equal(got, all): // between frames
			case at < synced:
				t.Fatalf("byte %d: %q is left of a log that was synced, and nothing said", at, got)
			case !slices.Equal(got, all[:len(got)]):
				t.Fatalf("byte %d: %q", at, got)
			default:
				torn++
			}
		}
		if refused == 0 || torn == 0 {
			t.Errorf("%d flips were refused, %d taken for a torn end", refused, torn)
		}
	}
}

// parse reads a log from memory.
func parse(b []byte, reserved bool) (payloads []string, err error) {
	f, err := fstest.MapFS{"log": {Data: b}}.Open("log")
	if err != nil {
		return nil, err
	}
	r, err := ReadLog(f.(File), "log", kind)
	if err != nil {
		return nil, err
	}
	r.reserved = reserved
	end, err := r.Frames(PageSize, func(p []byte, _ int64) error {
		payloads = append(payloads, string(p))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if damaged, err := r.Damaged(end); err != nil {
		return nil, err
	} else if damaged {
		return nil, r.damage(end)
	}
	return payloads, nil
}

func TestDamageIsRefusedUntilItsLossIsAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := reopen(t, path, LogOptions{})
	mustAppend(t, l, "one")
	at := int64(l.End())
	mustAppend(t, l, "two")
	mustSync(t, l)
	mustAppend(t, l, "three")
	l.Close()
	bad, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad[at+FrameHeader] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenLog(path, kind, LogOptions{}, func([]byte) error { return nil })
	if !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), fmt.Sprintf("%s, at offset %d", path, at)) {
		t.Fatalf("error %v, want ErrCorrupt at offset %d", err, at)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, bad) {
		t.Fatalf("a refused log was changed, error %v", err)
	}
	l, lost, err := OpenLog(path, kind, LogOptions{AcceptLoss: true}, func([]byte) error { return nil })
	if err != nil || lost != int64(len(bad))-at {
		t.Fatalf("%d bytes lost, error %v", lost, err)
	}
	mustAppend(t, l, "four")
	l.Close()
	_, got := reopen(t, path, LogOptions{})
	want(t, got, "one", "four")
}

func TestWhatNoFrameKnowsToBeSyncedIsWrittenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := reopen(t, path, LogOptions{})
	mustAppend(t, l, "one")
	mustSync(t, l)
	mustAppend(t, l, "two")
	l.Close()
	written := 0
	reopen(t, path, LogOptions{Faults: disk.Faults{FailWrite: func(n int) (int, error) {
		written += n
		return n, nil
	}}})
	if want := FrameHeader + len("two"); written != want {
		t.Errorf("%d bytes were written, want the %d of the frame behind the sync", written, want)
	}
}

func TestHeadersTellKindsVersionsAndDamageApart(t *testing.T) {
	fields := []byte("sixteen bytes...")
	good := kind.Page(fields)
	if got, err := kind.Parse("file", good, len(fields)); err != nil || string(got) != string(fields) {
		t.Fatalf("fields %q, error %v", got, err)
	}
	later, other := kind, kind
	later.Version, other.Magic = 4, "weirelse"
	for name, c := range map[string]struct {
		page   []byte
		n      int
		format Format
		want   error
		says   string
	}{
		"another version": {good, len(fields), later, ErrVersion, "version 3"},
		"other fields":    {good, 8, later, ErrVersion, "version 3"}, // whatever their length was
		"other checksums": {append(slices.Clone(good[:PageSize-1]), 1), 8, later, ErrVersion, "version 3"},
		"another kind":    {good, len(fields), other, ErrKind, "weirelse"},
		"nothing":         {nil, len(fields), kind, ErrKind, "make it again"},
		"a part":          {good[:100], len(fields), kind, ErrCorrupt, "100 bytes"},
		"a longer header": {good, 8, kind, ErrCorrupt, "16 bytes"},
		"zeros":           {make([]byte, PageSize), len(fields), kind, ErrKind, "weirtest"},
		"another checksum": {append(append([]byte{}, good[:fieldsAt+16]...), make([]byte, PageSize)...),
			len(fields), kind, ErrCorrupt, "checksum"},
	} {
		_, err := c.format.Parse("file", c.page, c.n)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "file") {
			t.Errorf("%s: error %v, want %v that says %q", name, err, c.want, c.says)
		}
	}
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		want := ErrCorrupt
		if inVersion(at) { // another version's header may be checked in another way
			want = ErrVersion
		}
		if _, err := kind.Parse("file", bad, len(fields)); !errors.Is(err, want) {
			t.Fatalf("byte %d changed: error %v, want %v", at, err, want)
		}
	}
}

// inVersion reports whether the byte at an offset is one of a header's version.
func inVersion(at int) bool { return at >= 8 && at < 12 }

// FuzzLog reads anything as a log: nothing but a prefix of what was written comes of changes to a good one.
func FuzzLog(f *testing.F) {
	path := filepath.Join(f.TempDir(), "log")
	l, _ := reopen(f, path, LogOptions{})
	all := []string{"one", "two", strings.Repeat("x", PageSize), "four"}
	mustAppend(f, l, all[:2]...)
	mustSync(f, l)
	mustAppend(f, l, all[2:]...)
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, good[:0], false)
	f.Add(PageSize+8, []byte{1}, true)
	f.Add(PageSize+FrameHeader+1, []byte("xyz"), false)
	f.Fuzz(func(t *testing.T, at int, patch []byte, cut bool) {
		b := bytes.Clone(good)
		if at >= 0 && at <= len(b) {
			n := copy(b[at:], patch)
			if cut {
				b = b[:at+n]
			}
		}
		got, err := parse(b, false)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
		if len(got) > len(all) || !slices.Equal(got, all[:len(got)]) {
			t.Fatalf("%q is no prefix of what was written", got)
		}
	})
}

func TestMendRightsAnySingleBitOfAHeaderAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	good := append(kind.Page([]byte("some fields")), "and what follows"...)
	mend := func(data []byte) (bool, []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		mended, err := Mend(path)
		after, rerr := os.ReadFile(path)
		if err != nil || rerr != nil {
			t.Fatal(err, rerr)
		}
		return mended, after
	}
	for _, bit := range []int{0, 8*8 + 1, 12 * 8, 16*8 + 5, 30 * 8, PageSize*8 - 1} {
		bad := slices.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if mended, after := mend(bad); !mended || !bytes.Equal(after, good) {
			t.Errorf("bit %d is not as it was: %t", bit, mended)
		}
	}
	two := slices.Clone(good)
	two[9], two[10] = two[9]^1, two[10]^1
	for name, data := range map[string][]byte{"good": good, "two wrong bits": two, "short": good[:PageSize-1],
		"empty": nil} {
		if mended, after := mend(data); mended || !bytes.Equal(after, data) {
			t.Errorf("%s: it is changed, %t", name, mended)
		}
	}
}

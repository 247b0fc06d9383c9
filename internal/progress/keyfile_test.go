package progress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

// key is a name, or a number when that is empty.
type key struct {
	number uint64
	name   string
}

// add adds a key to those that are synced next.
func (k key) add(t *testing.T, f *keyFile) {
	t.Helper()
	var name []byte
	if k.name != "" {
		name = []byte(k.name)
	}
	if _, err := f.add(k.number, name); err != nil {
		t.Fatal(err)
	}
}

// keysOf returns all keys of a file, by slot.
func keysOf(t *testing.T, f *keyFile) map[uint64]key {
	t.Helper()
	all := make(map[uint64]key)
	err := f.each(func(slot, number uint64, name []byte) error {
		all[slot] = key{number, string(name)}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantKeys(t *testing.T, what string, f *keyFile, want ...key) {
	t.Helper()
	got := keysOf(t, f)
	if len(got) != len(want) || f.count != uint64(len(want)) {
		t.Fatalf("%s: %d keys, counted %d, want %d", what, len(got), f.count, len(want))
	}
	for slot, k := range want {
		if got[uint64(slot)] != k {
			t.Fatalf("%s: slot %d is of %v, want %v", what, slot, got[uint64(slot)], k)
		}
	}
}

func openKeys(path string, used uint64) (*keyFile, error) {
	return openKeyFile(path, used, false, disk.Faults{})
}

// keyFileOf writes keys, synced after each group, and returns the file's path and where each group ends.
func keyFileOf(t *testing.T, groups ...[]key) (path string, ends []int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.log")
	f, err := openKeys(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for _, group := range groups {
		for _, k := range group {
			k.add(t, f)
		}
		if err := f.sync(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int64(f.log.End()))
	}
	return path, ends
}

var (
	firstKeys  = []key{{7, ""}, {0, "anna"}, {1 << 63, ""}}
	secondKeys = []key{{0, strings.Repeat("n", 255)}, {0, "\x00"}}
	thirdKeys  = []key{{0, "é"}, {0, ""}}
)

func TestKeysKeepTheirSlots(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys, secondKeys, nil, thirdKeys)
	f, err := openKeys(path, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	wantKeys(t, "reopened", f, slices.Concat(firstKeys, secondKeys, thirdKeys)...)
}

func TestManyKeysAreWrittenInFrames(t *testing.T) {
	var many []key
	for i := range 10_000 {
		many = append(many, key{0, fmt.Sprintf("%0*d", 255-min(1, i/5000), i)})
	}
	path, ends := keyFileOf(t, many)
	if ends[0] < 2*maxKeyFrame {
		t.Fatalf("%d bytes: too few for the test", ends[0])
	}
	f, err := openKeys(path, uint64(len(many)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	wantKeys(t, "reopened", f, many...)
}

// The last frame is cut at every byte, and damaged at every byte: as long as no key is missing that has a
// cell, it was never synced.
func TestATornTailIsCutOff(t *testing.T) {
	path, ends := keyFileOf(t, firstKeys, secondKeys)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := ends[1] - 300; cut < ends[1]; cut += 7 {
		flipped := slices.Clone(whole)
		flipped[cut] ^= 0x40
		for _, image := range [][]byte{whole[:cut], flipped} {
			if err := os.WriteFile(path, image, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := openKeys(path, uint64(len(firstKeys)))
			if err != nil {
				t.Fatalf("byte %d: %v", cut, err)
			}
			// A byte between frames, which means nothing.
			if len(keysOf(t, f)) == len(firstKeys)+len(secondKeys) {
				f.close()
				continue
			}
			wantKeys(t, fmt.Sprintf("byte %d", cut), f, firstKeys...)
			for _, k := range thirdKeys { // it can be added to
				k.add(t, f)
			}
			if err := f.sync(); err != nil {
				t.Fatal(err)
			}
			wantKeys(t, "added to", f, slices.Concat(firstKeys, thirdKeys)...)
			f.close()
		}
	}
}

func TestDamageToKeysInUseIsRefusedUntilItsLossIsAccepted(t *testing.T) {
	path, ends := keyFileOf(t, firstKeys, secondKeys, thirdKeys)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int64) []byte { image := slices.Clone(whole); image[n] ^= 1; return image }
	for what, image := range map[string][]byte{
		"a bit of the first keys": at(record.PageSize + record.FrameHeader + 1),
		"a bit of the last keys":  at(ends[2] - 1),
		"a bit of the header":     at(20),
		"a missing end":           whole[:ends[1]],
		"an empty file":           nil,
		"another file":            []byte("1,2,3\n4,5,6\n7,8,9\n"),
	} {
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openKeys(path, 7)
		if err == nil {
			f.close()
			t.Errorf("%s: the file was opened with %d keys", what, f.count)
			continue
		}
		if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, image) {
			t.Errorf("%s: the refused file was changed", what)
		}
	}
	if err := os.WriteFile(path, at(ends[2]-1), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openKeyFile(path, 7, true, disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, f); f.count != 7 || len(got) != 5 {
		t.Errorf("with the loss accepted %d keys are left, counted %d", len(got), f.count)
	}
	if slot, err := f.add(5, nil); slot != 7 || err != nil {
		t.Errorf("the next key has slot %d, %v: another's", slot, err)
	}
	f.close()
}

// A key that is not on the disk must not be given a cell.
func TestKeysAreSynced(t *testing.T) {
	syncs, failing := 0, false
	faults := disk.Faults{FailSync: func() error {
		syncs++
		if failing {
			return errors.New("input/output error")
		}
		return nil
	}}
	f, err := openKeyFile(filepath.Join(t.TempDir(), "keys.log"), 0, false, faults)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	syncs = 0
	key{7, ""}.add(t, f)
	if err := f.sync(); err != nil || syncs != 1 {
		t.Errorf("%d syncs of a key, %v", syncs, err)
	}
	if err := f.sync(); err != nil || syncs != 1 {
		t.Errorf("%d syncs of nothing new, %v", syncs, err)
	}
	key{8, ""}.add(t, f)
	failing = true
	if f.sync() == nil {
		t.Error("a key that is not on the disk was taken for one that is")
	}
	failing = false
	if f.sync() == nil { // nobody knows whether it is there
		t.Error("a key file goes on after a failed sync")
	}
}

// What was taken back leaves no trace: the next key has the slot that it will be read with.
func TestKeysThatWereTakenBackHaveNoSlot(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys)
	f, err := openKeys(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	end := f.log.End()
	for _, k := range secondKeys {
		k.add(t, f)
	}
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	key{9, ""}.add(t, f) // and one that is in no frame yet
	if err := f.cut(end, 3); err != nil {
		t.Fatal(err)
	}
	slot, err := f.add(10, nil)
	if err != nil || slot != 3 {
		t.Errorf("the key after three has slot %d, error %v", slot, err)
	}
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "after a cut", f, append(slices.Clone(firstKeys), key{10, ""})...)
}

func TestErasedKeysLeaveTheFileAndOthersKeepTheirSlots(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys, secondKeys, []key{{0, "gone for good"}, {5, ""}})
	f, err := openKeys(path, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.erase(func(slot uint64) bool { return slot == 0 || slot == 5 }); err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		got := keysOf(t, f)
		want := map[uint64]key{1: firstKeys[1], 2: firstKeys[2], 3: secondKeys[0],
			4: secondKeys[1], 6: {5, ""}}
		if len(got) != len(want) || f.count != 7 {
			t.Errorf("%s: keys %v, counted %d", what, got, f.count)
		}
		for slot, k := range want {
			if got[slot] != k {
				t.Errorf("%s: slot %d is of %v, want %v", what, slot, got[slot], k)
			}
		}
	}
	check("at once")
	key{6, ""}.add(t, f)
	if err := f.cut(f.saved, 7); err != nil {
		t.Fatal(err)
	}
	f.close()
	if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte("gone for good")) {
		t.Errorf("the name is still in the file, %v", err)
	}
	if f, err = openKeys(path, 7); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
	f.close()
}

// FuzzKeyFilesAreReadOrRefused opens any bytes as a key file. What is opened can be added to and opened
// again, with the same keys; what is refused stays as it was.
func FuzzKeyFilesAreReadOrRefused(f *testing.F) {
	f.Add([]byte("\x00\x07\x00\x00\x00\x00\x00\x00\x00\x05anna\x01"), true)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), true)
	f.Add([]byte("weirkeys"), false)
	f.Fuzz(func(t *testing.T, entries []byte, sealed bool) {
		path := filepath.Join(t.TempDir(), "keys.log")
		if err := os.WriteFile(path, entries, 0o600); err != nil {
			t.Fatal(err)
		}
		if sealed {
			os.Remove(path)
			l, _, err := record.OpenLog(path, keyFormat, record.LogOptions{},
				func([]byte) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Append(append(make([]byte, record.FrameHeader), entries...)), l.Sync(),
				l.Close()); err != nil {
				t.Fatal(err)
			}
		}
		image, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := openKeys(path, 0)
		if err != nil {
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, image) {
				t.Errorf("the refused file was changed: %v", err)
			}
			return
		}
		before := keysOf(t, k)
		before[k.count] = key{0, "new"}
		before[k.count].add(t, k)
		if err := k.sync(); err != nil {
			t.Fatal(err)
		}
		count := k.count
		k.close()
		if k, err = openKeys(path, count); err != nil {
			t.Fatal(err)
		}
		defer k.close()
		got := keysOf(t, k)
		if len(got) != len(before) {
			t.Errorf("keys %v, want %v", got, before)
		}
		for slot, key := range before {
			if got[slot] != key {
				t.Errorf("slot %d is of %v, want %v", slot, got[slot], key)
			}
		}
	})
}

package progress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/disk"
)

// key is a name, or a number when that is empty.
type key struct {
	number uint64
	name   string
}

// add adds a key to the block that comes next.
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

// keysOf returns all keys of a file.
func keysOf(t *testing.T, f *keyFile) (all []key) {
	t.Helper()
	err := f.each(func(slot, number uint64, name []byte) error {
		if slot != uint64(len(all)) {
			t.Errorf("slot %d comes as number %d", slot, len(all))
		}
		all = append(all, key{number, string(name)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// keyFileOf writes blocks of keys and returns the file's path and where each block ends.
func keyFileOf(t *testing.T, blocks ...[]key) (path string, ends []int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.log")
	f, err := openKeyFile(path, 0, disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for _, block := range blocks {
		for _, k := range block {
			k.add(t, f)
		}
		if err := f.sync(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, f.size)
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
	f, err := openKeyFile(path, 7, disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if got, want := keysOf(t, f), slices.Concat(firstKeys, secondKeys, thirdKeys); !slices.Equal(got, want) || f.count != 7 {
		t.Errorf("%d keys: %v, want %v", f.count, got, want)
	}
}

func TestManyKeysAreWrittenInBlocks(t *testing.T) {
	var many []key
	for i := range 10_000 { // the first block is of the usual length, the others end with a key that goes beyond
		many = append(many, key{0, fmt.Sprintf("%0*d", 255-min(1, i/5000), i)})
	}
	path, ends := keyFileOf(t, many)
	if ends[0] < 2*maxKeyBlock {
		t.Fatalf("%d bytes: too few for the test", ends[0])
	}
	f, err := openKeyFile(path, uint64(len(many)), disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if got := keysOf(t, f); !slices.Equal(got, many) {
		t.Errorf("%d keys came back, want %d", len(got), len(many))
	}
}

// TestATornTailIsCutOff cuts the file at every byte, and damages its last block at every byte: as
// long as no key is missing that has a cell, that is a block that was never synced.
func TestATornTailIsCutOff(t *testing.T) {
	path, ends := keyFileOf(t, firstKeys, secondKeys)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var images [][]byte
	for cut := ends[0]; cut < ends[1]; cut++ {
		images = append(images, whole[:cut])
		zeros := slices.Clone(whole) // the size is on the disk, what is behind the cut not yet
		clear(zeros[cut:])
		if !bytes.Equal(zeros, whole) {
			images = append(images, zeros)
		}
		flipped := slices.Clone(whole)
		flipped[cut] ^= 0x40
		images = append(images, flipped)
	}
	for n, image := range images {
		if err := os.WriteFile(path, image, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := openKeyFile(path, uint64(len(firstKeys)), disk.Faults{})
		if err != nil {
			t.Fatalf("image %d: %v", n, err)
		}
		if got := keysOf(t, f); !slices.Equal(got, firstKeys) {
			t.Fatalf("image %d: keys %v, want %v", n, got, firstKeys)
		}
		for _, k := range thirdKeys { // it can be added to
			k.add(t, f)
		}
		if err := f.sync(); err != nil {
			t.Fatal(err)
		}
		if got, want := keysOf(t, f), slices.Concat(firstKeys, thirdKeys); !slices.Equal(got, want) {
			t.Fatalf("image %d: keys %v, want %v", n, got, want)
		}
		f.close()
	}
}

func TestDamageToKeysInUseIsRefused(t *testing.T) {
	path, ends := keyFileOf(t, firstKeys, secondKeys, thirdKeys)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, image []byte) {
		t.Helper()
		if err := os.WriteFile(path, image, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := openKeyFile(path, 7, disk.Faults{})
		if err == nil {
			f.close()
			t.Errorf("%s: the file was opened with %d keys", what, f.count)
			return
		}
		if !errors.Is(err, errKeyFile) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, image) {
			t.Errorf("%s: the refused file was changed", what)
		}
	}
	for at := int64(keyHeader); at < ends[2]; at++ {
		image := slices.Clone(whole)
		image[at] ^= 1
		refuse(fmt.Sprintf("byte %d", at), image)
	}
	refuse("a zeroed block", slices.Concat(whole[:ends[0]], make([]byte, ends[1]-ends[0]), whole[ends[1]:]))
	refuse("a missing block", slices.Concat(whole[:ends[0]], whole[ends[1]:]))
	refuse("a missing end", whole[:ends[1]])
	refuse("an empty file", nil)
	refuse("another file", []byte("1,2,3\n4,5,6\n7,8,9\n"))
}

func TestAKeyFileOfAnotherVersionIsRefused(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys)
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(image[8:], keyVersion+1)
	if err := os.WriteFile(path, image, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = openKeyFile(path, 0, disk.Faults{})
	for _, says := range []string{path, "version 2", "reads version 1", "another --data directory"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("another version: %v, want it to say %q", err, says)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, image) {
		t.Error("the refused file was changed")
	}
}

// A key that is not on the disk must not be given a cell, and neither the file's beginning nor what was cut off may come back.
func TestKeysAreSynced(t *testing.T) {
	syncs, failing := 0, false
	faults := disk.Faults{FailSync: func() error {
		syncs++
		if failing {
			return errors.New("input/output error")
		}
		return nil
	}}
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.log")
	want := func(what string, n int) {
		t.Helper()
		if syncs != n {
			t.Errorf("%d syncs of %s, want %d", syncs, what, n)
		}
		syncs = 0
	}
	f, err := openKeyFile(path, 0, faults)
	if err != nil {
		t.Fatal(err)
	}
	want("a new file", 1)
	key{7, ""}.add(t, f)
	want("a key alone", 0)
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	want("a block", 1)
	key{8, ""}.add(t, f)
	failing = true
	if err := f.sync(); err == nil {
		t.Error("a block that is not on the disk was taken for one that is")
	}
	failing = false
	if err := f.sync(); err == nil { // which nobody knows to be there
		t.Error("a key file goes on after a failed sync")
	}
	f.close() //nolint:errcheck // as after a crash
	syncs = 0
	if f, err = openKeyFile(path, 1, faults); err != nil {
		t.Fatal(err)
	}
	want("a whole file", 0)
	f.close() //nolint:errcheck // as above
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString("torn"); err != nil {
		t.Fatal(err)
	}
	torn.Close()
	if f, err = openKeyFile(path, 2, faults); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	want("a file that was cut", 1)
}

func TestOneKeyTooFewIsNoticed(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys, secondKeys)
	if f, err := openKeyFile(path, 5, disk.Faults{}); err != nil {
		t.Errorf("all keys are there: %v", err)
	} else {
		f.close()
	}
	if _, err := openKeyFile(path, 6, disk.Faults{}); !errors.Is(err, errKeyFile) {
		t.Errorf("error %v, want that a key is missing", err)
	}
}

// What was taken back leaves no trace: the next key has the slot that it will be read with.
func TestKeysThatWereTakenBackHaveNoSlot(t *testing.T) {
	path, _ := keyFileOf(t, firstKeys)
	f, err := openKeyFile(path, 3, disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	size := f.size
	for _, k := range secondKeys {
		k.add(t, f)
	}
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	key{9, ""}.add(t, f) // and one that is in no block yet
	if err := f.cut(size, 3); err != nil {
		t.Fatal(err)
	}
	slot, err := f.add(10, nil)
	if err != nil || slot != 3 {
		t.Errorf("the key after three has slot %d, error %v", slot, err)
	}
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	if got, want := keysOf(t, f), append(slices.Clone(firstKeys), key{10, ""}); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/disk"
)

// FuzzKeyFilesAreReadOrRefused opens any bytes as a key file. What is opened can be added to and opened again, with
// the same keys; what is refused stays as it was.
func FuzzKeyFilesAreReadOrRefused(f *testing.F) {
	head := []byte("weirkeys\x01\x00\x00\x00\x00\x00\x00\x00")
	for _, tail := range []string{"", "\x00", strings.Repeat("\x00", 40), "\x02\x00\x00\x00\x01\x00\x00\x00........\x01a"} {
		f.Add(append(slices.Clone(head), tail...))
	}
	k := &keyFile{block: []byte("\x01a\x00\x07\x00\x00\x00\x00\x00\x00\x00"), entries: 2}
	if file, err := os.Create(filepath.Join(f.TempDir(), "keys.log")); err != nil {
		f.Fatal(err)
	} else {
		k.f, k.size = file, keyHeader
	}
	if err := k.write(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(k.f.Name())
	if err != nil {
		f.Fatal(err)
	}
	copy(whole, head)
	f.Add(whole)
	f.Add(append(slices.Clone(whole), whole[keyHeader:]...))
	f.Fuzz(func(t *testing.T, image []byte) {
		path := filepath.Join(t.TempDir(), "keys.log")
		if err := os.WriteFile(path, image, 0o644); err != nil {
			t.Fatal(err)
		}
		k, err := openKeyFile(path, 0, disk.Faults{})
		if err != nil {
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, image) {
				t.Errorf("the refused file was changed: %v", err)
			}
			return
		}
		before := append(keysOf(t, k), key{0, "new"})
		before[len(before)-1].add(t, k)
		if err := k.sync(); err != nil {
			t.Fatal(err)
		}
		k.close()
		if k, err = openKeyFile(path, uint64(len(before)), disk.Faults{}); err != nil {
			t.Fatal(err)
		}
		defer k.close()
		if got := keysOf(t, k); !slices.Equal(got, before) {
			t.Errorf("keys %v, want %v", got, before)
		}
	})
}

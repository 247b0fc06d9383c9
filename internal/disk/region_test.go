//go:build linux || darwin || freebsd

package disk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func regionFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func extend(t *testing.T, r *Region, f *os.File, size int64) {
	t.Helper()
	if err := Allocate(f, 0, size); err != nil {
		t.Fatal(err)
	}
	if err := r.Extend(f, size); err != nil {
		t.Fatal(err)
	}
}

func TestRegionWritesReachTheFile(t *testing.T) {
	f := regionFile(t)
	r, err := Reserve(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	extend(t, r, f, Granule)
	extend(t, r, f, 3*Granule)
	words := r.Words()
	at := []int{0, Granule/8 - 1, Granule / 8, 3*Granule/8 - 1}
	for i, w := range at {
		words[w].Store(uint64(i + 100))
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := SyncData(f); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(f.Name())
	if err != nil || len(data) != 3*Granule {
		t.Fatalf("%d bytes, error %v", len(data), err)
	}
	for i, w := range at {
		if got := binary.NativeEndian.Uint64(data[w*8:]); got != uint64(i+100) {
			t.Errorf("word %d holds %d, want %d", w, got, i+100)
		}
	}
}

func TestRegionGrowsUnderItsUsers(t *testing.T) {
	f := regionFile(t)
	r, err := Reserve(64 * Granule)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	extend(t, r, f, Granule)
	words := r.Words()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				words[7].Add(1)
			}
		})
	}
	for n := int64(2); n <= 64; n++ {
		extend(t, r, f, n*Granule)
		words[n*Granule/8-1].Store(uint64(n))
	}
	wg.Wait()
	if got := words[7].Load(); got != 80_000 {
		t.Errorf("word 7 holds %d, want 80000", got)
	}
	for n := int64(2); n <= 64; n++ {
		if got := words[n*Granule/8-1].Load(); got != uint64(n) {
			t.Errorf("the last word of granule %d holds %d", n, got)
		}
	}
}

func TestRegionBeyondItsEndIsAFault(t *testing.T) {
	f := regionFile(t)
	r, err := Reserve(2 * Granule)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	extend(t, r, f, Granule)
	if err := Guard(func() error { r.Words()[Granule/8].Load(); return nil }); err == nil {
		t.Error("a word beyond the mapped ones was read")
	}
}

func TestRegionRefusesWhatDoesNotFit(t *testing.T) {
	f := regionFile(t)
	for _, size := range []int64{-1, 0, 1 << 62, 1<<63 - 1} {
		if _, err := Reserve(size); err == nil {
			t.Errorf("Reserve(%d) succeeded", size)
		}
	}
	r, err := Reserve(2 * Granule)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	extend(t, r, f, Granule)
	for _, size := range []int64{0, Granule + 1, 3 * Granule} {
		if err := r.Extend(f, size); err == nil {
			t.Errorf("Extend to %d of %d succeeded", size, 2*Granule)
		}
	}
	if err := r.Extend(f, Granule); err != nil {
		t.Errorf("Extend to the present size: %v", err)
	}
}

func TestZerosGrowInPlaceAndEndInAFault(t *testing.T) {
	z, err := ReserveZeros(4 * Granule / 8)
	if err != nil {
		t.Fatal(err)
	}
	words := z.Words()
	for _, n := range []int{1, Granule/8 + 1, Granule / 8} {
		if err := z.Extend(n); err != nil {
			t.Fatal(err)
		}
		words[n-1].Add(1)
	}
	if words[0].Load() != 1 || words[Granule/8].Load() != 1 || words[Granule/8-1].Load() != 1 ||
		words[1].Load() != 0 {
		t.Error("words are not what was written, or not zero before")
	}
	if err := Guard(func() error { words[3*Granule/8].Load(); return nil }); err == nil {
		t.Error("a word beyond the usable ones was read")
	}
	if err := z.Close(); err != nil {
		t.Error(err)
	}
}

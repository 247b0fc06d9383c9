package snapshot

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// buildIndex writes the index of hashes, ranks in their order, with runs of limit entries.
func buildIndex(t testing.TB, hashes []uint64, limit int) []byte {
	t.Helper()
	dir := t.TempDir()
	b := indexBuilder{runs: spool{dir: dir}, limit: limit}
	defer b.close()
	for _, h := range hashes {
		if err := b.add(h); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := b.writeTo(&out, dir); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestIndexMergedFromRunsIsTheOneSortedAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for _, n := range []int{0, 1, 2, 7, 8, 100, 5000} {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = r.Uint64()
			if i > 0 && r.IntN(10) == 0 {
				hashes[i] = hashes[i-1] // strings may share a hash
			}
		}
		whole := buildIndex(t, hashes, n+1)
		for _, limit := range []int{1, 3, 64, max(1, n)} {
			if limit == 1 && n > 100 {
				continue // a run each: more readers than anybody needs
			}
			if !bytes.Equal(buildIndex(t, hashes, limit), whole) {
				t.Errorf("%d hashes in runs of %d give another index", n, limit)
			}
		}
		x, err := decodeIndex(whole, uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		for rank, h := range hashes {
			var found []uint64
			from, to, fragment := x.bucket(h)
			for ; from < to; from++ {
				if f, r := x.entry(from); f == fragment {
					found = append(found, r)
				}
			}
			if !slices.Contains(found, uint64(rank)) {
				t.Fatalf("rank %d of hash %#x is not among %v", rank, h, found)
			}
		}
	}
}

func TestHashOfNumbersIsInvertible(t *testing.T) {
	unshift := func(x uint64, n uint) uint64 { // of x ^ x>>n
		for y := x; ; {
			next := x ^ y>>n
			if next == y {
				return y
			}
			y = next
		}
	}
	inverse := func(a uint64) uint64 { // of an odd number modulo 2^64, by Newton's iteration
		x := a
		for range 6 {
			x *= 2 - a*x
		}
		return x
	}
	invert := func(h uint64) uint64 {
		h = unshift(h, 31) * inverse(0x94d049bb133111eb)
		h = unshift(h, 27) * inverse(0xbf58476d1ce4e5b9)
		return unshift(h, 30)
	}
	r := rand.New(rand.NewPCG(12, 1))
	for range 10_000 {
		if id := r.Uint64() >> r.UintN(64); invert(hashNumber(id)) != id {
			t.Fatalf("the hash of %d cannot be undone: another id must share it", id)
		}
	}
}

func TestIndexThatPointsElsewhereFindsNobodyElse(t *testing.T) {
	// Every entry points to rank 0: only the user of rank 0 may be found.
	for _, kind := range []string{"hashed", "named"} {
		data := slices.Clone(examples(t)[kind])
		h, err := decodeHeader("file", data, uint64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		at := h.sections[sectionIndex].offset + indexHeader
		for i := range h.slots {
			clear(data[at+i*entryBytes:][:4])
		}
		rehash(data)
		s := openBytes(t, data)
		for rank := range s.Slots() {
			id, name, _ := s.UserKey(rank)
			_, ok := s.FindNumber(id)
			if s.Users() == String {
				_, ok = s.FindString(name)
			}
			if ok != (rank == 0) {
				t.Errorf("%s: user %d %q of rank %d: found %v", kind, id, name, rank, ok)
			}
		}
	}
}

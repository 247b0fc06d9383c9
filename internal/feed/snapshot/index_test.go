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

func TestOffsetsComeBackWhateverTheLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	for name, length := range map[string]func(i int) uint32{
		"equal":     func(int) uint32 { return 596 },
		"zero":      func(int) uint32 { return 0 },
		"random":    func(int) uint32 { return r.Uint32N(1000) },
		"growing":   func(i int) uint32 { return uint32(i) },
		"shrinking": func(i int) uint32 { return uint32(70_000 - i*10) },
		"one large": func(i int) uint32 { return [2]uint32{8, 524_545}[max(0, 1-abs(i-3000))] },
		"runs":      func(i int) uint32 { return uint32(i / 500 * 8) },
	} {
		for _, n := range []int{0, 1, 2, 6789} {
			b := lineBuilder{runs: spool{dir: t.TempDir()}}
			var offsets []uint64
			var at uint64
			for i := range n {
				offsets = append(offsets, at)
				l := length(i)
				if err := b.add(l); err != nil {
					t.Fatal(err)
				}
				at += uint64(l)
			}
			var out bytes.Buffer
			if err := b.writeTo(&out); err != nil {
				t.Fatal(err)
			}
			b.runs.close()
			l, err := decodeLine("offsets", append(out.Bytes(), make([]byte, loadSlack)...), uint64(n))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range offsets {
				if got := l.at(uint64(i)); got != want {
					t.Fatalf("%s: piece %d of %d is at %d, want %d", name, i, n, got, want)
				}
			}
			if (name == "equal" || name == "zero") && out.Len() != lineHeader {
				t.Errorf("%s: %d pieces of one length take %d bytes, want none but the header's %d", name, n, out.Len(), lineHeader)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

func TestMostFrequentItems(t *testing.T) {
	// Item i occurs 1000/i times and so does i+500, so that there are ties; 0 is the most frequent of all.
	var items []uint64
	for i := uint64(1); i <= 100; i++ {
		for range 1000 / i {
			items = append(items, i+500, i, 0)
		}
	}
	want := []uint64{1, 501, 2, 502, 3, 503, 4}
	for name, tally := range map[string]tally{"exact": newTally(1000), "sketch": newTally(exactBelow), "small sketch": newSketch(9)} {
		r := rand.New(rand.NewPCG(14, 1))
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		tally.count(items)
		if got := mostFrequent(tally, 7, false); !slices.Equal(got, want) {
			t.Errorf("%s: the most frequent items are %v, want %v", name, got, want)
		}
		if got := mostFrequent(tally, 3, true); !slices.Equal(got, []uint64{0, 1, 501}) {
			t.Errorf("%s: with item 0 the most frequent items are %v", name, got)
		}
		if got := mostFrequent(tally, 1000, false); len(got) != 200 {
			t.Errorf("%s: %d items were counted, want 200", name, len(got))
		}
	}
	if got := mostFrequent(newTally(10), 5, true); len(got) != 0 {
		t.Errorf("of no items %v are the most frequent", got)
	}
}

func TestFullSketchTakesTheMedianOffEveryCount(t *testing.T) {
	s := newSketch(4)
	s.add(13, 25)
	for item := range uint64(12) {
		s.add(item, 10)
	}
	s.each(func(item, count uint64) {
		if item != 13 || count != 15 {
			t.Errorf("item %d is left with a count of %d, want 13 with 15 alone", item, count)
		}
	})
	if s.used != 1 {
		t.Errorf("%d counters are in use", s.used)
	}
}

func TestSketchKeepsWhatIsFrequentAmongMillions(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	s := newSketch(10)
	frequent := []uint64{7 << 40, 3 << 50, 5, 1 << 63}
	items := make([]uint64, 200)
	for range 5000 { // 1,000,000 items, nearly all of them once
		for i := range items {
			items[i] = r.Uint64()
		}
		for i, item := range frequent { // 2.0, 1.5, 1.0 and 0.5 %
			for k := range 4 - i {
				items[i*10+k] = item
			}
		}
		s.count(items)
	}
	if got := mostFrequent(s, 4, false); !slices.Equal(got, frequent) {
		t.Errorf("the most frequent items are %x, want %x", got, frequent)
	}
}

func TestFallbackItems(t *testing.T) {
	users := []user{{id: 0, items: []uint64{0, 4, 7, 2}}, {id: 1, items: []uint64{0, 4, 7}}, {id: 2, items: []uint64{0, 4}}}
	for name, c := range map[string]struct {
		o    Options
		want []uint64
	}{
		"counted":         {Options{}, []uint64{4, 7, 2}},
		"the first two":   {Options{Fallback: 2}, []uint64{4, 7}},
		"none":            {Options{Fallback: -1}, nil},
		"given":           {Options{Fallbacks: []uint64{9, 1}}, []uint64{9, 1}},
		"given as none":   {Options{Fallbacks: []uint64{}}, nil},
		"names":           {Options{Items: String, Fallback: 2, Names: names(11, func(uint64) string { return "n" })}, []uint64{0, 4}},
		"beyond counters": {Options{MaxItem: 1 << 40}, []uint64{4, 7, 2}},
	} {
		c.o.UserCount, c.o.MaxUser, c.o.MaxItem = 3, 2, max(c.o.MaxItem, 10)
		path, _ := write(t, c.o, users)
		if got := open(t, path).Fallback(); !slices.Equal(got, c.want) {
			t.Errorf("%s: the fallback items are %v, want %v", name, got, c.want)
		}
	}
}

func TestIndexThatPointsElsewhereFindsNobodyElse(t *testing.T) {
	// Every entry points to rank 0: only the user of rank 0 may be found.
	for _, kind := range []string{"hashed", "named"} {
		data := slices.Clone(examples(t)[kind])
		h, err := decodeHeader(data, uint64(len(data)))
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

package arms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// added is one call of Add, AddCounts or AddUser.
type added struct {
	level   Level
	key     Key
	a, b    float64
	counts  bool
	segment string // of a user
}

// put calls the Writer.
func put(t testing.TB, w *Writer, rows []added) {
	t.Helper()
	for _, r := range rows {
		var err error
		switch {
		case r.segment != "":
			err = w.AddUser(r.key, r.segment)
		case r.counts:
			err = w.AddCounts(r.level, r.key, r.a, r.b)
		default:
			err = w.Add(r.level, r.key, r.a, r.b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write writes a file of these rows.
func write(t testing.TB, o Options, rows []added) (path string, stats Stats) {
	t.Helper()
	dir := t.TempDir()
	path, o.TempDir = filepath.Join(dir, "arms.weir"), filepath.Join(dir, "temp")
	if err := os.Mkdir(o.TempDir, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	put(t, w, rows)
	if stats, err = w.Commit(nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, o.TempDir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".tmp") {
				t.Errorf("%s is left over", e.Name())
			}
		}
	}
	return path, stats
}

// load opens and loads a file.
func load(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Load(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// hard returns keys of all kinds: spread ones, some that share a home, some of the very last home, and
// numbers.
func hard(r *rand.Rand, n int) []Key {
	seen := make(map[Key]bool)
	var keys []Key
	add := func(k Key) {
		if !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	for len(keys) < n {
		hi := max(1, r.Uint64()>>(32+r.IntN(32))) << keptShift
		switch r.IntN(4) {
		case 0:
			add(Key{r.Uint64(), hi})
		case 1:
			add(NumberKey(r.Uint64N(uint64(n))))
		case 2: // one home, and even one order
			add(Key{0x0123456789abcdef ^ hi, hi})
		case 3: // the last home, or the first
			add(Key{-r.Uint64N(2) ^ hi, hi})
		}
	}
	return keys
}

// checkFile compares a file with a map.
func checkFile(t *testing.T, f *File, arms map[Key][2]float64, users map[Key]string, others []Key) {
	t.Helper()
	for k, want := range arms {
		if a, b, ok := f.Find(k); !ok || a != want[0] || b != want[1] {
			t.Fatalf("arm %x is %v %v, %t, want %v", k, a, b, ok, want)
		}
	}
	for k, want := range users {
		s, ok := f.Segment(k)
		if !ok || s.Name != want || s.Scope != SegmentScope(KeyOf([]byte(want))) {
			t.Fatalf("user %x is of %+v, %t, want %s", k, s, ok, want)
		}
	}
	for _, k := range others {
		if _, ok := arms[k]; !ok {
			if a, b, ok := f.Find(k); ok {
				t.Fatalf("arm %x was never added and is %v %v", k, a, b)
			}
		}
		if _, ok := users[k]; !ok {
			if s, ok := f.Segment(k); ok {
				t.Fatalf("user %x was never added and is of %v", k, s)
			}
		}
	}
}

func TestAFileHoldsWhatWasAdded(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range []struct{ arms, users int }{{1, 0}, {0, 1}, {0, 0}, {1, 1}, {2, 3}, {10, 10},
		{63, 100}, {1000, 1}, {5000, 7000}, {20_000, 0}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var rows []added
			arms, users := make(map[Key][2]float64), make(map[Key]string)
			want := Stats{}
			segments := make(map[string]bool)
			for _, k := range hard(r, size.arms) {
				row := added{level: Level(r.IntN(3)), key: k, a: math.Exp(min(r.NormFloat64(), 1) * 20),
					b: math.Exp(min(r.NormFloat64(), 1) * 20)}
				arms[k] = [2]float64{row.a, row.b}
				want.Arms++
				switch row.level {
				case Segmented:
					want.SegmentArms++
				case Pair:
					want.UserArms++
				}
				rows = append(rows, row)
			}
			for _, k := range hard(r, size.users) {
				row := added{key: k, segment: fmt.Sprintf("segment %d", r.IntN(300))}
				users[k], segments[row.segment] = row.segment, true
				want.Users++
				rows = append(rows, row)
			}
			r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			path, stats := write(t, Options{}, rows)
			want.Segments = uint64(len(segments))
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			want.Bytes = info.Size()
			f := load(t, path)
			if stats != want || f.Stats() != want {
				t.Errorf("stats are %+v and %+v, want %+v", stats, f.Stats(), want)
			}
			if len(f.Segments()) != len(segments) {
				t.Errorf("there are the segments %v", f.Segments())
			}
			checkFile(t, f, arms, users, append(hard(r, 2000), Key{0, numberHalf},
				Key{math.MaxUint64, math.MaxUint64}))
		})
	}
}

func TestRowsBeyondMemoryGoThroughATemporaryFile(t *testing.T) {
	// All of these are of one part, which holds 4096 rows in memory; and those of one key are far apart.
	const n = 2*4096 + 17
	var rows []added
	arms := make(map[Key][2]float64)
	for i := range uint64(n) {
		k := Key{i * 7919 % n << 20 << 8, numberHalf}
		rows = append(rows, added{key: k, a: float64(i + 1), b: 1})
		arms[k] = [2]float64{float64(i + 1), 1}
	}
	t.Run("once", func(t *testing.T) {
		path, _ := write(t, Options{}, rows)
		checkFile(t, load(t, path), arms, nil, nil)
	})
	for _, d := range []Duplicates{Last, Sum} {
		t.Run(fmt.Sprint("again ", d), func(t *testing.T) {
			var twice []added
			want := make(map[Key][2]float64)
			for i, r := range rows {
				twice = append(twice, r)
				if i%3 > 0 {
					r.a, r.b = 1000, 2000
				}
				want[r.key] = [2]float64{r.a, r.b}
			}
			for i, r := range rows {
				if i%3 == 0 {
					continue
				}
				sum := arms[r.key]
				if twice = append(twice, added{key: r.key, a: 1000, b: 2000}); d == Sum {
					want[r.key] = [2]float64{sum[0] + 1000, sum[1] + 2000}
				}
			}
			path, stats := write(t, Options{Duplicates: d}, twice)
			if stats.Arms != n {
				t.Errorf("%d arms, want %d", stats.Arms, n)
			}
			checkFile(t, load(t, path), want, nil, nil)
		})
	}
	t.Run("thrown away", func(t *testing.T) {
		dir := t.TempDir()
		w, err := Create(filepath.Join(dir, "arms.weir"), Options{TempDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, rows)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || w.arms.file == nil {
			t.Errorf("in between there are %v %v, want the new file, and a temporary one without a name",
				entries, err)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left over: %v %v", entries, err)
		}
	})
}

func TestDuplicates(t *testing.T) {
	k, other := NumberKey(1), NumberKey(2)
	rows := []added{{key: other, a: 9, b: 9}, {key: k, a: 2, b: 3}, {key: k, a: 10, b: 20, counts: true},
		{key: k, a: 100, b: 200, counts: true}}
	prior := [2]float64{0.5, 1.5}
	for _, c := range []struct {
		name string
		d    Duplicates
		rows []added
		want [2]float64
	}{
		{"last is counts", Last, rows, [2]float64{100.5, 201.5}},
		{"last is shapes", Last, []added{rows[0], rows[3], rows[1]}, [2]float64{2, 3}},
		{"counts and the prior once", Sum, []added{rows[0], rows[2], rows[3]}, [2]float64{110.5, 221.5}},
		{"shapes have a prior already", Sum, rows, [2]float64{112, 223}},
		{"counts before shapes", Sum, []added{rows[0], rows[3], rows[1], rows[2]}, [2]float64{112, 223}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, stats := write(t, Options{Duplicates: c.d, Prior: prior}, c.rows)
			checkFile(t, load(t, path), map[Key][2]float64{k: c.want, other: {9, 9}}, nil,
				[]Key{NumberKey(3)})
			if stats.Arms != 2 {
				t.Errorf("%d arms, want 2", stats.Arms)
			}
		})
	}
	refused := func(t *testing.T, rows []added, want DuplicateError) {
		path := filepath.Join(t.TempDir(), "arms.weir")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Create(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		put(t, w, rows)
		_, err = w.Commit(nil)
		var twice *DuplicateError
		if !errors.As(err, &twice) || *twice != want {
			t.Errorf("Commit: %v, want %+v", err, want)
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != "old" {
			t.Errorf("the file that was there holds %q, %v", old, err)
		}
	}
	t.Run("refused", func(t *testing.T) { refused(t, rows[:3], DuplicateError{First: 1, Second: 2}) })
	users := []added{{key: NumberKey(5), segment: "b"}, {key: k, segment: "a"}, {key: other, segment: "a"},
		{key: k, segment: "c"}}
	t.Run("users refused", func(t *testing.T) {
		refused(t, append(users, rows[0]), DuplicateError{User: true, First: 1, Second: 3})
	})
	for _, d := range []Duplicates{Last, Sum} {
		t.Run(fmt.Sprint("of users the last counts ", d), func(t *testing.T) {
			path, stats := write(t, Options{Duplicates: d}, append(users, rows[0]))
			checkFile(t, load(t, path), nil, map[Key]string{k: "c", other: "a", NumberKey(5): "b"}, nil)
			if stats.Segments != 3 {
				t.Errorf("%d segments, want 3", stats.Segments)
			}
			// Nobody is left in a.
			path, stats = write(t, Options{Duplicates: d}, append(users, added{key: other, segment: "b"}))
			f := load(t, path)
			checkFile(t, f, nil, map[Key]string{k: "c", other: "b", NumberKey(5): "b"}, nil)
			if n := len(f.Segments()); stats.Segments != 2 || n != 2 {
				t.Errorf("%d segments are written and %d read, want 2", stats.Segments, n)
			}
		})
	}
}

func TestTheOrderOfRowsDoesNotShow(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var rows []added
	for i, k := range hard(r, 20_000) {
		rows = append(rows, added{level: Level(i % 3), key: k, a: r.Float64() + 0.1, b: r.Float64() + 0.1,
			counts: i%5 == 0})
	}
	for i, k := range hard(r, 3000) {
		rows = append(rows, added{key: k, segment: fmt.Sprint("segment ", i%7)})
	}
	read := func() []byte {
		path, _ := write(t, Options{Prior: [2]float64{1, 2}}, rows)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := read()
	for range 3 {
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if !bytes.Equal(first, read()) {
			t.Fatal("another order gives another file")
		}
	}
}

func TestWhatIsBeyondTheLastHomeIsFound(t *testing.T) {
	// A hundred arms whose home is the last cell of homes, and as many users.
	var rows []added
	arms, users := make(map[Key][2]float64), make(map[Key]string)
	var missing []Key
	for i := range uint64(200) {
		k := Key{math.MaxUint64 ^ (i+1)<<keptShift, (i + 1) << keptShift}
		if k.place(1000) != 999 {
			t.Fatal("not the last home")
		}
		if i%2 == 0 {
			missing = append(missing, k)
			continue
		}
		rows = append(rows, added{key: k, a: float64(i), b: 1}, added{key: k, segment: "s"})
		arms[k], users[k] = [2]float64{float64(i), 1}, "s"
	}
	path, _ := write(t, Options{}, rows)
	checkFile(t, load(t, path), arms, users, missing)
}

func TestALimitOfTheWriterIsAnError(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "arms.weir"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, name := range []string{"", strings.Repeat("x", MaxName+1)} {
		if err := w.AddUser(NumberKey(1), name); err == nil {
			t.Errorf("a segment with a name of %d bytes was taken", len(name))
		}
	}
	for i := range MaxSegments {
		if err := w.AddUser(NumberKey(uint64(i)), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddUser(NumberKey(MaxSegments), "one more"); err == nil {
		t.Error("a segment too many was taken")
	}
	if err := w.AddUser(NumberKey(MaxSegments), "77"); err != nil {
		t.Errorf("a segment that there is: %v", err)
	}
	if _, err := w.Commit(nil); err != nil {
		t.Fatal(err)
	}
}

func TestGreatShapesKeepTheirMean(t *testing.T) {
	path, _ := write(t, Options{}, []added{{key: NumberKey(1), a: 1e9, b: 3e9},
		{key: NumberKey(2), a: 5e-324, b: math.MaxFloat64}})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, ok := f.Find(NumberKey(1)); !ok || b != MaxShape || math.Abs(a/b-1./3) > 1e-15 {
		t.Errorf("Beta(1e9, 3e9) is Beta(%v, %v), %t", a, b, ok)
	}
	if a, b, ok := f.Find(NumberKey(2)); !ok || a <= 0 || b != MaxShape {
		t.Errorf("Beta(5e-324, 1.8e308) is Beta(%v, %v), %t", a, b, ok)
	}
}

func TestSumsThatAreNoShapesAreRefused(t *testing.T) {
	for _, rows := range [][]added{
		{{key: NumberKey(1), a: 1e308, b: 1}, {key: NumberKey(1), a: 1e308, b: 1}},
		{{key: NumberKey(1), a: 0, b: 1}},
		{{key: NumberKey(1), a: 1, b: math.NaN()}},
		{{key: NumberKey(1), a: math.MaxFloat64, b: 1, counts: true}},
	} {
		path := filepath.Join(t.TempDir(), "arms.weir")
		w, err := Create(path, Options{Duplicates: Sum, Prior: [2]float64{1e308, 1}})
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, rows)
		if _, err := w.Commit(nil); err == nil {
			t.Errorf("%+v was written", rows)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a file: %v", err)
		}
	}
}

func TestLoadSaysHowFarItIs(t *testing.T) {
	path, stats := write(t, Options{},
		[]added{{key: NumberKey(1), a: 1, b: 1}, {key: NumberKey(1), segment: "s"}})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	if err := f.Load(t.Context(), func(done, total int64) {
		if all = append(all, done); total != stats.Bytes {
			t.Errorf("%d in all, want %d", total, stats.Bytes)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(all) || len(all) != 2 {
		t.Errorf("progress was %v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Load(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("loading that was called off: %v", err)
	}
}

func TestAFileIsReadWhenItsNameIsGone(t *testing.T) {
	path, _ := write(t, Options{}, []added{{key: NumberKey(1), a: 2, b: 3}})
	f := load(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC() // of Files that nobody has any more, which this is not
		checkFile(t, f, map[Key][2]float64{NumberKey(1): {2, 3}}, nil, nil)
	}
}

func TestAnItemSaysForWhichScopesItMayHaveArms(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	w, err := Create(path, Options{TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	scope := func(name string) Scope { return SegmentScope(KeyOf([]byte(name))) }
	both, alone, plain := NumberKey(1), NumberKey(2), NumberKey(3)
	for _, err := range []error{
		w.Add(Item, both, 2, 3), w.Hint(both, scope("s")), w.Add(Segmented, scope("s").Key(both), 4, 5),
		w.Hint(alone, scope("s")), w.Hint(alone, scope("t")), w.Add(Segmented, scope("s").Key(alone), 6, 7),
		w.Add(Segmented, scope("t").Key(alone), 6, 7),
		w.Add(Item, plain, 8, 9),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stats, err := w.Commit(nil)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Arms != 5 || stats.SegmentArms != 3 {
		t.Errorf("%+v, want 5 arms, 3 of them of segments: what is only a hint is no arm", stats)
	}
	f := load(t, path)
	for _, c := range []struct {
		name        string
		item        Key
		alpha, beta float64
		ok          bool
		may         []string
	}{{"with its own", both, 2, 3, true, []string{"s"}}, {"without", alone, 0, 0, false, []string{"s", "t"}},
		{"plain", plain, 8, 9, true, nil}} {
		alpha, beta, scopes, ok := f.FindItem(c.item)
		if alpha != c.alpha || beta != c.beta || ok != c.ok {
			t.Errorf("item %s: %v %v %v", c.name, alpha, beta, ok)
		}
		want := Mask(0)
		for _, s := range c.may {
			want |= scope(s).Mask()
			if !scopes.MayHave(scope(s)) {
				t.Errorf("item %s may have no arm for %s", c.name, s)
			}
		}
		if scopes != want {
			t.Errorf("item %s: mask %b, want %b", c.name, scopes, want)
		}
	}
	if _, _, ok := f.Find(alone); ok {
		t.Error("an item that has arms for segments alone has one of its own")
	}
}

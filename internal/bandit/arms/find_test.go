package arms

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// checkAll asks for keys at once, in both ways, and compares with what Find and FindItem say of each.
func checkAll(t testing.TB, f *File, keys []Key) {
	t.Helper()
	for name, inHomes := range map[string]func(*table, []Key, *Found) int{"picked": (*table).inHomes, "Go": (*table).inHomesGo} {
		const guard = -7
		found := Found{Scopes: []Mask{}}
		found.Size(len(keys) + 3)
		for i := range found.Alpha {
			found.Alpha[i], found.Beta[i], found.Scopes[i], found.beyond[i] = guard, guard, 12345, guard
		}
		f.findAll(&found, keys, inHomes)
		if len(found.Alpha) != len(keys) || len(found.Beta) != len(keys) || len(found.Scopes) != len(keys) {
			t.Fatalf("%s: of %d keys there are %d alphas, %d betas and %d masks", name, len(keys), len(found.Alpha), len(found.Beta), len(found.Scopes))
		}
		for i, k := range keys {
			a, b, scopes, ok := f.FindItem(k)
			if found.Alpha[i] != a || found.Beta[i] != b || found.Scopes[i] != scopes || ok != (found.Alpha[i] > 0) {
				t.Fatalf("%s: key %d of %d, %x, is %v %v %v, want %v %v %v", name, i, len(keys), k, found.Alpha[i], found.Beta[i], found.Scopes[i], a, b, scopes)
			}
		}
		for i := range found.Alpha[len(keys) : len(keys)+3] {
			if i += len(keys); found.Alpha[:i+1][i] != guard || found.Beta[:i+1][i] != guard || found.Scopes[:i+1][i] != 12345 || found.beyond[:i+1][i] != guard {
				t.Fatalf("%s: what is behind the %d keys was written to", name, len(keys))
			}
		}
	}
}

func TestManyKeysAreFoundAsEachIs(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, size := range []int{0, 1, 2, 5, 63, 1000, 20_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var rows []added
			there := hard(r, size)
			for _, k := range there {
				rows = append(rows, added{Item, k, 0.5 + r.Float64(), 1 + r.Float64(), false, ""})
			}
			path, _ := write(t, Options{}, rows)
			f := load(t, path)
			keys := append(slices.Clone(there), hard(r, 100+size/2)...)
			for _, k := range there[:min(len(there), 50)] { // nearly the same
				keys = append(keys, Key{k.Lo ^ 1, k.Hi}, Key{k.Lo, k.Hi ^ 1<<keptShift}, Key{k.Lo, k.Hi ^ 1}, Key{k.Lo ^ 1<<keptShift, k.Hi ^ 1<<keptShift})
			}
			r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			keys = slices.DeleteFunc(keys, func(k Key) bool { return k.Hi>>keptShift == 0 })
			for n := range min(2*ahead+3, len(keys)) {
				checkAll(t, f, keys[:n])
			}
			checkAll(t, f, keys)
		})
	}
}

// FuzzFindAll looks into cells that anybody may have written, in any order, for keys that are there and
// others.
func FuzzFindAll(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, cells, others []byte) {
		cells = append(cells[:len(cells)/cellBytes*cellBytes:len(cells)/cellBytes*cellBytes], make([]byte, cellBytes)...)
		file := &File{arms: table{cells, uint64(len(cells)/cellBytes-1) / homeCells}}
		keys := words(others)
		for at := 0; at < len(cells); at += cellBytes {
			// Shapes are of no interest, but that NaN is not NaN.
			copy(cells[at+16:], "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x40")
			cells[at+23] |= cells[at] & 0x3f
			keys = append(keys, words(cells[at:at+16])...)
		}
		copy(cells[len(cells)-cellBytes:], make([]byte, cellBytes))
		checkAll(t, file, keys)
	})
}

// BenchmarkFindAll looks for 400 random items of a file of a million. With ARMS it is that of the
// environment, whose items are those of bench.
func BenchmarkFindAll(b *testing.B) {
	const items, asked, sets = 1_000_000, 400, 500
	r := rand.New(rand.NewPCG(1, 1))
	ids := make([]uint64, items)
	for i := range ids {
		ids[i] = 10*uint64(i) + r.Uint64N(10) + 1
	}
	path := os.Getenv("ARMS")
	if path == "" {
		rows := make([]added, 0, items)
		for _, id := range ids {
			rows = append(rows, added{Item, NumberKey(id), 1, 2, false, ""})
		}
		path, _ = write(b, Options{}, rows)
	}
	f := load(b, path)
	keys := make([][]Key, sets)
	for i := range keys {
		for range asked {
			keys[i] = append(keys[i], NumberKey(ids[r.IntN(items)]))
		}
	}
	var found Found
	for name, inHomes := range map[string]func(*table, []Key, *Found) int{"picked": (*table).inHomes, "Go": (*table).inHomesGo} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f.findAll(&found, keys[i%sets], inHomes)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/asked, "ns/key")
		})
	}
	b.Run("each", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			for j, k := range keys[i%sets] {
				found.Alpha[j], found.Beta[j], _, _ = f.FindItem(k)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/asked, "ns/key")
	})
}

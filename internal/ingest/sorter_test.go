package ingest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// sorted runs rows through a Sorter and returns the values of every key, having checked the order
// of the keys.
func sorted(t *testing.T, s *Sorter) map[string][]uint64 {
	t.Helper()
	n, err := s.CountKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]uint64{}
	var last []byte
	err = s.Merge(t.Context(), nil, func(g *Groups) error {
		from := 0
		for i, end := range g.Ends {
			var key []byte
			if s.o.Keys == String {
				key = bytes.Clone(g.Keys.String(i))
			} else {
				key = fmt.Appendf(nil, "%020d", g.Keys.Numbers[i])
			}
			if last != nil && bytes.Compare(last, key) >= 0 {
				t.Fatalf("key %q comes after %q", key, last)
			}
			last = key
			got[string(key)] = slices.Clone(g.Values[from:end])
			from = int(end)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(got)) != n {
		t.Fatalf("%d keys were counted and %d came", n, len(got))
	}
	return got
}

// testKey makes a key column's next value of a random number, and names it as sorted does.
func testKey(c *Column, kind Kind, k uint64) string {
	if kind == String {
		name := fmt.Sprintf("k%x", k)
		c.appendText([]byte(name))
		return name
	}
	c.Numbers = append(c.Numbers, k)
	return fmt.Sprintf("%020d", k)
}

// TestSorterAgainstMemory sorts rows and lists of every width with room for a few hundred at a time
// and compares with a stable sort in memory.
func TestSorterAgainstMemory(t *testing.T) {
	type row struct {
		key   string
		value uint64
		order float64
	}
	minusZero := math.Copysign(0, -1)
	mixed := func(r *rand.Rand, x float64) float64 {
		return []float64{x, 0, minusZero, 0.25, math.Inf(-1), -0.5}[r.IntN(6)]
	}
	orders := map[string]func(r *rand.Rand, batch int) float64{
		"none":  nil,
		"ranks": func(r *rand.Rand, _ int) float64 { return float64(r.IntN(50)) },
		"small": func(r *rand.Rand, _ int) float64 { return mixed(r, float64(float32(r.NormFloat64()))) },
		"wide":  func(r *rand.Rand, _ int) float64 { return mixed(r, r.NormFloat64()) },
		// Runs of both widths are merged.
		"late": func(r *rand.Rand, batch int) float64 {
			if batch < 50 {
				return mixed(r, float64(float32(r.NormFloat64())))
			}
			return mixed(r, r.NormFloat64())
		},
	}
	for _, kind := range []Kind{Number, String} {
		for name, order := range orders {
			for _, bits := range []uint64{4, 9, 31, 64} {
				for _, mode := range []string{"rows", "lists"} {
					if mode == "lists" && order != nil {
						continue
					}
					t.Run(fmt.Sprintf("%v/%s/%s/%d bits", kind, mode, name, bits), func(t *testing.T) {
						r := rand.New(rand.NewPCG(bits, uint64(len(name))))
						memory := int64(200 << 10)
						if kind == String {
							memory = 1200 << 10 // a table of strings takes 256 KiB at least
						}
						s, err := NewSorter(SortOptions{Dir: t.TempDir(), Memory: memory, Keys: kind})
						if err != nil {
							t.Fatal(err)
						}
						defer s.Close()
						var all []row
						want := map[string][]uint64{}
						for batch := range 100 {
							// Wide values turn up late, so that runs of both widths are merged.
							width := bits
							if batch < 50 {
								width = min(bits, 31)
							}
							draw := func() uint64 { return r.Uint64() >> (64 - width) }
							var keys, values Column
							var by []float64
							for range r.IntN(300) {
								k := testKey(&keys, kind, draw())
								if mode == "lists" {
									want[k] = append(want[k], []uint64{}...)
									for range r.IntN(5) {
										v := draw()
										values.Numbers = append(values.Numbers, v)
										want[k] = append(want[k], v)
									}
									values.Lists = append(values.Lists, uint32(len(values.Numbers)))
									continue
								}
								v := row{key: k, value: draw()}
								values.Numbers = append(values.Numbers, v.value)
								if order != nil {
									v.order = order(r, batch)
									by = append(by, v.order)
								}
								all = append(all, v)
							}
							if mode == "lists" {
								err = s.AddLists(0, &keys, values.Numbers, values.Lists)
							} else {
								if order != nil && by == nil {
									by = []float64{}
								}
								err = s.AddRows(0, &keys, values.Numbers, by)
							}
							if err != nil {
								t.Fatal(err)
							}
						}
						slices.SortStableFunc(all, func(a, b row) int {
							return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order))
						})
						for _, v := range all {
							want[v.key] = append(want[v.key], v.value)
						}
						got := sorted(t, s)
						if len(s.runs) < 2 {
							t.Errorf("%d runs: nothing was merged", len(s.runs))
						}
						if !maps.EqualFunc(got, want, slices.Equal[[]uint64]) {
							for k := range want {
								if !slices.Equal(got[k], want[k]) {
									t.Fatalf("key %s has %v, want %v", k, got[k], want[k])
								}
							}
							t.Fatalf("%d keys, want %d", len(got), len(want))
						}
					})
				}
			}
		}
	}
}

func TestSorterKeepsApart(t *testing.T) {
	add := func(s *Sorter, lists bool, source int, keys ...uint64) error {
		c := &Column{Numbers: keys}
		if lists {
			ends := make([]uint32, len(keys))
			for i := range ends {
				ends[i] = uint32(i + 1)
			}
			return s.AddLists(source, c, keys, ends)
		}
		return s.AddRows(source, c, keys, nil)
	}
	for _, tt := range []struct {
		name          string
		lists         bool
		first, second []uint64
		want          *SharedKeyError
	}{
		{"rows of one source", false, []uint64{5, 6, 5}, []uint64{7, 8}, nil},
		{"rows of two", false, []uint64{5, 6, 5}, []uint64{7, 6}, &SharedKeyError{"6", 3, 4}},
		{"lists of one source", true, []uint64{5, 6, 5}, []uint64{7}, &SharedKeyError{"5", 3, 3}},
		{"lists of two", true, []uint64{5, 6}, []uint64{7, 5}, &SharedKeyError{"5", 3, 4}},
		{"lists apart", true, []uint64{5, 6}, []uint64{7, 8}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := NewSorter(SortOptions{Dir: t.TempDir(), Memory: 1 << 20, Keys: Number, Apart: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := errors.Join(add(s, tt.lists, 3, tt.first...),
				add(s, tt.lists, 4, tt.second...)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CountKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
			err = s.Merge(t.Context(), nil, func(*Groups) error { return nil })
			var got *SharedKeyError
			if errors.As(err, &got); tt.want == nil && err != nil || tt.want != nil &&
				(got == nil || *got != *tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// One key with all the rows there are is what a bug upstream makes, and must not take all the memory there
// is.
func TestSorterKeepsOnlySoManyValuesOfOneKey(t *testing.T) {
	const batch = 1 << 16
	keys := &Column{Numbers: make([]uint64, batch)}
	values := make([]uint64, batch)
	order := make([]float64, batch)
	for i := range batch {
		keys.Numbers[i], values[i], order[i] = 5, uint64(i), 0.1*float64(i) // an order of 64 bits
	}
	const memory = 4 << 20
	s, err := NewSorter(SortOptions{Dir: t.TempDir(), Memory: memory, Keys: Number})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	add := func(key, value uint64) {
		t.Helper()
		if err := s.AddRows(0, &Column{Numbers: []uint64{key}}, []uint64{value}, []float64{0}); err != nil {
			t.Fatal(err)
		}
	}
	add(4, 40)
	batches := int(MostValues(memory)/batch) + 3
	for range batches {
		if err := s.AddRows(0, keys, values, order); err != nil {
			t.Fatal(err)
		}
		add(6, 60)
	}
	add(7, 70)
	if n, err := s.CountKeys(t.Context()); n != 4 || err != nil {
		t.Fatalf("%d keys, %v", n, err)
	}
	seen := map[uint64]int{}
	err = s.Merge(t.Context(), nil, func(g *Groups) error {
		from := uint32(0)
		for i, end := range g.Ends {
			key := g.Keys.Numbers[i]
			seen[key] = int(end - from)
			if key == 5 {
				if got := g.Cut[i]; got != uint64(batches*batch) {
					t.Errorf("it says %d values, want %d", got, batches*batch)
				}
			} else {
				for _, v := range g.Values[from:end] {
					if v != key*10 {
						t.Errorf("key %d has value %d", key, v)
					}
				}
				if _, cut := g.Cut[i]; cut {
					t.Errorf("key %d was cut", key)
				}
			}
			from = end
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen[4] != 1 || seen[6] != batches || seen[7] != 1 || seen[5] == 0 ||
		seen[5] > int(MostValues(memory)) {
		t.Errorf("values by key: %v", seen)
	}
}

func TestHowManyValuesOfAKeyThereMayBe(t *testing.T) {
	for memory, want := range map[int64]uint64{1 << 10: 262_144, 32 << 20: 262_144, 64 << 20: 524_288,
		512 << 20: 4_194_304, 1 << 40: 4_194_304} {
		if got := MostValues(memory); got != want {
			t.Errorf("with %d bytes %d values, want %d", memory, got, want)
		}
	}
}

func TestSorterLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSorter(SortOptions{Dir: dir, Memory: 1 << 20, Keys: Number})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddRows(0, &Column{Numbers: []uint64{1}}, []uint64{2}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSorterSaysWhenMemoryIsTooLittle(t *testing.T) {
	s, err := NewSorter(SortOptions{Dir: t.TempDir(), Memory: 1 << 10, Keys: Number})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddRows(0, &Column{Numbers: []uint64{1}}, []uint64{2}, nil); err != nil {
		t.Fatal(err)
	}
	want := "1 runs cannot be merged in 1024 bytes of memory: raise --memory"
	if _, err := s.CountKeys(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTableNumbersStringsOnce(t *testing.T) {
	table := NewTable()
	r := rand.New(rand.NewPCG(1, 2))
	numbers := map[string]uint32{}
	for range 20000 {
		s := fmt.Sprintf("%0*d", 1+r.IntN(200), r.IntN(3000))
		n := table.Add([]byte(s))
		if old, seen := numbers[s]; seen && n != old || !seen && int(n) != len(numbers) {
			t.Fatalf("%s is number %d of %d, was %d (%v)", s, n, len(numbers), old, seen)
		}
		numbers[s] = n
		if string(table.Get(n)) != s {
			t.Fatalf("number %d is %q, want %q", n, table.Get(n), s)
		}
	}
	if table.Len() != len(numbers) {
		t.Errorf("%d strings, want %d", table.Len(), len(numbers))
	}
	if got := slices.Collect(table.All(table.Sorted())); !slices.Equal(got,
		slices.Sorted(maps.Keys(numbers))) {
		t.Error("the strings are not in the order of their bytes")
	}
	table.reset()
	if n := table.Add([]byte("again")); n != 0 || table.Len() != 1 {
		t.Errorf("after a reset the first is number %d of %d", n, table.Len())
	}
}

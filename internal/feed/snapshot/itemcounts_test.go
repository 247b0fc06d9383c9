package snapshot

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMostFrequentItems(t *testing.T) {
	// Item i occurs 1000/i times and so does i+500, so that there are ties; 0 is the most frequent of all.
	var items []uint64
	for i := uint64(1); i <= 100; i++ {
		for range 1000 / i {
			items = append(items, i+500, i, 0)
		}
	}
	want := []uint64{1, 501, 2, 502, 3, 503, 4}
	for name, itemCounts := range map[string]itemCounts{"exact": newItemCounts(1000),
		"sketch": newItemCounts(exactBelow), "small sketch": newSketch(9)} {
		r := rand.New(rand.NewPCG(14, 1))
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		itemCounts.count(items)
		if got := mostFrequent(itemCounts, 7, false); !slices.Equal(got, want) {
			t.Errorf("%s: the most frequent items are %v, want %v", name, got, want)
		}
		if got := mostFrequent(itemCounts, 3, true); !slices.Equal(got, []uint64{0, 1, 501}) {
			t.Errorf("%s: with item 0 the most frequent items are %v", name, got)
		}
		if got := mostFrequent(itemCounts, 1000, false); len(got) != 200 {
			t.Errorf("%s: %d items were counted, want 200", name, len(got))
		}
	}
	if got := mostFrequent(newItemCounts(10), 5, true); len(got) != 0 {
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
	users := []user{{id: 0, items: []uint64{0, 4, 7, 2}}, {id: 1, items: []uint64{0, 4, 7}},
		{id: 2, items: []uint64{0, 4}}}
	for name, c := range map[string]struct {
		o    Options
		want []uint64
	}{
		"counted":       {Options{}, []uint64{4, 7, 2}},
		"the first two": {Options{Fallback: 2}, []uint64{4, 7}},
		"none":          {Options{Fallback: -1}, nil},
		"given":         {Options{Fallbacks: []uint64{9, 1}}, []uint64{9, 1}},
		"given as none": {Options{Fallbacks: []uint64{}}, nil},
		"names": {Options{Items: String, Fallback: 2,
			Names: names(11, func(uint64) string { return "n" })}, []uint64{0, 4}},
		"beyond counters": {Options{MaxItem: 1 << 40}, []uint64{4, 7, 2}},
	} {
		c.o.UserCount, c.o.MaxUser, c.o.MaxItem = 3, 2, max(c.o.MaxItem, 10)
		path, _ := write(t, c.o, users)
		if got := open(t, path).Fallback(); !slices.Equal(got, c.want) {
			t.Errorf("%s: the fallback items are %v, want %v", name, got, c.want)
		}
	}
}

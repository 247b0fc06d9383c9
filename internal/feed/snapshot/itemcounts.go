package snapshot

import (
	"slices"
)

// itemCounts counts items as lists are written, to find the most frequent ones.
type itemCounts interface {
	count(items []uint64)
	// each calls fn for items in ascending order with their counts.
	each(fn func(item, count uint64))
}

// exactBelow is the largest range of items counted exactly, four bytes each: 64 MiB.
const exactBelow = 1 << 24

// sketchBits is the size of the sketch: 2^17 counters of 16 bytes.
const sketchBits = 17

func newItemCounts(maxItem uint64) itemCounts {
	if maxItem < exactBelow {
		return exactCounts(make([]uint32, maxItem+1))
	}
	return newSketch(sketchBits)
}

// mostFrequent is the n items of the highest counts, from the most frequent on; of equals the
// smaller one comes first. Item 0 is left out when zero is false.
func mostFrequent(t itemCounts, n int, zero bool) []uint64 {
	type counted struct{ item, count uint64 }
	var top []counted
	t.each(func(item, count uint64) {
		if count == 0 || item == 0 && !zero || len(top) == n && count <= top[n-1].count {
			return
		}
		at, _ := slices.BinarySearchFunc(top, count, func(c counted, count uint64) int {
			if c.count >= count {
				return -1
			}
			return 1
		})
		if len(top) == n {
			top = top[:n-1]
		}
		top = slices.Insert(top, at, counted{item, count})
	})
	items := make([]uint64, len(top))
	for i, c := range top {
		items[i] = c.item
	}
	return items
}

// exactCounts has a counter an item. A list holds an item once and there are fewer than 2^32
// lists, so that no counter overflows.
type exactCounts []uint32

func (t exactCounts) count(items []uint64) {
	for _, item := range items {
		t[item]++
	}
}

func (t exactCounts) each(fn func(item, count uint64)) {
	for item, count := range t {
		fn(uint64(item), uint64(count))
	}
}

// sketch counts the frequent items of a range too large for a counter each. It is the
// algorithm of Misra and Gries ("Finding Repeated Elements", 1982) with the decrements done for
// all at once, as in Anderson et al., "A High-Performance Algorithm for Identifying Frequent Items
// in Data Streams" (IMC 2017): a table of counters; when it is three quarters full, a sample of
// the counts gives about their median, which is taken off every counter, and what is not above 0
// leaves. An item's count is then too low by at most the sum of what was taken off, about
// 1/50,000 of all items counted with 2^17 counters; items above that share are never lost.
// Equal input gives equal counts.
type sketch struct {
	slots []sketchSlot // open addressing, linear probing; count 0 is free
	shift uint
	used  int
	spare []sketchSlot // for rebuilding
}

type sketchSlot struct{ item, count uint64 }

func newSketch(log2 uint) *sketch {
	return &sketch{slots: make([]sketchSlot, 1<<log2), spare: make([]sketchSlot, 0, 1<<log2),
		shift: 64 - log2}
}

func (t *sketch) count(items []uint64) {
	for _, item := range items {
		t.add(item, 1)
	}
}

func (t *sketch) add(item, count uint64) {
	for at := hashNumber(item) >> t.shift; ; at = (at + 1) & uint64(len(t.slots)-1) {
		s := &t.slots[at]
		if s.count == 0 {
			*s = sketchSlot{item, count}
			if t.used++; t.used > len(t.slots)/4*3 {
				t.shrink()
			}
			return
		}
		if s.item == item {
			s.count += count
			return
		}
	}
}

// shrink takes the sampled median off every counter and drops those it leaves nothing of: at
// least one, since the sample is of them.
func (t *sketch) shrink() {
	sample := make([]uint64, 0, 1024)
	for i := range t.slots {
		if c := t.slots[i].count; c != 0 {
			sample = append(sample, c)
			if len(sample) == cap(sample) {
				break
			}
		}
	}
	slices.Sort(sample)
	off := sample[len(sample)/2]
	t.spare = t.spare[:0]
	for _, s := range t.slots {
		if s.count > off {
			t.spare = append(t.spare, sketchSlot{s.item, s.count - off})
		}
	}
	clear(t.slots)
	t.used = 0
	for _, s := range t.spare {
		t.add(s.item, s.count)
	}
}

func (t *sketch) each(fn func(item, count uint64)) {
	kept := slices.DeleteFunc(slices.Clone(t.slots), func(s sketchSlot) bool { return s.count == 0 })
	slices.SortFunc(kept, func(a, b sketchSlot) int {
		if a.item < b.item {
			return -1
		}
		return 1
	})
	for _, s := range kept {
		fn(s.item, s.count)
	}
}

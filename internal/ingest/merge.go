package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// Groups are some keys, in ascending order, each with all of its values. They belong to Merge and
// are overwritten once the function they were handed to returns.
type Groups struct {
	Keys   Column   // Numbers or Text
	Values []uint64 // of all keys, in turn
	Ends   []uint32 // where the values of each key end
	// Cut says of keys that have more than [MostValues], by their index, how many they have. Values has
	// some of them.
	Cut map[int]uint64

	orders []uint64 // of the values of the last key
}

// MostValues returns how many values of one key Merge hands over, given SortOptions.Memory: 64 times as
// many as the longest list, for duplicates, or as many as a memory of less than 512 MiB has room for, but
// four times. All values of a key are in memory at a time, with what arranges them and what the caller
// makes of them some 60 bytes each, and a source may have one key in all of its rows.
func MostValues(memory int64) uint64 {
	return uint64(min(64<<16, max(4<<16, memory/128)))
}

// SharedKeyError says that a key is in two sources, or twice in one, and should not have been.
type SharedKeyError struct {
	Key string
	// First and Second are indices of sources; they are equal for two lists in one source.
	First, Second int
}

func (e *SharedKeyError) Error() string {
	return fmt.Sprintf("%s is in sources %d and %d", e.Key, e.First, e.Second)
}

// runReader reads the groups of a run in turn.
type runReader struct {
	run
	index                        int
	keyAt, countAt, valAt, ordAt cursor
	left                         uint64 // groups
	key                          uint64
	name                         []byte
}

// next goes to the next key. It is false after the last.
func (r *runReader) next() (bool, error) {
	if r.left == 0 {
		return false, nil
	}
	r.left--
	if r.stringsKeys {
		name, err := r.keyAt.text()
		r.name = append(r.name[:0], name...) // the cursor moves on before the name is compared
		return true, err
	}
	d, err := r.keyAt.varint()
	r.key += d
	return true, err
}

// compare orders readers by key and then by the order of the input.
func (r *runReader) compare(o *runReader) int {
	c := 0
	if r.stringsKeys {
		c = bytes.Compare(r.name, o.name)
	} else {
		c = cmp.Compare(r.key, o.key)
	}
	if c == 0 {
		c = cmp.Compare(r.index, o.index)
	}
	return c
}

// sameKey reports whether both are at one key.
func (r *runReader) sameKey(o *runReader) bool {
	if r.stringsKeys {
		return bytes.Equal(r.name, o.name)
	}
	return r.key == o.key
}

// heap keeps the reader with the least key in front.
type heap []*runReader

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].compare(h[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

const (
	leastBlock = 4 << 10
	mostBlock  = 4 << 20
)

// readers opens every run at its first key. withValues says whether more than keys will be read.
func (s *Sorter) readers(withValues bool) (heap, error) {
	block := min(mostBlock, int(s.o.Memory/4/int64(len(s.runs)+1)))
	if block < leastBlock {
		return nil, fmt.Errorf("%d runs cannot be merged in %d bytes of memory: raise --memory",
			len(s.runs), s.o.Memory)
	}
	var h heap
	for i, r := range s.runs {
		reader := &runReader{run: r, index: i, left: r.groups}
		reader.keyAt = newCursor(s.file, r.keys, max(leastBlock, block/8))
		if withValues {
			reader.countAt = newCursor(s.file, r.counts, max(leastBlock, block/8))
			reader.valAt = newCursor(s.file, r.values, block)
			reader.ordAt = newCursor(s.file, r.orders, block)
		}
		some, err := reader.next()
		if err != nil {
			return nil, err
		}
		if some {
			h = append(h, reader)
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	return h, nil
}

// pop takes the front reader to its next key.
func (h *heap) pop() error {
	some, err := (*h)[0].next()
	if err != nil {
		return err
	}
	if !some {
		last := len(*h) - 1
		(*h)[0] = (*h)[last]
		*h = (*h)[:last]
	}
	h.down(0)
	return nil
}

// CountKeys returns how many different keys there are. It ends the adding.
func (s *Sorter) CountKeys(ctx context.Context) (uint64, error) {
	if err := s.finish(); err != nil {
		return 0, err
	}
	h, err := s.readers(false)
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	last := &runReader{}
	for i := 0; len(h) > 0; i++ {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		r := h[0]
		if n == 0 || !r.sameKey(last) {
			n++
			last.key, last.name = r.key, append(last.name[:0], r.name...)
		}
		if err := h.pop(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// groupValues is how many values are handed over at a time, or a little more.
const groupValues = 1 << 16

// Merge hands every key with its values to fn, in order. It comes after CountKeys and reads ahead
// while fn works; prepare, unless it is nil, gets what was read before fn does and may change it,
// also while fn works on what came before.
func (s *Sorter) Merge(ctx context.Context, prepare func(*Groups), fn func(*Groups) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan *Groups, 2)
	free := make(chan *Groups, 3)
	for range cap(free) {
		free <- &Groups{}
	}
	var failed error
	var merging sync.WaitGroup
	defer merging.Wait()
	defer cancel()
	merging.Go(func() {
		defer close(ready)
		failed = s.merge(ctx, free, ready, prepare)
	})
	for g := range ready {
		if err := fn(g); err != nil {
			return err
		}
		free <- g
	}
	return failed
}

func (s *Sorter) merge(ctx context.Context, free <-chan *Groups, ready chan<- *Groups,
	prepare func(*Groups)) error {
	h, err := s.readers(true)
	if err != nil {
		return err
	}
	m := merger{apart: s.o.Apart, most: MostValues(s.o.Memory)}
	for len(h) > 0 {
		var g *Groups
		select {
		case g = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		g.Keys.rewind(mark{})
		g.Values, g.Ends = g.Values[:0], g.Ends[:0]
		clear(g.Cut)
		for len(h) > 0 && len(g.Values) < groupValues && len(g.Ends) < groupValues {
			if err := m.group(&h, g); err != nil {
				return err
			}
		}
		if prepare != nil {
			prepare(g)
		}
		select {
		case ready <- g:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// merger puts together the values of one key after the other.
type merger struct {
	apart bool
	most  uint64 // values of a key
	pairs []orderedValue
}

type orderedValue struct{ order, value uint64 }

// group appends the next key and all of its values.
func (m *merger) group(h *heap, g *Groups) error {
	first := *(*h)[0] // as it is now, to compare with
	if first.stringsKeys {
		g.Keys.appendText(first.name)
		first.name = g.Keys.String(len(g.Keys.Ends) - 1)
	} else {
		g.Keys.Numbers = append(g.Keys.Numbers, first.key)
	}
	g.orders = g.orders[:0]
	start, total := len(g.Values), uint64(0)
	for n := 0; len(*h) > 0 && (*h)[0].sameKey(&first); n++ {
		r := (*h)[0]
		if m.apart && n > 0 && (r.lists || r.source != first.source) {
			key := fmt.Sprint(first.key)
			if first.stringsKeys {
				key = shorten(first.name)
			}
			return &SharedKeyError{key, first.source, r.source}
		}
		count, err := r.countAt.varint()
		if err != nil {
			return err
		}
		if total += count; total > m.most {
			r.valAt.skip(count, r.wide)
			if r.ordered {
				r.ordAt.skip(count, true)
			}
			if err := h.pop(); err != nil {
				return err
			}
			continue
		}
		if g.Values, err = r.valAt.words(g.Values, int(count), r.wide); err != nil {
			return err
		}
		if r.ordered {
			if g.orders, err = r.ordAt.words(g.orders, int(count), true); err != nil {
				return err
			}
		}
		if err := h.pop(); err != nil {
			return err
		}
	}
	if total > m.most {
		if g.Cut == nil {
			g.Cut = make(map[int]uint64)
		}
		g.Cut[len(g.Ends)] = total
	}
	if len(g.orders) > 0 && !slices.IsSorted(g.orders) {
		m.arrange(g.Values[start:], g.orders)
	}
	g.Ends = append(g.Ends, uint32(len(g.Values)))
	return nil
}

// arrange sorts values by their orders, stably.
func (m *merger) arrange(values, orders []uint64) {
	m.pairs = m.pairs[:0]
	for i, o := range orders {
		m.pairs = append(m.pairs, orderedValue{o, values[i]})
	}
	slices.SortStableFunc(m.pairs, func(a, b orderedValue) int { return cmp.Compare(a.order, b.order) })
	for i, p := range m.pairs {
		values[i] = p.value
	}
}

// skip passes over n numbers of 4 or, wide, 8 bytes.
func (c *cursor) skip(n uint64, wide bool) {
	size := int64(4)
	if wide {
		size = 8
	}
	bytes := int64(n) * size
	here := min(bytes, int64(len(c.buf)-c.pos))
	c.pos += int(here)
	c.from += min(bytes-here, c.to-c.from)
}

// words appends the next n numbers of 4 or, wide, 8 bytes.
func (c *cursor) words(dst []uint64, n int, wide bool) ([]uint64, error) {
	size := 4
	if wide {
		size = 8
	}
	for n > 0 {
		if err := c.fill(size); err != nil {
			return dst, err
		}
		some := min(n, (len(c.buf)-c.pos)/size)
		if some == 0 {
			return dst, errSpill
		}
		at := len(dst)
		dst = slices.Grow(dst, some)[:at+some]
		out, in := dst[at:], c.buf[c.pos:c.pos+some*size]
		if wide {
			for i := range out {
				out[i] = binary.LittleEndian.Uint64(in[8*i:])
			}
		} else {
			for i := range out {
				out[i] = uint64(binary.LittleEndian.Uint32(in[4*i:]))
			}
		}
		c.pos += some * size
		n -= some
	}
	return dst, nil
}

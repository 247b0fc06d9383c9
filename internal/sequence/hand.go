package sequence

import (
	"context"
	"sync"

	"weir/internal/sequence/decimal"
)

// hand is a value that an event loop can give: it is there, or what it is made of by a few steps. Whatever it
// holds is pinned or never changes, so between finding it and giving it the index can be moved.
type hand struct {
	index   uint64
	slot    *slot // the value itself
	between between
	pair    pair // when neither of them
}

// inlineNanoseconds bounds the steps to a value that is given inline, some of a handler's 20 us being for
// other things. What a step costs is an estimate from above.
const inlineNanoseconds = 15_000

func stepNanoseconds(digits int) uint64 { return uint64(50 + digits/12) }

// find returns F(n) if it can be given inline. It is to be given or dropped.
func (s *Sequence) find(n uint64) (h hand, ok bool) {
	h.index = n
	if h.slot = s.recent.pin(n); h.slot != nil {
		return h, true
	}
	if h.between, ok = s.recent.neighbours(n); ok {
		return h, true
	}
	if n > maxRecentIndex {
		return h, false
	}
	if h.pair, ok = s.cache.near(n); !ok {
		return h, false
	}
	steps := h.pair.distance(n)
	return h, steps*stepNanoseconds(len(h.pair.f)) <= inlineNanoseconds
}

// maxRecentIndex is the largest index whose value fits into an inline answer, or a little more.
const maxRecentIndex = uint64(maxRecent * 4785 / 1000)

// drop lets go of a value that was not given.
func (h *hand) drop() {
	switch {
	case h.slot != nil:
		h.slot.unpin()
	case h.between.a != nil:
		h.between.unpin()
	}
}

// scratch is memory to step in.
type scratch [3][]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// give appends the answer with the value at hand to dst, or the digits alone, and drops it.
func (s *Sequence) give(dst []byte, h *hand, format format, stripe int) []byte {
	switch {
	case h.slot != nil:
		dst = h.slot.append(dst, format)
		h.slot.unpin()
		s.given[direct].Add(stripe, 1)
	case h.between.a != nil:
		dst = s.giveBetween(dst, h, format)
		h.between.unpin()
		s.given[near].Add(stripe, 1)
	default:
		found := near
		if _, ok := h.pair.digits(h.index); ok {
			found = direct
		}
		memory := scratches.Get().(*scratch)
		p := h.pair
		for i := 0; p.index != h.index; i++ {
			p.step(&memory[i%3], h.index)
		}
		dst = appendValue(dst, h.index, p.f, format)
		s.recent.put(h.index, p.f)
		if h.index > 0 {
			s.recent.put(h.index-1, p.previous)
		}
		scratches.Put(memory)
		s.given[found].Add(stripe, 1)
	}
	return dst
}

// giveBetween makes a value of its neighbours, in its slot if that is free, and keeps it.
func (s *Sequence) giveBetween(dst []byte, h *hand, format format) []byte {
	n, b := h.index, &h.between
	own := s.recent.claim(n)
	if own == nil {
		if format == text {
			return b.append(dst)
		}
		return append(b.append(appendBodyStart(dst, n)), bodyEnd...)
	}
	own.begin(n, max(len(b.a.digits()), len(b.b.digits()))+1)
	own.body = b.append(own.body)
	own.publish(n)
	dst = own.append(dst, format)
	if n%(2*interval) == 0 && n > anchorEnd { // so all between are within an interval of one
		s.keep(n, own)
	}
	own.unpin()
	return dst
}

// keep puts a pair with F(n), which is pinned, into the cache, if the other one is at hand.
func (s *Sequence) keep(n uint64, own *slot) {
	if p, ok := s.cache.near(n); ok && p.index == n {
		return
	}
	if previous := s.recent.pin(n - 1); previous != nil {
		s.cache.put(pair{n, append([]byte(nil), own.digits()...), append([]byte(nil), previous.digits()...)})
		previous.unpin()
		return
	}
	if next := s.recent.pin(n + 1); next != nil {
		s.cache.put(pair{n + 1, append([]byte(nil), next.digits()...), append([]byte(nil), own.digits()...)})
		next.unpin()
	}
}

// format is what an answer with a value looks like.
type format uint8

const (
	object format = iota // {"index":N,"value":"..."}
	text                 // the digits
)

func (s *slot) append(dst []byte, format format) []byte {
	if format == text {
		return append(dst, s.digits()...)
	}
	return append(dst, s.body...)
}

func appendValue(dst []byte, n uint64, digits []byte, format format) []byte {
	if format == text {
		return append(dst, digits...)
	}
	dst = appendBodyStart(dst, n)
	dst = append(dst, digits...)
	return append(dst, bodyEnd...)
}

// valueLength is how long an answer with F(n) is.
func valueLength(n uint64, format format) int {
	digits := decimal.Digits(n)
	if format == text {
		return digits
	}
	return digits + len(bodyEnd) + len(appendBodyStart(nil, n))
}

// values writes F(p.index) and so many values after it, one after the other.
func (p pair) values(ctx context.Context, count uint64, write func(n uint64, digits []byte) error) error {
	var memory scratch
	for i := uint64(0); ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := write(p.index, p.f); err != nil || i == count {
			return err
		}
		p.step(&memory[i%3], p.index+1)
	}
}

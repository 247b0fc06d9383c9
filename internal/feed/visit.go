package feed

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// query is what a request asks for: items, or the user's position.
type query struct {
	position bool        // not items
	set      progress.Op // what to do to the position then

	size       int
	meta, peek bool
	from       int // -1 when absent
	list       uint64
	hasList    bool
	waited     bool // for newer lists, once
}

// given is what a request for items gets: of the user's own list, and of the fallback items. Both slices
// are a scratch's.
type given struct {
	own  []uint64
	fill []uint16
}

// What a request may come to besides items. Others are of the snapshot, and of the positions.
var (
	errCostly    = errors.New("too costly for an event loop")
	errOtherList = errors.New("the user's list is another one")
	errNoList    = errors.New("the user has no list")
	errNoItems   = errors.New("there are no items")
	errOutdated  = errors.New("newer lists are in use elsewhere")
	errWaiting   = errors.New("there are no lists yet")
)

// valueError is a value of a request that cannot be.
type valueError struct{ detail string }

func (e *valueError) Error() string { return e.detail }

// visit is one request's look at a user, under the generation that serves.
type visit struct {
	f      *Feed
	g      *generation
	id     []byte // as asked for
	stripe int
	inline bool // what is costly is errCostly
	user   progress.User
	found  bool
	list   snapshot.List // the zero List of the unknown
}

// maxNamesInline bounds the items with names that are rendered inline.
const maxNamesInline = 64

// maxCheckedInline bounds the items of a list that is checked inline as a whole.
const maxCheckedInline = 1024

// visit finds a user and asks the processor for what read and the look at the position will want; one that
// is not in the snapshot is found as unknown. Unless there is an error, end must be called.
func (f *Feed) visit(id []byte, stripe int, inline bool) (visit, error) {
	v := visit{f: f, g: f.pin(stripe), id: id, stripe: stripe, inline: inline}
	err := v.find()
	if err != nil {
		v.end()
	}
	return v, err
}

func (v *visit) end() { v.g.unpin(v.stripe) }

func (v *visit) find() error {
	lists := v.g.lists
	if v.g.waiting {
		return errWaiting
	}
	if v.inline && !lists.Dense() && !lists.InMemory() {
		return errCostly // finding may wait for the disk
	}
	if lists.Users() == snapshot.String {
		if len(v.id) > snapshot.MaxUserName {
			return &valueError{fmt.Sprintf("userId must be of 1 to %d bytes", snapshot.MaxUserName)}
		}
		v.user.Name = v.id
		v.user.Rank, v.found = lists.FindString(v.id)
	} else {
		var ok bool
		if v.user.Number, ok = parseNumber(v.id); !ok {
			return &valueError{"userId must be a whole number from 0 to 18446744073709551615"}
		}
		v.user.Rank, v.found = lists.FindNumber(v.user.Number)
	}
	if !v.found {
		return nil
	}
	if !lists.Resident(v.user.Rank) {
		if v.inline {
			return errCostly // reading may wait for the disk
		}
		lists.Fetch(v.user.Rank)
	}
	// Both are far apart and in no cache, 0.28 us each where that was measured: asked for
	// together, the two waits are one.
	v.g.positions.Prefetch(v.user)
	lists.Prefetch(v.user.Rank)
	return nil
}

// read reads the user's list.
func (v *visit) read() (err error) {
	if v.found {
		v.list, err = v.g.lists.List(v.user.Rank)
	}
	return err
}

func (v *visit) known() bool { return v.list.Tag() != 0 }

// do does op to the user's position.
func (v *visit) do(op progress.Op) (progress.Move, error) {
	return v.g.positions.Do(v.user, progress.List{Tag: v.list.Tag(), Len: v.list.Len()}, op)
}

// begin reads the list and refuses what cannot be, before anything moves.
func (v *visit) begin(q *query) error {
	if err := v.read(); err != nil {
		return err
	}
	length := v.list.Len()
	switch {
	case q.position && !v.known():
		return errNoList
	case q.position && (q.set.N < 0 || q.set.N > length):
		return &valueError{fmt.Sprintf(
			"position must be a whole number from 0 to %d, the length of the user's list", length)}
	case q.hasList && q.list != v.list.Tag():
		return errOtherList
	case q.from > length:
		return &valueError{fmt.Sprintf(
			"from must be a whole number from 0 to %d, the length of the user's list", length)}
	case v.inline && q.size > maxNamesInline && v.g.lists.Items() == snapshot.String:
		return errCostly
	}
	return nil
}

// checkAll comes before submit: since nobody knows where the user is, the list is checked as a whole.
func (v *visit) checkAll() error {
	if v.inline && v.list.Len() > maxCheckedInline {
		return errCostly
	}
	return v.g.lists.Check(v.list, 0, v.list.Len())
}

// move moves the user on as a request asks for, over items that were checked: a damaged list moves nobody.
// ErrPending means that submit has to.
func (v *visit) move(q *query) (moved, error) {
	g, length := v.g, v.list.Len()
	if !v.known() {
		if v.inline && g.fallback.costly(0) {
			return moved{}, errCostly
		}
		return moved{}, nil
	}
	for {
		at, err := v.do(progress.Get())
		if err != nil {
			return moved{}, err
		}
		m := q.moved(at, length)
		if err := g.lists.Check(v.list, m.from, m.to); err != nil {
			return moved{}, err
		}
		if v.inline && m.to-m.from < q.size && g.fallback.costly(length) {
			return moved{}, errCostly
		}
		op := q.op(length)
		if op.Kind == progress.OpGet || op.Kind == progress.OpAdvance {
			op = progress.Step(at.From, op.N) // or it leads over items that nobody has checked
		}
		now, err := v.do(op)
		if err != nil || op.Kind != progress.OpStep || now.From == at.From {
			return q.moved(now, length), err
		}
	}
}

// submit is move where the position takes a round trip: done is called once.
func (v *visit) submit(ctx context.Context, q *query, done func(moved, error)) {
	length := v.list.Len()
	if !v.known() {
		done(moved{}, nil)
		return
	}
	v.g.positions.Submit(ctx, v.user, progress.List{Tag: v.list.Tag(), Len: length}, q.op(length),
		func(at progress.Move, err error) { done(q.moved(at, length), err) })
}

// outdated returns err, or errOutdated when trying again would not help: lists newer than any here are in
// use on another machine.
func (v *visit) outdated(err error) error {
	if err == progress.ErrSuperseded && v.f.current.Load() == v.g {
		return errOutdated
	}
	return err
}

// give picks the items for a request that has moved the user so, and fallback items where those are too few.
func (v *visit) give(q *query, s *scratch, at moved) (out given, err error) {
	if missing := q.size - (at.to - at.from); missing > 0 {
		out.fill = v.fill(s, q.size, missing)
	}
	if at.from == at.to && len(out.fill) == 0 {
		v.f.stats.empty.Add(v.stripe, 1)
		return out, errNoItems
	}
	v.f.stats.items.Add(v.stripe, uint64(at.to-at.from))
	s.items = v.list.Append(s.items[:0], at.from, at.to)
	out.own = s.items
	return out, nil
}

// moved is what a request moves: the items from..to-1 are given, and the position is saved.
type moved struct{ from, to, position int }

// op returns what a request does to a position in a list of that length.
func (q *query) op(length int) progress.Op {
	switch {
	case q.position:
		return q.set
	case q.peek:
		return progress.Get()
	case q.from >= 0:
		return progress.Raise(min(q.from+q.size, length))
	default:
		return progress.Advance(q.size)
	}
}

// moved returns what the request gives when op has moved the position so, or before it has.
func (q *query) moved(at progress.Move, length int) moved {
	if q.position {
		return moved{position: at.To}
	}
	m := moved{from: at.From, position: at.To}
	if q.from >= 0 {
		m.from = q.from
	}
	m.to = min(m.from+q.size, length)
	return m
}

// fill picks fallback items for a request for asked items of which some are missing.
func (v *visit) fill(s *scratch, asked, missing int) []uint16 {
	f, g := v.f, v.g
	var user []byte
	if g.fallback.ranked() {
		user = textOf(s, g, v.id)
	}
	fill := g.fallback.pick(s, user, v.list, missing)
	f.stats.fallback.Add(v.stripe, uint64(len(fill)))
	if len(fill) < missing {
		f.stats.short.Add(v.stripe, 1)
		f.noteShort(g, v.id, asked, asked-missing+len(fill))
	}
	return fill
}

// prefetch asks the processor for what visit will ask it for, of several users at once: most of such a wait
// is for the address to be translated, and waits that begin close together are one. Only lists are asked
// for that are found without waiting.
func (f *Feed) prefetch(stripe int, params [][]byte) {
	g := f.pin(stripe)
	defer g.unpin(stripe)
	if !g.lists.Dense() || !g.lists.InMemory() {
		return
	}
	var ranks [64]uint64
	for len(params) > 0 {
		n := 0
		for ; n < len(ranks) && len(params) > 0; params = params[1:] {
			if rank, ok := parseNumber(params[0]); ok && rank < g.lists.Slots() {
				ranks[n] = rank
				n++
			}
		}
		for _, rank := range ranks[:n] {
			g.positions.Prefetch(progress.User{Rank: rank, Number: rank})
			g.lists.Prefetch(rank)
		}
	}
}

// userOf returns the user of an id, whose rank is not known.
func userOf(lists *snapshot.Snapshot, id []byte) progress.User {
	if number, ok := parseNumber(id); ok && lists.Users() == snapshot.Number {
		return progress.User{Number: number}
	}
	return progress.User{Name: id}
}

// textOf returns the text of a user's id as others know it: of a number without leading zeros.
func textOf(s *scratch, g *generation, id []byte) []byte {
	if g.lists.Users() == snapshot.String {
		return id
	}
	n, _ := parseNumber(id) // visit has seen that it is one
	s.user = appendNumber(s.user[:0], n)
	return s.user
}

func (f *Feed) noteShort(g *generation, id []byte, asked, came int) {
	a := shortAnswer{asked: asked, came: came}
	if g.lists.Users() == snapshot.String {
		a.name = string(id)
	} else {
		a.number, _ = parseNumber(id)
	}
	f.short.note(a)
}

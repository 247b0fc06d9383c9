package feed

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"weir/internal/feed/snapshot"
)

// GenerateOptions says what lists to make up.
type GenerateOptions struct {
	Users   uint64 // 0..Users-1
	Items   int    // of every list, all different
	MaxItem uint32 // items are 1..MaxItem
	Seed    uint64 // equal options give equal files, on every machine

	// Published is when the lists were made, see snapshot.Options.
	Published time.Time

	// Progress, which may be nil, is told now and then how many users are done.
	Progress func(users uint64)
}

// batchItems is about how many items go from the goroutine that draws to the one that writes at a time.
const batchItems = 1 << 16

// Generate writes a snapshot of made-up lists to path, in less than 200 MiB of memory whatever its
// size. Most items are drawn evenly; one draw in 32 is of a thousand popular items, the first of
// them sixty times as often as the last, so that there are most frequent ones to find.
func Generate(ctx context.Context, path string, o GenerateOptions) (snapshot.Stats, error) {
	if err := errors.Join(o.Check(), checkOutput(path)); err != nil {
		return snapshot.Stats{}, err
	}
	w, err := snapshot.Create(path, snapshot.Options{
		UserCount: o.Users, MaxUser: max(1, o.Users) - 1, MaxItem: uint64(o.MaxItem),
		Published: o.Published,
	})
	if err != nil {
		return snapshot.Stats{}, err
	}
	defer w.Abort()

	// One goroutine draws while this one packs and writes. A list depends on the seed and
	// the user alone, so that it does not matter who draws it when.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	filled, empty := make(chan batch, 2), make(chan batch, 3)
	for range cap(empty) {
		empty <- batch{}
	}
	go o.drawAll(ctx, filled, empty)

	var user uint64
	for b := range filled {
		for i := range b.users {
			if err := w.AddNumber32(user, b.items[i*o.Items:(i+1)*o.Items]); err != nil {
				return snapshot.Stats{}, err
			}
			user++
		}
		if o.Progress != nil {
			o.Progress(user)
		}
		empty <- b
	}
	if err := ctx.Err(); err != nil {
		return snapshot.Stats{}, err
	}
	return w.Commit()
}

// Check says what cannot be made.
func (o *GenerateOptions) Check() error {
	switch {
	case o.Users > snapshot.MaxSlots:
		return fmt.Errorf("%d users: at most %d are possible", o.Users, uint64(snapshot.MaxSlots))
	case o.Items < 0 || o.Items > snapshot.MaxListLen:
		return fmt.Errorf("lists of %d items: 0 to %d are possible", o.Items, snapshot.MaxListLen)
	case uint64(o.Items) > uint64(o.MaxItem):
		return fmt.Errorf("lists of %d different items out of %d: make the largest item at least %d", o.Items,
			o.MaxItem, o.Items)
	}
	return nil
}

// batch is the lists of some users, one after the other.
type batch struct {
	users int
	items []uint32
}

// drawAll sends the lists of all users and closes filled. The batches come back by empty.
func (o *GenerateOptions) drawAll(ctx context.Context, filled chan<- batch, empty <-chan batch) {
	defer close(filled)
	d := newDrawer(o)
	perBatch := uint64(max(1, batchItems/max(1, o.Items)))
	for user := uint64(0); user < o.Users; {
		var b batch
		select {
		case b = <-empty:
		case <-ctx.Done():
			return
		}
		b.users = int(min(perBatch, o.Users-user))
		b.items = b.items[:0]
		for range b.users {
			b.items = d.appendList(b.items, user)
			user++
		}
		select {
		case filled <- b:
		case <-ctx.Done():
			return
		}
	}
}

// drawer draws lists.
type drawer struct {
	items   int
	maxItem uint64
	seed    uint64
	popular uint64 // how many items are
	seen    itemSet
}

func newDrawer(o *GenerateOptions) *drawer {
	return &drawer{items: o.Items, maxItem: uint64(o.MaxItem), seed: mix(o.Seed),
		popular: min(1000, uint64(o.MaxItem))}
}

// appendList appends the list of a user to dst.
func (d *drawer) appendList(dst []uint32, user uint64) []uint32 {
	state := mix(d.seed + user*golden)
	d.seen.reset(d.items)
	for end := len(dst) + d.items; len(dst) < end; {
		state += golden
		r := mix(state)
		if r&31 == 0 {
			// u² of an even u is dense at 0. Where a popular item lies is a matter of its hash.
			u := r >> 32
			rank, _ := bits.Mul64(u*u, d.popular)
			r = mix(d.seed ^ rank)
		}
		item, _ := bits.Mul64(r, d.maxItem)
		item++
		if d.seen.add(item) {
			dst = append(dst, uint32(item))
		}
	}
	return dst
}

// golden is 2^64 divided by the golden ratio: the step of splitmix64, and a multiplier whose products are
// well mixed in their high bits.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014). It is written out here because lists must stay what they are with
// every release of Go.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

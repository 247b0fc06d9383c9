package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// Transfer moves the positions of the users of a snapshot from one place to another: from a box to the
// engine
// that nodes share, or back. Users who are at the beginning are left alone, and a position is never moved
// back,
// so a transfer that was cut short is begun again without harm.
type Transfer struct {
	Lists *snapshot.Snapshot
	// From and To are where positions are, and which version of the lists each of them is told.
	From, To               progress.Positions
	FromVersion, ToVersion uint64
	// Begin is the rank to begin with, as Done was told before; Done and Checked are told how far it is.
	Begin         uint64
	Done, Checked func(rank uint64)
}

// Transferred is what a transfer has found when it checked.
type Transferred struct {
	Users    uint64 // who are not at the beginning
	Items    uint64 // that they have had
	Checksum uint64 // over users and positions, on either side
}

// transferBlock is how many users are asked for at once.
const transferBlock = 1 << 13

// version is lists under a version of their own.
type version struct {
	progress.Lists
	number uint64
}

func (v version) Version() uint64 { return v.number }

// Run moves the positions, and then reads both sides and compares them.
func (t *Transfer) Run(ctx context.Context) (found Transferred, err error) {
	err = disk.Guard(func() error { // the files are mapped
		from, err := t.From.Prepare(version{users{Snapshot: t.Lists}, t.FromVersion})
		if err != nil {
			return err
		}
		to, err := t.To.Prepare(version{users{Snapshot: t.Lists}, t.ToVersion})
		if err != nil {
			return err
		}
		b := newBlock(users{Snapshot: t.Lists})
		err = b.each(ctx, t.Begin, t.Done, func() error {
			if err := b.do(ctx, from, func(int) progress.Op { return progress.Get() }); err != nil {
				return err
			}
			return b.do(ctx, to, func(i int) progress.Op { return progress.Raise(b.at[i]) })
		})
		if err != nil {
			return err
		}
		return b.each(ctx, 0, t.Checked, func() error {
			if err := b.do(ctx, from, func(int) progress.Op { return progress.Get() }); err != nil {
				return err
			}
			wanted := append([]int(nil), b.at...)
			if err := b.do(ctx, to, func(int) progress.Op { return progress.Get() }); err != nil {
				return err
			}
			for i, at := range b.at {
				if at != wanted[i] {
					number, name := b.who[i].ID()
					if name == nil {
						name = fmt.Append(nil, number)
					}
					return fmt.Errorf("user %.80s is at %d and should be at %d: is something else moving "+
						"positions? Stop it, and run this again", name, at, wanted[i])
				}
				found.count(b.who[i].Rank, at)
			}
			return nil
		})
	})
	return found, err
}

// count counts a user. The checksum is a sum, so the order is of no matter.
func (f *Transferred) count(rank uint64, at int) {
	if at == 0 {
		return
	}
	f.Users++
	f.Items += uint64(at)
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, rank),
		uint16(at))) //nolint:errcheck // never fails
	f.Checksum += h.Sum64()
}

// block is users who are asked for at once, and where they are.
type block struct {
	all   users
	who   []progress.User
	lists []progress.List
	at    []int
}

func newBlock(all users) *block { return &block{all: all} }

// each calls work for every block of users from a rank on.
func (b *block) each(ctx context.Context, rank uint64, tell func(rank uint64), work func() error) error {
	for rank < b.all.Slots() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.who, b.lists, b.at = b.who[:0], b.lists[:0], b.at[:0]
		for end := min(rank+transferBlock, b.all.Slots()); rank < end; rank++ {
			u, known := b.all.User(rank)
			l, has := b.all.List(rank)
			if known && has {
				b.who, b.lists, b.at = append(b.who, u), append(b.lists, l), append(b.at, 0)
			}
		}
		if err := work(); err != nil {
			return err
		}
		if tell != nil {
			tell(rank)
		}
	}
	return nil
}

// do does an op for every user of the block, all at once, and notes where they are then. Raise(0) is left
// out.
func (b *block) do(ctx context.Context, g progress.Generation, op func(i int) progress.Op) error {
	ended, pending := make(chan struct{}, len(b.who)), 0
	errs := make([]error, len(b.who))
	for i, u := range b.who {
		o := op(i)
		if o.Kind == progress.OpRaise && o.N == 0 {
			continue
		}
		m, err := g.Do(u, b.lists[i], o)
		if !errors.Is(err, progress.ErrPending) {
			b.at[i], errs[i] = m.To, err
			continue
		}
		pending++
		g.Submit(ctx, u, b.lists[i], o, func(m progress.Move, err error) {
			b.at[i], errs[i] = m.To, err
			ended <- struct{}{}
		})
	}
	for range pending {
		<-ended
	}
	for _, err := range errs { // one says it
		if err != nil {
			return err
		}
	}
	return nil
}

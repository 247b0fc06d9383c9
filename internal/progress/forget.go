package progress

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"weir/internal/disk"
)

// forgotten is in the cell of a key whose user is to be forgotten: no list has tag 0.
const forgotten = 1

// Forget implements Generation.
func (g *generation) Forget(_ context.Context, u User) (bool, error) {
	p, known, err := g.seek(&u)
	if err != nil || p.store == nil {
		return false, err
	}
	if err := g.local.noteForgotten(); err != nil {
		return false, err
	}
	for {
		word := p.store.Load(p.cell)
		if word>>16 == 0 {
			return false, p.store.Err()
		}
		to := uint64(forgotten)
		if p.store == g.local.ids { // where nothing says that a number was ever a user
			to = 0
		}
		g.raise()
		if ok, err := p.store.CompareAndSwap(p.cell, word, to); err != nil {
			return false, err
		} else if !ok {
			continue
		}
		if list, ok := g.lists.List(u.Rank); known && ok {
			g.exhausted.note(u.Rank, p, list)
		}
		return true, nil
	}
}

// noteForgotten leaves a file that says, after a restart too, that erase has something to do.
func (l *Local) noteForgotten() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.erasing {
		return nil
	}
	if err := disk.WriteFileAtomic(l.marker(), nil, 0o600); err != nil {
		return err
	}
	l.erasing = true
	return nil
}

func (l *Local) marker() string { return filepath.Join(l.dir, "forgotten") }

// seek finds the place of a user whose rank is not known, and who may have none. The store is nil where
// there is no place.
func (g *generation) seek(u *User) (p place, known bool, err error) {
	if u.Rank, known = g.lists.Rank(*u); known {
		return g.place(*u), true, nil
	}
	l := g.local
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.file.each(func(slot, number uint64, name []byte) error {
		if u.is(number, name) {
			p = place{l.keys, slot}
		}
		return nil
	})
	if number, name := u.ID(); p.store == nil && name == nil && number < l.ids.Len() {
		p = place{l.ids, number}
	}
	return p, false, err
}

// Tend implements Generation.
func (g *generation) Tend(ctx context.Context) error {
	if !g.counted {
		if err := g.countExhausted(ctx); err != nil {
			return err
		}
		g.counted = true
	}
	return g.erase(ctx)
}

// erase takes those who were forgotten out of the key file, unless the lists name them, and what is left of
// them out of the redo logs. It does nothing if nobody was forgotten since it was done last.
func (g *generation) erase(ctx context.Context) error {
	l := g.local
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.erasing || l.Err() != nil {
		return nil
	}
	g.raise() // whoever still holds older lists comes too late
	gone, waiting := make(map[uint64]bool), false
	err := l.file.each(func(slot, number uint64, name []byte) error {
		if slot >= l.keys.Len() || l.keys.Load(slot) != forgotten {
			return ctx.Err()
		}
		_, listed := g.lists.Rank(User{Number: number, Name: name})
		waiting = waiting || listed
		if !listed {
			gone[slot] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		if err := l.file.erase(func(slot uint64) bool { return gone[slot] }); err != nil {
			return err
		}
		for slot := range gone {
			if _, err := l.keys.CompareAndSwap(slot, forgotten, 0); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(l.ids.Scrub(), l.keys.Scrub()); err != nil {
		return err
	}
	if waiting {
		return nil
	}
	l.erasing = false
	return os.Remove(l.marker())
}

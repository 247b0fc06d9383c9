package progress

import "context"

// forgotten is in the cell of a key whose user is to be forgotten: no list has tag 0.
const forgotten = 1

// Forget implements Generation.
func (g *generation) Forget(_ context.Context, u User) (bool, error) {
	p, known, err := g.seek(&u)
	if err != nil || p.store == nil {
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

// seek finds the place of a user whose rank is not known, and who may have none. The store is nil where there is no place.
func (g *generation) seek(u *User) (p place, known bool, err error) {
	if u.Rank, known = g.lists.Rank(*u); known {
		return g.place(*u), true, nil
	}
	l := g.local
	number, name := u.ID()
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.file.each(func(slot, n uint64, s []byte) error {
		if n == number && string(s) == string(name) && (s == nil) == (name == nil) {
			p = place{l.keys, slot}
		}
		return nil
	})
	if p.store == nil && name == nil && number < l.ids.Len() {
		p = place{l.ids, number}
	}
	return p, false, err
}

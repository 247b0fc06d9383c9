package progress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/metrics"
	"weir/internal/progress/cells"
)

// Options are how Local and LocalIndex keep things.
type Options struct {
	Name         string            // in metrics
	SyncInterval time.Duration     // between background syncs, 1 s if zero
	Metrics      *metrics.Registry // nil shows nothing
	Logger       *slog.Logger      // nil logs nothing
	AcceptLoss   bool              // what is damaged is given up
	Faults       disk.Faults       // for tests
}

func (o Options) cells(name string) cells.Options {
	return cells.Options{SyncInterval: o.SyncInterval, Metrics: o.Metrics, Name: name, Logger: o.Logger,
		AcceptLoss: o.AcceptLoss, Faults: o.Faults}
}

// Local is Positions in the files of a directory. A process that is killed loses nothing, a machine that
// loses its power the changes of about the last sync interval; see package cells. A failed sync or a full
// disk that Prepare did not foresee ends all changes, never silently.
//
// Every user has a cell that stays theirs, whatever lists come and go. It holds
//
//	48 bits tag | 16 bits position
//
// and the position counts under the list of that tag alone, so a change of lists migrates nothing. There
// are two files of cells. In ids the cell of a user is their number: that is where users of dense lists
// have theirs, and nothing is looked up. Everybody else, with text or scattered numbers for ids, is given
// the next cell of keys, once, by an entry of the key file. What keeps a user from ever having two: who is
// in the key file has a cell in keys; any other number below the size of ids has the cell of that number;
// who is neither goes into the key file. ids grows for dense lists only and never shrinks.
type Local struct {
	dir       string
	ids, keys *cells.Store
	newest    atomic.Uint64 // version under which a position has been changed

	mu       sync.Mutex // guards what follows: one Prepare at a time
	file     *keyFile
	prepared uint64 // newest version that Prepare gave out
	erasing  bool   // somebody was forgotten, and may still be in a file
}

var _ Positions = (*Local)(nil)

// OpenLocal opens or makes positions in dir, which the caller has to itself.
func OpenLocal(dir string, o Options) (l *Local, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	l = &Local{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.ids, err = cells.Open(filepath.Join(dir, "ids.cells"), 0, o.cells(o.Name+"_ids")); err != nil {
		return l, err
	}
	if l.keys, err = cells.Open(filepath.Join(dir, "keys.cells"), 0, o.cells(o.Name+"_keys")); err != nil {
		return l, err
	}
	if l.file, err = openKeyFile(filepath.Join(dir, "keys.log"), l.keys.Len(), o.AcceptLoss,
		o.Faults); err != nil {
		return l, err
	}
	if _, err := os.Lstat(l.marker()); err == nil {
		l.erasing = true
	}
	// A crash may have come between a key and its cell.
	if err := l.keys.Grow(l.file.count); err != nil {
		return l, err
	}
	if o.Metrics != nil {
		registerDurability(o.Metrics, o.Name, localDurability)
	}
	return l, nil
}

// Durability implements Positions.
func (l *Local) Durability() string { return localDurability }

// SetSyncInterval changes the time between background syncs.
func (l *Local) SetSyncInterval(interval time.Duration) {
	l.ids.SetSyncInterval(interval)
	l.keys.SetSyncInterval(interval)
}

// Lag implements Positions.
func (l *Local) Lag() time.Duration { return max(l.ids.Lag(), l.keys.Lag()) }

// Err implements Positions.
//
// A directory that was deleted is found out here: positions would be saved in files that nobody can open
// again.
func (l *Local) Err() error {
	_, err := os.Lstat(filepath.Join(l.dir, "ids.cells"))
	return errors.Join(l.ids.Err(), l.keys.Err(), err)
}

// Close implements Positions.
func (l *Local) Close() error {
	var errs []error
	if l.ids != nil {
		errs = append(errs, l.ids.Close())
	}
	if l.keys != nil {
		errs = append(errs, l.keys.Close())
	}
	if l.file != nil {
		errs = append(errs, l.file.close())
	}
	return errors.Join(errs...)
}

// Prepare implements Positions. A table from rank to cell takes 4 bytes a user, but for dense lists.
func (l *Local) Prepare(lists Lists) (_ Generation, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, count, done := l.file.log.End(), l.file.count, false
	defer func() { // after a memory fault too
		if !done {
			err = errors.Join(err, l.file.cut(end, count))
		}
	}()
	table, err := l.assign(lists)
	if err == nil {
		err = l.keys.Grow(l.file.count)
	}
	if done = err == nil; !done {
		return nil, err
	}
	l.prepared = max(lists.Version(), l.prepared+1)
	return &generation{
		local: l, lists: lists, version: l.prepared, table: table,
		exhausted: exhausted{seen: make([]atomic.Uint64, (lists.Slots()+63)/64)},
	}, nil
}

// assign sees to it that every user of lists has an entry in the key file, synced, or a cell of ids. It
// returns the table that leads to it: by rank, 0 for the cell of ids that is the user's number, else one
// more than the cell of keys. A nil table is all zeros.
func (l *Local) assign(lists Lists) ([]uint32, error) {
	if lists.Dense() {
		if err := l.ids.Grow(lists.Slots()); err != nil {
			return nil, err
		}
		if l.file.count == 0 {
			return nil, nil
		}
	}
	var table []uint32
	next := uint64(0)
	err := l.file.each(func(slot uint64, number uint64, name []byte) error {
		rank, ok := next, false
		if rank < lists.Slots() { // keys are mostly in the order of the ranks: then nothing need be looked up
			u, there := lists.User(rank)
			ok = there && u.is(number, name)
		}
		if !ok {
			rank, ok = lists.Rank(User{Number: number, Name: name})
		}
		if !ok {
			return nil
		}
		next = rank + 1
		if table == nil {
			table = make([]uint32, lists.Slots())
		}
		table[rank] = uint32(slot + 1)
		return nil
	})
	if err != nil || lists.Dense() {
		return table, err
	}
	if table == nil {
		table = make([]uint32, lists.Slots())
	}
	for rank := range lists.Slots() {
		if table[rank] != 0 {
			continue
		}
		u, ok := lists.User(rank)
		if !ok {
			return nil, fmt.Errorf("there is no user of rank %d, though nobody but users has one", rank)
		}
		number, name := u.ID()
		if name == nil && number < l.ids.Len() {
			continue
		}
		if l.file.count >= math.MaxUint32-1 {
			return nil, errors.New(
				"the data directory knows 4,294,967,294 keys, the most there can be; begin a new one")
		}
		slot, err := l.file.add(number, name)
		if err != nil {
			return nil, err
		}
		table[rank] = uint32(slot + 1)
	}
	return table, l.file.sync()
}

// ID returns the user's number where they have one, else their name.
func (u User) ID() (number uint64, name []byte) {
	if u.Name == nil {
		return u.Number, nil
	}
	if n, ok := decimal(u.Name); ok {
		return n, nil
	}
	return 0, u.Name
}

// is says whether an ID is u's.
func (u User) is(number uint64, name []byte) bool {
	n, s := u.ID()
	return n == number && (s == nil) == (name == nil) && string(s) == string(name)
}

// decimal returns the number that s is the canonical decimal form of.
func decimal(s []byte) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 20 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i, c := range s {
		d := c - '0'
		if d > 9 || i == 19 && (n > math.MaxUint64/10 || n == math.MaxUint64/10 && d > 5) {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

// generation is a Generation of a Local.
type generation struct {
	local     *Local
	lists     Lists
	version   uint64
	table     []uint32 // see assign
	exhausted exhausted
	counted   bool // exhausted is complete
}

// Version implements Generation.
func (g *generation) Version() uint64 { return g.version }

// place is where a user's position is.
type place struct {
	store *cells.Store
	cell  uint64
}

func (g *generation) place(u User) place {
	if g.table != nil {
		if slot := g.table[u.Rank]; slot != 0 {
			return place{g.local.keys, uint64(slot - 1)}
		}
	}
	number, _ := u.ID()
	return place{g.local.ids, number}
}

// Prefetch implements Generation.
func (g *generation) Prefetch(u User) {
	p := g.place(u)
	p.store.Prefetch(p.cell)
}

// Do implements Generation.
//
// A cell with another tag than the list's may hold a position in an older list, which is position 0, or in
// one of a newer version: then it must not be undone. Hence the look at newest, which is raised before a
// cell is changed and read after it. Without it a million answers over 400 changes of lists gave 30,000
// items twice.
func (g *generation) Do(u User, list List, op Op) (Move, error) {
	p := g.place(u)
	for {
		word, from := p.store.Load(p.cell), 0
		if word>>16 == list.Tag {
			from = min(int(word&MaxLen), list.Len)
		} else if g.local.newest.Load() > g.version {
			return Move{}, ErrSuperseded
		}
		to := op.Target(from, list.Len)
		if to == from {
			return Move{from, to}, nil
		}
		g.raise()
		if ok, err := p.store.CompareAndSwap(p.cell, word, list.Tag<<16|uint64(to)); err != nil {
			return Move{}, err
		} else if ok {
			if from == list.Len || to == list.Len {
				g.exhausted.note(u.Rank, p, list)
			}
			return Move{from, to}, nil
		}
	}
}

// raise notes that a position is about to be changed under g's version.
func (g *generation) raise() {
	for {
		newest := g.local.newest.Load()
		if newest >= g.version || g.local.newest.CompareAndSwap(newest, g.version) {
			return
		}
	}
}

// Submit implements Generation.
func (g *generation) Submit(_ context.Context, u User, list List, op Op, done func(Move, error)) {
	done(g.Do(u, list, op))
}

package feed

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// slots gives every user a cell that stays theirs, whatever snapshots come and go.
//
// There are two stores of cells. In ids the cell of a user is their id: that is where users of a
// dense snapshot have theirs, at no cost. Everybody else, with strings or scattered numbers for
// ids, is given the next cell of keys, once, by a line in the key file. The rule that keeps a
// user from ever having two: who is in the key file has a cell in keys; any other number below
// the size of ids has the cell of that number; a new user that is neither goes into the key
// file. ids grows only for dense snapshots and never shrinks.
//
// A string that is a decimal number is the number, here as in a list's tag, so that the change
// from one kind of ids to the other keeps positions too.
type slots struct {
	ids, keys *progress.Store
	file      *keyFile
}

// openSlots opens or makes the three files in dir.
func openSlots(dir string, o progress.Options) (s *slots, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	s = &slots{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	o.Name = "feed_ids"
	if s.ids, err = progress.Open(filepath.Join(dir, "ids.cells"), 0, o); err != nil {
		return s, err
	}
	o.Name = "feed_keys"
	if s.keys, err = progress.Open(filepath.Join(dir, "keys.cells"), 0, o); err != nil {
		return s, err
	}
	if s.file, err = openKeyFile(filepath.Join(dir, "keys.log"), s.keys.Len(), o.Faults); err != nil {
		return s, err
	}
	// A crash may have come between a key and its cell.
	return s, s.keys.Grow(s.file.count)
}

func (s *slots) err() error {
	return errors.Join(s.ids.Err(), s.keys.Err())
}

func (s *slots) close() error {
	var errs []error
	if s.ids != nil {
		errs = append(errs, s.ids.Close())
	}
	if s.keys != nil {
		errs = append(errs, s.keys.Close())
	}
	if s.file != nil {
		errs = append(errs, s.file.close())
	}
	return errors.Join(errs...)
}

// assign makes sure that every user of a snapshot has a cell, and returns the table that leads
// to it: by rank, 0 for the cell of ids that is the user's number, else one more than the cell
// of keys. A nil table is all zeros. What it adds is synced before it returns; when it fails,
// nothing was added.
func (s *slots) assign(lists *snapshot.Snapshot) (table []uint32, err error) {
	size, count, done := s.file.size, s.file.count, false
	defer func() { // after a memory fault too
		if !done {
			err = errors.Join(err, s.file.cut(size, count))
		}
	}()
	if table, err = s.assignKeys(lists); err == nil {
		err = s.keys.Grow(s.file.count)
	}
	done = err == nil
	return table, err
}

func (s *slots) assignKeys(lists *snapshot.Snapshot) ([]uint32, error) {
	if lists.Dense() {
		if err := s.ids.Grow(lists.Slots()); err != nil {
			return nil, err
		}
		if s.file.count == 0 {
			return nil, nil
		}
	}
	var table []uint32
	err := s.file.each(func(slot uint64, number uint64, name []byte) error {
		rank, ok := find(lists, number, name)
		if !ok {
			return nil
		}
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
		number, name, ok := lists.UserKey(rank)
		if !ok {
			return nil, fmt.Errorf("%w: there is no user of rank %d", snapshot.ErrCorrupt, rank)
		}
		if name != nil {
			if n, ok := decimal(name); ok {
				number, name = n, nil
			}
		}
		if name == nil && number < s.ids.Len() {
			continue
		}
		if s.file.count >= math.MaxUint32-1 {
			return nil, errors.New("the data directory knows 4,294,967,294 keys, the most there can be; begin a new one")
		}
		slot, err := s.file.add(number, name)
		if err != nil {
			return nil, err
		}
		table[rank] = uint32(slot + 1)
	}
	return table, s.file.sync()
}

// cell returns the cell of a user of a generation, by rank and id.
func (s *slots) cell(g *generation, rank, number uint64, name []byte) (*progress.Store, uint64) {
	if g.table != nil {
		if slot := g.table[rank]; slot != 0 {
			return s.keys, uint64(slot - 1)
		}
	}
	if name != nil {
		number, _ = decimal(name)
	}
	return s.ids, number
}

// find returns the rank of a key of the key file in a snapshot whose ids may be of either kind.
func find(lists *snapshot.Snapshot, number uint64, name []byte) (uint64, bool) {
	switch {
	case lists.Users() == snapshot.String && name == nil:
		var buf [20]byte
		return lists.FindString(strconv.AppendUint(buf[:0], number, 10))
	case lists.Users() == snapshot.String:
		return lists.FindString(name)
	case name == nil:
		rank, ok := lists.FindNumber(number)
		return rank, ok
	}
	return 0, false
}

// decimal returns the number that s is the canonical decimal form of.
func decimal(s []byte) (uint64, bool) {
	if len(s) == 0 || len(s) > 20 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	return parseNumber(s)
}

// parseNumber reads a whole number of digits alone.
func parseNumber(s []byte) (uint64, bool) {
	if len(s) == 0 || len(s) > 20 {
		return 0, false
	}
	var n uint64
	for i, c := range s {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		if i == 19 && (n > math.MaxUint64/10 || n == math.MaxUint64/10 && d > 5) {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

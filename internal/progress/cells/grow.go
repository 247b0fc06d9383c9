package cells

import (
	"errors"
	"fmt"
)

// Grow sees to it that there are at least cells cells; new ones are zero. Cells can be used meanwhile. When
// space or address space is missing the store stays as it was; when a sync fails it is poisoned.
func (s *Store) Grow(cells uint64) error {
	err := s.syncer.Exclusive(func() error {
		if err := s.Err(); err != nil {
			return err
		}
		before := s.size
		err := s.grow(cells)
		if unknown := (*syncError)(nil); errors.As(err, &unknown) {
			return s.syncer.Poison(err)
		}
		if err == nil {
			s.cache(before, s.size)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("grow cursors: %w", err)
	}
	return nil
}

// syncError is an error after which nobody can tell what is on the disk.
type syncError struct{ error }

func (e *syncError) Unwrap() error { return e.error }

// grow takes the steps in the order that a crash between any two of them survives: space first, then the
// header that promises it, then the use of it.
func (s *Store) grow(cells uint64) error {
	if cells <= s.n.Load() {
		return nil
	}
	if cells > min(s.max, maxCells) {
		return fmt.Errorf("%d cells for %s are more than the %d it was opened for: raise MaxCells", cells,
			s.path, min(s.max, maxCells))
	}
	size := fileSize(cells)
	if size > s.size {
		if err := s.faults.Allocate(s.f, s.size, size-s.size); err != nil {
			return err
		}
		if s.redo != nil {
			if err := s.redo.Reserve(min(size, maxRedoLen)); err != nil {
				return errors.Join(err, s.f.Truncate(s.size)) // room that others may need
			}
		}
	}
	// Also when the space was taken before, by Open perhaps: a header must not reach the disk ahead of the
	// size it needs.
	if err := s.faults.SyncData(s.f); err != nil {
		return &syncError{err}
	}
	h := s.header
	h.cells = cells
	if err := s.writeHeader(h); err != nil {
		return &syncError{err}
	}
	return s.extend(cells, size)
}

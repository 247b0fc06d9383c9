package cells

import (
	"errors"
	"fmt"
	"os"
)

// Grow sees to it that there are at least cells cells; new ones are zero. Cells can be used meanwhile. When space or address
// space is missing the store stays as it was; when a sync fails it is poisoned.
func (s *Store) Grow(cells uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("grow cursors %s: %w", s.path, os.ErrClosed)
	}
	if err := s.grow(cells); err != nil {
		return fmt.Errorf("grow cursors: %w", err)
	}
	return nil
}

// grow takes the steps in the order that a crash between any two of them survives: space first, then the header that promises
// it, then the use of it.
func (s *Store) grow(cells uint64) error {
	if err := s.Err(); err != nil {
		return err
	}
	if cells <= s.n.Load() {
		return nil
	}
	if cells > min(s.max, maxCells) {
		return fmt.Errorf("%d cells for %s are more than the %d it was opened for: raise MaxCells", cells, s.path, min(s.max, maxCells))
	}
	size := fileSize(cells)
	if size > s.size {
		if err := s.faults.Allocate(s.f, s.size, size-s.size); err != nil {
			return err
		}
		if s.redo != nil {
			if err := s.redo.reserve(size); err != nil {
				return errors.Join(err, s.f.Truncate(s.size)) // room that others may need
			}
		}
	}
	// Also when the space was taken before, by Open perhaps: a header must not reach the disk ahead of the size it needs.
	if err := s.faults.SyncData(s.f); err != nil {
		return s.poison(err)
	}
	if err := s.writeHeader(cells); err != nil {
		return s.poison(err)
	}
	return s.extend(cells, size)
}

// poison ends all writing. It returns the error that everybody gets from now on.
func (s *Store) poison(cause error) error {
	err := fmt.Errorf("%w: %w: check the disk of %s, then restart", ErrPoisoned, cause, s.path)
	if s.failed.CompareAndSwap(nil, &failure{err}) {
		s.log.Error("cursors are poisoned, advances are refused until a restart", "path", s.path, "cause", cause)
	}
	return s.Err()
}

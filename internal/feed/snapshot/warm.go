package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/disk"

	"github.com/zeebo/xxh3"
)

// Warm reads the item names and the lists into memory, checks them, and lets Resident know how
// far it is. It ends with telling the system that reads are random from now on. It fails with
// record.ErrCorrupt or a *disk.Fault and the block it found it in.
func (s *Snapshot) Warm(ctx context.Context) error {
	err := s.walk(ctx, func(done uint64) { s.warmed.Store(done) })
	if err != nil {
		return err
	}
	return s.mapping.Random()
}

// Warmed is the watermark of Warm, in bytes of the lists; ListBytes is its end.
func (s *Snapshot) Warmed() uint64 { return s.warmed.Load() }

// ListBytes is the size of the lists.
func (s *Snapshot) ListBytes() uint64 { return s.end }

// Resident says that a rank's list is below the watermark, so that reading it should not wait
// for the disk. The system may have taken the memory back since.
func (s *Snapshot) Resident(rank uint64) bool {
	warmed := s.warmed.Load()
	if warmed >= s.end {
		return true
	}
	if rank >= s.h.slots {
		return false
	}
	at := s.records.at(rank)
	return at < warmed && s.recordBound <= warmed-at
}

// InMemory says that Warm has come to its end.
func (s *Snapshot) InMemory() bool { return s.warmed.Load() >= s.end }

// Fetch brings the record of a rank into memory unless it is Resident. It waits for the disk in a
// system call, where a read of the list would in a page fault: that holds a processor of Go's
// scheduler, and reads far ahead as well. Where it fails, so will reading the list.
func (s *Snapshot) Fetch(rank uint64) {
	if s.Resident(rank) || rank >= s.h.slots {
		return
	}
	from, to := s.records.at(rank), s.end
	if rank+1 < s.h.slots {
		to = min(to, s.records.at(rank+1))
	}
	if from < to {
		lists := s.h.sections[sectionLists].offset
		s.single.Populate(int(lists+from), int(to-from)) //nolint:errcheck // see above
	}
}

// Verify checks every checksum. progress, which may be nil, is told how many bytes of how many
// are done. It fails as Warm does.
func (s *Snapshot) Verify(ctx context.Context, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	before := int64(s.h.fileBytes - s.end)
	progress(0, before+int64(s.end))
	err := disk.Guard(func() error {
		_, err := decodeHeader(s.path, s.data[:headerBytes], s.h.fileBytes)
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range checkedAtOpen {
		if err := s.guard(k.String(), func() error { return s.checkSum(k) }); err != nil {
			return err
		}
	}
	return s.walk(ctx, func(done uint64) { progress(before+int64(done), before+int64(s.end)) })
}

// walk reads and checks the names and then the lists, block by block, and calls reached after each
// with the bytes of lists done.
func (s *Snapshot) walk(ctx context.Context, reached func(uint64)) error {
	names := s.h.sections[sectionNames]
	if err := s.mapping.Populate(int(names.offset), int(names.length)); err != nil {
		return s.in("item names", err)
	}
	if err := s.guard("item names", func() error { return s.checkSum(sectionNames) }); err != nil {
		return err
	}
	lists, sums := s.h.sections[sectionLists], s.section(sectionBlocks)
	for at := uint64(0); at < s.end; at += blockBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(blockBytes, s.end-at)
		block := fmt.Sprintf("block %d of the lists, bytes %d to %d", at/blockBytes, lists.offset+at,
			lists.offset+at+n-1)
		if err := s.mapping.Populate(int(lists.offset+at), int(n)); err != nil {
			return s.in(block, err)
		}
		err := s.guard(block, func() error {
			want := binary.LittleEndian.Uint64(sums[at/blockBytes*8:])
			if found := xxh3.Hash(s.lists[at : at+n]); found != want {
				return damaged(block, "its checksum is %016x, expected %016x", found, want)
			}
			return nil
		})
		if err != nil {
			return err
		}
		reached(at + n)
	}
	reached(s.end)
	return nil
}

// guard runs fn and turns a memory fault into an error that says where.
func (s *Snapshot) guard(what string, fn func() error) error {
	err := disk.Guard(fn)
	var fault *disk.Fault
	if errors.As(err, &fault) { // which does not say where
		return s.in(what, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// in says which file and which part of it an error is about.
func (s *Snapshot) in(what string, err error) error {
	return fmt.Errorf("%s: %s: %w", s.path, what, err)
}

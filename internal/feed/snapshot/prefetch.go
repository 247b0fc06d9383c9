package snapshot

import "weir/internal/disk"

// prefetchBytes is how much of a record is asked for: its head and its first items; more, up to the
// whole of 200 items, measured no better.
const prefetchBytes = 256

// Prefetch asks for the list of a rank to be brought into the processor's cache, for a List that
// comes a microsecond later. It never waits and never fails.
func (s *Snapshot) Prefetch(rank uint64) {
	record := s.record(rank)
	disk.PrefetchBytes(record[:min(len(record), prefetchBytes)])
}

package cells

import (
	"os"
	"testing"
	"time"
)

// The log is written where room was reserved for it: beyond, a full disk would poison the store.
func TestTheLogStaysWithinItsRoom(t *testing.T) {
	mapped(t)
	path := temp(t)
	const cells = 400_000 // whose entries are longer than their lines
	s := mustOpen(t, path, cells, Options{SyncInterval: time.Hour})
	for round := range 2 {
		for i := range uint64(cells) {
			mustAdvance(t, s, i)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(redoPath(path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > s.size {
			t.Errorf("round %d: the log has %d bytes, %d were reserved", round, info.Size(), s.size)
		}
	}
	if n := s.checkpoints.Value(); n != 2 {
		t.Errorf("%d checkpoints, want one for each time that all cells had changed", n)
	}
}

package progress_test

import (
	"path/filepath"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

func options(faults positionstest.Faults) progress.Options {
	return progress.Options{Name: "test", SyncInterval: 5 * time.Millisecond,
		Faults: disk.Faults{FailSync: faults.Sync}}
}

var local = positionstest.Positions{Open: func(dir string, faults positionstest.Faults) (progress.Positions,
	error) {
	return progress.OpenLocal(dir, options(faults))
}}

var localIndex = positionstest.Index{Open: func(dir string, faults positionstest.Faults) (progress.Index,
	error) {
	return progress.OpenIndex(filepath.Join(dir, "index.cells"), options(faults))
}}

func TestMain(m *testing.M) { positionstest.Main(m, local, localIndex) }

func TestLocal(t *testing.T) { positionstest.RunPositions(t, local) }

func TestLocalIndex(t *testing.T) { positionstest.RunIndex(t, localIndex) }

func TestReference(t *testing.T) {
	for name, slow := range map[string]bool{"Inline": false, "Pending": true} {
		t.Run(name, func(t *testing.T) {
			positionstest.RunPositions(t, positionstest.Positions{
				Open: func(string, positionstest.Faults) (progress.Positions, error) {
					return &positionstest.Reference{Slow: slow}, nil
				},
				Volatile: true,
			})
		})
	}
}

func TestReferenceIndex(t *testing.T) {
	positionstest.RunIndex(t, positionstest.Index{
		Open: func(string, positionstest.Faults) (progress.Index, error) {
			return new(positionstest.ReferenceIndex), nil
		},
		Volatile: true,
	})
}

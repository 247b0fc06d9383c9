package progress

import (
	"path/filepath"
	"testing"

	"weir/internal/disk"
	"weir/internal/systest"
)

// Positions are by the keys in a file, whose name has to last as long.
func TestTheKeyFileIsSyncedIntoItsDirectory(t *testing.T) {
	dir := t.TempDir()
	watched := systest.Watch(t, dir)
	f, err := openKeyFile(filepath.Join(dir, "keys.log"), 0, false, disk.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	watched.WantSync("rename keys.log", "")
}

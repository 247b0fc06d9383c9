package snapshot

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"weir/internal/disk"
)

func TestAFileCutOffUnderTheMapIsAnError(t *testing.T) {
	path := bigSnapshot(t)
	s := open(t, path)
	if err := os.Truncate(path, headerBytes+blockBytes+4096); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Warm": s.Warm(context.Background()),
		"Verify": s.Verify(context.Background(), nil)} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s.Warmed() > blockBytes {
		t.Errorf("the watermark is at %d, beyond what is left of the file", s.Warmed())
	}
	// A reader who is beyond the end faults, and survives it as its callers do.
	err := disk.Guard(func() error {
		if list, err := s.List(199); err == nil {
			list.Append(nil, 0, 10)
		}
		return nil
	})
	var fault *disk.Fault
	if !errors.As(err, &fault) {
		t.Errorf("reading behind the end: %v", err)
	}
	if list, err := s.List(0); err != nil || list.Len() != 65_000 {
		t.Errorf("what is left of the file is not readable: %v", err)
	}
	if s.ChangedOnDisk() == nil {
		t.Error("the file is not said to be changed")
	}
}

func TestLockedSnapshotIsInMemory(t *testing.T) {
	path, _ := write(t, Options{UserCount: 1, MaxItem: 9}, []user{{id: 0, items: []uint64{5}}})
	if err := open(t, path).Lock(); err != nil { // a few pages are below any limit
		t.Error(err)
	}
}

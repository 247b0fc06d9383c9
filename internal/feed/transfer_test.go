package feed

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/feed/snapshot"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

// transferLists are lists of more users than are asked for at once.
func transferLists(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	const users = transferBlock*2 + 100
	path := filepath.Join(t.TempDir(), "feeds.weir")
	w, err := snapshot.Create(path, snapshot.Options{UserCount: users, MaxUser: users - 1, MaxItem: 9,
		Fallback: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for u := range uint64(users) {
		if err := w.AddNumber(u, []uint64{1, 2, 3, 4, 5, 6}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // read only
	return s
}

// put sets the position of every user.
func put(t *testing.T, p progress.Positions, s *snapshot.Snapshot, at func(rank uint64) int) {
	t.Helper()
	g, err := p.Prepare(version{users{Snapshot: s}, 1})
	if err != nil {
		t.Fatal(err)
	}
	for rank := range s.Slots() {
		u, _ := users{Snapshot: s}.User(rank)
		l, _ := users{Snapshot: s}.List(rank)
		if _, err := g.Do(u, l, progress.Set(at(rank))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATransferGoesOnWhereItWasCutShort(t *testing.T) {
	s := transferLists(t)
	box, err := progress.OpenLocal(t.TempDir(), progress.Options{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	put(t, box, s, func(rank uint64) int { return int(rank % 7) })
	engine := &positionstest.Reference{Slow: true}

	ctx, cancel := context.WithCancel(context.Background())
	var reached uint64
	in := Transfer{Lists: s, From: box, To: engine, FromVersion: math.MaxUint64, ToVersion: 1,
		Done: func(rank uint64) { reached = rank; cancel() }}
	if _, err := in.Run(ctx); !errors.Is(err, context.Canceled) || reached != transferBlock {
		t.Fatalf("cut short at %d: %v", reached, err)
	}
	in.Begin, in.Done = reached, func(rank uint64) {
		if rank <= reached {
			t.Errorf("it began again at %d", rank)
		}
	}
	found, err := in.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var want Transferred
	for rank := range s.Slots() {
		want.count(rank, int(rank%7))
	}
	if found != want {
		t.Errorf("found %+v, want %+v", found, want)
	}

	other, err := progress.OpenLocal(t.TempDir(), progress.Options{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	back := Transfer{Lists: s, From: engine, To: other, FromVersion: math.MaxUint64, ToVersion: 1}
	if found, err = back.Run(context.Background()); err != nil || found != want {
		t.Errorf("back: %+v %v, want %+v", found, err, want)
	}
}

func TestATransferSaysWhoIsAhead(t *testing.T) {
	s := transferLists(t)
	box, engine := new(positionstest.Reference), new(positionstest.Reference)
	put(t, engine, s, func(rank uint64) int { return int(rank) % 2 })
	_, err := (&Transfer{Lists: s, From: box, To: engine, FromVersion: math.MaxUint64, ToVersion: 1}).
		Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "user 1 is at 1 and should be at 0") {
		t.Error(err)
	}
}

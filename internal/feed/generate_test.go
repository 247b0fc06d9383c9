package feed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/feed/snapshot"
)

func generate(t *testing.T, o GenerateOptions) (string, snapshot.Stats) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feeds.weir")
	stats, err := Generate(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return path, stats
}

func TestGeneratedListsHoldDifferentItemsInRange(t *testing.T) {
	for _, o := range []GenerateOptions{
		{Users: 3000, Items: 200, MaxItem: 10_000_000, Seed: 1},
		{Users: 500, Items: 40, MaxItem: 41},
		{Users: 2, Items: 65_535, MaxItem: 65_535},
		{Users: 200_001, Items: 1, MaxItem: 1<<32 - 1},
		{Users: 10, Items: 0, MaxItem: 0},
		{Users: 0, Items: 5, MaxItem: 9},
	} {
		path, stats := generate(t, o)
		if stats.Users != o.Users || stats.Items != o.Users*uint64(o.Items) {
			t.Errorf("%+v gives %d users and %d items", o, stats.Users, stats.Items)
		}
		s, err := snapshot.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var items []uint64
		for user := range o.Users {
			rank, ok := s.FindNumber(user)
			list, err := s.List(rank)
			if !ok || err != nil || list.Tag() == 0 || list.Len() != o.Items {
				t.Fatalf("%+v: user %d: %v, %d items, %v", o, user, ok, list.Len(), err)
			}
			items = list.Append(items[:0], 0, o.Items)
			slices.Sort(items)
			if n := len(slices.Compact(items)); n != o.Items {
				t.Fatalf("%+v: user %d has %d different items", o, user, n)
			}
			if o.Items > 0 && (items[0] < 1 || items[o.Items-1] > uint64(o.MaxItem)) {
				t.Fatalf("%+v: user %d has items %d to %d", o, user, items[0], items[o.Items-1])
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGeneratedFileDependsOnItsOptionsAlone(t *testing.T) {
	read := func(o GenerateOptions) string {
		path, _ := generate(t, o)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	o := GenerateOptions{Users: 2000, Items: 100, MaxItem: 100_000, Seed: 3}
	first := read(o)
	for range 3 {
		if read(o) != first {
			t.Fatal("the same options gave another file")
		}
	}
	o.Published = time.UnixMilli(1)
	if read(o) == first {
		t.Error("another time gave the same file")
	}
	o.Seed++
	if read(o) == first {
		t.Error("another seed gave the same file")
	}
}

func TestGeneratedItemsHaveMostFrequentOnes(t *testing.T) {
	path, _ := generate(t, GenerateOptions{Users: 5000, Items: 200, MaxItem: 10_000_000, Seed: 1})
	s, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.Fallback()) != snapshot.DefaultFallback {
		t.Fatalf("%d fallback items", len(s.Fallback()))
	}
	// By chance alone an item would be in one list of 50,000.
	var with int
	for user := range uint64(5000) {
		list, err := s.List(user)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(list.Append(nil, 0, 200), s.Fallback()[0]) {
			with++
		}
	}
	if with < 250 {
		t.Errorf("the most frequent item is in %d lists of 5000", with)
	}
}

func TestGenerateThatIsStoppedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	o := GenerateOptions{Users: 1 << 31, Items: 200, MaxItem: 1 << 20, Progress: func(users uint64) {
		if users > 1000 {
			stop()
		}
	}}
	if _, err := Generate(ctx, filepath.Join(dir, "feeds.weir"), o); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

func TestGenerateRefuses(t *testing.T) {
	for says, o := range map[string]GenerateOptions{
		"make the largest item at least 6": {Users: 1, Items: 6, MaxItem: 5},
		"0 to 65535 are possible":          {Users: 1, Items: 65_536, MaxItem: 1 << 30},
		"lists of -1 items":                {Users: 1, Items: -1},
		"at most 4294967295 are possible":  {Users: 1 << 32},
	} {
		if _, err := Generate(context.Background(), filepath.Join(t.TempDir(), "feeds.weir"),
			o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: the error is %v, want one that says %q", o, err, says)
		}
	}
}

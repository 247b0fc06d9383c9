package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAListIsServedInOrderAndThenFilledFromTheGoldenItems(t *testing.T) {
	var errs []error
	feeds := newMemoryFeeds(rand.New(rand.NewPCG(1, 0)), 2, 25, 1000)
	r := &recommender{feeds: feeds, golden: goldenItems{5001, 5002, 5003, 5004, 5005, 5006},
		record: func(err error) { errs = append(errs, err) }}

	list := slices.Clone(feeds.lists[1])
	for _, part := range [][]uint32{list[:10], list[10:20]} {
		got, err := r.next(1, 10)
		if err != nil || !slices.Equal(got, part) {
			t.Fatalf("got %v, %v, want %v", got, err, part)
		}
		clear(got)
	}
	got, err := r.next(1, 10)
	if err != nil || len(got) != 10 || !slices.Equal(got[:5], list[20:]) {
		t.Fatalf("got %v, %v, want the last five and five golden items", got, err)
	}
	for _, item := range got[5:] {
		if item < 5001 || item > 5006 {
			t.Errorf("%d is no golden item", item)
		}
	}
	if len(errs) != 0 {
		t.Errorf("errors %v", errs)
	}
	if !slices.Equal(feeds.lists[1], list) {
		t.Error("what became of an answer changed the list")
	}

	// An unknown user, and fewer golden items than asked for: two errors and a short answer.
	if got, err := r.next(99, 10); err != nil || len(got) != 6 || len(errs) != 2 {
		t.Errorf("got %v, %v, with the errors %v", got, err, errs)
	}
	r.golden = nil
	if _, err := r.next(99, 10); !errors.Is(err, errNoItems) {
		t.Errorf("with nothing to give the error is %v", err)
	}
}

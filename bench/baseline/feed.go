package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

type recommender struct {
	feeds  *memoryFeeds
	golden goldenItems // when a list has too few left
	record func(error)
}

var errNoItems = errors.New("no feed items")

// next returns the user's next size items and moves the position, by a load and a store.
func (r *recommender) next(userID uint32, size int) ([]uint32, error) {
	var items []uint32
	feed, err := r.feeds.Feed(userID)
	if err != nil {
		r.record(err)
	} else {
		offset := r.feeds.Offset(userID)
		end := min(offset+size, len(feed))
		items = feed[offset:end]
		r.feeds.SetOffset(userID, end)
	}
	if missing := size - len(items); missing > 0 {
		items = append(items, r.golden.Random(missing, items)...)
	}
	if len(items) == 0 {
		return nil, errNoItems
	}
	if len(items) < size {
		r.record(fmt.Errorf("user %d: %d items asked for, %d found", userID, size, len(items)))
	}
	return items, nil
}

type memoryFeeds struct {
	lists   map[uint32][]uint32
	offsets sync.Map // uint32 -> int
}

func newMemoryFeeds(rng *rand.Rand, users uint32, items int, maxItem uint32) *memoryFeeds {
	m := &memoryFeeds{lists: make(map[uint32][]uint32)}
	for user := range users {
		list := make([]uint32, items)
		for i := range list {
			list[i] = 1 + rng.Uint32N(maxItem)
		}
		m.lists[user] = list
	}
	return m
}

// Feed returns a copy of the user's list, or an error for an unknown user.
func (m *memoryFeeds) Feed(userID uint32) ([]uint32, error) {
	list, ok := m.lists[userID]
	if !ok {
		return nil, fmt.Errorf("user %d has no feed", userID)
	}
	return slices.Clone(list), nil
}

func (m *memoryFeeds) Offset(userID uint32) int {
	v, ok := m.offsets.Load(userID)
	if !ok {
		return 0
	}
	return v.(int)
}

func (m *memoryFeeds) SetOffset(userID uint32, offset int) {
	m.offsets.Store(userID, offset)
}

type goldenItems []uint32

// Random returns up to n golden items that are not in except, in random order.
func (g goldenItems) Random(n int, except []uint32) []uint32 {
	picked := make([]uint32, 0, n)
	for _, i := range rand.Perm(len(g)) {
		if len(picked) == n {
			break
		}
		if !slices.Contains(except, g[i]) {
			picked = append(picked, g[i])
		}
	}
	return picked
}

//go:build !race

package snapshot

import (
	"fmt"
	"slices"
	"testing"
)

func TestFindingAndReadingAllocateNothing(t *testing.T) {
	users := make([]user, 300)
	for i := range users {
		users[i] = user{id: uint64(i) * 1_000_003, items: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 2}}
	}
	hashed, _ := write(t, Options{UserCount: 300, MaxUser: users[299].id, MaxItem: 9}, users)
	for i := range users {
		users[i].id = uint64(i)
		users[i].name = fmt.Sprintf("%09d", i)
	}
	dense, _ := write(t, Options{UserCount: 300, MaxUser: 299, MaxItem: 10_000_000}, users)
	named, _ := write(t, Options{Users: String, Items: String, MaxItem: 9,
		Names: slices.Values([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})}, users)
	for what, path := range map[string]string{"dense": dense, "hashed": hashed, "named": named} {
		s := open(t, path)
		items := make([]uint64, 0, 10)
		answer := make([]byte, 0, 1024)
		id, name := uint64(7), []byte("000000007")
		if what == "hashed" {
			id *= 1_000_003
		}
		var read int
		allocs := testing.AllocsPerRun(100, func() {
			rank, ok := s.FindNumber(id)
			if s.Users() == String {
				rank, ok = s.FindString(name)
			}
			list, err := s.List(rank)
			if !ok || err != nil || list.Tag() == 0 {
				return
			}
			items = list.Append(items[:0], 0, 10)
			answer = answer[:0]
			for _, item := range items {
				answer = append(answer, s.NameJSON(item)...)
			}
			s.Resident(rank)
			read = len(items)
		})
		if allocs != 0 || read != 10 {
			t.Errorf("%s: %v allocations to read %d items", what, allocs, read)
		}
	}
}

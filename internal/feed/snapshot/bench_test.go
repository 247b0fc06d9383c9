package snapshot

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// The benchmarks of what serving and importing do most: lists of 200 items up to 10,000,000.

func benchmarkSnapshot(b *testing.B, o Options, users uint64, step uint64) *Snapshot {
	b.Helper()
	path := filepath.Join(b.TempDir(), "feeds.weir")
	o.UserCount, o.MaxUser, o.MaxItem = users, (users-1)*step, 10_000_000
	w, err := Create(path, o)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	r := rand.New(rand.NewPCG(6, 1))
	for i := range users {
		if err := w.AddNumber(i*step, randomItems(r, 200, o.MaxItem)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	return open(b, path)
}

func BenchmarkFindAndReadTen(b *testing.B) {
	for name, step := range map[string]uint64{"dense": 1, "hashed": 1_000_003} {
		const users = 4096 // small enough for the cache
		s := benchmarkSnapshot(b, Options{}, users, step)
		b.Run(name, func(b *testing.B) {
			dst := make([]uint64, 0, 10)
			var at uint64
			for b.Loop() {
				at = (at*5 + 1) % users
				rank, ok := s.FindNumber(at * step)
				list, err := s.List(rank)
				if !ok || err != nil {
					b.Fatal(at, ok, err)
				}
				from := int(at % 190)
				if err := s.Check(list, from, from+10); err != nil {
					b.Fatal(err)
				}
				dst = list.Append(dst[:0], from, from+10)
			}
		})
	}
}

func BenchmarkAddNumber32(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 1))
	items := make([]uint32, 1<<20)
	for i := range items {
		items[i] = uint32(r.Uint64N(10_000_001))
	}
	w, err := Create(filepath.Join(b.TempDir(), "feeds.weir"), Options{UserCount: 1 << 30, MaxUser: 1 << 30,
		MaxItem: 10_000_000})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	var user uint64
	for b.Loop() {
		at := user * 200 % (1<<20 - 200)
		if err := w.AddNumber32(user, items[at:at+200]); err != nil {
			b.Fatal(err)
		}
		user++
	}
}

package snapshot

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"weir/internal/disk"

	"golang.org/x/sys/unix"
)

// cached counts the pages of b that are in memory, by mincore(2).
func cached(t *testing.T, b []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	first := uintptr(unsafe.Pointer(&b[0])) / uintptr(page) * uintptr(page)
	length := uintptr(unsafe.Pointer(&b[0])) + uintptr(len(b)) - first
	pages := make([]byte, (int(length)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, first, length,
		uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

// TestFetchReadsASingleRecord also for those who find a user by the id in the record.
func TestFetchReadsASingleRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var users []user
	for i := range uint64(20_000) {
		users = append(users, user{id: i << 32, items: randomItems(r, 200, 10_000_000)})
	}
	path, _ := write(t, Options{UserCount: 20_000, MaxUser: 20_000 << 32, MaxItem: 10_000_000}, users)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, fetch := range map[string]func(s *Snapshot){
		"Fetch":      func(s *Snapshot) { s.Fetch(10_000) },
		"FindNumber": func(s *Snapshot) { s.FindNumber(10_000 << 32) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := disk.SyncData(f); err != nil {
				t.Fatal(err)
			}
			if err := disk.Uncache(f, 0, 0); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			record := s.record(10_000)[:600]
			if n := cached(t, record); n != 0 {
				t.Skipf("this system keeps %d pages in memory that it was asked to forget", n)
			}
			before := cached(t, s.lists)
			fetch(s)
			if n := cached(t, record); n == 0 {
				t.Error("the record was not read")
			}
			if n := cached(t, s.lists) - before; n > 8 {
				t.Errorf("%d pages were read for a record of one or two", n)
			}
			s.Fetch(1 << 40) // nobody, and nothing happens
			if err := s.Warm(context.Background()); err != nil {
				t.Fatal(err)
			}
			if !s.InMemory() {
				t.Error("not in memory when warm")
			}
		})
	}
}

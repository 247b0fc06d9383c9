package snapshot

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

// user is a list to be written and what must be read back.
type user struct {
	id    uint64
	name  string
	items []uint64
}

// write makes a snapshot of users and returns its path and the statistics.
func write(t testing.TB, o Options, users []user) (string, Stats) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feeds.weir")
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, u := range users {
		if o.Users == String {
			err = w.AddString(u.name, u.items)
		} else {
			err = w.AddNumber(u.id, u.items)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stats, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return path, stats
}

// open opens a snapshot for the length of the test.
func open(t testing.TB, path string) *Snapshot {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// check reads every user back and compares.
func check(t testing.TB, s *Snapshot, users []user) {
	t.Helper()
	if err := s.Verify(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for _, u := range users {
		rank, ok := s.FindNumber(u.id)
		if s.Users() == String {
			rank, ok = s.FindString([]byte(u.name))
		}
		if !ok {
			t.Fatalf("user %d %q is not found", u.id, u.name)
		}
		list, err := s.List(rank)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.Append(nil, 0, list.Len()); !slices.Equal(got, u.items) {
			t.Fatalf("user %d %q of rank %d has %v, want %v", u.id, u.name, rank, got, u.items)
		}
		if list.Tag() == 0 || list.Tag() >= 1<<48 {
			t.Fatalf("user %d %q has tag %#x", u.id, u.name, list.Tag())
		}
		id, name, ok := s.UserKey(rank)
		if !ok || s.Users() == Number && id != u.id || string(name) != u.name {
			t.Fatalf("the key of user %d %q reads %d %q %v", u.id, u.name, id, name, ok)
		}
	}
}

// randomUsers makes n lists of up to longest distinct items, ids ascending with gaps.
func randomUsers(r *rand.Rand, n, longest int, gap, maxItem uint64) []user {
	users := make([]user, n)
	var id uint64
	for i := range users {
		id += 1 + r.Uint64N(gap)
		users[i] = user{id: id, items: randomItems(r, r.IntN(longest+1), maxItem)}
	}
	return users
}

func randomItems(r *rand.Rand, n int, maxItem uint64) []uint64 {
	items := make([]uint64, n)
	for i := range items {
		items[i] = r.Uint64()
		if maxItem < math.MaxUint64 {
			items[i] %= maxItem + 1
		}
	}
	return items
}

func names(n uint64, name func(uint64) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(name(i)) {
				return
			}
		}
	}
}

func TestEveryKindComesBackAsWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	maxItems := []uint64{0, 1, 2, 300, 39_999, 1 << 20, 10_000_000, 1<<24 - 1, 1 << 24, 1 << 31, 1<<57 - 1,
		1 << 57, 1<<60 + 12345, math.MaxUint64}
	for _, maxItem := range maxItems {
		for _, gap := range []uint64{1, 2, 1 << 40} {
			t.Run(fmt.Sprintf("numbers/gap=%d/max=%d", gap, maxItem), func(t *testing.T) {
				users := randomUsers(r, 1500, 40, gap, maxItem)
				path, stats := write(t, Options{UserCount: 1500, MaxUser: users[1499].id, MaxItem: maxItem},
					users)
				s := open(t, path)
				if s.Dense() != (gap <= 2) {
					t.Errorf("dense is %v", s.Dense())
				}
				if s.Stats() != stats || stats.Users != 1500 || stats.MaxItem != maxItem {
					t.Errorf("statistics %+v were written, %+v read", stats, s.Stats())
				}
				check(t, s, users)
			})
		}
	}
	for _, n := range []uint64{1, 700} {
		t.Run(fmt.Sprintf("strings/names=%d", n), func(t *testing.T) {
			users := randomUsers(r, 1500, 40, 5, n-1)
			for i := range users {
				users[i].name = fmt.Sprintf("user-%08d", users[i].id)
				users[i].id = 0
			}
			users[0].name, users[1499].name = "\x00", strings.Repeat("\xff", MaxUserName)
			name := func(i uint64) string { return fmt.Sprintf("item <%d> \"é\\", i*i) }
			path, _ := write(t, Options{Users: String, Items: String, MaxItem: n - 1, Names: names(n, name)},
				users)
			s := open(t, path)
			check(t, s, users)
			for i := range n {
				if s.Name(i) != name(i) {
					t.Fatalf("name %d is %q, want %q", i, s.Name(i), name(i))
				}
			}
		})
	}
}

func TestUnknownUsersAreNotFound(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	users := randomUsers(r, 20_000, 3, 1000, 1000)
	path, _ := write(t, Options{UserCount: 20_000, MaxUser: users[len(users)-1].id, MaxItem: 1000}, users)
	s := open(t, path)
	known := make(map[uint64]bool)
	for _, u := range users {
		known[u.id] = true
	}
	for range 200_000 {
		id := r.Uint64N(20_000_000)
		if rank, ok := s.FindNumber(id); ok != known[id] {
			t.Fatalf("user %d: found %v at %d, want %v", id, ok, rank, known[id])
		}
	}
	if _, ok := s.FindString([]byte("12")); ok {
		t.Error("a snapshot of numbers found a string")
	}
}

func TestAbsentUsersOfADenseSnapshotHaveNoTag(t *testing.T) {
	path, stats := write(t, Options{UserCount: 3, MaxUser: 10, MaxItem: 9},
		[]user{{id: 2, items: []uint64{1, 2}}, {id: 5}, {id: 10, items: []uint64{3}}})
	s := open(t, path)
	if !s.Dense() || s.Slots() != 11 || stats.Users != 3 || stats.Shortest != 0 || stats.Longest != 2 {
		t.Fatalf("dense %v, %d slots, %+v", s.Dense(), s.Slots(), stats)
	}
	for id := range uint64(11) {
		rank, ok := s.FindNumber(id)
		list, err := s.List(rank)
		if !ok || err != nil {
			t.Fatal(id, ok, err)
		}
		present := id == 2 || id == 5 || id == 10
		if _, _, known := s.UserKey(rank); (list.Tag() != 0) != present || known != present {
			t.Errorf("user %d: tag %#x, key %v, want present %v", id, list.Tag(), known, present)
		}
	}
	if _, ok := s.FindNumber(11); ok {
		t.Error("user 11 was found behind the last")
	}
	if _, err := s.List(11); err == nil {
		t.Error("rank 11 of 11 has a list")
	}
}

func TestSnapshotWithoutUsers(t *testing.T) {
	for _, o := range []Options{{}, {Users: String}, {MaxUser: 1 << 50},
		{Items: String, Names: names(0, nil)}} {
		path, stats := write(t, o, nil)
		s := open(t, path)
		check(t, s, nil)
		if stats.Users != 0 || s.Slots() != 0 || len(s.Fallback()) != 0 {
			t.Errorf("%+v: %+v, %d slots", o, stats, s.Slots())
		}
		if _, ok := s.FindNumber(0); ok {
			t.Error("user 0 was found")
		}
		if _, ok := s.FindString(nil); ok {
			t.Error("user \"\" was found")
		}
		if err := s.Warm(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestAppendCutsTheRangeToTheList(t *testing.T) {
	path, _ := write(t, Options{UserCount: 1, MaxItem: 9}, []user{{id: 0, items: []uint64{5, 6, 7}}})
	list, err := open(t, path).List(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to int
		want     []uint64
	}{{0, 3, []uint64{5, 6, 7}}, {-1, 1, []uint64{5}}, {2, 99, []uint64{7}}, {3, 4, nil}, {2, 1, nil},
		{math.MinInt, math.MaxInt, []uint64{5, 6, 7}}} {
		if got := list.Append(nil, c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("items %d to %d are %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if got := list.Append([]uint64{1}, 1, 2); !slices.Equal(got, []uint64{1, 6}) {
		t.Errorf("appended to one item: %v", got)
	}
}

func TestTagsStandForUserAndItemsAlone(t *testing.T) {
	tag := func(path, name string, id uint64) uint64 {
		s := open(t, path)
		rank, ok := s.FindNumber(id)
		if s.Users() == String {
			rank, ok = s.FindString([]byte(name))
		}
		list, err := s.List(rank)
		if !ok || err != nil {
			t.Fatal(name, id, ok, err)
		}
		return list.Tag()
	}
	plain, _ := write(t, Options{UserCount: 8, MaxUser: 7, MaxItem: 300},
		[]user{{id: 6}, {id: 7, items: []uint64{10, 20}}})
	wide, _ := write(t, Options{UserCount: 1, MaxUser: 1 << 60, MaxItem: 1 << 60},
		[]user{{id: 7, items: []uint64{10, 20}}})
	list := []string{"x", "20", "y", "10"}
	text, _ := write(t, Options{Users: String, Items: String, MaxItem: 3, Names: slices.Values(list)},
		[]user{{name: "7", items: []uint64{3, 1}}})
	want := tag(plain, "7", 7)
	if hash := xxh3.Hash(
		[]byte(
			"\x07\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\x00\x00\x00\x00")); want != hash>>16 {
		t.Errorf("the tag is %#x, want the upper 48 bits of %#x: positions are lost when tags change", want,
			hash)
	}
	if got := tag(wide, "7", 7); got != want {
		t.Errorf("packed wider the tag is %#x, want %#x", got, want)
	}
	if got := tag(text, "7", 7); got != want {
		t.Errorf("written as text the tag is %#x, want %#x", got, want)
	}
	for what, u := range map[string]user{
		"another user":  {id: 6, items: []uint64{10, 20}},
		"another order": {id: 7, items: []uint64{20, 10}},
		"an item less":  {id: 7, items: []uint64{10}},
		"no item":       {id: 7},
	} {
		other, _ := write(t, Options{UserCount: 8, MaxUser: 7, MaxItem: 300}, []user{u})
		if tag(other, "", u.id) == want {
			t.Errorf("%s has the same tag", what)
		}
	}
	if identityOf([]byte("007")) == 7 || identityOf([]byte("18446744073709551616")) == 0 ||
		identityOf([]byte("18446744073709551615")) != math.MaxUint64 {
		t.Error("only canonical decimals are numbers")
	}
}

func TestNamesAreReadyJSON(t *testing.T) {
	list := []string{"", "plain", `q"b\`, "<&>", "\x01\t\u2028é", strings.Repeat("x", MaxItemName)}
	path, _ := write(t, Options{Items: String, MaxItem: 5, Names: slices.Values(list)}, nil)
	s := open(t, path)
	for i, want := range []string{`""`, `"plain"`, `"q\"b\\"`, `"<&>"`, `"\u0001\t\u2028é"`} {
		if got := string(s.NameJSON(uint64(i))); got != want {
			t.Errorf("name %d is %s, want %s", i, got, want)
		}
	}
	if s.Name(5) != list[5] {
		t.Error("the longest name did not come back")
	}
	if got := string(s.NameJSON(6)); got != "null" || s.Name(6) != "" {
		t.Errorf("name 6 of 6 is %s", got)
	}
}

func TestWriterRefuses(t *testing.T) {
	numbers, strs := Options{UserCount: 10, MaxUser: 100, MaxItem: 50}, Options{Users: String, MaxItem: 50}
	for what, c := range map[string]struct {
		o    Options
		add  func(w *Writer) error
		says string
	}{
		"an item beyond": {numbers, func(w *Writer) error { return w.AddNumber(1, []uint64{51}) },
			"item 51 is beyond the largest"},
		"a 32-bit item": {numbers, func(w *Writer) error { return w.AddNumber32(1, []uint32{51}) },
			"item 51 is beyond the largest"},
		"a user beyond": {numbers, func(w *Writer) error { return w.AddNumber(101, nil) },
			"user 101 is beyond the largest"},
		"a user again": {numbers, func(w *Writer) error {
			return errors.Join(w.AddNumber(7, nil), w.AddNumber(7, nil))
		}, "user 7 came after 7"},
		"a lower user": {numbers, func(w *Writer) error {
			return errors.Join(w.AddNumber(7, nil), w.AddNumber(6, nil))
		}, "user 6 came after 7"},
		"the last again": {Options{MaxUser: math.MaxUint64}, func(w *Writer) error {
			return errors.Join(w.AddNumber(math.MaxUint64, nil), w.AddNumber(0, nil))
		}, "came after"},
		"a long list": {numbers, func(w *Writer) error {
			return w.AddNumber(1, make([]uint64, MaxListLen+1))
		}, "at most 65535"},
		"a string":      {numbers, func(w *Writer) error { return w.AddString("a", nil) }, "is a string"},
		"a number":      {strs, func(w *Writer) error { return w.AddNumber(1, nil) }, "is a number"},
		"an empty name": {strs, func(w *Writer) error { return w.AddString("", nil) }, "1 to 255"},
		"a long name": {strs, func(w *Writer) error {
			return w.AddString(strings.Repeat("a", 256), nil)
		}, "1 to 255"},
		"a name again": {strs, func(w *Writer) error {
			return errors.Join(w.AddString("b", nil), w.AddString("b", nil))
		}, `"b" came after "b"`},
		"a lower name": {strs, func(w *Writer) error {
			return errors.Join(w.AddString("b", nil), w.AddString("a", nil))
		}, `"a" came after "b"`},
		"an unnamed item": {Options{Items: String, Names: names(0, nil)}, func(w *Writer) error {
			return w.AddNumber(0, []uint64{0})
		}, "has no name"},
		"an add after all": {numbers, func(w *Writer) error { w.Abort(); return w.AddNumber(1, nil) },
			"given up"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			w, err := Create(filepath.Join(dir, "feeds.weir"), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.add(w); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want one that says %q", err, c.says)
			}
			if _, err := w.Commit(); err == nil {
				t.Error("it was committed after an error")
			}
			w.Abort()
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
		})
	}
}

func TestFailedWriteFailsTheCommit(t *testing.T) {
	items := make([]uint64, MaxListLen) // half a MiB
	for what, breakIt := range map[string]func(w *Writer) error{
		"the file goes": func(w *Writer) error { return w.out.file.Abort() },
		"the file goes in a block": func(w *Writer) error {
			return errors.Join(w.out.file.Abort(), addBlock(w, items))
		},
		"a spool goes": func(w *Writer) error { return w.records.runs.file.Close() },
	} {
		path := filepath.Join(t.TempDir(), "feeds.weir")
		w, err := Create(path, Options{UserCount: 100, MaxUser: 100, MaxItem: math.MaxUint64})
		if err != nil {
			t.Fatal(err)
		}
		// Records of two lengths, so that there is a spool.
		if err := errors.Join(w.AddNumber(1, items[:1]), w.AddNumber(2, items[:2])); err != nil {
			t.Fatal(err)
		}
		if err := breakIt(w); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(); err == nil {
			t.Errorf("%s: Commit did not notice", what)
		}
		w.Abort()
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the file is there", what)
		}
	}
}

// addBlock adds lists until one fails, and fails when none of a block's worth does.
func addBlock(w *Writer, items []uint64) error {
	for user := range uint64(40) {
		if w.AddNumber(3+user, items) != nil {
			return nil
		}
	}
	return errors.New("a whole block went to a file that is gone")
}

func TestCreateRefuses(t *testing.T) {
	for says, o := range map[string]Options{
		"beyond the largest": {MaxItem: 5, Fallbacks: []uint64{6}},
		"fallback item 0":    {MaxItem: 5, Fallbacks: []uint64{0}},
		"there twice":        {MaxItem: 5, Fallbacks: []uint64{3, 3}},
		"names are given":    {MaxItem: 5, Names: names(6, func(uint64) string { return "" })},
		"with string items":  {Items: String},
		"2 item names":       {Items: String, MaxItem: 5, Names: slices.Values([]string{"a", "b"})},
		"not UTF-8":          {Items: String, Names: slices.Values([]string{"\xff"})},
		"at most 65535": {Items: String,
			Names: slices.Values([]string{strings.Repeat("x", MaxItemName+1)})},
		"want number or":     {Users: 7},
		"at most 4294967295": {UserCount: 1 << 32},
	} {
		dir := t.TempDir()
		if _, err := Create(filepath.Join(dir, "feeds.weir"), o); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%q: %v is left behind", says, left)
		}
	}
}

func TestCommitReplacesAndAbortLeaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feeds.weir")
	for _, step := range []struct {
		commit bool
		want   int // items of user 0 afterwards
	}{{true, 1}, {false, 1}, {true, 3}} {
		w, err := Create(path, Options{UserCount: 1, MaxItem: 9})
		if err != nil {
			t.Fatal(err)
		}
		n := step.want
		if !step.commit {
			n = 2
		}
		if err := w.AddNumber(0, []uint64{1, 2, 3}[:n]); err != nil {
			t.Fatal(err)
		}
		if step.commit {
			_, err = w.Commit()
		}
		w.Abort()
		if err != nil {
			t.Fatal(err)
		}
		if list, err := open(t, path).List(0); err != nil || list.Len() != step.want {
			t.Errorf("%+v: %d items, %v", step, list.Len(), err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("%v is left behind", left)
		}
	}
}

func TestPublicationsTellWhichListsAreNewer(t *testing.T) {
	publication := func(at time.Time, item uint64) Publication {
		path, _ := write(t, Options{UserCount: 1, MaxItem: 9, Published: at}, []user{{items: []uint64{item}}})
		return open(t, path).Publication()
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_000_000, time.UTC)
	first := publication(at, 1)
	if again := publication(at, 1); again != first {
		t.Errorf("the same file of the same moment is %v and %v", first, again)
	}
	if other := publication(at, 2); other == first {
		t.Errorf("other lists of the same moment are %v, too", other)
	}
	for _, item := range []uint64{1, 2, 3} {
		if later := publication(at.Add(time.Millisecond), item); later <= first {
			t.Errorf("%v is of later lists than %v, and not greater", later, first)
		}
		if timeless := publication(time.Time{}, item); timeless >= first {
			t.Errorf("%v has no time, and is not before %v", timeless, first)
		}
	}
	if s := first.String(); !strings.HasPrefix(s, "2026-02-03T04:05:06.007Z-") {
		t.Errorf("the publication reads %s", s)
	}
}

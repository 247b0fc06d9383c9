package feed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/feed/snapshot"
)

// openFile writes a fallback file and opens it for a snapshot of lists, whose items are 1 to 60.
func openFile(t *testing.T, text string, names bool) (*fallback, *snapshot.Snapshot, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(3, 20).write(t, path, dense, names)
	s, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	file := filepath.Join(dir, "fallback")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := openFallback(file, s)
	return f, s, err
}

// shown returns the JSON of fallback items.
func shown(f *fallback, indices ...uint16) (all []string) {
	for _, i := range indices {
		all = append(all, string(f.items[i].json))
	}
	return all
}

func all(f *fallback) (indices []uint16) {
	for i := range f.items {
		indices = append(indices, uint16(i))
	}
	return indices
}

func TestFallbackFilesAreReadLineByLine(t *testing.T) {
	numbers := "\ufeff# popular\n7\n\n 18446744073709551615 \r\n100\n7\n007\n21\n"
	f, _, err := openFile(t, numbers, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := shown(f, all(f)...), []string{"7", "18446744073709551615", "100",
		"21"}; !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	f, s, err := openFile(t, "\ufeff7\n\"quoted\" <é>\n007\n7\n\\#h\n# no item\n", true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"7", `"quoted" <é>`, "007", "#h"} {
		if got := unquote(t, shown(f, uint16(i))[0]); got != want {
			t.Errorf("item %d is %q, want %q", i, got, want)
		}
	}
	if !f.items[0].inUse || s.Name(f.items[0].id) != "7" || f.items[1].inUse || f.items[2].inUse {
		t.Errorf("which items the snapshot knows: %+v", f.items)
	}
}

func TestBadFallbackLinesAreNamed(t *testing.T) {
	many := new(strings.Builder)
	for i := range maxFallback + 1 {
		fmt.Fprintln(many, i+1)
	}
	for what, c := range map[string]struct {
		text  string
		names bool
		says  []string
	}{
		"a name among numbers": {"1\n# x\n\nanna\n", false,
			[]string{"line 4", `"anna"`, "numbers from 1 on"}},
		"zero":            {"1\n0\n", false, []string{"line 2", "numbers from 1 on"}},
		"negative":        {"-1\n", false, []string{"line 1"}},
		"too large":       {"18446744073709551616\n", false, []string{"line 1"}},
		"two in a line":   {"1\n1,2\n", false, []string{"line 2"}},
		"not UTF-8":       {"a\n\xff\n", true, []string{"line 2", "UTF-8"}},
		"too many":        {many.String(), false, []string{"line 10001", "more than 10000"}},
		"an endless line": {"1\n" + strings.Repeat("1", 1<<20), false, []string{"line 2", "too long"}},
	} {
		_, _, err := openFile(t, c.text, c.names)
		wantError(t, what, err, append(c.says, "fallback")...)
	}
	_, err := openFallback(filepath.Join(t.TempDir(), "nowhere"), nil)
	wantError(t, "no file", err, "--fallback", "nowhere")
}

// TestThePickIsUniformAndNeverOfTheOwnList draws many times and counts.
func TestThePickIsUniformAndNeverOfTheOwnList(t *testing.T) {
	for _, names := range []bool{false, true} {
		// Half of the items are of user 1's list, which is 21 to 40.
		var text strings.Builder
		for i := range 40 {
			fmt.Fprintln(&text, 31+i)
		}
		f, s, err := openFile(t, text.String(), names)
		if err != nil {
			t.Fatal(err)
		}
		own, err := s.List(1)
		if err != nil {
			t.Fatal(err)
		}
		sc := new(scratch)
		const draws, n = 30_000, 7
		counts := make(map[string]int)
		for range draws {
			picked := f.pick(sc, nil, own, n)
			if len(picked) != n {
				t.Fatalf("%d items picked, want %d", len(picked), n)
			}
			seen := make(map[uint16]bool)
			for _, i := range picked {
				if seen[i] {
					t.Fatalf("item %d is there twice", i)
				}
				seen[i] = true
				counts[shown(f, i)[0]]++
			}
		}
		quote := func(n int) string {
			if names {
				return fmt.Sprintf(`"%d"`, n)
			}
			return fmt.Sprint(n)
		}
		for i := 31; i <= 40; i++ {
			if c := counts[quote(i)]; c != 0 {
				t.Errorf("item %d of the own list was picked %d times", i, c)
			}
		}
		// 7,000 each, with a standard deviation of 73.
		const want = draws * n / 30
		for i := 41; i <= 70; i++ {
			if c := counts[quote(i)]; c < want-500 || c > want+500 {
				t.Errorf("item %d was picked %d times, want about %d", i, c, want)
			}
		}
		// Whoever asks for more gets all there are.
		if picked := f.pick(sc, nil, own, 255); len(picked) != 30 {
			t.Errorf("%d items picked of 30", len(picked))
		}
		if picked := f.pick(sc, nil, snapshot.List{}, 255); len(picked) != 40 {
			t.Errorf("%d items picked for nobody, want all 40", len(picked))
		}
	}
}

// TestThePickKnowsLongLists has a list of several steps of the pass, all of whose items are fallback items.
func TestThePickKnowsLongLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feeds.weir")
	l := numbered(2, 5000)
	fallback := append(slices.Clone(l[0]), 1<<20)
	l.write(t, path, dense, false, fallback...)
	s, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := openFallback("", s)
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.List(0)
	if err != nil {
		t.Fatal(err)
	}
	sc := new(scratch)
	if got := shown(f, f.pick(sc, nil, own, 255)...); !slices.Equal(got, []string{"1048576"}) {
		t.Errorf("picked %v, want the only item that is not in the list", got)
	}
	if own, err = s.List(1); err != nil {
		t.Fatal(err)
	}
	if got := f.pick(sc, nil, own, 255); len(got) != 255 {
		t.Errorf("%d items picked", len(got))
	}
}

func TestMoreFallbackItemsThanThePickCanNumberAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feeds.weir")
	fallback := make([]uint64, 70_000)
	for i := range fallback {
		fallback[i] = uint64(i + 1)
	}
	numbered(1, 10).write(t, path, dense, false, fallback...)
	s, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := openFallback("", s)
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.List(0)
	if err != nil {
		t.Fatal(err)
	}
	sc := new(scratch)
	picked := shown(f, f.pick(sc, nil, own, 1<<20)...)
	slices.Sort(picked)
	if n := len(slices.Compact(picked)); n != maxOwnFallback-10 {
		t.Errorf("%d different items picked, want %d", n, maxOwnFallback-10)
	}
}

// TestShortAnswersAreLoggedOnceASecond notes many more than that.
func TestShortAnswersAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logged
		l := newShortLog(slog.New(slog.NewTextHandler(&lines, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.run(ctx) }()
		want := func(n int, says string) {
			t.Helper()
			synctest.Wait()
			text := lines.String()
			if got := strings.Count(text, "\n"); got != n || !strings.Contains(text, says) {
				t.Errorf("%d lines, want %d, one of which says %s:\n%s", got, n, says, text)
			}
		}
		synctest.Wait()
		l.note(shortAnswer{number: 7, asked: 10, came: 3})
		want(1, "user=7 asked=10 given=3")
		for range 1000 {
			l.note(shortAnswer{name: "anna", asked: 20, came: 4})
		}
		want(1, "user=7")
		time.Sleep(time.Second)
		want(2, "user=anna asked=20 given=4")
		time.Sleep(time.Hour)
		want(2, "user=anna")
		l.note(shortAnswer{number: 0, asked: 1, came: 0})
		want(3, "user=0 asked=1 given=0")
		stop()
		<-done
	})
}

func TestLongFillsAreNotForEventLoops(t *testing.T) {
	for _, c := range []struct {
		items, length int
		costly        bool
	}{{2048, 2048, false}, {2049, 0, true}, {1, 2049, true}} {
		f := &fallback{items: make([]fallbackItem, c.items)}
		if got := f.costly(c.length); got != c.costly {
			t.Errorf("%d fallback items and a list of %d: costly is %t", c.items, c.length, got)
		}
	}
}

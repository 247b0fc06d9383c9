package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/feed/snapshot"
	"weir/internal/ingest"
)

// importFiles writes files given as name=content, imports them all and returns the snapshot.
func importFiles(t *testing.T, o ImportOptions, files ...string) (*snapshot.Snapshot, ImportStats, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	var sources []string
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, name)
	}
	if o.Memory == 0 {
		o.Memory = 1 << 20
	}
	if err := os.WriteFile("out.weir", []byte("the former one"), 0o600); err != nil {
		t.Fatal(err)
	}
	stats, err := Import(t.Context(), sources, "out.weir", o)
	left, _ := filepath.Glob(".*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err != nil {
		if b, readErr := os.ReadFile("out.weir"); string(b) != "the former one" {
			t.Errorf("the former file holds %.20q, %v", b, readErr)
		}
		return nil, stats, err
	}
	s, err := snapshot.Open("out.weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Verify(t.Context(), func(done, total int64) {}); err != nil {
		t.Fatal(err)
	}
	return s, stats, nil
}

// listOf returns the items of a user as text, nil when there is no such user.
func listOf(t *testing.T, s *snapshot.Snapshot, user string) []string {
	t.Helper()
	var rank uint64
	var ok bool
	if s.Users() == snapshot.String {
		rank, ok = s.FindString([]byte(user))
	} else {
		var id uint64
		if _, err := fmt.Sscan(user, &id); err != nil {
			t.Fatal(err)
		}
		rank, ok = s.FindNumber(id)
	}
	if !ok {
		return nil
	}
	l, err := s.List(rank)
	if err != nil {
		t.Fatal(err)
	}
	items := []string{}
	for _, item := range l.Append(nil, 0, l.Len()) {
		if s.Items() == snapshot.String {
			items = append(items, s.Name(item))
		} else {
			items = append(items, fmt.Sprint(item))
		}
	}
	return items
}

func wantList(t *testing.T, s *snapshot.Snapshot, user string, want ...string) {
	t.Helper()
	if got := listOf(t, s, user); !slices.Equal(got, want) {
		t.Errorf("user %s has %v, want %v", user, got, want)
	}
}

func TestImportEveryKindOfID(t *testing.T) {
	const big = "18446744073709551615"
	for _, tt := range []struct{ name, users, items string }{
		{"numbers", "7", "5"}, {"large users", big, "5"}, {"large items", "7", big},
		{"named users", "ada", "5"}, {"named items", "7", "Ödön"}, {"names", "ada", `say "hi"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := fmt.Sprintf("in=user\titem\n%s\t%s\n%s\t9\n3\t9\n", tt.users,
				strings.ReplaceAll(tt.items, `"`, `""`), tt.users)
			if strings.Contains(rows, `""`) {
				rows = strings.Replace(rows, `say ""hi""`, `"say ""hi"""`, 1)
			}
			var o ImportOptions
			if strings.HasPrefix(tt.name, "name") {
				o.UserIDs, o.ItemIDs = ingest.String, ingest.String
			}
			s, stats, err := importFiles(t, o, rows)
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, s, tt.users, tt.items, "9")
			wantList(t, s, "3", "9")
			if stats.Users != 2 || stats.Items != 3 || stats.Shortest != 1 || stats.Longest != 2 ||
				stats.Rows != 3 {
				t.Errorf("statistics %+v", stats)
			}
		})
	}
}

func TestImportArrangesItems(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		o          ImportOptions
		want       []string
	}{
		{"by rank", "in=user,item,rank\n1,5,3\n1,6,1\n1,7,2\n", ImportOptions{}, []string{"6", "7", "5"}},
		{"by score", "in=user,item,score\n1,5,3\n1,6,1\n1,7,2\n", ImportOptions{}, []string{"5", "7", "6"}},
		{"by rank before score", "in=user,item,score,rank\n1,5,3,3\n1,6,2,1\n1,7,1,2\n", ImportOptions{},
			[]string{"6", "7", "5"}},
		{"by the score that is named", "in=user,item,score,rank\n1,5,3,3\n1,6,1,1\n1,7,2,2\n",
			ImportOptions{ScoreColumn: "score"}, []string{"5", "7", "6"}},
		{"as they come", "in=user,item\n1,5\n2,5\n1,7\n1,6\n", ImportOptions{}, []string{"5", "7", "6"}},
		{"first of duplicates", "in=user,item,rank\n1,5,3\n1,6,2\n1,5,1\n1,6,4\n", ImportOptions{},
			[]string{"5", "6"}},
		{"lists", `in={"user":1,"items":[9,5,9,7,5]}`, ImportOptions{}, []string{"9", "5", "7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := importFiles(t, tt.o, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, s, "1", tt.want...)
		})
	}
}

func TestImportOfNobodyIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"in=user,item\n":           "no lists to import: 0 rows were read and 0 of them were bad",
		"in=user,item\nx,1\n1,y\n": "no lists to import: 2 rows were read and 2 of them were bad",
	} {
		_, _, err := importFiles(t, ImportOptions{MaxBad: 2, UserIDs: ingest.Number, ItemIDs: ingest.Number},
			text)
		if !errors.Is(err, ErrNoLists) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestImportOfListsThatAreAllTooLongIsRefused(t *testing.T) {
	var rows strings.Builder
	for i := range snapshot.MaxListLen + 1 {
		fmt.Fprintf(&rows, "1,%d\n", i)
	}
	_, _, err := importFiles(t, ImportOptions{MaxBad: 1}, "in="+rows.String())
	if want := "no lists to import: 65536 rows were read and 1 users had too many items"; !errors.Is(err,
		ErrNoLists) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestImportOfAUserWithMillionsOfRowsKeepsToItsMemory(t *testing.T) {
	rows := int(ingest.MostValues(4<<20)) + 100
	text := strings.Repeat("1,7\n", rows) + "2,8\n"
	want := fmt.Sprintf("all sources: user 1: expected at most 65535 items, found %d, duplicates included",
		rows)
	_, _, err := importFiles(t, ImportOptions{Memory: 4 << 20}, "in="+text)
	if !errors.Is(err, ingest.ErrBadRows) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	s, stats, err := importFiles(t, ImportOptions{Memory: 4 << 20, MaxBad: 1}, "in="+text)
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, s, "2", "8")
	if stats.Users != 1 || stats.Items != 1 || stats.Bad != 1 || stats.Duplicates != 0 {
		t.Errorf("%+v, want one user, one item, one bad row", stats)
	}
}

func TestImportCountsDuplicates(t *testing.T) {
	_, stats, err := importFiles(t, ImportOptions{}, `in={"user":1,"items":[9,5,9,7,5]}`)
	if err != nil || stats.Duplicates != 2 || stats.Items != 3 {
		t.Errorf("%d duplicates, %d items, %v", stats.Duplicates, stats.Items, err)
	}
}

func TestImportOfUsersInSeveralPlaces(t *testing.T) {
	const hint = ": --on-duplicate-user merge puts them together, in the order of the sources"
	for _, tt := range []struct {
		name    string
		files   []string
		merged  []string // of user 1
		refused string
	}{
		{"lists of two files", []string{`a={"user":1,"items":[5,6]}`, `b={"user":1,"items":[7,5]}`},
			[]string{"5", "6", "7"}, "user 1 is in a and in b" + hint},
		{"two lists of a file", []string{`a={"user":1,"items":[5]}` + "\n" + `{"user":1,"items":[6]}`},
			[]string{"5", "6"}, "user 1 has several lists in a" + hint},
		{"rows of two files", []string{"a=1,5\n1,6\n", "b=2,1\n1,7\n"}, []string{"5", "6", "7"},
			"user 1 is in a and in b" + hint},
		{"ranked rows of two files", []string{"a=user,item,rank\n1,5,2\n", "b=user,item,rank\n1,7,1\n"},
			[]string{"7", "5"}, "user 1 is in a and in b" + hint},
		{"rows of one file", []string{"a=1,5\n2,6\n1,7\n", "b=3,1\n"}, []string{"5", "7"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := importFiles(t, ImportOptions{}, tt.files...)
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, s, "1", tt.merged...)
			s, _, err = importFiles(t, ImportOptions{Apart: true}, tt.files...)
			switch {
			case tt.refused == "" && err != nil, tt.refused != "" &&
				(err == nil || err.Error() != tt.refused):
				t.Errorf("got %v, want %s", err, tt.refused)
			case tt.refused == "":
				wantList(t, s, "1", tt.merged...)
			}
		})
	}
}

func TestImportOfListsThatAreTooLong(t *testing.T) {
	var a, b strings.Builder
	for i := range 40000 {
		fmt.Fprintf(&a, "1,%d\n2,%d\n", i, i)
		// The first user has 65,535 in all, the second one more.
		fmt.Fprintf(&b, "1,%d\n2,%d\n", i+25535, i+25536)
	}
	const want = "all sources: user 2: expected at most 65535 items, found 65536"
	_, _, err := importFiles(t, ImportOptions{}, "a="+a.String(), "b="+b.String())
	if !errors.Is(err, ingest.ErrBadRows) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	s, stats, err := importFiles(t, ImportOptions{MaxBad: 1}, "a="+a.String(), "b="+b.String())
	if err != nil {
		t.Fatal(err)
	}
	if got := listOf(t, s, "1"); len(got) != 65535 || listOf(t, s, "2") != nil || stats.Bad != 1 {
		t.Errorf("the first has %d items, %d bad", len(got), stats.Bad)
	}
}

func TestImportFailsWithoutATrace(t *testing.T) {
	for name, text := range map[string]string{
		"a bad row": "in=user,item,rank\n1,2,3\n4,5,x\n", "no rows": "in=", "no columns": "in=a,b\n1,2\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := importFiles(t, ImportOptions{}, text); err == nil {
				t.Error("it worked")
			}
		})
	}
	t.Run("interrupted while nothing comes", func(t *testing.T) {
		for _, start := range []string{"", "PAR1", "1,2\n"} {
			ctx, cancel := context.WithCancel(t.Context())
			r, w := io.Pipe()
			defer w.Close()
			go func() {
				io.WriteString(w, start)
				cancel()
			}()
			dir := t.TempDir()
			_, err := Import(ctx, []string{"-"}, filepath.Join(dir, "out.weir"),
				ImportOptions{Memory: 1 << 20, Ingest: ingest.Options{Stdin: r}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %q: %v", start, err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		go func() {
			fmt.Fprint(w, strings.Repeat("1,2\n", 1<<20))
			cancel()
			w.CloseWithError(io.ErrUnexpectedEOF)
		}()
		dir := t.TempDir()
		_, err := Import(ctx, []string{"-"}, filepath.Join(dir, "out.weir"),
			ImportOptions{Memory: 1 << 20, Ingest: ingest.Options{Stdin: r}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestImportKeepsTheMostFrequentItems(t *testing.T) {
	const rows = "in=1,5\n2,5\n3,5\n1,6\n2,6\n3,7\n"
	for _, tt := range []struct {
		fallback int
		want     []uint64
	}{{0, nil}, {1, []uint64{5}}, {2, []uint64{5, 6}}, {50, []uint64{5, 6, 7}}} {
		s, _, err := importFiles(t, ImportOptions{Fallback: tt.fallback}, rows)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Fallback(); !slices.Equal(got, tt.want) {
			t.Errorf("--fallback %d keeps %v, want %v", tt.fallback, got, tt.want)
		}
	}
}

func TestImportDoesNotDependOnTheOrderOfRows(t *testing.T) {
	var rows []string
	for i := range 3000 {
		rows = append(rows, fmt.Sprintf("user-%d,item %d,%d\n", i%17, i*i%1009, i))
	}
	file := func() []byte {
		_, _, err := importFiles(t, ImportOptions{}, "in=user,item,rank\n"+strings.Join(rows, ""))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile("out.weir")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := file()
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if !slices.Equal(first, file()) {
		t.Error("other rows first, another file")
	}
}

func TestItemSet(t *testing.T) {
	var s itemSet
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := r.IntN(3000)
		s.reset(n)
		seen := map[uint64]bool{}
		for range n {
			item := r.Uint64() >> (64 - 1 - r.IntN(64))
			if s.add(item) == seen[item] {
				t.Fatalf("item %d of %d: already there is %v", item, n, seen[item])
			}
			seen[item] = true
		}
	}
}

func TestImportLooksAtItsOutputBeforeItReads(t *testing.T) {
	t.Chdir(t.TempDir())
	const rows = "user,item\n1,10\n"
	if err := errors.Join(os.WriteFile("rows.csv", []byte(rows), 0o600),
		os.Mkdir("directory", 0o755)); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{
		"directory":        "directory is a directory",
		"nowhere/out.weir": "create nowhere first",
		"rows.csv":         "rows.csv is a source",
		"./rows.csv":       "rows.csv is a source",
	} {
		o := ImportOptions{Memory: 1 << 20, Progress: func(string, int64, int64, int64) {
			t.Errorf("%s: rows were read", out)
		}}
		_, err := Import(t.Context(), []string{"rows.csv"}, out, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v, want %q", out, err, want)
		}
	}
	if b, err := os.ReadFile("rows.csv"); string(b) != rows {
		t.Errorf("the source holds %.20q, %v", b, err)
	}
	if left, _ := filepath.Glob(".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

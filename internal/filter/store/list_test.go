package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/store"
)

// titles lists page after page, and returns the titles, or URLs, of all.
func titles(t *testing.T, s *store.Store, q store.Query) (all []string) {
	t.Helper()
	for {
		page, after, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page {
			if f.Title == "" {
				f.Title = f.URLs[0]
			}
			all = append(all, f.Title)
		}
		if q.After = after; after == "" {
			return all
		}
		if len(page) != q.Limit {
			t.Fatalf("a page of %d, want %d", len(page), q.Limit)
		}
	}
}

func TestFiltersAreListedByTitleAndFound(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	add := func(title, url, folder string, tags ...string) store.Filter {
		f := store.Filter{ID: store.NewID(), Created: noon, Changed: noon, Spec: store.Spec{
			URLs: []string{url}, Title: title, Folder: folder, Tags: tags}}
		if err := s.Add(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := add("zebra news", "https://z.example/rss", "News", "go", "work")
	add("Ärzte", "https://a.example/100%_sure", "Newspapers", "golang")
	add("", "https://middle.example/atom", "News/Local", "go")
	add("zebra news", "https://z.example/other", "", "a/b")
	add("Alpha", "https://z.example/a'b", "Old/News")
	for name, c := range map[string]struct {
		q    store.Query
		want string
	}{
		"all, two a page": {store.Query{Limit: 2},
			"Alpha,https://middle.example/atom,zebra news,zebra news,Ärzte"},
		"all at once":            {store.Query{Limit: 5}, "Alpha,https://middle.example/atom,zebra news,zebra news,Ärzte"},
		"a folder and those in":  {store.Query{Limit: 1, Folder: "News"}, "https://middle.example/atom,zebra news"},
		"a folder within":        {store.Query{Limit: 1, Folder: "news/local"}, "https://middle.example/atom"},
		"a tag, not its prefix":  {store.Query{Limit: 1, Tag: "go"}, "https://middle.example/atom,zebra news"},
		"a tag with a slash":     {store.Query{Limit: 9, Tag: "a/b"}, "zebra news"},
		"words, all of them":     {store.Query{Limit: 9, Words: []string{"ZEBRA", "other"}}, "zebra news"},
		"a word of another case": {store.Query{Limit: 9, Words: []string{"äRZ"}}, "Ärzte"},
		"no pattern":             {store.Query{Limit: 9, Words: []string{"%_"}}, "Ärzte"},
		"a quote":                {store.Query{Limit: 9, Words: []string{"a'b"}}, "Alpha"},
		"nothing":                {store.Query{Limit: 9, Words: []string{"zebra"}, Tag: "none"}, ""},
		"those that are wanted": {store.Query{Limit: 1, Only: func(id store.ID) bool { return id == first.ID }},
			"zebra news"},
	} {
		if got := strings.Join(titles(t, s, c.q), ","); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	changed := first.Spec
	changed.Title, changed.Folder = "beta", "Else"
	if err := s.Update(t.Context(), first, changed, noon); err != nil {
		t.Fatal(err)
	}
	if got := titles(t, s, store.Query{Limit: 9, Folder: "Else"}); fmt.Sprint(got) != "[beta]" {
		t.Errorf("a changed filter is listed as %q", got)
	}
	if got := titles(t, s, store.Query{Limit: 9, Folder: "News"}); len(got) != 1 {
		t.Errorf("a changed filter is still where it was: %q", got)
	}
	for _, wrong := range []string{"x", "AAAA", "!", strings.Repeat("A", 21)} {
		if _, _, err := s.List(t.Context(), store.Query{After: wrong, Limit: 1}); !errors.Is(err, store.ErrCursor) {
			t.Errorf("after %q: %v", wrong, err)
		}
	}
}

func TestAPageGoesOnWhereADeletedFilterWas(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	var all []store.Filter
	for i := range 4 {
		f := filter("https://example.org/")
		f.Title = fmt.Sprint(i)
		all = append(all, f)
	}
	if err := s.Add(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	_, after, err := s.List(t.Context(), store.Query{Limit: 2})
	if err == nil {
		err = s.Delete(t.Context(), all[1].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := titles(t, s, store.Query{Limit: 2, After: after}); fmt.Sprint(got) != "[2 3]" {
		t.Errorf("%q", got)
	}
}

func TestTheLastFetchesOfASourceAreRemembered(t *testing.T) {
	path, url := filepath.Join(t.TempDir(), "db"), "https://example.org/"
	s := open(t, path)
	fetched := func(n int) store.Fetch {
		return store.Fetch{Fetched: noon.Add(time.Duration(n) * time.Minute), Status: 200 + n, Tried: n,
			Attempt: store.Attempt{Bytes: int64(n), Took: time.Duration(n) * time.Millisecond}}
	}
	check := func(newest int) {
		t.Helper()
		got, err := s.History(t.Context(), url)
		if err != nil || len(got) != min(newest, store.Attempts) {
			t.Fatalf("after %d there are %d, %v", newest, len(got), err)
		}
		for i, f := range got {
			f.Tried = newest - i // is not kept with each
			if !reflect.DeepEqual(f, fetched(newest-i)) {
				t.Errorf("%d before the last of %d: %+v", i, newest, f)
			}
		}
	}
	for n := 1; n <= 50; n++ {
		s.Fetched(url, fetched(n))
		if check(n); n%7 == 0 {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(n)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Flush(cancelled) == nil {
		t.Error("a flush that cannot be worked")
	}
	check(50)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	check(50)
	if err := s.Forget(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if got, err := s.History(t.Context(), url); err != nil || len(got) != 0 {
		t.Errorf("of a source that is gone: %+v %v", got, err)
	}
}

package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/filter/store"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func filter(url string) store.Filter {
	return store.Filter{ID: store.NewID(), Created: noon, Changed: noon, Spec: store.Spec{
		URLs: []string{url}, Title: "<news> & \"more\"", Mode: "drop",
		Rules: []string{`title contains "a&b"`}, Tags: []string{"x"}, Limit: 3}}
}

func TestAFilterIsReadAsItWasStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a name?with#signs.db")
	s, want := open(t, path), filter("https://example.org/?a=1&b=<2>")
	if err := s.Add(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, path).Get(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others as well: %v %v", info, err)
	}
}

func TestSeveralFiltersAreReadAtOnce(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	want := make(map[store.ID]store.Filter)
	var ids []store.ID
	for _, url := range []string{"https://a.example/", "https://b.example/", "https://c.example/"} {
		f := filter(url)
		if err := s.Add(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if url != "https://b.example/" {
			want[f.ID] = f
			ids = append(ids, f.ID)
		}
	}
	got, err := s.Several(t.Context(), append(ids, store.NewID()))
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v %v", got, err)
	}
	for _, f := range got {
		if !reflect.DeepEqual(f, want[f.ID]) {
			t.Errorf("got %+v, want %+v", f, want[f.ID])
		}
	}
}

func TestFiltersAreAddedAllOrNone(t *testing.T) {
	s, one := open(t, filepath.Join(t.TempDir(), "db")), filter("https://example.org/")
	if err := s.Add(t.Context(), one, filter("https://example.net/"), one); err == nil {
		t.Fatal("an id was taken twice")
	}
	for f, err := range s.All(t.Context()) {
		t.Errorf("%v %v is there", f, err)
	}
}

func TestAChangeToWhatHasChangedMeanwhileIsRefused(t *testing.T) {
	s, f := open(t, filepath.Join(t.TempDir(), "db")), filter("https://example.org/")
	if err := s.Add(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	read, err := s.Get(t.Context(), f.ID)
	if err != nil {
		t.Fatal(err)
	}
	changed := read.Spec
	changed.Limit = 7
	if err := s.Update(t.Context(), read, changed, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), read, changed, noon); !errors.Is(err, store.ErrChanged) {
		t.Errorf("the second change: %v", err)
	}
	if got, _ := s.Get(t.Context(), f.ID); got.Limit != 7 || !got.Changed.Equal(noon.Add(time.Hour)) {
		t.Errorf("is now %+v", got)
	}
	if err := s.Delete(t.Context(), f.ID); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"delete": s.Delete(t.Context(), f.ID),
		"update": s.Update(t.Context(), read, changed, noon)} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of what is gone: %v", what, err)
		}
	}
}

func TestAnIDHasOneSpelling(t *testing.T) {
	id := store.NewID()
	if back, ok := store.ParseID(id.String()); !ok || back != id {
		t.Errorf("%v is read as %v, %v", id, back, ok)
	}
	last := id.String()[:21]
	spellings := 0
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if back, ok := store.ParseID(last + string(c)); ok && back == id {
			spellings++
		}
	}
	if spellings != 1 {
		t.Errorf("%d last characters mean the same id", spellings)
	}
	for _, wrong := range []string{"", "x", id.String() + "A", id.String()[:21] + "=",
		id.String()[:20] + "\r\n"} {
		if _, ok := store.ParseID(wrong); ok {
			t.Errorf("%q is an id", wrong)
		}
	}
}

func TestWhatWasFetchedIsWrittenEveryTwoSeconds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Fetched("https://example.org/", store.Fetch{Fetched: noon, Failures: 1, Error: "timeout"})
		s.Fetched("https://example.org/", store.Fetch{Fetched: noon, Succeeded: noon,
			Next: noon.Add(time.Hour), Status: 200})
		before := logSize(t, path)
		time.Sleep(store.FlushInterval - time.Millisecond)
		synctest.Wait()
		if logSize(t, path) != before {
			t.Error("it is written before")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if logSize(t, path) == before {
			t.Error("it is not written")
		}
		got, err := s.Sources(t.Context())
		want := map[string]store.Fetch{"https://example.org/": {Fetched: noon, Succeeded: noon,
			Next: noon.Add(time.Hour), Status: 200}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v, want the later", got, err)
		}
	})
}

// logSize returns how much has been written since the last checkpoint.
func logSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestWhatWasFetchedIsWrittenAtClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	s.Fetched("https://example.org/", store.Fetch{Fetched: noon, Gone: true, Status: 410})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, path).Sources(t.Context()); err != nil || !got["https://example.org/"].Gone {
		t.Errorf("%+v %v", got, err)
	}
}

func TestForgottenSourcesAreGone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	for _, source := range []string{"https://example.org/written", "https://example.org/pending",
		"https://example.org/kept"} {
		s.Fetched(source, store.Fetch{Fetched: noon})
		if strings.HasSuffix(source, "written") {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Forget(t.Context(), "https://example.org/written",
		"https://example.org/pending"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sources(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestABackupHoldsEverythingWhileTheStoreIsInUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "db"))
	ctx, stop := context.WithCancel(t.Context())
	before := filter("https://example.org/")
	if err := s.Add(ctx, before); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for ctx.Err() == nil {
				if err := s.Add(t.Context(), filter("https://example.net/")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	s.Fetched("https://example.org/", store.Fetch{Fetched: noon})
	path := filepath.Join(dir, "backup")
	for range 2 { // the second replaces the first
		if err := s.Backup(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	stop()
	writers.Wait()
	copied := open(t, path)
	if _, err := copied.Get(t.Context(), before.ID); err != nil {
		t.Error(err)
	}
	if sources, err := copied.Sources(t.Context()); err != nil || len(sources) != 1 {
		t.Errorf("%v %v", sources, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); left != nil {
		t.Errorf("%q are left", left)
	}
}

func TestADamagedDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	var many []store.Filter
	for range 200 {
		many = append(many, filter("https://example.org/"))
	}
	if err := s.Add(t.Context(), many...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"a page": append(append(bytes.Clone(whole[:8192]), bytes.Repeat([]byte{0xa5}, 4096)...),
			whole[12288:]...),
		"its end":     whole[:len(whole)-8192],
		"its header":  append(bytes.Repeat([]byte{0xa5}, 100), whole[100:]...),
		"all of it":   []byte(strings.Repeat("no database. ", 1000)),
		"its version": append(append(bytes.Clone(whole[:60]), 0, 0, 0, 99), whole[64:]...),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(path, slog.New(slog.DiscardHandler))
		switch {
		case err == nil:
			t.Errorf("%s is damaged and the database is opened", name)
		case name == "its version" && !strings.Contains(err.Error(), "use a newer one"):
			t.Errorf("%s: %v", name, err)
		case name != "its version" && !errors.Is(err, store.ErrDamaged):
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}

func TestADatabaseLockedByAnotherProcessSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	if _, err := store.Open(path, slog.New(slog.DiscardHandler)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestWhatRulesHaveMatchedIsWrittenWithWhatWasFetched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filters.db")
	s := open(t, path)
	kept, gone := filter("https://a.example/"), filter("https://b.example/")
	if err := s.Add(t.Context(), kept, gone); err != nil {
		t.Fatal(err)
	}
	want := []store.Match{{Rule: 1 << 63, At: 7, Items: 25}}
	s.Matched(kept.ID, []store.Match{{Rule: 5}})
	s.Matched(kept.ID, want)
	s.Matched(gone.ID, want)
	if f, err := s.Get(t.Context(), kept.ID); err != nil || !slices.Equal(f.Matches, want) {
		t.Errorf("before it is written: %+v, %v", f.Matches, err)
	}
	if err := s.Delete(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	all, err := s.Several(t.Context(), []store.ID{kept.ID, gone.ID})
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Matches, want) {
		t.Errorf("%+v, %v", all, err)
	}
}

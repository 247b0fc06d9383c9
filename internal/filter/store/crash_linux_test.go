package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/internal/filter/store"
	"weir/internal/systest"
)

const victimEnv = "WEIR_TEST_STORE_VICTIM"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimEnv); path != "" {
		fmt.Fprintln(os.Stderr, victim(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const sources = 50

// victim returns only with an error. It flushes 50 sources over and over, numbered through all restarts,
// and prints the number once it is written; in between it adds filters and prints their ids.
func victim(path string) error {
	ctx := context.Background()
	s, err := store.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	known, err := s.Sources(ctx)
	if err != nil {
		return err
	}
	for n := known["0"].Failures + 1; ; n++ {
		for i := range sources {
			s.Fetched(strconv.Itoa(i),
				store.Fetch{Fetched: noon, Failures: n, Error: strings.Repeat("x", 200)})
		}
		if err := s.Flush(ctx); err != nil {
			return err
		}
		fmt.Println("flush", n)
		f := filter("https://example.org/")
		if err := s.Add(ctx, f); err != nil {
			return err
		}
		fmt.Println("filter", f.ID)
	}
}

func TestAKillLosesNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	filters, flushed := make(map[string]bool), 0
	for range 200 {
		for _, line := range systest.KillAfter(t, 1+rand.IntN(12), victimEnv+"="+path) {
			switch kind, value, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
			case "flush":
				flushed, _ = strconv.Atoi(value)
			case "filter":
				filters[value] = true
			}
		}
		s := open(t, path)
		known, err := s.Sources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range sources {
			if got := known[strconv.Itoa(i)].Failures; got < flushed || got > flushed+1 ||
				got != known["0"].Failures {
				t.Fatalf("source %d is of flush %d, source 0 of %d, acknowledged is %d", i, got,
					known["0"].Failures, flushed)
			}
		}
		left := len(filters)
		for f, err := range s.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if filters[f.ID.String()] {
				left--
			}
		}
		if left > 0 {
			t.Fatalf("%d filters of %d are lost", left, len(filters))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskLosesNothing(t *testing.T) {
	dir := systest.Disk(t, "1m")
	s := open(t, filepath.Join(dir, "db"))
	var kept []store.Filter
	for {
		f := filter("https://example.org/" + strings.Repeat("x", 4000))
		if err := s.Add(t.Context(), f); errors.Is(err, store.ErrFull) {
			break
		} else if err != nil {
			t.Fatalf("a full disk is not called full: %v", err)
		}
		kept = append(kept, f)
	}
	for i := range 1000 {
		s.Fetched(strconv.Itoa(i), store.Fetch{Fetched: noon, Error: strings.Repeat("x", 200)})
	}
	if err := s.Flush(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("a flush onto a full disk: %v", err)
	}
	systest.Resize(t, dir, "4m")
	if err := s.Flush(t.Context()); err != nil {
		t.Errorf("a flush when there is room again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, filepath.Join(dir, "db"))
	for _, f := range kept {
		if _, err := s.Get(t.Context(), f.ID); err != nil {
			t.Fatal(err)
		}
	}
	if known, err := s.Sources(t.Context()); err != nil || len(known) != 1000 {
		t.Errorf("%d sources, %v", len(known), err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "backup")); err != nil &&
		!errors.Is(err, store.ErrFull) {
		t.Errorf("a backup onto a disk that it may fill: %v", err)
	}
}

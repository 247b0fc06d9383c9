package httpcache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/filter/httpcache"
	"weir/internal/systest"
)

const (
	victimDir   = "WEIR_TEST_CACHE_VICTIM"
	victimBytes = "WEIR_TEST_CACHE_BYTES"
	pages       = 24
)

// TestMain is what is killed when it is told to be.
func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		fmt.Fprintln(os.Stderr, victim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// versionBody is the body of a version of a page, of up to 100 kB.
func versionBody(page int, version int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "page %d version %d\n", page, version), int(version%4000))
}

// victim returns only with an error. It gets pages, which change or are validated at each look, and prints a
// line "PAGE VERSION" for each that it got, in one write.
func victim(dir string) error {
	u := &upstream{handle: func(a *answer, r *http.Request) {
		var page int
		fmt.Sscanf(r.URL.Path, "/%d", &page) //nolint:errcheck // 0 otherwise
		version := time.Now().UnixNano()
		a.set("Cache-Control: max-age=0", fmt.Sprintf(`ETag: "%d"`, version))
		a.body = string(versionBody(page, version))
		if tag := r.Header.Get("If-None-Match"); tag != "" && rand.IntN(2) == 0 {
			a.status, a.body = 304, ""
			a.header.Set("ETag", tag)
		}
	}}
	var limit int64
	fmt.Sscan(os.Getenv(victimBytes), &limit) //nolint:errcheck // 0 otherwise
	c, err := httpcache.Open(dir, httpcache.Options{Fetch: u, MaxBytes: limit})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for n := range pages {
		go func() {
			for {
				e, err := c.Get(context.Background(), page(n), nil)
				if err != nil {
					failed <- err
					return
				}
				tag := e.Header.Get("ETag")
				e.Release()
				fmt.Printf("%d %s\n", n, tag[1:len(tag)-1])
			}
		}()
	}
	return <-failed
}

// TestKillsLeaveWholeResponses kills a process that fills a cache, with -9 and wherever it is then. What the
// next one finds are whole responses, and none older than what was answered.
func TestKillsLeaveWholeResponses(t *testing.T) {
	dir := t.TempDir()
	down := &upstream{handle: func(a *answer, _ *http.Request) { a.err = errors.New("down") }}
	answered := make(map[int]int64)
	for round := range 200 {
		evicts := round%4 == 3 // then pages may be missing
		limit := int64(1 << 30)
		if evicts {
			limit = 500_000
		}
		lines := systest.KillAfter(t, 1+rand.IntN(400),
			victimDir+"="+dir, fmt.Sprintf("%s=%d", victimBytes, limit))
		for _, line := range lines {
			var n int
			var version int64
			if _, err := fmt.Sscan(line, &n, &version); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			answered[n] = version
		}
		c := open(t, dir, httpcache.Options{Fetch: down, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		found := 0
		for n := range pages {
			e, ok := c.Peek(page(n))
			if !ok {
				if answered[n] != 0 && !evicts {
					t.Fatalf("round %d: page %d is missing", round, n)
				}
				delete(answered, n)
				continue
			}
			found++
			var version int64
			if _, err := fmt.Sscanf(e.Header.Get("ETag"), `"%d"`, &version); err != nil ||
				version < answered[n] {
				t.Fatalf("round %d: page %d has version %d after %d, %v", round, n, version, answered[n], err)
			}
			if !bytes.Equal(e.Body(), versionBody(n, version)) {
				t.Fatalf("round %d: page %d, %d bytes that are not version %d", round, n, len(e.Body()),
					version)
			}
			e.Release()
		}
		if s := c.Stats(); s.Damaged != 0 || s.Entries != found || len(files(t, dir)) != found {
			t.Fatalf("round %d: %+v, %d pages and %d files", round, s, found, len(files(t, dir)))
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".*.tmp")); err != nil || len(left) > 0 {
			t.Fatalf("round %d: %v is left", round, left)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/feed/snapshot"
	"weir/internal/feed/source"
)

// origin serves one file, and does to answers what a test asks for.
type origin struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	file    []byte
	sum     string // of the sidecar; "" for none
	etag    string
	cut     int // bytes after which the next answer ends
	failing int // answers that are 503
	ranges  []string
}

func newOrigin(t *testing.T, file []byte) *origin {
	o := &origin{t: t, file: file, etag: `"1"`}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.failing > 0:
		o.failing--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case strings.HasSuffix(r.URL.Path, ".sha256"):
		if o.sum == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "%s  lists.weir\n", o.sum)
		return
	}
	o.ranges = append(o.ranges, r.Header.Get("Range"))
	if o.etag != "" {
		w.Header().Set("ETag", o.etag)
	}
	if o.cut > 0 {
		w = &cutting{w, o.cut}
		o.cut = 0
	}
	http.ServeContent(w, r, "lists.weir", time.Time{}, bytes.NewReader(o.file))
}

// cutting ends the connection after some bytes of the body.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.left == 0 {
		panic(http.ErrAbortHandler)
	}
	n := min(len(b), c.left)
	c.left -= n
	if n, err := c.ResponseWriter.Write(b[:n]); err != nil {
		return n, err
	}
	c.ResponseWriter.(http.Flusher).Flush()
	if n < len(b) {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// lists returns a snapshot of that many users.
func lists(t *testing.T, users int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lists.weir")
	w, err := snapshot.Create(path, snapshot.Options{UserCount: uint64(users), MaxUser: uint64(users - 1),
		MaxItem: 1 << 30, Published: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	items := make([]uint32, 100)
	for u := range users {
		for i := range items {
			items[i] = uint32(u*len(items) + i + 1)
		}
		if err := w.AddNumber32(uint64(u), items); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func open(t *testing.T, dir string) (*source.Store, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	s, err := source.Open(dir, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.Pause = time.Millisecond
	return s, log
}

func parse(t *testing.T, text string) source.Source {
	t.Helper()
	src, err := source.Parse(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// want checks that a fetched file is what the origin has, and that nothing else is in the folder.
func want(t *testing.T, dir string, f source.File, err error, file []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Path)
	if err != nil || !bytes.Equal(got, file) || f.Sum != sumOf(file) || f.Bytes != int64(len(file)) {
		t.Fatalf("%d bytes of %s, %v; want %d bytes of %s", len(got), f.Sum, err, len(file), sumOf(file))
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("the folder holds %v", names)
	}
}

func TestAFileIsDownloadedOnceAndAskedForByItsETagAfterThat(t *testing.T) {
	o := newOrigin(t, lists(t, 1000))
	dir := t.TempDir()
	s, _ := open(t, dir)
	src := parse(t, o.URL+"/lists.weir")
	f, err := s.Fetch(t.Context(), src, source.Validators{}, nil)
	want(t, dir, f, err, o.file)
	if _, err := s.Fetch(t.Context(), src, f.Validators, nil); err != source.ErrUnchanged {
		t.Errorf("again: %v", err)
	}
	if err := s.Remember(src, f); err != nil {
		t.Fatal(err)
	}
	s, _ = open(t, dir)
	if again, ok := s.Recall(src); !ok || again != f {
		t.Errorf("after a restart: %+v, %t; want %+v", again, ok, f)
	}
	if _, ok := s.Recall(parse(t, o.URL+"/others.weir")); ok {
		t.Error("the lists of another URL are recalled")
	}
}

func TestADownloadThatWasCutGoesOnWhereItEnded(t *testing.T) {
	file := lists(t, 5000)
	for _, restart := range []bool{false, true} {
		o := newOrigin(t, file)
		o.cut = len(file) / 2
		dir := t.TempDir()
		s, log := open(t, dir)
		src := parse(t, o.URL+"/lists.weir?token=secret")
		if restart {
			ctx, stop := context.WithCancel(t.Context())
			if _, err := s.Fetch(ctx, src, source.Validators{}, func(done, _ int64) {
				if done >= int64(len(file)/2) {
					stop()
				}
			}); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			stop()
			s, log = open(t, dir)
		}
		f, err := s.Fetch(t.Context(), src, source.Validators{}, nil)
		want(t, dir, f, err, file)
		if last := o.ranges[len(o.ranges)-1]; last != fmt.Sprintf("bytes=%d-", len(file)/2) {
			t.Errorf("asked for %q at last", o.ranges)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log holds the token: %s", log)
		}
	}
}

func TestAFileThatWasReplacedMeanwhileBeginsAnew(t *testing.T) {
	first, second := lists(t, 5000), lists(t, 6000)
	o := newOrigin(t, first)
	o.cut = len(first) / 2
	dir := t.TempDir()
	s, _ := open(t, dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	src := parse(t, o.URL+"/lists.weir")
	if _, err := s.Fetch(ctx, src, source.Validators{}, func(done, _ int64) {
		if done >= int64(len(first)/2) {
			stop()
		}
	}); err == nil {
		t.Fatal("it was not cut")
	}
	o.mu.Lock()
	o.file, o.etag = second, `"2"`
	o.mu.Unlock()
	f, err := s.Fetch(t.Context(), src, source.Validators{}, nil)
	want(t, dir, f, err, second)
}

func TestWhatIsNotWhatWasPublishedIsRefused(t *testing.T) {
	file := lists(t, 1000)
	flipped := bytes.Clone(file)
	flipped[len(flipped)/2] ^= 1
	other := lists(t, 1001)
	for name, c := range map[string]struct {
		served       []byte
		sum, sidecar string
		says         string
	}{
		"a flipped bit":                       {flipped, "", "", "checksum"},
		"a flipped bit, by #sha256=":          {flipped, sumOf(file), "", "SHA-256"},
		"another file, by #sha256=":           {other, sumOf(file), "", "SHA-256"},
		"another file, by the sidecar":        {other, "", sumOf(file), "SHA-256"},
		"a page that says that there is none": {bytes.Repeat([]byte("<p>"), 9999), "", "", "snapshot"},
		"a file that is cut off":              {file[:len(file)-100], "", "", "length"},
		"a file with more behind it":          {append(bytes.Clone(file), 0), "", "", "length"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, c.served)
			o.sum = c.sidecar
			dir := t.TempDir()
			s, _ := open(t, dir)
			src, err := source.Parse(o.URL+"/lists.weir", c.sum)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Fetch(t.Context(), src, source.Validators{}, nil); err == nil ||
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			o.mu.Lock()
			o.file, o.etag = file, `"3"`
			o.mu.Unlock()
			f, err := s.Fetch(t.Context(), src, source.Validators{}, nil)
			want(t, dir, f, err, file)
		})
	}
}

func TestAServerThatFailsIsAskedAgainAndOneThatRefusesIsNot(t *testing.T) {
	o := newOrigin(t, lists(t, 100))
	o.failing = 3
	dir := t.TempDir()
	s, _ := open(t, dir)
	f, err := s.Fetch(t.Context(), parse(t, o.URL+"/lists.weir"), source.Validators{}, nil)
	want(t, dir, f, err, o.file)
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	_, err = s.Fetch(t.Context(), parse(t, gone.URL+"/lists.weir?token=secret"), source.Validators{}, nil)
	if err == nil || !strings.Contains(err.Error(), "404") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want a 404 without the token", err)
	}
}

func TestAServerThatStallsIsGivenUp(t *testing.T) {
	done := make(chan struct{})
	stalls := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		w.(http.Flusher).Flush()
		<-done
	}))
	defer stalls.Close()
	defer close(done)
	s, _ := open(t, t.TempDir())
	s.Patience = 10 * time.Millisecond
	_, err := s.Fetch(t.Context(), parse(t, stalls.URL+"/lists.weir"), source.Validators{}, nil)
	if err == nil || !strings.Contains(err.Error(), "sent nothing") {
		t.Errorf("error %v", err)
	}
}

func TestAFileOfThisMachineIsTakenWhateverBecomesOfItsName(t *testing.T) {
	file := lists(t, 100)
	path := filepath.Join(t.TempDir(), "lists.weir")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, _ := open(t, dir)
	src, err := source.Parse(path, sumOf(file))
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Fetch(t.Context(), src, source.Validators{}, nil)
	want(t, dir, f, err, file)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f, err = s.Fetch(t.Context(), src, source.Validators{}, nil)
	want(t, dir, f, err, file)
	s.Keep(source.Source{})
	if _, ok := s.Find(f.Sum); ok {
		t.Error("what nobody keeps is there still")
	}
	if _, err = s.Fetch(t.Context(), src, source.Validators{}, nil); err == nil ||
		!strings.Contains(err.Error(), "URL") {
		t.Errorf("a path that is not here: %v", err)
	}
}

func TestURLsThatCannotBeAreRefusedWithoutTheirSecrets(t *testing.T) {
	for text, says := range map[string]string{
		"http://lists.example/a?key=secret":                "https",
		"https://user:secret@lists.example/a#sha256=secre": "64",
		"https://user:secret@/a":                           "host",
		"https://a.example/b?secret#secret":                "sha256",
		"https://user:secret@a.example:port/":              "https://HOST",
	} {
		_, err := source.Parse(text, "")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q in it and no secret", text, err, says)
		}
	}
	if _, err := source.Parse("http://lists.example/a#sha256="+strings.Repeat("0a", 32), ""); err != nil {
		t.Errorf("http that is pinned: %v", err)
	}
}

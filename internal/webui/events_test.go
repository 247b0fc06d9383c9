package webui

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func testHub() *Hub {
	return NewHub(func() any { return "so far" }, func(w http.ResponseWriter, status int, detail string) {
		http.Error(w, detail, status)
	})
}

// stream reads server-sent events.
type stream struct {
	lines *bufio.Scanner
	last  string // the id
}

func openStream(t *testing.T, url, last string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() }) //nolint:errcheck
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("a stream is answered %d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	return &stream{lines: bufio.NewScanner(answer.Body)}
}

// next returns the next event, as kind and data.
func (s *stream) next() string {
	kind, data := "", ""
	for s.lines.Scan() {
		switch name, value, _ := strings.Cut(s.lines.Text(), ": "); name {
		case "id":
			s.last = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if kind != "" {
				return kind + " " + data
			}
		}
	}
	return "the end"
}

func TestAStreamResumesWithoutAGap(t *testing.T) {
	h := testHub()
	site := httptest.NewServer(h)
	t.Cleanup(site.Close)
	t.Cleanup(h.Close) // first, so that requests end
	expect := func(s *stream, want string) {
		t.Helper()
		if got := s.next(); got != want {
			t.Fatalf("the stream says %q, want %q", got, want)
		}
	}
	first := openStream(t, site.URL, "")
	expect(first, `snapshot "so far"`)
	for n := range 5 {
		h.Send("number", n)
	}
	for n := range 3 { // and then it is cut off
		expect(first, fmt.Sprintf("number %d", n))
	}
	for n := 5; n < 9; n++ {
		h.Send("number", n)
	}
	second := openStream(t, site.URL, first.last)
	for n := 3; n < 9; n++ {
		expect(second, fmt.Sprintf("number %d", n))
	}
	// Who has everything gets nothing twice.
	third := openStream(t, site.URL, second.last)
	h.Send("number", 9)
	expect(third, "number 9")
	// What can't be resumed begins anew: too long ago, another process, nonsense, the future.
	for n := range KeepEvents + 10 {
		h.Send("number", n)
	}
	for _, last := range []string{second.last, "other.3", "nonsense", h.epoch + ".99999999", h.epoch + ".-1",
		h.epoch + "."} {
		expect(openStream(t, site.URL, last), `snapshot "so far"`)
	}
}

func TestASlowClientIsDroppedAndHoldsNobodyUp(t *testing.T) {
	h := testHub()
	slow, _ := h.subscribe("")
	quick, _ := h.subscribe("")
	for n := range QueueEvents + 10 {
		h.Send("number", n) // would block for ever if it waited for the slow one
		<-quick.events
	}
	n := 0
	for range slow.events {
		n++
	}
	if n != QueueEvents {
		t.Errorf("the slow client got %d events before its end, expected %d", n, QueueEvents)
	}
	if len(h.clients) != 1 {
		t.Errorf("%d clients are left, expected the quick one", len(h.clients))
	}
	back, missed := h.subscribe(fmt.Sprintf("%s.%d", h.epoch, QueueEvents))
	if back == nil || len(missed) != 10 {
		t.Errorf("it comes back and gets %d events, expected 10", len(missed))
	}
	for range MostClients - 2 {
		if c, _ := h.subscribe(""); c == nil {
			t.Fatal("a client is refused before the bound")
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one client too many is answered %d %v", w.Code, w.Header())
	}
}

// flushes is an http.ResponseWriter that takes down what is flushed, and when.
type flushes struct {
	http.ResponseWriter
	written []string
	begin   time.Time
	at      []time.Duration
}

func (f *flushes) Header() http.Header { return http.Header{} }
func (f *flushes) WriteHeader(int)     {}
func (f *flushes) Write(p []byte) (int, error) {
	f.written = append(f.written, string(p))
	return len(p), nil
}
func (f *flushes) Flush() { f.at = append(f.at, time.Since(f.begin)) }

func TestAStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub()
		ctx, cancel := context.WithCancel(t.Context())
		w := &flushes{begin: time.Now()}
		done := make(chan struct{})
		go func() {
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
			close(done)
		}()
		time.Sleep(2*Heartbeat + time.Second)
		cancel()
		<-done
		if len(w.at) != 3 || w.at[1] != Heartbeat || w.at[2] != 2*Heartbeat ||
			w.written[2] != ": heartbeat\n\n" {
			t.Errorf("a quiet stream says %q at %v", w.written, w.at)
		}
		if len(h.clients) != 0 {
			t.Error("a client that is gone is still served")
		}
	})
}

func FuzzLastEventID(f *testing.F) {
	h := testHub()
	for n := range 2 * KeepEvents {
		h.Send("number", n)
	}
	f.Add("")
	f.Add(".")
	f.Add(h.epoch + ".2000")
	f.Add("another.2000")
	f.Fuzz(func(t *testing.T, id string) {
		for _, last := range []string{id, h.epoch + "." + id} {
			c, missed := h.subscribe(last)
			if c == nil {
				t.Fatal("a client is refused")
			}
			h.View(func() { h.drop(c) })
			// Either all that was missed, up to the last event, or a snapshot of it.
			for i, e := range missed {
				if want := h.seq - uint64(len(missed)-1-i); e.seq != want {
					t.Fatalf("%q: event %d of %d is %d, expected %d", last, i, len(missed), e.seq, want)
				}
			}
			if len(missed) > KeepEvents {
				t.Fatalf("%q: %d events are kept", last, len(missed))
			}
		}
	})
}

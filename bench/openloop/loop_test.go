//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestEveryDueRequestIsSentAndCounted(t *testing.T) {
	var feeds, others atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			others.Add(1)
		} else {
			feeds.Add(1)
		}
		w.Write([]byte("[1]"))
	})
	got, err := run(options{
		address: address, users: 10, rate: 500, duration: 200 * time.Millisecond, connections: 3, also: "/other",
	}, new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 100 || got.Missing != 0 || feeds.Load() != 100 {
		t.Errorf("%d answered, %d missing, %d arrived; want 100, 0, 100", got.Requests, got.Missing, feeds.Load())
	}
	// The last one of the closed loop may still be on its way when the run ends.
	if n := others.Load(); got.Also.Requests == 0 || int64(got.Also.Requests) < n-1 {
		t.Errorf("%d answers on the other connection, %d arrived", got.Also.Requests, n)
	}
}

// A closed loop would report one slow request a connection: here there are 2 connections, and all
// requests that fell due during the stall have to be slow.
func TestAStallDelaysEveryRequestThatFellDueDuringIt(t *testing.T) {
	const stall = 200 * time.Millisecond
	var once sync.Once
	var gate sync.RWMutex
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			gate.Lock()
			time.AfterFunc(stall, gate.Unlock)
		})
		gate.RLock()
		defer gate.RUnlock()
		w.Write([]byte("[1]"))
	})
	got, err := run(options{
		address: address, users: 10, rate: 1000, duration: 2 * stall, connections: 2,
	}, new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	// 200 of the 400 fall due within the stall, so the median is about its end and the 99th
	// percentile near its whole length.
	if p99 := time.Duration(got.P99) * time.Microsecond; p99 < stall/2 {
		t.Errorf("p99 is %v after a stall of %v for half of the run", p99, stall)
	}
}

func TestAFailingStatusIsCountedAndABrokenConnectionIsAnError(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte("no"))
	})
	o := options{address: address, users: 10, rate: 100, duration: 50 * time.Millisecond, connections: 1}
	got, err := run(o, new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	if got.Not2xx != 5 {
		t.Errorf("%d answers counted as failed, want 5", got.Not2xx)
	}

	o.address = serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := run(o, new(atomic.Bool)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed connection gave the error %v", err)
	}
}

func TestParseAnswer(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nDate: x\r\ncontent-LENGTH:  3\r\n\r\n"
	for _, c := range []struct {
		name, in       string
		status, length int
		err            string
	}{
		{"incomplete head", "HTTP/1.1 200 OK\r\nContent-Len", 0, 0, ""},
		{"head only", ok, 200, len(ok) + 3, ""},
		{"whole", ok + "[1]", 200, len(ok) + 3, ""},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", 0, 0, "without Content-Length"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, 0, "not a length"},
		{"bad status", "HTTP/1.1 abc OK\r\n\r\n", 0, 0, "not a status"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 0, 0, "not an HTTP/1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, length, err := parseAnswer([]byte(c.in))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || status != c.status || length != c.length {
				t.Fatalf("got %d, %d, %v, want %d, %d", status, length, err, c.status, c.length)
			}
		})
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var times []time.Duration
	for i := 1000; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Microsecond)
	}
	if got, want := quantilesOf(times), (quantiles{500, 990, 999, 1000}); got != want {
		t.Errorf("quantiles of 1 to 1000 are %v, want %v", got, want)
	}
	if got := quantilesOf(nil); got != (quantiles{}) {
		t.Errorf("quantiles of nothing are %v", got)
	}
}

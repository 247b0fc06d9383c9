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

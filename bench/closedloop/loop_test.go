//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
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

func TestPathsAreAskedForInTurnAndEachAnswerIsCountedOnce(t *testing.T) {
	const connections = 5
	long := strings.Repeat("1", 20_900)
	var mu sync.Mutex
	asked := map[string]int{}
	apart := 0 // how far /up and /down were from each other at most
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		apart = max(apart, asked["/up"]-asked["/down"], asked["/down"]-asked["/up"])
		mu.Unlock()
		w.Header().Set("Content-Length", fmt.Sprint(len(long)))
		io.WriteString(w, long)
	})
	got, err := run(options{address: address, paths: []string{"/up", "/down"}, connections: connections, duration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := asked["/up"] + asked["/down"]; all < connections || got.Requests != all || got.Missing != 0 || got.Not2xx != 0 {
		t.Errorf("%+v, and %d requests arrived", got, all)
	}
	if apart > connections {
		t.Errorf("one path was ahead by %d, with %d connections", apart, connections)
	}
	if got.Micros < 100_000 || got.P99 < got.P50 || got.Max < got.P99 {
		t.Errorf("times %+v", got)
	}
}

func TestNoMoreRequestsAreSentThanAskedFor(t *testing.T) {
	var arrived atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		io.WriteString(w, "{}")
	})
	for _, c := range []struct{ connections, requests int }{{1, 100}, {3, 100}, {7, 5}} {
		arrived.Store(0)
		got, err := run(options{address: address, paths: []string{"/"}, connections: c.connections, duration: time.Minute, requests: c.requests})
		if err != nil || got.Requests != c.requests || got.Missing != 0 || arrived.Load() != int64(c.requests) {
			t.Errorf("%+v, %v, and %d arrived; want %d", got, err, arrived.Load(), c.requests)
		}
	}
}

// raw answers every request with the given pieces, each written by itself.
func raw(t *testing.T, pieces ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := make([]byte, 4096); ; {
					if _, err := c.Read(in); err != nil {
						return
					}
					for i, p := range pieces {
						if i > 0 {
							time.Sleep(time.Millisecond) // so that it is a piece for the reader, too
						}
						io.WriteString(c, p)
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func TestAnAnswerInPiecesIsOne(t *testing.T) {
	address := raw(t, "HTTP/1.1 200 OK\r\nConte", "nt-Length: 6\r\n\r", "\n1", "23", "456")
	got, err := run(options{address: address, paths: []string{"/"}, connections: 2, duration: 50 * time.Millisecond})
	if err != nil || got.Requests < 2 || got.Missing != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for _, c := range []struct {
		name, answer, want string
	}{
		{"too much", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n123", "1 bytes came after"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", "without Content-Length"},
		{"an endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*headBytes), "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(options{address: raw(t, c.answer), paths: []string{"/"}, connections: 1, duration: time.Second})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	address := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := run(options{address: address, paths: []string{"/"}, connections: 1, duration: time.Second}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed connection gave the error %v", err)
	}
	if _, err := run(options{address: address, connections: 1}); err == nil || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("nothing to ask for gave the error %v", err)
	}
}

func TestAFailingStatusIsCounted(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusConflict)
		}
		io.WriteString(w, "{}")
	})
	got, err := run(options{address: address, paths: []string{"/good", "/bad"}, connections: 1, duration: 50 * time.Millisecond})
	if err != nil || got.Not2xx == 0 || got.Not2xx != got.Requests/2 {
		t.Errorf("%+v, %v, want half of the answers to have failed", got, err)
	}
}

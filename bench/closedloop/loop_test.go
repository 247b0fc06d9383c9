//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/bench/pool"
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

// predicting answers each request with as many scores as its body is long, or with what is given.
func predicting(t *testing.T, instead string) (address string, asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	bodies := map[string]int{}
	address = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies[r.URL.Path+" "+string(body)]++
		mu.Unlock()
		if instead != "" {
			io.WriteString(w, instead)
			return
		}
		fmt.Fprintf(w, `{"scores":[0.5%s]}`, strings.Repeat(",0.25", len(body)-1))
	})
	return address, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
}

func writePool(t *testing.T, bodies ...string) string {
	t.Helper()
	var all []pool.Request
	for _, b := range bodies {
		all = append(all, pool.Request{Bytes: pool.Post("/predict", "application/json", []byte(b)), Scores: len(b)})
	}
	path := filepath.Join(t.TempDir(), "pool")
	if err := pool.Write(path, all); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPoolIsSentInTurnAndSomeAnswersAreLookedAt(t *testing.T) {
	address, asked := predicting(t, "")
	path := writePool(t, "aaa", "bb", "c")
	const requests = 2*looksAt + 1
	got, err := run(options{address: address, pool: path, connections: 3, duration: time.Minute, requests: requests})
	if err != nil || got.Requests != requests || got.Not2xx != 0 || got.Looked != 3 {
		t.Errorf("%+v, %v; want %d requests and a look at 3", got, err, requests)
	}
	for _, b := range []string{"aaa", "bb", "c"} {
		if n := asked()["/predict "+b]; n < requests/3 || n > requests/3+1 {
			t.Errorf("%s was asked for %d times of %d", b, n, requests)
		}
	}
}

func TestWrongScoresAreAnError(t *testing.T) {
	address, _ := predicting(t, `{"scores":[0.5,1.5,0.25]}`)
	_, err := run(options{address: address, pool: writePool(t, "aaa"), connections: 1, duration: time.Minute, requests: 5})
	if err == nil || !strings.Contains(err.Error(), "score 1 is 1.5") {
		t.Errorf("error %v, want the score", err)
	}
}

func TestPathsAndAPoolTogetherAreRefused(t *testing.T) {
	_, err := run(options{address: "127.0.0.1:1", pool: "x", paths: []string{"/"}, connections: 1})
	if err == nil || !strings.Contains(err.Error(), "PATH... or --pool") {
		t.Errorf("error %v", err)
	}
}

//go:build linux

package main

import (
	"fmt"
	"io"
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

// predicting is a server of feeds and predictions, where a prediction is as many scores as its request's body is long.
// short counts those of 2.
func predicting(t *testing.T, scores string) (address string, feeds, predictions, short *atomic.Int64) {
	t.Helper()
	feeds, predictions, short = new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)
	address = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			feeds.Add(1)
			io.WriteString(w, "[1]")
			return
		}
		predictions.Add(1)
		body, _ := io.ReadAll(r.Body)
		if len(body) == 2 {
			short.Add(1)
		}
		fmt.Fprintf(w, `{"scores":[0.5%s]}`, strings.Repeat(scores, len(body)-1))
	})
	return address, feeds, predictions, short
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

func TestAPoolIsSentOnSchedule(t *testing.T) {
	address, feeds, predictions, _ := predicting(t, ",0.25")
	o := options{
		address: address, users: 1, pool: writePool(t, "aaa", "bb"), rate: 500, duration: 200 * time.Millisecond, connections: 3,
	}
	got, err := run(o, new(atomic.Bool))
	if err != nil || got.Requests != 100 || got.Looked != 1 || predictions.Load() != 100 || feeds.Load() != 0 {
		t.Errorf("%+v, %v; %d predictions and %d feeds arrived, want 100 and none", got, err, predictions.Load(), feeds.Load())
	}
	o.address, _, _, _ = predicting(t, ",2")
	if _, err := run(o, new(atomic.Bool)); err == nil || !strings.Contains(err.Error(), "score 1 is 2") {
		t.Errorf("wrong scores are the error %v", err)
	}
}

func TestAPoolIsSentBackToBackBesideFeeds(t *testing.T) {
	address, feeds, predictions, short := predicting(t, ",0.25")
	got, err := run(options{
		address: address, users: 10, alsoPool: writePool(t, "aaa", "bb"), rate: 500, duration: 200 * time.Millisecond, connections: 3,
	}, new(atomic.Bool))
	if err != nil || got.Requests != 100 || feeds.Load() != 100 {
		t.Fatalf("%+v, %v; %d feeds arrived, want 100", got, err, feeds.Load())
	}
	// The last one may still be on its way when the run ends.
	if n := predictions.Load(); got.Also.Requests == 0 || int64(got.Also.Requests) < n-1 || got.Looked == 0 {
		t.Errorf("%d answers on the other connection, %d looked at, %d arrived", got.Also.Requests, got.Looked, n)
	}
	if all, half := predictions.Load(), short.Load(); half < all/2-1 || half > all/2+1 {
		t.Errorf("of %d predictions %d were the second of two in the pool", all, half)
	}
}

func TestAStallIsNotInTheMedianWindow(t *testing.T) {
	var times []time.Duration
	var ends []int
	for w := range 9 {
		for i := range 200 {
			d := time.Duration(i+1) * time.Microsecond
			if w == 4 {
				d += 20 * time.Millisecond
			}
			times = append(times, d)
		}
		ends = append(ends, len(times))
	}
	ends = append(ends, len(times)+50) // too few to say anything
	times = append(times, make([]time.Duration, 50)...)
	if got := medianP99(times, ends); got != 198 {
		t.Errorf("got %d us, want 198", got)
	}
	if got := medianP99(times, nil); got != 0 {
		t.Errorf("without windows got %d us", got)
	}
	if times[0] != time.Microsecond || times[200] != time.Microsecond {
		t.Error("the times were sorted")
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/internal/bandit/featurestore/feasttest"
	"weir/internal/server"
	"weir/internal/systest"
)

// passage is what a test puts between weir and a store, to take the store away and give it back.
type passage struct {
	t    *testing.T
	addr string
	to   string

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
	all   sync.WaitGroup
}

func openPassage(t *testing.T, to string) *passage {
	// Nobody else is given ports of this address while it is refused.
	b := &passage{t: t, addr: "127.0.0.2:0", to: to}
	b.give()
	t.Cleanup(func() { b.take(); b.all.Wait() })
	return b
}

// give lets connections through.
func (b *passage) give() {
	l, err := net.Listen("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.l, b.addr = l, l.Addr().String()
	b.all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", b.to)
			if err != nil {
				from.Close()
				continue
			}
			b.mu.Lock()
			b.conns = append(b.conns, from, to)
			b.mu.Unlock()
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				b.all.Go(func() {
					io.Copy(way[0], way[1]) //nolint:errcheck // it ends when either side does
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
}

// take cuts all connections and refuses new ones.
func (b *passage) take() {
	b.l.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

// explained is an answer to POST /predict with "explain".
type explained struct {
	Scores  []float64
	Explain []struct {
		Alpha, Beta float64
		Source      string
	}
	Segment  string
	Degraded bool
	Detail   string // of a problem
}

func predict(t *testing.T, p *ports, user, items string) (status int, e explained) {
	t.Helper()
	status, body := ask(t, http.MethodPost, "http://"+p.public+"/predict",
		fmt.Sprintf(`{"user":%q,"items":%s,"explain":true}`, user, items))
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return status, e
}

// What is in Feast's stores is in feasttest/fill.py.
func TestPredictionsOutOfFeast(t *testing.T) {
	feast := feasttest.Shared(t)
	for kind, store := range map[string]string{"feast+http": feast.Server, "feast+redis": feast.Redis.Addr} {
		t.Run(kind, func(t *testing.T) {
			way := openPassage(t, store)
			url := kind + "://" + way.addr
			if kind == "feast+redis" {
				url += "/" + feasttest.Project
			}
			flags := []string{"--bandit-store", url, "--bandit-store-user-view", "users",
				"--bandit-store-timeout", "20s",
				"--bandit-store-cache-ttl", "1ns", "--bandit-store-retry", "1ms", "--bandit-prior", "3,5"}
			p := serveHere(t, server.Config{}, t.TempDir(), flags...)
			lenient := serveHere(t, server.Config{}, t.TempDir(),
				append(flags, "--bandit-on-store-error", "prior")...)

			known := func(p *ports, degraded bool) {
				t.Helper()
				// 1001 and the word are unknown, alpha of 2002 is negative.
				status, e := predict(t, p, "u1", `[1,"1000",1001,"word",2002]`)
				if status != http.StatusOK || len(e.Scores) != 5 || len(e.Explain) != 5 ||
					e.Degraded != degraded || e.Segment != "young" {
					t.Fatalf("%d %+v", status, e)
				}
				for i, want := range [][2]float64{{1.5, 2}, {1000.5, 2000}, {3, 5}, {3, 5}, {3, 5}} {
					got := e.Explain[i]
					source := "item"
					if i > 1 {
						source = "prior"
					}
					if got.Alpha != want[0] || got.Beta != want[1] || got.Source != source {
						t.Errorf("item %d: %+v, want %v from %s", i, got, want, source)
					}
				}
			}
			known(p, false)

			way.take()
			known(p, true)
			status, e := predict(t, p, "u1", `[2,1]`)
			if status != http.StatusServiceUnavailable ||
				!strings.Contains(e.Detail, "the feature store failed: it cannot be reached") ||
				strings.Contains(e.Detail, way.addr) {
				t.Errorf("an item that was never fetched, while the store is down: %d %+v", status, e)
			}
			status, e = predict(t, lenient, "u1", `[2,1]`)
			if status != http.StatusOK || !e.Degraded || len(e.Explain) != 2 || e.Explain[0].Alpha != 3 ||
				e.Explain[1].Beta != 5 || e.Explain[0].Source != "prior" {
				t.Errorf("--bandit-on-store-error=prior: %d %+v", status, e)
			}
			if n, _ := p.metric("weir_bandit_store_errors_total"); n == 0 {
				t.Error("no error of the store is counted")
			}
			if n, _ := p.metric("weir_bandit_store_stale_total"); n < 6 {
				t.Errorf("%v older answers counted, want 6 and more: 5 items and a user", n)
			}

			way.give()
			systest.Eventually(t, "the store is asked again", func() bool {
				_, e := predict(t, p, "u1", "[1]")
				return !e.Degraded && len(e.Scores) == 1
			})
			known(p, false)
		})
	}
}

//go:build linux

// Command rated answers exactly so many requests a second, and does with more what it is told to: what the truth is when a
// search for it is measured.
//
//	rated --listen 127.0.0.1:8080 --rate 2000 --kind queue
//
// Kinds: queue lets them wait in order, however long that takes; shed answers 503 at once; cut ends the connection; both
// lets them wait until --queue is full, and answers 503 from then on.
//
// It is one locked thread on raw epoll, and answers are paced by a schedule and not by sleeping, so that being late does not
// make the rate smaller: a stall up to --burst is made good. On --admin, PUT /rate with a number changes the rate at once,
// GET /stats says how many were served and refused.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kinds are what happens to more than can be served.
const (
	kindQueue = "queue"
	kindShed  = "shed"
	kindCut   = "cut"
	kindBoth  = "both"
)

var kinds = []string{kindQueue, kindShed, kindCut, kindBoth}

func main() {
	log.SetFlags(0)
	log.SetPrefix("rated: ")
	listen := flag.String("listen", "127.0.0.1:8080", "IPv4 address and port; port 0 takes a free one")
	admin := flag.String("admin", "", "address for PUT /rate and GET /stats")
	rate := flag.Float64("rate", 1000, "requests a second that are served")
	kind := flag.String("kind", kindQueue, "what happens to more: "+strings.Join(kinds, ", "))
	burst := flag.Duration("burst", 20*time.Millisecond, "how much of a time without requests is made good")
	queue := flag.Duration("queue", 50*time.Millisecond, "longest wait of the kind both")
	flag.Parse()

	l, err := newLoop(*listen, pacer{burst: *burst, longest: *queue, kind: *kind}, *rate)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", l.address())
	if *admin != "" {
		ln, err := net.Listen("tcp", *admin)
		if err != nil {
			log.Fatal(err)
		}
		go func() { log.Fatal(http.Serve(ln, l.admin())) }()
	}
	log.Fatal(l.run())
}

// checkRate says what is wrong with a rate.
func checkRate(rate float64) error {
	if !(rate >= 1) || math.IsInf(rate, 0) || rate > 1e7 {
		return fmt.Errorf("a rate is 1 to 10,000,000 requests a second, got %v", rate)
	}
	return nil
}

func checkKind(kind string) error {
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("--kind takes %s, got %q", strings.Join(kinds, ", "), kind)
	}
	return nil
}

// admin serves what changes and what is counted.
func (l *loop) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /rate", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(io.LimitReader(r.Body, 100))
		if err != nil {
			return
		}
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err == nil {
			err = checkRate(rate)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.rate.Store(math.Float64bits(rate))
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]uint64{"served": l.served.Load(), "refused": l.refused.Load()})
	})
	return mux
}

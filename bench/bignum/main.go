// Command bignum is the server that weir's sequence is measured against: the Fibonacci sequence
// under a shared index in the way most teams would write it, on net/http and math/big.
//
// It has the shape of a published system, in our own words: GET /current, /next and /previous answer
// {"index":N,"value":"decimal"}; a cache of neighbouring values at every --padding indices, because
// any value follows from a pair nearby by a few additions; GET /debug/cache counts how they were
// found; the index is written to --file every --seconds and read at start. It does not share that
// system's faults: /previous cannot go below 0, no request changes a pair that another one reads, and
// a pair far from all others is computed by fast doubling instead of from 0. What it costs is what it
// costs everybody who prints a math/big number: the conversion to decimal, more than linear in the
// digits, at each request.
//
// It prints "listening on ADDRESS" once it is ready. Up to --seconds of moves are lost at a crash.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	start := flag.Uint("start", 0, "index to start from when there is no file")
	padding := flag.Uint("padding", 64, "indices from one cached pair to the next")
	file := flag.String("file", "", "where the index is kept; nowhere when empty")
	seconds := flag.Uint("seconds", 3, "how often the index is written")
	flag.Parse()
	if *padding == 0 || *seconds == 0 {
		log.Fatal("bignum: --padding and --seconds must be 1 or more")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := newSequence(uint32(*start), uint32(*padding))
	if err := serve(ctx, s, *listen, *file, time.Duration(*seconds)*time.Second); err != nil {
		log.Fatal("bignum: ", err)
	}
}

func serve(ctx context.Context, s *sequence, listen, file string, interval time.Duration) error {
	if file != "" {
		if err := s.load(file); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", ln.Addr())
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(ln, s.routes()) }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-tick.C:
		case <-ctx.Done():
		}
		if file != "" {
			if err := s.save(file); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

type answer struct {
	Index uint32 `json:"index"`
	Value string `json:"value"`
}

func (s *sequence) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /current", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.index.Load()) })
	mux.HandleFunc("GET /next", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.next()) })
	mux.HandleFunc("GET /previous", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.previous()) })
	mux.HandleFunc("GET /debug/cache", func(w http.ResponseWriter, _ *http.Request) { send(w, s.cache.stats()) })
	return mux
}

func (s *sequence) answer(w http.ResponseWriter, index uint32) {
	send(w, answer{index, s.cache.value(index).String()})
}

func send(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // else an answer this long is chunked
	w.Write(body)
}

// load reads the index from a file of an earlier run, if there is one.
func (s *sequence) load(file string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return fmt.Errorf("%s does not hold an index: %w", file, err)
	}
	s.index.Store(uint32(index))
	return nil
}

func (s *sequence) save(file string) error {
	temp := file + ".new"
	if err := os.WriteFile(temp, strconv.AppendUint(nil, uint64(s.index.Load()), 10), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

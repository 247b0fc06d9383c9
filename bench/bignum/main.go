// Command bignum is the server that weir's sequence is measured against: the Fibonacci sequence under a
// shared index as most teams would write it, on net/http and math/big.
//
// It has the shape of a published system, in our own words: GET /current, /next and /previous answer
// {"index":N,"value":"decimal"}, from a cache of neighbouring values at every 64 indices, because any value
// follows from a pair nearby by a few additions. It does not share that system's faults: /previous cannot go
// below 0, no request changes a pair that another one reads, and a pair far from all others is computed by
// fast doubling instead of from 0. What it costs is what it costs everybody who prints a math/big number:
// the conversion to decimal, more than linear in the digits, at each request.
//
// It prints "listening on ADDRESS" once it is ready. The index is not kept.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	start := flag.Uint("start", 0, "index to start from")
	flag.Parse()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal("bignum: ", err)
	}
	fmt.Println("listening on", ln.Addr())
	log.Fatal("bignum: ", http.Serve(ln, newSequence(uint32(*start), 64).routes()))
}

type answer struct {
	Index uint32 `json:"index"`
	Value string `json:"value"`
}

func (s *sequence) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /current", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, s.index.Load())
	})
	mux.HandleFunc("GET /next", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.next()) })
	mux.HandleFunc("GET /previous", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, s.previous())
	})
	return mux
}

func (s *sequence) answer(w http.ResponseWriter, index uint32) {
	body, err := json.Marshal(answer{index, s.cache.value(index).String()})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // else an answer this long is chunked
	w.Write(body)
}

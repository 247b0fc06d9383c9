//go:build cgo

// Command bandit is the server that weir's predictions are measured against: Thompson sampling in the
// way of a published system, in our own words, on fiber with encoding/json, features in maps and Beta
// samples from C++ through cgo.
//
// POST /predict takes {"user":"u1","items":["a","b"]} and answers {"scores":[0.1,0.2]}, one sample of each
// item's Beta(alpha, beta) in the items' order. The features come from a store that gives at most 100
// entities a call: the ids are cut into chunks, the chunks asked for at the same time, and the answers merged
// into one map of entity to feature to value. Here the store is memory, filled from a CSV file at start,
// and answers at once, so that nothing is measured but the server itself. It listens
// once the features are there; a panic in a request is that request's 500.
//
// It is well written within that design: one call into C++ a request and not one a sample, one generator
// and one distribution a thread, nothing copied out of the store. It knows no segments, no rewards
// and no limits, which makes it cheaper.
//
// It needs cgo and a C++ compiler: CGO_ENABLED=1 go build.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	features := flag.String("features", "",
		"CSV file of item,alpha,beta,segment; rows with a segment are left out")
	flag.Parse()
	if err := serve(*listen, *features); err != nil {
		log.Fatal("bandit: ", err)
	}
}

func serve(listen, path string) error {
	entities, err := readFeatures(path)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", ln.Addr())
	return app(&predictor{memory{entities}}).Listener(ln)
}

//go:build linux

// Command closedloop asks for paths in turn as fast as they are answered, with one request at a time
// on each connection, and reports how many it got.
//
//	closedloop [flags] PATH...
//	closedloop [flags] --pool FILE
//
// A pool is a file of whole requests (package pool), sent in turn from its first one; some of the answers are looked at
// after the run, and wrong scores in one of them are an error.
//
// It is for long answers and long requests. wrk reads 8 KiB at a time and was busy for 12 us with an answer of 20.9 KB,
// more than the server that sent it; so it set the rate, and not the server. This one reads an answer at
// once, looks at its head and throws the rest away. Whichever connection asks next asks for the next path: as
// many requests go to one path as to another, give or take the connections.
//
// It is one locked thread on raw epoll. Its last line is "summary: " and JSON, times in microseconds. Any broken
// connection or unreadable answer is an error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("closedloop: ")
	var o options
	flag.StringVar(&o.address, "address", "127.0.0.1:8080", "IPv4 address and port of the server")
	flag.StringVar(&o.pool, "pool", "", "file of requests to send instead of asking for paths")
	flag.IntVar(&o.connections, "connections", 12, "connections")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to ask")
	flag.IntVar(&o.requests, "requests", 0, "end after so many requests, if that is earlier; 0 is no limit")
	flag.Parse()
	o.paths = flag.Args()

	result, err := run(o)
	if err != nil {
		log.Fatal(err)
	}
	line, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("summary: %s\n", line)
}

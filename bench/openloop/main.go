//go:build linux

// Command openloop sends feed requests, or those of a pool, on a schedule and reports how long they took.
//
// The model is open: request i is due at i/rate whatever became of the ones before, and its
// latency counts from that moment, not from when a connection was free to send it. A server that
// stalls for 100 ms at 10,000 requests a second shows up as 1,000 slow requests and not, as in a
// closed loop, as one for each connection (coordinated omission).
//
// It is one locked thread on raw epoll, as k6 costs about 44 us of CPU a request and cannot reach
// half of what weir answers from one core; this costs about 5. It never sleeps: it spins on the
// clock and wants a core of its own. "lag" in the output is how late it noticed a request that was
// due; if lag is near the latencies, the client was the bottleneck and the run says nothing.
//
// With --also PATH one more connection asks for PATH in a closed loop (or --also-rate times a
// second), on the same thread, and is accounted for by itself; with --also-pool FILE it sends the
// requests of that file in turn. Some answers to requests out of a pool are looked at after the run:
// wrong scores are an error.
//
// It ends after --duration, or on SIGINT or SIGTERM with what it has. Its last line is "summary: "
// and JSON, times in microseconds. Any broken connection or unreadable answer is an error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("openloop: ")
	var o options
	flag.StringVar(&o.address, "address", "127.0.0.1:8080", "IPv4 address and port of the server")
	flag.IntVar(&o.users, "users", 1, "users drawn from, whose ids are 0 to users-1")
	flag.StringVar(&o.pool, "pool", "", "file of requests to draw from instead of users' feeds")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flag.Float64Var(&o.rate, "rate", 1000, "requests a second")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to send")
	flag.IntVar(&o.connections, "connections", 200, "connections for feed requests")
	flag.StringVar(&o.also, "also", "", "path asked for on one more connection")
	flag.StringVar(&o.alsoPool, "also-pool", "", "file of requests to send on that connection")
	flag.Float64Var(&o.alsoRate, "also-rate", 0, "requests a second on that connection; 0 is as fast as they are answered")
	flag.Parse()

	var stop atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		stop.Store(true)
	}()

	result, err := run(o, &stop)
	if err != nil {
		log.Fatal(err)
	}
	line, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("summary: %s\n", line)
}

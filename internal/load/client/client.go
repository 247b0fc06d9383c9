// Package client makes HTTP requests at a rate, or as fast as they are answered, and measures what comes of them.
package client

import (
	"net/netip"
	"time"
)

// Target is where requests go: one origin, whose address was looked up once.
type Target struct {
	// URL is the origin: scheme and host, no path. https goes by net/http.
	URL string
	// Host is what the Host field says.
	Host string
	Addr netip.AddrPort
}

// Source is one thread's endless stream of requests. It is called by one goroutine.
type Source interface {
	// Next appends one whole HTTP/1.1 request, Host included, to wire and returns it, the index of the target that
	// it is for, and a number that Heard gets with its answer.
	Next(wire []byte) (out []byte, target int, ref uint64)
}

// Listener is a Source that wants the answers.
type Listener interface {
	Source
	// Heard is told of every answer, in the order they come. It must not keep the answer.
	Heard(ref uint64, a Answer)
}

// Answer is what a Listener hears. Status 0 says that none came.
type Answer struct {
	Status             int
	ETag, LastModified []byte
}

// Arrivals says how the open model spaces requests.
type Arrivals string

const (
	Constant Arrivals = "constant" // evenly
	Poisson  Arrivals = "poisson"  // as independent users make them
)

// Options say how requests are made.
type Options struct {
	Targets []Target
	// Closed sends on Connections, each its next request once the last is answered. Else the open model sends
	// at a rate, on as many connections as it takes, at most MaxConnections, beyond which requests are dropped.
	Closed         bool
	Connections    int
	MaxConnections int // default 10000
	Warm           int // connections opened before the first request; default 64
	Arrivals       Arrivals
	Timeout        time.Duration // of a request, from when it is sent or was to be; default 10 s
	Threads        int           // default: what the machine has to spare
	HTTP2          bool          // and TLS: by net/http
	Insecure       bool          // believes any certificate
	Seed           uint64

	netHTTP bool // whatever the targets are, for tests
}

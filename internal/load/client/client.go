// Package client makes HTTP requests at a rate, or as fast as they are answered, and measures what comes of
// them.
//
// The open model has a schedule and never waits: a request whose time has come goes out on the connection
// that was idle last, or on a new one, and its latency counts from that time, whether the target stalls or
// this program does. Only when MaxConnections are open and busy is it dropped, and counted as that. The
// closed model keeps a number of connections busy, and counts from the sending.
//
// On Linux each of an engine's threads is locked to one of the system's, has its share of the schedule and
// of the connections, and waits by epoll; nothing is allocated for a request, and no time is asked for that
// is not needed. TLS, HTTP/2 and other systems go by net/http, which costs several times as much.
//
// What the engine adds to latencies is in every window: Lag is how late a request was sent plus how long
// its answer may have lain unread, at most; the time between the last look that did not show it and its
// being counted. (By net/http it is how late the request was sent.) Busy is the share of its time that the
// busiest thread worked. The open model's threads ask for events over and over for 50 us at a time instead
// of sleeping, which is part of CPU and not of Busy; they do not when other programs want the processor.
//
// An answer is read by the rules of RFC 9112 and is malformed where those are broken, or where more comes
// than was asked for. Interim answers are skipped, bodies are not kept. A request that was sent on a
// connection that had been idle, and that ended without a byte of an answer, is sent once more on a new
// one, if its method is idempotent: servers close idle connections at any time. While a target refuses
// connections only one at a time is tried, ever more rarely, up to every half second; other requests for it
// count as refused at once.
package client

import (
	"net/http"
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
	// Next appends one whole HTTP/1.1 request, Host included, to wire and returns it.
	Next(wire []byte) (out []byte, r Request)
}

// Request says of a request what its bytes do not.
type Request struct {
	Target int    // where it goes, by the target's index
	Part   int    // of the parts that are counted apart
	Ref    uint64 // what Heard gets with its answer
}

// Judge is a Source that looks at whole answers, which only net/http gives (Options.Whole).
type Judge interface {
	Source
	// Judge says what is wrong with an answer to a request of a part. It must not keep the answer.
	Judge(part int, r *http.Response, body []byte) error
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
	Targets []Target `json:"-"`
	// Closed sends on Connections, each its next request once the last is answered. Else the open model
	// sends at a rate, on as many connections as it takes, at most MaxConnections, beyond which requests
	// are dropped.
	Closed      bool `json:"closed,omitempty"`
	Connections int  `json:"connections,omitempty"`
	// Pipeline is how many requests of the closed model go out on a connection at once; the next ones
	// follow when all of them are answered. 0 is 1; more takes one target, and http.
	Pipeline       int `json:"pipeline,omitempty"`
	MaxConnections int `json:"max_connections,omitempty"` // default 10000
	// Connections opened before the first request; default 64.
	Warm     int      `json:"warm,omitempty"`
	Arrivals Arrivals `json:"arrivals,omitempty"`
	// Of a request, from when it is sent or was to be; default 10 s.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// default: half of the processors, at least 1 and at most 4.
	Threads  int    `json:"threads,omitempty"`
	HTTP2    bool   `json:"http2,omitempty"`    // and TLS: by net/http
	Whole    bool   `json:"-"`                  // answers are kept whole and shown to a Judge: by net/http
	Insecure bool   `json:"insecure,omitempty"` // believes any certificate
	Seed     uint64 `json:"seed,omitempty"`
	// Part of Parts is this engine's share of a rate that several share: it is told the whole rate.
	Part  int `json:"-"`
	Parts int `json:"-"` // 0 is 1

	netHTTP bool // whatever the targets are, for tests
}

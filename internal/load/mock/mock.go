// Package mock is an upstream made up for tests and measurements: RSS, Atom and JSON feeds by URL,
//
//	/feed/{seed}.{rss,atom,json}?items=20&delay=50ms&error=0.01&...
//
// deterministic down to the byte, and as slow, broken or hostile as its knobs say. A knob has a default,
// which PUT /knobs changes live, and a parameter of the same name, which is for one request.
//
// What it promises:
//
//   - The same seed, step of the clock and knobs give the same bytes and the same ETag, in every process
//     and on every machine. A feed is a window over one endless row of items: item 17 of seed 3 is the same
//     item for all times, formats and numbers of items, so a client may check what it has seen.
//   - What happens by chance (hang, jitter, error, malformed) depends on the seed, the step and the number
//     of the request among those for that seed, from 0 on; see outcome.go. With a stepped clock a run can
//     be repeated exactly.
//   - A parameter that is unknown, malformed or given twice is a 400 that names it and says what is
//     expected. None is ignored.
//   - A hung request costs a goroutine until its client leaves or Stop is called, and no longer.
//
// Bytes are kept in a cache bounded by Options.CacheBytes, compressed ones as well, so that the mock is not
// what a measurement finds.
package mock

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"weir/internal/server"
)

// Options are what a mock starts with. Zeros mean defaults.
type Options struct {
	// Knobs are the defaults of every request; nil means Defaults().
	Knobs *Knobs
	// Stepped makes time stand still until POST /clock moves it; else a step is over whenever Step is.
	Stepped bool
	// Step is how long a step takes, or is said to take in dates when the clock is stepped; default a minute.
	Step time.Duration
	// CacheBytes bounds the bodies that are kept; default 256 MiB.
	CacheBytes int64
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Server is a mock: a server.Service, and an http.Handler for those who have no kernel.
type Server struct {
	knobs   atomic.Pointer[Knobs]
	turning sync.Mutex // serialises changes of knobs
	clock   *clock
	pages   *otter.Cache[page, *rendered]
	largest int // body that is kept
	numbers numbers
	stats   stats
	handler http.Handler

	stopped context.Context
	stop    context.CancelFunc
}

var (
	_ server.Service = (*Server)(nil)
	_ http.Handler   = (*Server)(nil)
)

// Open returns a mock. The error names the flag that is wrong.
func Open(o Options) (*Server, error) {
	if o.Step == 0 {
		o.Step = time.Minute
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Knobs == nil {
		k := Defaults()
		o.Knobs = &k
	}
	if o.Step < time.Second || o.Step > 24*time.Hour {
		return nil, fmt.Errorf("--step must be a duration from 1s to 24h, got %v", o.Step)
	}
	if o.CacheBytes < 0 {
		return nil, fmt.Errorf("--cache must not be negative, got %d", o.CacheBytes)
	}
	if err := o.Knobs.check(); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	s := &Server{clock: newClock(o.Now, o.Step, o.Stepped)}
	// The cache admits nothing that is a large part of it: keep a few at least.
	s.largest = int(min(o.CacheBytes/16, 64<<20))
	s.pages = otter.Must(&otter.Options[page, *rendered]{
		MaximumWeight: uint64(o.CacheBytes),
		Weigher:       func(_ page, r *rendered) uint32 { return uint32(len(r.body) + pageOverhead) },
	})
	s.knobs.Store(o.Knobs)
	s.stats.begin(o.Now())
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.handler = server.NewHandler(s.Routes()...)
	return s, nil
}

// pageOverhead is what an entry of the cache costs besides its body.
const pageOverhead = 512

// Name implements server.Service.
func (s *Server) Name() string { return "mock" }

// Health implements server.Service.
func (s *Server) Health() server.Health { return server.Ready() }

// Stop ends every request that hangs or waits: hung ones without an answer, delayed ones with theirs. The
// mock answers on, and waits no more.
func (s *Server) Stop() { s.stop() }

// Close implements server.Service.
func (s *Server) Close() error {
	s.stop()
	return nil
}

// Knobs returns the defaults as they are now.
func (s *Server) Knobs() Knobs { return *s.knobs.Load() }

// SetKnobs changes the defaults. It refuses those that cannot be.
func (s *Server) SetKnobs(k Knobs) error {
	if err := k.check(); err != nil {
		return err
	}
	s.turning.Lock()
	defer s.turning.Unlock()
	s.knobs.Store(&k)
	return nil
}

// Step returns the step that the clock is at.
func (s *Server) Step() int64 { return s.clock.step() }

// Advance moves a stepped clock on by n steps.
func (s *Server) Advance(n int64) error { return s.clock.advance(n) }

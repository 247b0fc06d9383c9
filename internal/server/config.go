package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"weir/internal/config"
	"weir/internal/metrics"
	"weir/internal/shed"
)

// Config holds the kernel's addresses and bounds. The zero value of a bound means its default;
// see Defaults.
type Config struct {
	// Listen, TLSListen and Admin are addresses to listen on; an empty one is off.
	Listen, TLSListen, Admin string
	// Ports are these addresses, taken before; nil has New take them.
	Ports *Ports
	// TLS is used on TLSListen.
	TLS *tls.Config

	// Loops is the number of event loops, each a locked thread; Workers that of each service's goroutines for
	// offloaded requests, which mostly wait for the disk, WorkerQueue how many of its requests may wait
	// for one.
	Loops, Workers, WorkerQueue int
	// Processors is how many there are for all of it. Unless there are more of them than loops, loops run by
	// themselves what a worker could run beside them: see WhenIdle.
	Processors int

	// MaxHeader bounds a request's line and headers, MaxBody its body unless the route has a bound of its
	// own, both in bytes.
	MaxHeader, MaxBody int
	// MaxOutput is the answer bytes of one connection beyond which parsing stops until its
	// client reads.
	MaxOutput int
	// MaxInput bounds the bytes of requests that wait, over all connections.
	MaxInput int64
	// MaxConnections bounds open connections; one more is answered 503 and closed.
	MaxConnections int

	// RequestTimeout runs from a request's first byte to its last; IdleTimeout from an answer to the next
	// request, WriteTimeout without the client taking a byte, LingerTimeout while discarding what follows a
	// refused request.
	RequestTimeout, IdleTimeout, WriteTimeout, LingerTimeout time.Duration
	// ShutdownTimeout bounds the wait for requests in flight.
	ShutdownTimeout time.Duration

	// CriticalServices names those without which the server is down; nil means those that were given data.
	CriticalServices []string

	// NetHTTP serves everything by net/http, as on systems without epoll.
	NetHTTP bool

	// Shed says what overload is; nil never refuses a request because of it.
	Shed *shed.Config

	// Settings returns what of this may change while the server serves, by its Apply; nil is nothing.
	Settings func(*Server) []config.Setting

	// AdminAccess wraps what the admin port serves, behind the guard against pages of other sites: it says
	// who may use it. Nil is everybody.
	AdminAccess func(http.Handler) http.Handler

	Metrics *metrics.Registry
	Log     *slog.Logger
}

// Defaults returns the bounds used where a Config has a zero.
func Defaults() Config {
	loops := runtime.GOMAXPROCS(0) // heeds a container's share, where NumCPU does not
	return Config{
		Loops:           loops,
		Processors:      loops,
		Workers:         64,
		WorkerQueue:     1024,
		MaxHeader:       8 << 10,
		MaxBody:         1 << 20,
		MaxOutput:       64 << 10,
		MaxInput:        256 << 20,
		MaxConnections:  100_000,
		RequestTimeout:  10 * time.Second,
		IdleTimeout:     120 * time.Second,
		WriteTimeout:    30 * time.Second,
		LingerTimeout:   500 * time.Millisecond,
		ShutdownTimeout: 10 * time.Second,
	}
}

// Fill replaces zeros by defaults and refuses what cannot work, naming the flag. New does it too;
// it is for those who want to know before they open anything.
func (c *Config) Fill() error {
	d := Defaults()
	if err := cmp.Or(
		fill("--loops", &c.Loops, d.Loops), fill("--workers", &c.Workers, d.Workers),
		fill("--worker-queue", &c.WorkerQueue, d.WorkerQueue),
		fill("--max-header", &c.MaxHeader, d.MaxHeader),
		fill("--max-body", &c.MaxBody, d.MaxBody), fill("--max-output", &c.MaxOutput, d.MaxOutput),
		fill("--max-input", &c.MaxInput, d.MaxInput),
		fill("--max-connections", &c.MaxConnections, d.MaxConnections),
		fill("--request-timeout", &c.RequestTimeout, d.RequestTimeout),
		fill("--idle-timeout", &c.IdleTimeout, d.IdleTimeout),
		fill("--write-timeout", &c.WriteTimeout, d.WriteTimeout),
		fill("--linger-timeout", &c.LingerTimeout, d.LingerTimeout),
		fill("--shutdown-timeout", &c.ShutdownTimeout, d.ShutdownTimeout),
		fill("processors", &c.Processors, d.Processors),
	); err != nil {
		return err
	}
	if c.MaxInput < int64(c.MaxHeader+c.MaxBody) {
		return fmt.Errorf("--max-input (%d bytes) must hold at least one request (%d bytes)", c.MaxInput,
			c.MaxHeader+c.MaxBody)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.New(c.Stripes())
	}
	return nil
}

// fill replaces a zero and refuses what is negative.
func fill[T int | int64 | time.Duration](flag string, value *T, fallback T) error {
	if *value < 0 {
		return fmt.Errorf("%s must not be negative, got %v", flag, *value)
	}
	*value = cmp.Or(*value, fallback)
	return nil
}

// Apply takes up those fields of a Config, which has been filled, that may change while the server serves:
// MaxConnections, MaxBody, MaxInput, the timeouts, and of Shed all but StallsOf. The others stay what they
// were. They count at once, for connections that wait as well; only net/http's connections, those with TLS
// and those of systems without epoll, keep IdleTimeout and, for heads, RequestTimeout from the start. With an
// error nothing has changed.
func (s *Server) Apply(cfg Config) error {
	if s.shed != nil {
		shedding := *cfg.Shed
		cfg.Shed = &shedding
		if err := s.shed.Apply(shedding); err != nil {
			return err
		}
	}
	s.live.Store(&cfg)
	if s.fast != nil {
		s.fast.retime()
	}
	return nil
}

// Settings returns the kernel's settings that may change while it serves.
func (s *Server) Settings() []config.Setting {
	if s.cfg.Settings == nil {
		return nil
	}
	return s.cfg.Settings(s)
}

// Stripes is how many writers of striped counters the kernel has: loops, workers, and one shared
// by all that net/http runs.
func (c *Config) Stripes() int { return c.Loops + c.Workers + 1 }

// sharedStripe is the stripe of handlers run by net/http.
func (c *Config) sharedStripe() int { return c.Loops + c.Workers }

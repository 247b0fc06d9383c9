package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/metrics"
	"weir/internal/shed"
	"weir/internal/webui"
)

// Service is one capability of the box. The kernel consumes it: a service lists its routes and
// says whether it can answer; how requests reach it is none of its business.
type Service interface {
	// Name is a short lower-case noun, used in logs, metrics and /health.
	Name() string
	// Routes are added to the public port, or to the admin port where Route.Admin is set.
	Routes() []Route
	// Health says whether the service can answer, and why not. It is called often and must not block.
	Health() Health
	// Close is called once, after the last request has been answered. It makes durable what
	// is not yet.
	Close() error
}

// Reloader is a Service that can take up new data without a restart. Reload returns when the
// new data serves or was refused; a refusal leaves the old data serving.
type Reloader interface {
	Reload(ctx context.Context) error
}

// Tunable is a Service with settings that may change while it serves.
type Tunable interface {
	// Settings returns them, the same ones for as long as the service is open.
	Settings() []config.Setting
}

// Pager is a Service that brings pages to the dashboard.
type Pager interface {
	// Pages returns them, in the order of the menu.
	Pages() []webui.Page
}

// Env is what a service is opened with. Nothing in it is owned by the service.
type Env struct {
	// DataDir is the server's data directory, locked for this process; a service keeps its
	// files in a folder of its own below it.
	DataDir string
	Metrics *metrics.Registry
	Log     *slog.Logger
	// Long announces work that keeps a goroutine busy for more than a few milliseconds, until the function
	// that it returns is called. The scheduler has a processor more meanwhile: else an event loop could wait
	// for its own until that work is preempted, 10 ms later. Nil does nothing.
	Long func() (done func())
	// Reject decides about, and counts, a piece of work of class Low that shows only when its request is
	// under way, as a miss in a cache does. True says that the server is overloaded and the work is not to
	// be done. Nil refuses nothing.
	Reject func() bool
}

// Opener is a service before it is opened: it has the flags that say how.
type Opener interface {
	// Name is the name of the service.
	Name() string
	// AddFlags adds the service's flags, which nobody else names.
	AddFlags(f *pflag.FlagSet)
	// Check says what is wrong with the flags by themselves, once they are parsed: a value that cannot be, or
	// flags that do not go together. It touches nothing, so that a command line that is refused leaves
	// nothing behind. An error that wraps ErrOff says that the service was not given what it needs, and stays
	// off; ErrOff itself is of one that few need, and is not logged.
	Check() error
	// Open opens the service after a Check that returned nil.
	Open(ctx context.Context, env Env) (Service, error)
}

// Absent is an Opener whose service says on its own paths that it is off, and what would turn it on.
type Absent interface {
	// Absent returns the routes that stand in for the service's.
	Absent() []Route
}

// ErrOff is wrapped by the error of Opener.Check when its service stays off.
var ErrOff = errors.New("off")

// Off returns an error that wraps ErrOff and says what would turn the service on.
func Off(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOff, fmt.Sprintf(format, args...))
}

// A FlagError is what is wrong with the flags of a command by themselves: a value that cannot be, or flags
// that do not go together. A file that is missing or an address that is taken is none.
type FlagError struct{ Err error }

// Error implements error.
func (e *FlagError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FlagError) Unwrap() error { return e.Err }

// Handler answers one request: it appends the answer to w.Body and returns what becomes of the request. It
// must not keep w, r or any slice of them.
//
// A handler runs on the event loop first, where it holds up every other connection of that loop: r.Inline
// says so. There it must neither block nor allocate on its usual path. Work that may take more than
// InlineMicroseconds, or an answer beyond InlineBytes, is moved off by returning WhenIdle, Offload or
// NetHTTP, before anything shows.
type Handler func(w *Response, r *Request) Outcome

// Outcome is what becomes of a request when its handler has returned.
type Outcome uint8

const (
	// Done means that the response is complete.
	Done Outcome = iota
	// WhenIdle has the handler called again when nothing else is ready, by the loop or by a worker: for up to
	// IdleMicroseconds of computation that waits for nothing.
	WhenIdle
	// Offload has the handler called again by a worker, where it may take longer and wait for the disk.
	Offload
	// Pending means that somebody completes the request later, by what Request.Pend has returned.
	Pending
	// NetHTTP gives the request to the route's Stream, on net/http.
	NetHTTP
)

// Class says how much requests matter when the server is overloaded.
type Class = shed.Class

// The classes.
const (
	Normal   = shed.Normal
	Low      = shed.Low      // refused first: what costs much, or can be done later
	Critical = shed.Critical // never refused: by it people and machines find out how the server is
)

// Route binds a pattern to what answers it. Its handler is the same on every port and lane.
type Route struct {
	// Pattern is a method, a space and a path: "GET /feed/{user}". A segment in braces
	// matches any one non-empty segment; a last segment "{rest...}" matches what is left.
	// GET also answers HEAD.
	Pattern string
	// Handler answers the requests; nil gives all of them to Stream.
	Handler Handler
	// Stream answers by net/http what Handler returns NetHTTP for: what is streamed to the client, or needs a
	// library of net/http. It may block and allocate.
	Stream http.Handler
	// Prefetch, which may be nil, is told of requests that Handler will get within a millisecond, by the
	// values of their first wildcard, still encoded: it may ask for what they need into the processor's
	// caches, and must do nothing else, for not all of them need come. The path must end with that wildcard,
	// the only one. params are valid during the call; stripe is as in Request.
	Prefetch func(stripe int, params [][]byte)
	// Class says whether its requests are rejected first when the server is overloaded, or never; Normal is
	// what nobody says. See Request.Class for some of them.
	Class Class
	// Admin puts the route on the admin port, where requests are never rejected and handlers may block.
	Admin bool
	// MaxBody bounds a request's body in bytes; 0 is Config.MaxBody. A longer one is answered 413.
	MaxBody int
	// Limits, which may be nil, is what the route's requests count for while they are offloaded or pending:
	// see Env.Limiter. A route with it has no Stream.
	Limits *Limiter
}

// What a handler may do inline; beyond either it must return Offload, or WhenIdle up to IdleMicroseconds.
const (
	InlineMicroseconds = 20
	InlineBytes        = 32 << 10
	IdleMicroseconds   = 100
)

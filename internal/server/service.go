package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"weir/internal/metrics"
	"weir/internal/shed"
)

// Service is one capability of the box. The kernel consumes it: a service lists its routes and
// says whether it can answer; how requests reach it is none of its business.
type Service interface {
	// Name is a short lower-case noun, used in logs, metrics and /health.
	Name() string
	// Routes are added to the public port, or to the admin port where Route.Admin is set.
	Routes() []Route
	// Ready returns nil when the service can answer, else the reason. It is called often and
	// must not block.
	Ready() error
	// Close is called once, after the last request has been answered. It makes durable what
	// is not yet.
	Close() error
}

// Reloader is a Service that can take up new data without a restart. Reload returns when the
// new data serves or was refused; a refusal leaves the old data serving.
type Reloader interface {
	Reload(ctx context.Context) error
}

// Env is what a service is opened with. Nothing in it is owned by the service.
type Env struct {
	// DataDir is the server's data directory, locked for this process; a service keeps its
	// files in a folder of its own below it.
	DataDir string
	Metrics *metrics.Registry
	Log     *slog.Logger
	// Long announces work that keeps a goroutine busy for more than a few milliseconds, until the function that it
	// returns is called. The scheduler has a processor more meanwhile: else an event loop could
	// wait for its own until that work is preempted, 10 ms later. Nil does nothing.
	Long func() (done func())
	// Refuse judges, and counts, a piece of work of class Low that shows only when its request is under way, as a miss
	// in a cache does. True says that the server is overloaded and the work is not to be done. Nil refuses nothing.
	Refuse func() bool
}

// Opener opens a service. It returns an error that wraps ErrOff when the service was not given
// what it needs and stays off.
type Opener func(ctx context.Context, env Env) (Service, error)

// ErrOff is wrapped by an Opener's error when its service stays off.
var ErrOff = errors.New("off")

// Off returns an error that wraps ErrOff and says what would turn the service on.
func Off(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOff, fmt.Sprintf(format, args...))
}

// A FlagError is what is wrong with the flags of a command by themselves: a value that cannot be, or flags that do not go together.
// A file that is missing or an address that is taken is none. An Opener returns one so that the command ends as it does after other
// mistakes in its flags.
type FlagError struct{ Err error }

// Error implements error.
func (e *FlagError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FlagError) Unwrap() error { return e.Err }

// Handler answers one request on the fast lane. It appends the answer to w.Body and returns; it
// must not block, allocate on its usual path, or keep w, r or any slice of them.
//
// A handler runs on the event loop and holds up every connection of that loop. Work that may
// take more than InlineMicroseconds, or answers beyond InlineBytes, must be declared before any of it
// is done: see Response.Defer, Response.Later and Response.Lend.
type Handler func(w *Response, r *Request)

// Class says how much requests matter when the server is overloaded.
type Class = shed.Class

// The classes.
const (
	Normal   = shed.Normal
	Low      = shed.Low      // refused first: what costs much, or can be done later
	Critical = shed.Critical // never refused: by it people and machines find out how the server is
)

// Route binds a pattern to what answers it: Fast or HTTP, or both, where Fast answers what it can
// and lends the rest to HTTP.
type Route struct {
	// Pattern is a method, a space and a path: "GET /feed/{user}". A segment in braces
	// matches any one non-empty segment; a last segment "{rest...}" matches what is left.
	// GET also answers HEAD.
	Pattern string
	// Fast is answered inline by the event loop.
	Fast Handler
	// Ahead, which may be nil, is told of requests that Fast will get within a millisecond, by the values of their first wildcard, still
	// encoded: it may ask for what they need into the processor's caches, and must do nothing else, for not all of
	// them need come. The path must end with that wildcard, the only one. params are valid during the call; stripe is as in Request.
	Ahead func(stripe int, params [][]byte)
	// HTTP is lent to net/http: it may block, stream and allocate. Beside Fast it is called for
	// requests that Fast has lent, and for those that reach net/http without it: it must be able
	// to answer all.
	HTTP http.Handler
	// Class says whether its requests are refused first when the server is overloaded, or never; Normal is what
	// nobody says. See Response.Low for some of them.
	Class Class
	// Admin puts the route on the admin port; only HTTP routes may be there. They are never refused.
	Admin bool
}

// What a fast handler may do inline; beyond either it must Defer, or say Later up to LaterMicroseconds.
const (
	InlineMicroseconds = 20
	InlineBytes        = 32 << 10
	LaterMicroseconds  = 100
)

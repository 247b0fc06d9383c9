// Package agent makes the load of one run from several machines.
//
// A Server runs on each of them and makes requests for a leader; Dial starts a run on many and returns a
// Fleet, which has the methods of a client.Engine, so that who steers a run does not know whether it drives
// one engine or a fleet.
//
// What it promises:
//
//   - Nothing is lost between the machines, and nothing counts twice. An agent keeps a window until the
//     leader says that it has it: see Window. Histograms cross the network whole.
//   - The leader's clock alone counts. A window of a fleet is what all agents measured between two of the
//     leader's Collects, so clocks need not agree.
//   - A rate is shared evenly, and the schedules of agents interleave, so that constant arrivals of
//     all together are nearly as even as those of one; what is left is the difference of the ways to them.
//   - An agent makes load for one leader at a time, and stops when that one is silent for Options.Silence.
//   - An agent makes load on its own machine, and on hosts that it was itself started for: the leader's
//     word is not enough.
//   - An agent that can be reached from other machines wants a token. It is sent as it is, so let a private
//     network or a tunnel carry it.
//
// An agent that fails, or cannot be reached, ends the run: Fleet.Collect returns an error that wraps
// ErrLost and names it. What the others have measured is had by Collect after Close.
package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/load/access"
	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/load/scenario"
	"weir/internal/webui"
)

// DefaultAddress is where an agent listens unless it is told otherwise.
const DefaultAddress = "127.0.0.1:8092"

// Options are what an agent is started with.
type Options struct {
	// Own are the hosts, beyond this machine, that load may go to, each as a host or as host:port.
	Own []string
	// Token is what leaders have to show; empty asks for nothing, which is for loopback alone.
	Token string
	// Silence is after how long without a word from the leader a run ends; default 3 s.
	Silence time.Duration
	// Log is told of runs; nil tells nobody.
	Log *slog.Logger

	start func(ctx context.Context, o *order, own []string) (Engine, string, error) // of tests
}

// Engine makes load: a client.Engine, or a Fleet of them.
type Engine interface {
	SetRate(perSecond float64) error
	SetEnd(after time.Duration) error
	SetConnections(n int) error
	Collect(w *measure.Window) error
	Close(ctx context.Context) error
}

// Server is an agent: an http.Handler for leaders.
type Server struct {
	o       Options
	handler http.Handler

	mu       sync.Mutex
	starting bool       // a run is being started
	run      *remoteRun // nil for none
	over     over       // the last one
}

// over is what is told of a run that has ended.
type over struct {
	id     string
	window []byte // the last one, for a leader that did not get it
	reason string // why it ended, if its leader did not end it
}

// New returns an agent without a run.
func New(o Options) *Server {
	if o.Silence <= 0 {
		o.Silence = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.start == nil {
		o.start = start
	}
	s := &Server{o: o}
	s.handler = s.guard(s.routes())
	return s
}

// start opens an order's scenario and an engine for it. The text says what is asked for.
func start(ctx context.Context, o *order, own []string) (Engine, string, error) {
	sc, err := scenario.Open(ctx, o.Spec, own)
	if err != nil {
		return nil, "", err
	}
	co := o.Options
	co.Targets, co.Whole, co.Part, co.Parts = sc.Targets(), sc.Judges(), o.Spec.Part, o.Spec.Parts
	e, err := client.Start(ctx, co, sc.Source)
	if err != nil {
		return nil, "", err // and not a nil *client.Engine
	}
	return e, sc.String(), nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends the run, if there is one, without waiting for answers.
func (s *Server) Close() error {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	return s.abandon(r, "the agent was stopped")
}

// Serve answers leaders on l until ctx is done, and ends the run that there may be.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return access.Serve(ctx, l, s, 2*time.Minute, s.o.Log, s.Close) // files of variables may come
}

// guard refuses who has no token, and what pages in a browser on this machine could ask for.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			problem(w, http.StatusForbidden, "an agent is for weir load, not for browsers")
		case s.o.Token == "" && !webui.LoopbackHost(r.Host):
			problem(w, http.StatusMisdirectedRequest, "an agent without a token is for loopback names, "+
				"like 127.0.0.1 and localhost; start weir load agent with --token")
		case s.o.Token != "" && (!given || !access.Same(token, s.o.Token)):
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir load agent"`)
			problem(w, http.StatusUnauthorized,
				"the agent wants the token that it was started with: give weir load the same --token")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

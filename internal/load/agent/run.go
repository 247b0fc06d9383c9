package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/load/measure"
)

// remoteRun is a run on an agent, for its leader.
type remoteRun struct {
	id     string
	leader string // address
	what   string // is asked for
	since  time.Time
	engine Engine

	// Guarded by Server.mu.
	requests int // of the leader, being answered
	heard    time.Time
	silence  *time.Timer
	ending   bool
	ended    chan struct{} // closed when it has

	collecting sync.Mutex
	window     *measure.Window
	seq        uint64 // of the window
}

var errSeq = errors.New("the leader's account of windows is not the agent's")

// collect returns the window after the one that the leader has seen, encoded. A window that it has not seen
// is added to.
func (r *remoteRun) collect(seen uint64) ([]byte, error) {
	r.collecting.Lock()
	defer r.collecting.Unlock()
	switch seen {
	case r.seq:
		r.window.Reset()
		r.seq++
	case r.seq - 1:
	default:
		return nil, fmt.Errorf("%w: it has seen %d, and %d was sent", errSeq, seen, r.seq)
	}
	if err := r.engine.Collect(r.window); err != nil {
		return nil, err
	}
	return encodeWindow(r.window, r.seq), nil
}

// end stops the load, waits for answers until ctx is done, and returns what the leader has not seen.
func (r *remoteRun) end(ctx context.Context, seen uint64) ([]byte, error) {
	if err := r.engine.Close(ctx); err != nil {
		return nil, err
	}
	return r.collect(seen)
}

// begin takes the run of an id for a request of its leader; nil says that it is not there. done is to be
// called after it.
func (s *Server) begin(id string) (r *remoteRun, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.run
	if r == nil || r.id != id || r.ending {
		return nil, nil
	}
	r.requests++
	r.silence.Stop()
	return r, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.requests--
		r.heard = time.Now()
		if r.requests == 0 && !r.ending {
			r.silence.Reset(s.o.Silence)
		}
	}
}

// install makes r the agent's run, and watches for its leader.
func (s *Server) install(r *remoteRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.heard = time.Now()
	r.silence = time.AfterFunc(s.o.Silence, func() {
		s.mu.Lock()
		silent := s.run == r && !r.ending && r.requests == 0 && time.Since(r.heard) >= s.o.Silence
		s.mu.Unlock()
		if silent {
			s.abandon(r, fmt.Sprintf("its leader was silent for %v", s.o.Silence)) //nolint:errcheck // logged
		}
	})
	s.starting, s.run = false, r
	s.o.Log.Info("a run begins", "leader", r.leader, "load", r.what)
}

// abandon ends a run without its leader, at once.
func (s *Server) abandon(r *remoteRun, reason string) error {
	if !s.claim(r) {
		return nil
	}
	s.o.Log.Warn("a run ends: " + reason)
	now, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.engine.Close(now)
	if err != nil {
		s.o.Log.Error("a run did not end as it should", "error", err)
	}
	s.forget(r, over{id: r.id, reason: reason})
	return err
}

// claim makes the caller the one who ends r; false says that somebody else does.
func (s *Server) claim(r *remoteRun) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != r || r.ending {
		return false
	}
	r.ending = true
	r.silence.Stop()
	return true
}

func (s *Server) isEnding(r *remoteRun) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.ending
}

func (s *Server) forget(r *remoteRun, o over) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = o
	if s.run == r {
		s.run = nil
	}
	close(r.ended)
}

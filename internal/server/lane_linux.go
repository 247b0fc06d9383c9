package server

import (
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fastLane is the event loops, their workers, and the ways from them to net/http.
type fastLane struct {
	s         *Server
	loops     []*loop
	jobs      []chan job // a service's, by its index: one whose work hangs keeps its own workers only
	workers   sync.WaitGroup
	toNetHTTP *handover
	listener  atomic.Int64  // its descriptor, -1 before and after
	next      atomic.Uint32 // the loop that gets the next connection
}

func newFastLane(s *Server, addr net.Addr) (*fastLane, error) {
	f := &fastLane{
		s:         s,
		toNetHTTP: newHandover(1024, addr),
	}
	f.listener.Store(-1)
	for range max(1, len(s.services)) {
		f.jobs = append(f.jobs, make(chan job, s.cfg.WorkerQueue))
	}
	for i := range s.cfg.Loops {
		l, err := newLoop(f, i)
		if err != nil {
			for _, l := range f.loops {
				l.release()
			}
			return nil, err
		}
		f.loops = append(f.loops, l)
	}
	return f, nil
}

// start runs loops, workers, and net/http behind them.
func (f *fastLane) start(serve func(net.Listener)) {
	for _, l := range f.loops {
		go l.run()
	}
	for _, jobs := range f.jobs {
		for i := range f.s.cfg.Workers {
			f.workers.Go(func() { f.work(jobs, f.s.cfg.Loops+i) })
		}
	}
	go serve(f.toNetHTTP)
}

// accept deals connections round robin to the loops until stop is closed; what waits in the
// listener's queue then is still taken. It leaves the listener open.
func (l *fastLane) accept(ln *net.TCPListener, stop <-chan struct{}) error {
	// A listener does not let one wait for readiness alone; the same socket as a file does.
	f, err := ln.File()
	if err != nil {
		return err
	}
	defer f.Close()
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		<-stop
		f.SetReadDeadline(time.Now()) //nolint:errcheck // ends the wait below
	}()
	defer l.listener.Store(-1)
	backoff := time.Duration(0)
	for {
		var failed error
		err := rc.Read(func(fd uintptr) bool {
			l.listener.Store(int64(fd))
			before := l.next.Load()
			failed = l.acceptAll(int(fd), math.MaxInt)
			if l.next.Load() != before {
				backoff = 0
			}
			return failed != nil
		})
		select {
		case <-stop:
			return rc.Control(func(fd uintptr) {
				l.acceptAll(int(fd), math.MaxInt)
			}) //nolint:errcheck // the last
		default:
		}
		if err != nil {
			return err
		}
		// Out of descriptors or memory: those that are open go on, and make room by closing.
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
		l.s.acceptErrors.Add(l.s.cfg.sharedStripe(), 1)
		l.s.cfg.Log.Warn("connections cannot be accepted; raise the limit of open files (ulimit -n)",
			"error", failed, "retry_in", backoff)
		select {
		case <-stop:
		case <-time.After(backoff):
		}
	}
}

const (
	// acceptAtOnce bounds the connections that a loop accepts in one turn.
	acceptAtOnce = 256
	// acceptEvery is how often a busy loop does so.
	acceptEvery = int64(time.Millisecond)
)

// acceptSome takes connections that wait. A busy loop calls it every acceptEvery: the goroutine that accepts
// waits for a processor then, and the listener's queue overflows.
func (f *fastLane) acceptSome() {
	if fd := f.listener.Load(); fd >= 0 {
		f.acceptAll(int(fd), acceptAtOnce) //nolint:errcheck // accept finds out, and says so
	}
}

// acceptAll takes at most so many of the connections that wait; the error is what ended it but for there
// being none.
func (f *fastLane) acceptAll(listener, most int) error {
	for range most {
		fd, err := accept(listener)
		switch err {
		case nil:
			f.deal(fd, int(f.next.Add(1))%len(f.loops))
		case unix.EAGAIN:
			return nil
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return err
		}
	}
	return nil
}

// deal gives a new connection to a loop, or turns it away.
func (f *fastLane) deal(fd, loop int) {
	if !f.s.connectionOpened() {
		send(fd, f.s.tooManyConnections) //nolint:errcheck // it is closed anyway
		unix.Shutdown(fd, unix.SHUT_WR)
		unix.Close(fd)
		return
	}
	// Not on the listener, to be inherited: connections that came before would lack it.
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) //nolint:errcheck // only slower
	if !f.loops[loop].post(message{kind: msgAccepted, fd: fd}) {
		unix.Close(fd)
		f.s.connectionClosed()
	}
}

// retime has the loops take up timeouts that have changed.
func (f *fastLane) retime() { f.tell(msgRetime) }

// announceStop has the loops end once their requests are answered.
func (f *fastLane) announceStop() { f.tell(msgStop) }

func (f *fastLane) tell(kind messageKind) {
	for _, l := range f.loops {
		l.post(message{kind: kind})
	}
}

// awaitStop waits for the end of the loops. When ctx is done it ends them at once and returns the context's
// error.
func (f *fastLane) awaitStop(ctx context.Context) error {
	for _, l := range f.loops {
		select {
		case <-l.done:
		case <-ctx.Done():
			l.post(message{kind: msgKill})
			select {
			case <-l.done:
			case <-time.After(time.Second): // a handler hangs
			}
		}
	}
	return ctx.Err()
}

// finish ends the workers; all loops have ended. A handler may hang whose client has been answered.
func (f *fastLane) finish(ctx context.Context) error {
	f.toNetHTTP.Close()
	for _, l := range f.loops {
		select {
		case <-l.done:
		default:
			return nil // a handler hangs, which awaitStop has told: its worker cannot be waited for
		}
	}
	for _, jobs := range f.jobs {
		close(jobs)
	}
	return waitFor(ctx, &f.workers)
}

package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"weir/internal/load/measure"
)

// Engine makes requests until it is closed. Its methods may be called by several goroutines.
type Engine struct {
	o       Options
	epoch   time.Time
	workers []worker

	mu      sync.Mutex
	current change

	collecting sync.Mutex
	collected  time.Duration // when, since epoch
	cpu        time.Duration // of the process, by then
	spares     []*sheet
}

// worker makes a thread's share of the requests.
type worker interface {
	// setRate, setEnd and setConnections return at once.
	setRate(c change)
	setEnd(at int64)
	setConnections(n int)
	// swap returns what was counted since the last swap, which the worker is done with, and counts in next
	// from now on. The sheet has counts, latencies, connections and requests in flight, and the thread's
	// share of the time in Busy.
	swap(next *sheet) *sheet
	// stop ends the sending. The worker ends once the last answer has come, or it is killed.
	stop()
	kill()
	done() <-chan struct{}
}

// Start connects to the targets and begins with no load: nothing is sent before SetRate or SetConnections,
// of which the open model knows the one and the closed model the other. source is called once a thread. ctx
// bounds the connecting alone.
//
// It raises GOMAXPROCS, if need be, to one more than the threads: their system calls are mostly made
// without the scheduler's knowledge, and somebody has to run the rest of the program.
func Start(ctx context.Context, o Options, source func(thread, threads int) Source) (*Engine, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	if runtime.GOMAXPROCS(0) <= o.Threads {
		runtime.GOMAXPROCS(o.Threads + 1)
	}
	e := &Engine{o: o, epoch: time.Now()}
	start := newLoops
	if o.byNetHTTP() {
		start = newCallers
	}
	sources := make([]Source, o.Threads)
	for i := range sources {
		sources[i] = source(i, o.Threads)
	}
	var err error
	if e.workers, err = start(ctx, &e.o, e.epoch, sources); err != nil {
		return nil, err
	}
	for range e.workers {
		e.spares = append(e.spares, new(sheet))
	}
	e.collected, e.cpu = time.Since(e.epoch), processCPU()
	return e, nil
}

// SetRate makes the open model send so many requests a second from now on. The schedule keeps its phase:
// what was due stays due.
func (e *Engine) SetRate(perSecond float64) error {
	if e.o.Closed {
		return errors.New("the closed model has no rate: set its connections")
	}
	if math.IsNaN(perSecond) || perSecond < 0 || perSecond > maxRate {
		return fmt.Errorf("a rate must be from 0 to %d/s, got %g", int(maxRate), perSecond)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current = e.current.then(int64(time.Since(e.epoch)), perSecond)
	for _, w := range e.workers {
		w.setRate(e.current)
	}
	return nil
}

// SetEnd makes the open model's schedule end so long from now. What is due by then and not sent, because
// this program was late, is not sent any more, and counts as intended alone.
func (e *Engine) SetEnd(after time.Duration) error {
	if e.o.Closed {
		return errors.New("the closed model has no schedule that could end")
	}
	if after < 0 {
		return fmt.Errorf("a schedule ends later than now, got %v", after)
	}
	at := int64(time.Since(e.epoch) + after)
	for _, w := range e.workers {
		w.setEnd(at)
	}
	return nil
}

const maxRate = 10_000_000

// SetConnections makes the closed model use so many connections from now on.
func (e *Engine) SetConnections(n int) error {
	if !e.o.Closed {
		return errors.New("the open model takes as many connections as it needs: set its rate")
	}
	if n < 0 || n > maxConnections {
		return fmt.Errorf("connections must be from 0 to %d, got %d", maxConnections, n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range e.workers {
		w.setConnections(Share(n, i, len(e.workers)))
	}
	return nil
}

const maxConnections = 1_000_000

// Collect adds to w what happened since the last Collect, and sets its times, CPU, Busy, Connections and
// InFlight. After Close it returns what is left.
func (e *Engine) Collect(w *measure.Window) error {
	e.collecting.Lock()
	defer e.collecting.Unlock()
	if w.Start == w.End {
		w.Start = e.collected
	}
	w.Connections, w.InFlight = 0, 0
	for i, worker := range e.workers {
		got := worker.swap(e.spares[i])
		got.moveTo(w)
		w.Connections += got.Connections
		w.InFlight += got.InFlight
		e.spares[i] = got
	}
	now, cpu := time.Since(e.epoch), processCPU()
	w.End = now
	w.CPU += cpu - e.cpu
	e.collected, e.cpu = now, cpu
	return nil
}

// Close stops sending, counts what has long been due as intended, waits for the answers that are on their
// way, each no longer than the timeout and all no longer than ctx, and lets Collect get the last of it.
// Requests that ctx cut short are counted as sent and nothing else.
func (e *Engine) Close(ctx context.Context) error {
	for _, w := range e.workers {
		w.stop()
	}
	for _, w := range e.workers {
		select {
		case <-w.done():
			continue
		case <-ctx.Done():
		}
		w.kill()
		<-w.done()
	}
	return nil
}

const (
	firstPause   = int64(2 * time.Millisecond)
	longestPause = int64(500 * time.Millisecond)
)

// pause doubles with each failure in a row.
func pause(failures int) int64 {
	return min(firstPause<<min(failures-1, 16), longestPause)
}

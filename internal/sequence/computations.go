package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"weir/internal/metrics"
	"weir/internal/sequence/decimal"
)

var (
	// errBusy means that as many requests wait, or as much memory is in use, as may be.
	errBusy = errors.New("too many values are being computed; raise --sequence-waiting or " +
		"--sequence-compute-bytes if the machine has room")
	// errTooLarge means that a value's computation alone takes more memory than all may.
	errTooLarge = errors.New("computing this value takes more memory than --sequence-compute-bytes allows")
	// errStopped means that the service was closed while somebody waited.
	errStopped = errors.New("the server stops")
)

// computations makes values for requests that wait: one flight an index, however many want it, which is
// cancelled when none of them is left. A request is admitted first, which starts nothing, so that what it
// changes it changes knowing that it will be served.
type computations struct {
	make      func(ctx context.Context, n uint64) (pair, how, error)
	log       *slog.Logger
	refused   *metrics.Counter
	cancelled *metrics.Counter

	// A flight waits for others of its class only: a value that takes minutes does not hold up one
	// that takes a millisecond.
	classes [len(classDigits) + 1]chan struct{}

	stop    context.Context
	stopAll context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	maxWaiting int
	maxBytes   int64
	flights    map[uint64]*flight
	waiting    int
	bytes      int64
	closed     bool
}

// classDigits are how many digits the values of a class have at most; the last class has no bound. The
// largest values of the three took 0.2 ms, 5 ms and 0.4 s where that was measured.
var classDigits = [...]int{1 << 16, 1 << 20, 1 << 24}

// maxComputations bounds a class, since each of its computations may hold a thread.
const maxComputations = 64

func newComputations(cfg Config, make_ func(context.Context, uint64) (pair, how, error),
	log *slog.Logger) *computations {
	c := &computations{
		make: make_, maxWaiting: cfg.Waiting, maxBytes: cfg.ComputeBytes, log: log,
		flights: make(map[uint64]*flight),
	}
	c.stop, c.stopAll = context.WithCancel(context.Background())
	for i := range c.classes {
		c.classes[i] = make(chan struct{}, cfg.Computations)
	}
	return c
}

// setBounds changes how many may wait, and how much memory they take, of those who come.
func (c *computations) setBounds(cfg Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxWaiting, c.maxBytes = cfg.Waiting, cfg.ComputeBytes
}

// flight is one computation and what came of it.
type flight struct {
	c     *computations
	index uint64
	class chan struct{}
	done  chan struct{} // closed when the result is there

	// The result.
	pair pair
	how  how
	err  error

	// All below belongs to c.mu.
	waiting int   // tickets not given back
	bytes   int64 // what c.bytes counts for it
	started bool
	began   bool // it has a place in its class
	ended   bool
	cancel  context.CancelFunc
}

// ticket is the right to wait for a flight. It is to be given back.
type ticket struct {
	*flight
	extra int64
}

// admit gives a ticket for F(n), with so many bytes counted besides for what the request does with it. It
// fails with errBusy, errTooLarge or errStopped.
func (c *computations) admit(n uint64, extra int64) (ticket, error) {
	cost := decimal.Cost(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cost+extra > c.maxBytes {
		c.refused.Add(0, 1)
		return ticket{}, errTooLarge
	}
	if c.closed {
		return ticket{}, errStopped
	}
	f := c.flights[n]
	need := extra
	if f == nil {
		need += cost
	}
	if c.waiting >= c.maxWaiting || need > 0 && c.bytes+need > c.maxBytes {
		c.refused.Add(0, 1)
		return ticket{}, errBusy
	}
	if f == nil {
		f = &flight{c: c, index: n, class: c.classes[class(n)], done: make(chan struct{}), bytes: cost}
		c.flights[n] = f
	}
	f.waiting++
	c.waiting++
	c.bytes += need
	return ticket{f, extra}, nil
}

func class(n uint64) int {
	digits := decimal.Digits(n)
	for i, most := range classDigits {
		if digits <= most {
			return i
		}
	}
	return len(classDigits)
}

// wait starts the flight if nobody has yet, and returns its result. It fails with ctx's error, errStopped,
// or with what a bug has left.
func (t ticket) wait(ctx context.Context) (pair, how, error) {
	t.c.start(t.flight)
	select {
	case <-t.done:
		return t.pair, t.how, t.err
	case <-ctx.Done():
		return pair{}, miss, ctx.Err()
	}
}

func (c *computations) start(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.started {
		return
	}
	f.started = true
	if c.closed {
		f.ended, f.err = true, errStopped
		close(f.done)
		return
	}
	ctx, cancel := context.WithCancel(c.stop)
	f.cancel = cancel
	c.running.Go(func() { c.run(ctx, f) })
}

// giveBack ends the ticket: its holder waits no longer, and no longer reads the result.
func (t ticket) giveBack() {
	c, f := t.c, t.flight
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.bytes -= t.extra
	if f.waiting--; f.waiting > 0 {
		return
	}
	delete(c.flights, f.index) // whoever comes now begins anew
	switch {
	case f.ended || !f.started:
		c.bytes -= f.bytes
	default:
		c.cancelled.Add(0, 1)
		f.cancel()
	}
}

// run makes a flight's value.
func (c *computations) run(ctx context.Context, f *flight) {
	f.pair, f.how, f.err = c.inTurn(ctx, f)
	if f.err != nil && c.stop.Err() != nil {
		f.err = errStopped
	}
	f.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	f.ended = true
	held := f.pair.bytes()
	if f.waiting == 0 {
		held = 0 // nobody is left
	}
	c.bytes += held - f.bytes
	f.bytes = held
	close(f.done)
}

// inTurn makes a flight's value once there is a place in its class.
func (c *computations) inTurn(ctx context.Context, f *flight) (p pair, h how, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("BUG: a computation panicked", "index", f.index, "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
			p, h, err = pair{}, miss, errors.New("BUG: a computation panicked")
		}
	}()
	select {
	case f.class <- struct{}{}:
		defer func() { <-f.class }()
		c.mu.Lock()
		f.began = true
		c.mu.Unlock()
	case <-ctx.Done():
		return pair{}, miss, ctx.Err()
	}
	return c.make(ctx, f.index)
}

// load returns how many tickets are out, and the bytes counted.
func (c *computations) load() (waiting int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting, c.bytes
}

// state returns how many wait for what.
func (c *computations) state() computationsState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := computationsState{Waiting: c.waiting, MaxWaiting: c.maxWaiting, Bytes: c.bytes, MaxBytes: c.maxBytes,
		Refused: c.refused.Value(), Cancelled: c.cancelled.Value(), Values: []valueState{}}
	for index, f := range c.flights {
		if !f.ended {
			s.Values = append(s.Values, valueState{index, decimal.Digits(index), f.waiting, f.began})
		}
	}
	slices.SortFunc(s.Values, func(a, b valueState) int { return cmp.Compare(a.Index, b.Index) })
	s.Values = s.Values[:min(len(s.Values), 100)]
	return s
}

// close ends all flights and returns when they have ended.
func (c *computations) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stopAll()
	c.running.Wait()
}

// compute makes F(n) and F(n-1), by steps from a pair nearby if there is one, and keeps them.
func (s *Sequence) compute(ctx context.Context, n uint64) (p pair, h how, err error) {
	p, ok := s.cache.near(n)
	switch {
	case !ok:
		h = miss
		p.index = n
		if class(n) > 0 {
			defer s.long()()
		}
		p.f, p.previous, err = decimal.Fibonacci(ctx, n)
	case p.index == n:
		return p, direct, nil
	default:
		h = near
		if _, ok := p.digits(n); ok {
			h = direct
		}
		p, err = p.walk(ctx, n)
	}
	if err != nil {
		return pair{}, h, fmt.Errorf("compute F(%d): %w", n, err)
	}
	s.cache.put(p)
	s.recent.put(n, p.f)
	if n > 0 {
		s.recent.put(n-1, p.previous)
	}
	return p, h, nil
}

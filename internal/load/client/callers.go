package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/load/measure"
)

// callers is a thread's share of the requests made by net/http, a goroutine each: for TLS, HTTP/2, and
// systems without an event loop. It costs several times as much, and a request is sent as late as a
// sleeping goroutine wakes.
type callers struct {
	o         *Options
	epoch     time.Time
	transport *http.Transport
	origins   []*url.URL
	most      int

	mu       sync.Mutex // guards all below
	source   Source
	listener Listener
	judge    Judge
	schedule *schedule
	wire     []byte
	win      *sheet
	swapped  time.Time
	cpu      time.Duration
	flying   int
	wanted   int
	calling  int // goroutines of the closed model
	stopping bool

	changed chan struct{} // of the schedule, or stop
	idle    chan struct{} // closed once nothing is in flight after stop
	ended   bool
	open    atomic.Int64
	in, out atomic.Uint64 // bytes, since the last swap

	ctx    context.Context // of the requests
	cancel context.CancelFunc
}

// newCallers connects to every target, and starts.
func newCallers(ctx context.Context, o *Options, epoch time.Time, sources []Source) (workers []worker,
	err error) {
	for i, source := range sources {
		c := &callers{
			o: o, epoch: epoch,
			most:     Share(o.MaxConnections, i, len(sources)),
			source:   source,
			schedule: newSchedule(o, i, len(sources)),
			win:      new(sheet),
			swapped:  time.Now(),
			cpu:      processCPU(),
			changed:  make(chan struct{}, 1),
			idle:     make(chan struct{}),
		}
		c.listener, _ = source.(Listener)
		if o.Whole {
			c.judge, _ = source.(Judge)
		}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		addrs := map[string]string{}
		for _, t := range o.Targets {
			u, err := url.Parse(t.URL)
			if err != nil {
				return nil, fmt.Errorf("target: %w", err)
			}
			c.origins = append(c.origins, u)
			addrs[hostPort(u)] = t.Addr.String()
		}
		c.transport = c.newTransport(addrs)
		workers = append(workers, c)
	}
	for _, w := range workers {
		c := w.(*callers)
		if err := c.connect(ctx); err != nil {
			return nil, err
		}
		if !o.Closed {
			go c.keepSchedule()
		}
	}
	return workers, nil
}

// connect makes sure that all targets can be reached. A transport cannot be warmed without requests, so its
// first ones find no connection.
func (c *callers) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	for i, t := range c.o.Targets {
		conn, err := c.transport.DialContext(ctx, "tcp", hostPort(c.origins[i]))
		if err != nil {
			return fmt.Errorf("connect to %s: %w: is the target running?", t.Addr, err)
		}
		conn.Close()
	}
	c.in.Store(0)
	c.out.Store(0)
	return nil
}

// now is nanoseconds since the engine's start.
func (c *callers) now() int64 { return int64(time.Since(c.epoch)) }

func (c *callers) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *callers) setRate(ch change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.set(ch)
	c.signal()
}

func (c *callers) setEnd(at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.until(at)
	c.signal()
}

func (c *callers) setConnections(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = n
	for c.calling < n && !c.stopping {
		c.calling++
		go c.callOn()
	}
}

func (c *callers) swap(next *sheet) *sheet {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.win
	c.win = next
	full.In, full.Out = c.in.Swap(0), c.out.Swap(0)
	full.Connections, full.InFlight = int(c.open.Load()), c.flying
	if c.ended {
		full.Connections = 0 // the transport is closing them
	}
	now, cpu := time.Now(), processCPU()
	if took := now.Sub(c.swapped); took > 0 {
		// All goroutines of the process share what Threads + 1 processors give.
		full.Busy = min((cpu-c.cpu).Seconds()/took.Seconds()/float64(c.o.Threads+1), 1)
	}
	c.swapped, c.cpu = now, cpu
	return full
}

func (c *callers) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.miss(c.now())
		c.stopping = true
	}
	c.signal()
	c.endIfIdle()
}

func (c *callers) kill() {
	c.stop()
	c.cancel()
}

func (c *callers) done() <-chan struct{} { return c.idle }

// endIfIdle ends what has stopped and waits for nothing. c.mu is held.
func (c *callers) endIfIdle() {
	if c.stopping && c.flying == 0 && !c.ended {
		c.ended = true
		c.transport.CloseIdleConnections()
		c.cancel()
		close(c.idle)
	}
}

// keepSchedule is the open model: it starts a goroutine for every request that is due.
func (c *callers) keepSchedule() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		now := c.now()
		if now >= c.schedule.end {
			c.miss(now)
		}
		if !c.stopping && c.schedule.at <= now {
			c.sendOne(now)
			c.mu.Unlock()
			continue // others may want the lock, however late this is
		}
		left, stopping := c.schedule.at-c.now(), c.stopping
		c.mu.Unlock()
		if stopping {
			return
		}
		timer.Reset(time.Duration(left))
		select {
		case <-timer.C:
		case <-c.changed:
		}
	}
}

// miss counts what is too late as intended and not sent. c.mu is held.
func (c *callers) miss(now int64) { c.win.Intended += c.schedule.missed(now) }

// sendOne sends the request that is due. c.mu is held.
func (c *callers) sendOne(now int64) {
	at := c.schedule.at
	c.schedule.advance()
	c.win.Lag.record(time.Duration(now - at))
	c.win.Intended++
	q := c.nextRequest(at)
	if c.flying >= c.most {
		c.lost(measure.Dropped, &q, now)
		return
	}
	c.win.Sent++
	c.flying++
	go c.callOnce(q)
}

// callOn is one of the closed model's connections.
func (c *callers) callOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for failures := 0; c.calling <= c.wanted && !c.stopping; {
		c.win.Intended++
		c.win.Sent++
		c.flying++
		q := c.nextRequest(c.now())
		c.mu.Unlock()
		o := c.do(&q)
		if o.err != nil {
			failures++
		} else {
			failures = 0
		}
		c.mu.Lock()
		c.settle(&q, &o)
		if failures == 0 {
			continue
		}
		c.mu.Unlock()
		select {
		case <-time.After(time.Duration(pause(failures))):
		case <-c.ctx.Done():
		}
		c.mu.Lock()
	}
	c.calling--
	c.endIfIdle()
}

type call struct {
	Request
	request *http.Request
	err     error // why there is none
	at      int64
	failed  error // why there is no answer
}

// nextRequest reads the source's next request. c.mu is held.
func (c *callers) nextRequest(at int64) call {
	wire, q := c.source.Next(c.wire[:0])
	c.wire = wire
	// The body is read from a copy: the next request overwrites the source's bytes.
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Clone(wire))))
	if err != nil {
		return call{Request: q, err: err, at: at}
	}
	origin := c.origins[q.Target]
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host = origin.Scheme, origin.Host
	return call{Request: q, request: r, at: at}
}

// maxWhole is how much of an answer a Judge gets to see.
const maxWhole = 1 << 20

func (q *call) line() []byte {
	if q.request == nil {
		return nil
	}
	return []byte(q.request.Method + " " + q.request.URL.RequestURI())
}

type outcome struct {
	status             int
	etag, lastModified []byte
	err                error
	late               bool // its time was over
	response           *http.Response
	body               []byte
}

func (c *callers) do(q *call) (o outcome) {
	if q.err != nil {
		return outcome{err: q.err}
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.epoch.Add(time.Duration(q.at)+c.o.Timeout))
	defer cancel()
	response, err := c.transport.RoundTrip(q.request.WithContext(ctx))
	if err == nil && c.judge != nil {
		o.body, err = io.ReadAll(io.LimitReader(response.Body, maxWhole))
		o.response = response
	}
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if err != nil {
		return outcome{err: err, late: ctx.Err() != nil}
	}
	o.status = response.StatusCode
	if c.listener != nil {
		o.etag = []byte(response.Header.Get("Etag"))
		o.lastModified = []byte(response.Header.Get("Last-Modified"))
	}
	return o
}

// settle counts what became of a call. c.mu is held.
func (c *callers) settle(q *call, o *outcome) {
	c.flying--
	now := c.now()
	switch {
	case o.err == nil:
		took := time.Duration(now - q.at)
		if c.judge != nil && o.status != http.StatusServiceUnavailable {
			if err := c.judge.Judge(q.Part, o.response, o.body); err != nil {
				c.win.unexpected(o.status, q.Part, took)
				c.win.sample(measure.Unexpected.String(), q.line(), err.Error())
				break
			}
		}
		c.win.count(o.status, q.Part, took)
		c.win.sampleStatus(o.status, q.line())
		if c.listener != nil {
			c.listener.Heard(q.Ref, Answer{o.status, o.etag, o.lastModified})
		}
	case c.ctx.Err() != nil: // it was killed, and counts as nothing
	case o.late:
		q.failed = o.err
		c.lost(measure.TimedOut, q, now)
	default:
		q.failed = o.err
		c.lost(failureOf(o.err), q, now)
	}
}

// callOnce is a request of the open model.
func (c *callers) callOnce(q call) {
	o := c.do(&q)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(&q, &o)
	c.endIfIdle()
}

// lost counts a request without an answer. c.mu is held.
func (c *callers) lost(why measure.Failure, q *call, now int64) {
	c.win.lose(why, q.Part)
	detail := ""
	if q.failed != nil {
		detail = q.failed.Error()
	}
	c.win.sample(why.String(), q.line(), detail)
	if why == measure.TimedOut {
		c.win.Latency.record(time.Duration(now - q.at))
	}
	if c.listener != nil {
		c.listener.Heard(q.Ref, Answer{})
	}
}

// failureOf sorts net/http's errors.
func failureOf(err error) measure.Failure {
	var (
		refused  *unreachable
		timeout  net.Error
		protocol textproto.ProtocolError
		cert     *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		alert    tls.AlertError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return measure.TimedOut
	case errors.As(err, &refused), errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert):
		return measure.Refused
	case errors.As(err, &timeout) && timeout.Timeout():
		return measure.TimedOut
	case errors.As(err, &protocol):
		return measure.Malformed
	}
	// net/http has no types for these.
	for _, says := range []string{"malformed", "unsupported transfer encoding", "bad Content-Length",
		"invalid byte in chunk length", "server response headers exceeded"} {
		if strings.Contains(err.Error(), says) {
			return measure.Malformed
		}
	}
	return measure.Cut
}

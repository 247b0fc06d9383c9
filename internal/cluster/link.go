package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what is queued for a shard.
const (
	maxQueued      = 1 << 14 // commands
	maxQueuedBytes = 32 << 20
	keptBytes      = 1 << 20 // of a buffer between batches
)

// idle is how long a connection may have been unused before it is tried with a PING.
const idle = time.Second

// Pauses between attempts to connect, half of which is chance.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

var (
	errRetired = errors.New("the link is retired")
	errFull    = unavailable(errors.New("too much is queued for the shard"))
	errLate    = unavailable(errors.New("the shard was busy for longer than the timeout"))
)

// link is the connection to a primary for changes, and what is queued for it. One goroutine, run, sends
// batches and reads their answers. A link without a connection gets one when something is queued.
type link struct {
	c      *Client
	addr   string
	stripe int

	mu      sync.Mutex
	wake    sync.Cond // something is queued, or the link is retired
	queue   batch
	down    error // nothing is queued meanwhile
	retired bool

	// For run alone.
	spare   batch
	conn    *conn
	used    time.Time // the connection, last
	until   time.Time // its deadline
	wait    []byte    // the command
	replies []Reply
	backoff time.Duration
}

// batch is commands, and their bytes.
type batch struct {
	buf     []byte
	calls   []call
	durable bool
	since   time.Time // when its first command was queued
}

func newLink(c *Client, addr string) *link {
	// WAIT ends before the connection's deadline does, so that it says how many replicas there are.
	wait := c.o.Timeout * 3 / 4
	l := &link{c: c, addr: addr, stripe: len(c.links), wait: appendCommand(nil, "WAIT",
		strconv.Itoa(c.o.Replicas), strconv.FormatInt(max(1, wait.Milliseconds()), 10))}
	l.wake.L = &l.mu
	return l
}

// enqueue queues a call, or says why not.
func (l *link) enqueue(k call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queue
	switch {
	case l.retired:
		return errRetired
	case l.down != nil:
		return l.down
	case len(q.calls) >= maxQueued || len(q.buf) >= maxQueuedBytes:
		return errFull
	}
	k.start = len(q.buf)
	if k.ask {
		q.buf = appendCommand(q.buf, "ASKING")
	}
	q.buf = appendCommand(q.buf, k.cmd.Args...)
	q.calls = append(q.calls, k)
	q.durable = q.durable || k.cmd.Durable
	if len(q.calls) == 1 {
		q.since = time.Now()
		l.wake.Signal()
	}
	return nil
}

// retire lets run end when all that is queued is done.
func (l *link) retire() {
	l.mu.Lock()
	l.retired = true
	l.wake.Signal()
	l.mu.Unlock()
}

// take waits for commands and returns them; none means that the link is retired.
func (l *link) take() batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue.calls) == 0 && !l.retired {
		l.wake.Wait()
	}
	// Those who submit, perhaps woken by the batch before, come first: a third more are in a batch by this.
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	b := l.queue
	l.queue, l.spare = l.spare, batch{}
	return b
}

// run sends what is queued, batch after batch, until the link is retired.
func (l *link) run() {
	defer func() {
		if l.conn != nil {
			l.conn.Close()
		}
		l.c.mu.Lock()
		if l.c.links[l.addr] == l {
			delete(l.c.links, l.addr)
		}
		l.c.mu.Unlock()
	}()
	for {
		b := l.take()
		if len(b.calls) == 0 {
			return
		}
		switch {
		case time.Since(b.since) > l.c.o.Timeout:
			l.fail(&b, errLate)
		case l.connect():
			if l.leave(&b); len(b.calls) > 0 {
				l.exchange(&b)
			}
		default:
			l.fail(&b, l.down)
			l.rest()
		}
		l.recycle(&b)
	}
}

// recycle keeps the memory of a batch that is done for a later one.
func (l *link) recycle(b *batch) {
	clear(b.calls)
	l.spare.calls = b.calls[:0]
	if cap(b.buf) <= keptBytes {
		l.spare.buf = b.buf[:0]
	}
}

// fail ends all calls of a batch with an error.
func (l *link) fail(b *batch, err error) {
	for _, k := range b.calls {
		l.c.fail(k, err)
	}
}

// leave takes out of a batch whose caller has gone.
func (l *link) leave(b *batch) {
	for i := range b.calls {
		if b.calls[i].ctx.Err() != nil {
			l.leaveFrom(b, i)
			return
		}
	}
}

// leaveFrom is leave where the first who has gone is number i.
func (l *link) leaveFrom(b *batch, i int) {
	calls, buf := b.calls, b.buf
	b.calls, b.buf, b.durable = calls[:i], buf[:calls[i].start], false
	for j := range calls {
		end := len(buf)
		if j+1 < len(calls) {
			end = calls[j+1].start
		}
		k := calls[j]
		switch err := k.ctx.Err(); {
		case j < i:
		case err != nil:
			l.c.fail(k, unavailable(err))
			continue
		default:
			at := len(b.buf)
			b.buf = append(b.buf, buf[k.start:end]...)
			k.start = at
			b.calls = append(b.calls, k)
		}
		b.durable = b.durable || k.cmd.Durable
	}
}

// connect makes sure that there is a connection, and that it works where it was not used for a while. It is
// false after it has set down.
func (l *link) connect() bool {
	now := time.Now()
	if l.conn != nil && now.Sub(l.used) > idle {
		l.until = now.Add(l.c.o.Timeout / 2)
		l.conn.SetDeadline(l.until)
		if _, err := l.conn.do("PING"); err != nil {
			l.disconnect()
		}
	}
	if l.conn != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(l.c.ctx, l.c.o.Timeout/2)
	defer cancel()
	conn, err := l.c.dial(ctx, l.addr, "PING")
	if err != nil {
		if l.backoff == 0 {
			l.c.o.Log.Warn("cluster: no connection to a primary", "error", err)
		}
		l.c.stats.connects.Add(l.stripe, 1)
		l.c.refreshSoon()
		l.mu.Lock()
		l.down = unavailable(err)
		l.mu.Unlock()
		return false
	}
	if l.backoff > 0 {
		l.c.o.Log.Info("cluster: connected to a primary again", "address", l.addr)
	}
	l.conn, l.until = conn, time.Time{}
	l.backoff = 0
	return true
}

// rest fails what is queued, and lets some time pass until the next attempt to connect.
func (l *link) rest() {
	l.mu.Lock()
	b := l.queue
	l.queue = batch{}
	l.mu.Unlock()
	l.fail(&b, l.down)
	l.backoff = min(max(2*l.backoff, minBackoff), maxBackoff)
	pause := time.NewTimer(l.backoff/2 + rand.N(l.backoff/2))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-l.c.done:
	}
	l.mu.Lock()
	l.down = nil
	l.mu.Unlock()
}

// disconnect gives the connection up.
func (l *link) disconnect() {
	l.conn.Close()
	l.conn = nil
	l.c.refreshSoon()
}

// exchange sends a batch and reads the answers. Those to durable commands are held until that to WAIT.
func (l *link) exchange(b *batch) {
	st, began := &l.c.stats, time.Now()
	wait := b.durable && l.c.o.Replicas > 0
	if wait {
		b.buf = append(b.buf, l.wait...)
	}
	st.batches.Add(l.stripe, 1)
	st.commands.Add(l.stripe, uint64(len(b.calls)))
	// The timer of a deadline costs as much as several commands: one is set for as long as it is good enough.
	if l.until.Sub(began) < l.c.o.Timeout {
		l.until = began.Add(l.c.o.Timeout + l.c.o.Timeout/4)
		l.conn.SetDeadline(l.until)
	}
	if n, err := l.conn.Write(b.buf); err != nil {
		l.disconnect()
		if n == 0 && l.c.o.TLS == nil { // nothing has left this machine
			l.fail(b, unavailable(err))
			return
		}
		l.fail(b, fmt.Errorf("%w: %w", ErrUnknown, err))
		return
	}
	held := b.calls[:0] // never overtakes the call that is read
	l.replies = l.replies[:0]
	for i := range b.calls {
		k := b.calls[i]
		r, err := l.conn.read()
		if err == nil && k.ask {
			r, err = l.conn.read() // that was the answer to ASKING
		}
		if err != nil {
			l.lost(held, b.calls[i:], err)
			return
		}
		switch {
		case r.kind == kindError && l.undone(k, r.s):
		case wait && k.cmd.Durable:
			held = append(held, k)
			l.replies = append(l.replies, r)
		default:
			l.finish(k, r, nil)
		}
	}
	if wait {
		r, err := l.conn.read()
		if err != nil {
			l.lost(held, nil, err)
			return
		}
		err = nil
		st.wait.Observe(l.stripe, time.Since(began), 1)
		if r.kind != kindInt || r.n < int64(l.c.o.Replicas) {
			err = l.unreplicated(r)
		}
		for i, k := range held {
			l.finish(k, l.replies[i], err)
		}
		clear(l.replies)
	}
	l.used = began
}

// unreplicated is the error of durable commands whose WAIT was answered so.
func (l *link) unreplicated(wait Reply) error {
	l.c.refreshSoon()
	if wait.kind == kindInt {
		return fmt.Errorf("%w: %d of %d at %s", ErrUnreplicated, wait.n, l.c.o.Replicas, l.addr)
	}
	return fmt.Errorf("%w: %w", ErrUnreplicated, wait.not("a number of replicas"))
}

// lost ends the calls that were not answered for when the connection ended.
func (l *link) lost(held, unread []call, err error) {
	l.disconnect()
	err = fmt.Errorf("%w: %s: %w", ErrUnknown, l.addr, err)
	for _, k := range held {
		l.c.fail(k, err)
	}
	for _, k := range unread {
		l.c.fail(k, err)
	}
}

// finish ends a call that was executed.
func (l *link) finish(k call, r Reply, err error) {
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		l.c.stats.count(err)
	}
	k.done(r, err)
}

// refusals are the codes of errors by which a node has executed nothing.
var refusals = map[string]bool{"CLUSTERDOWN": true, "LOADING": true, "READONLY": true, "NOREPLICAS": true,
	"MASTERDOWN": true, "OOM": true, "TRYAGAIN": true, "MISCONF": true, "BUSY": true, "NOAUTH": true,
	"NOPERM": true}

// undone sees to a call whose answer is an error by which nothing has happened, and is false for others. One
// out of the middle of a function is no such error: the function may have changed something before.
func (l *link) undone(k call, text string) bool {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == "MOVED":
		l.c.forward(k, l, text, false)
	case code == "ASK":
		l.c.forward(k, l, text, true)
	case text == "ERR Function not found":
		l.c.load(k, l, Error(text))
	case refusals[code] && !strings.Contains(text, " script: "):
		l.c.refreshSoon()
		l.c.fail(k, unavailable(Error(text)))
	default:
		return false
	}
	return true
}

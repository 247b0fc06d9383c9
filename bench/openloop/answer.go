//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/answer"
)

// readable takes in what has arrived on c and, if that ends an answer, accounts for it and gives
// the connection its next request; more is whether the run still sends.
func (l *loop) readable(c *conn, more bool) error {
	n, err := unix.Read(c.fd, l.read)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("read an answer: %w", err)
	case n == 0:
		return errors.New("the server closed a connection")
	}
	c.in = append(c.in, l.read[:n]...)
	status, length, err := answer.Parse(c.in)
	if err != nil || length == 0 || len(c.in) < length {
		return err
	}
	if len(c.in) > length {
		return fmt.Errorf("%d bytes came after an answer that nothing was asked after", len(c.in)-length)
	}
	if c.look > 0 {
		l.kept = append(l.kept, kept{bytes.Clone(c.in), c.look})
	}
	c.in = c.in[:0]
	if status/100 != 2 {
		l.not2xx++
	}
	now := time.Since(l.start)
	took := now - c.due
	if c.also {
		l.alsoTook = append(l.alsoTook, took)
		c.due = -1 // idle
		if more && l.o.alsoRate == 0 {
			return l.send(c, now)
		}
		return nil
	}
	l.took = append(l.took, took)
	if len(l.waiting) > 0 {
		at := l.waiting[0]
		l.waiting = l.waiting[1:]
		return l.send(c, at)
	}
	l.idle = append(l.idle, c)
	return nil
}

// pace sends the other connection's next request when --also-rate says so. A request that is due
// while one is in flight is left out: a single connection cannot send it.
func (l *loop) pace(now, end time.Duration) error {
	c := l.other
	if c == nil || l.o.alsoRate == 0 || now >= end || c.due >= 0 {
		return nil
	}
	if now < time.Duration(float64(len(l.alsoTook))/l.o.alsoRate*float64(time.Second)) {
		return nil
	}
	return l.send(c, now)
}

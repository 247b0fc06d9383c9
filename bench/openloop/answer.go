//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
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
	status, length, err := parseAnswer(c.in)
	if err != nil || length == 0 || len(c.in) < length {
		return err
	}
	if len(c.in) > length {
		return fmt.Errorf("%d bytes came after an answer that nothing was asked after", len(c.in)-length)
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

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("content-length:")
)

// parseAnswer returns the status and the whole length in bytes of the answer that b begins with,
// or length 0 while its head is incomplete. Only answers with a Content-Length are understood.
func parseAnswer(b []byte) (status, length int, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, 0, nil
	}
	head := b[:end]
	if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("not an HTTP/1.1 answer: %q", head)
	}
	if status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return 0, 0, fmt.Errorf("not a status: %q", head[9:12])
	}
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if len(line) < len(contentLength) || !bytes.EqualFold(line[:len(contentLength)], contentLength) {
			continue
		}
		body, err := strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):])))
		if err != nil || body < 0 {
			return 0, 0, fmt.Errorf("not a length: %q", line)
		}
		return status, end + len(headEnd) + body, nil
	}
	return 0, 0, fmt.Errorf("an answer without Content-Length: %q", head)
}

// quantiles are of the nearest rank, in microseconds.
type quantiles struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// quantilesOf sorts times in place.
func quantilesOf(times []time.Duration) quantiles {
	if len(times) == 0 {
		return quantiles{}
	}
	slices.Sort(times)
	at := func(perMille int) int64 {
		rank := (len(times)*perMille + 999) / 1000
		return times[max(rank, 1)-1].Microseconds()
	}
	return quantiles{at(500), at(990), at(999), at(1000)}
}

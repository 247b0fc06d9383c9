package fetch

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// BackoffError is a request that was not made because its host is left alone for a while.
type BackoffError struct {
	Host  string
	Until time.Time
	Cause string // what the host did
}

func (e *BackoffError) Error() string {
	return fmt.Sprintf("%s is left alone until %s: %s", e.Host, e.Until.UTC().Format(time.RFC3339), e.Cause)
}

const (
	failuresAllowed = 3                // connections in a row that fail before a host is left alone
	firstPause      = 10 * time.Second // and for how long the first time; doubled each time
	longestPause    = 15 * time.Minute // unless the host says otherwise
	maxHosts        = 4096             // remembered, more only while they are being asked
)

// hosts is what is known of each host, and whose turn it is.
type hosts struct {
	o     Options
	turns chan struct{}
	mu    sync.Mutex
	all   map[string]*host
}

// host is what is known of one.
type host struct {
	turns    chan struct{}
	users    int // requests under way or waiting
	failures int // in a row
	until    time.Time
	cause    string
}

func newHosts(o Options) hosts {
	return hosts{o: o, turns: make(chan struct{}, o.Concurrency), all: make(map[string]*host)}
}

// enter waits until it is the turn of a request to a host, and returns what ends the turn.
func (s *hosts) enter(ctx context.Context, name string) (release func(), err error) {
	s.mu.Lock()
	h := s.all[name]
	if h == nil {
		s.forget()
		h = &host{turns: make(chan struct{}, s.o.PerHost)}
		s.all[name] = h
	}
	h.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		h.users--
		s.mu.Unlock()
	}
	// The host's turn comes first: who waits for a slow host holds nobody else up.
	for i, turns := range []chan struct{}{h.turns, s.turns} {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			if i == 1 {
				<-h.turns
			}
			leave()
			return nil, context.Cause(ctx)
		}
	}
	release = sync.OnceFunc(func() {
		<-s.turns
		<-h.turns
		leave()
	})
	s.mu.Lock()
	until, cause := h.until, h.cause
	s.mu.Unlock()
	if time.Now().Before(until) {
		release()
		return nil, &BackoffError{name, until, cause}
	}
	return release, nil
}

// forget makes room for another host. The lock is held.
func (s *hosts) forget() {
	if len(s.all) < maxHosts {
		return
	}
	now := time.Now()
	for name, h := range s.all {
		if h.users == 0 && now.After(h.until) {
			delete(s.all, name)
		}
	}
}

// failed notes that a host could not be reached, or did not answer.
func (s *hosts) failed(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[name]
	h.failures++
	if n := h.failures - failuresAllowed; n >= 0 {
		h.pause(min(firstPause<<min(n, 16), longestPause), fmt.Sprintf("%d failures in a row, the last: %v",
			h.failures, err))
	}
}

// answered notes that a host is there, and what it asks for.
func (s *hosts) answered(name string, resp *http.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[name]
	h.failures = 0
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return
	}
	wait, ok := RetryAfter(resp.Header, time.Now())
	if !ok && resp.StatusCode == http.StatusTooManyRequests {
		wait, ok = time.Minute, true
	}
	if ok {
		h.pause(min(wait, s.o.Backoff), "it answered "+resp.Status)
	}
}

func (h *host) pause(d time.Duration, cause string) {
	if until := time.Now().Add(d); until.After(h.until) {
		h.until, h.cause = until, cause
	}
}

// RetryAfter returns how long a response asks to wait, by seconds or by a date.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(text)
	return max(0, at.Sub(now)), err == nil
}

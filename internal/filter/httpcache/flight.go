package httpcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/disk"
)

// StatusError is an answer that counts as a failure of the upstream.
type StatusError struct {
	Status int
	Header http.Header
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the upstream answered %d %s", e.Status, http.StatusText(e.Status))
}

// result is what a flight has brought.
type result struct {
	object *object // is stored, and pinned for who gets the result
	entry  *Entry  // is not stored; for one request alone
	failed error   // no answer, or one that counts as none
}

// flight is a fetch under way. The cache's lock guards waiters.
type flight struct {
	request *request
	stored  *object // to be validated; pinned for the flight itself, since all waiters may leave
	waiters []chan result
}

// flightKey is what requests must have in common to share a fetch. The lock is held.
func (c *Cache) flightKey(r *request) string {
	var b strings.Builder
	b.WriteString(r.key)
	if all := c.byKey[r.key]; len(all) > 0 {
		for _, f := range all[len(all)-1].policy.vary {
			fmt.Fprintf(&b, "\n%q %q", f.Name, normalize(r.header, f.Name))
		}
	}
	return b.String()
}

// join has a request wait for a fetch, which is begun unless it is under way and may be shared. A waiter of
// nil waits for nothing. The lock is held.
func (c *Cache) join(r *request, o *object, alone bool, waiter chan result) *flight {
	key := c.flightKey(r)
	f := c.flights[key]
	if f == nil || alone {
		f = &flight{request: r, stored: o}
		if o != nil {
			o.pins++
		}
		if !alone {
			c.flights[key] = f
		}
		c.work.Add(1)
		disk.Go(func() error { c.run(f, key); return nil }, func(err error) {
			if err != nil { // a bug
				c.o.Log.Error("BUG: a fetch has panicked", "key", r.key, "error", err)
				c.land(f, key, result{failed: err})
			}
			c.work.Done()
		})
	}
	if waiter != nil {
		f.waiters = append(f.waiters, waiter)
	}
	return f
}

// land gives what a flight has brought to all who still wait for it. Each gets a pin of its own before the
// flight gives up its own.
func (c *Cache) land(f *flight, key string, got result) {
	c.mu.Lock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	for _, waiter := range f.waiters {
		if got.object != nil {
			got.object.pins++
		}
		waiter <- got
		got.entry = nil // belongs to the first
	}
	f.waiters = nil
	if got.object != nil {
		got.object.pins--
	}
	c.mu.Unlock()
	if got.entry != nil {
		got.entry.Release()
	}
}

// leave ends the wait for a flight, and gives back what came at the same moment.
func (c *Cache) leave(f *flight, waiter chan result) {
	c.mu.Lock()
	i := slices.Index(f.waiters, waiter)
	if i >= 0 {
		f.waiters = slices.Delete(f.waiters, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		return
	}
	got := <-waiter
	if got.object != nil {
		c.unpin(got.object)
	}
	if got.entry != nil {
		got.entry.Release()
	}
}

// do answers a request.
func (c *Cache) do(ctx context.Context, r *request) (*Entry, error) {
	alone := false
	for range 4 {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		o, now, how := c.find(r), time.Now(), fetchFirst
		var failed error
		if o != nil {
			how = o.policy.usable(r.directives, now)
			if how != useFresh && now.Before(o.retry) && !r.directives.has("no-cache") {
				how, failed = useFresh, o.failed
			}
		}
		if how != fetchFirst {
			c.stats.Hits++
			o.pins++
			c.used.MoveToBack(o.used)
			if how == useStale {
				c.join(r, o, false, nil)
			}
			stale := failed != nil || o.policy.lifetime <= o.policy.ageAt(now)
			if stale {
				c.stats.Stale++
			}
			c.mu.Unlock()
			e, err := c.open(o)
			if errors.Is(err, errLost) {
				continue
			}
			if err == nil {
				withoutUnvalidated(e.Header)
				e.Cached, e.Stale, e.Err = true, stale, failed
			}
			return e, err
		}
		if r.directives.has("only-if-cached") {
			c.mu.Unlock()
			return nil, ErrNotStored
		}
		c.stats.Misses++
		waiter := make(chan result, 1)
		f := c.join(r, o, alone, waiter)
		c.mu.Unlock()

		var got result
		select {
		case got = <-waiter:
		case <-ctx.Done():
			c.leave(f, waiter)
			return nil, context.Cause(ctx)
		}
		e, again, err := c.accept(r, got)
		if !again {
			return e, err
		}
		alone = alone || got.object == nil
	}
	return nil, errLost
}

// accept makes an entry of what a flight has brought. again is true if it was for others.
func (c *Cache) accept(r *request, got result) (e *Entry, again bool, err error) {
	if got.failed != nil {
		if e := c.instead(r, got); e != nil {
			return e, false, nil
		}
	}
	switch {
	case got.entry != nil:
		return got.entry, false, nil
	case got.object != nil:
		c.mu.Lock()
		ours := got.object.policy.matches(r.header)
		c.mu.Unlock()
		if !ours {
			c.unpin(got.object)
			return nil, true, nil
		}
		e, err = c.open(got.object)
		return e, errors.Is(err, errLost), err
	case got.failed != nil:
		var status *StatusError
		return nil, errors.As(got.failed, &status), got.failed
	}
	return nil, true, nil
}

// instead returns a stale response in the place of a failure, where that is allowed.
func (c *Cache) instead(r *request, got result) *Entry {
	c.mu.Lock()
	o, now := c.find(r), time.Now()
	if o == nil || o == got.object || !o.policy.usableAfter(r.directives, now) {
		c.mu.Unlock()
		return nil
	}
	o.pins++
	c.stats.Stale++
	c.mu.Unlock()
	e, err := c.open(o)
	if err != nil {
		return nil
	}
	if got.object != nil {
		c.unpin(got.object)
	}
	if got.entry != nil {
		got.entry.Release()
	}
	e.Cached, e.Stale, e.Err = true, true, got.failed
	return e
}

// run fetches and lands.
func (c *Cache) run(f *flight, key string) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.o.Timeout,
		fmt.Errorf("%w: not done after %v", context.DeadlineExceeded, c.o.Timeout))
	defer cancel()
	got, err := c.fetch(ctx, f)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = cause
			if c.ctx.Err() != nil {
				err = ErrClosed
			}
		}
		got = result{failed: fmt.Errorf("get %s: %w", f.request.url, err)}
	}
	if got.failed != nil {
		c.mu.Lock()
		c.stats.Failures++
		if o := f.stored; o != nil && c.o.Poller {
			o.failed, o.retry = got.failed, time.Now().Add(c.o.MinFresh)
		}
		c.mu.Unlock()
	}
	c.land(f, key, got)
}

// fetch asks upstream.
func (c *Cache) fetch(ctx context.Context, f *flight) (got result, err error) {
	if f.stored != nil {
		e, err := c.open(f.stored)
		if err != nil && !errors.Is(err, errLost) {
			return result{}, err
		}
		if err == nil {
			defer e.Release()
			got, again, err := c.validate(ctx, f, e)
			if err != nil || !again {
				return got, err
			}
		}
	}
	requested := time.Now()
	resp, err := c.ask(ctx, f.request, nil)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // what matters of it was read
	if resp.StatusCode == http.StatusNotModified {
		return result{}, ErrUnsolicited
	}
	return c.keep(f, resp, requested)
}

// validate asks upstream whether a stored response is still the one. again is true if the answer says
// nothing.
func (c *Cache) validate(ctx context.Context, f *flight, e *Entry) (got result, again bool, err error) {
	conditions := make(http.Header)
	if tag := e.Header.Get("Etag"); tag != "" {
		conditions.Set("If-None-Match", tag)
	}
	if modified := e.Header.Get("Last-Modified"); modified != "" {
		conditions.Set("If-Modified-Since", modified)
	}
	if len(conditions) == 0 {
		return result{}, true, nil
	}
	requested := time.Now()
	resp, err := c.ask(ctx, f.request, conditions)
	if err != nil {
		return result{}, false, err
	}
	defer resp.Body.Close() //nolint:errcheck // what matters of it was read
	if resp.StatusCode != http.StatusNotModified {
		got, err := c.keep(f, resp, requested)
		return got, false, err
	}
	if !validates(e.Header, resp.Header) {
		return result{}, true, nil
	}
	cleanHeader(resp.Header)
	ok, err := c.freshen(f.stored, update(e.Header, resp.Header), requested)
	if err != nil || !ok {
		return result{}, err == nil, err
	}
	c.mu.Lock()
	f.stored.pins++
	c.stats.Validated++
	c.mu.Unlock()
	return result{object: f.stored}, false, nil
}

// ask makes one request.
func (c *Cache) ask(ctx context.Context, r *request, conditions http.Header) (*http.Response, error) {
	header := r.header.Clone()
	for name, values := range conditions {
		header[name] = values
	}
	q := http.Request{Method: http.MethodGet, URL: r.url, Host: r.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return c.o.Fetch.RoundTrip(q.WithContext(ctx))
}

// keep reads a response, and stores it if that is allowed and it replaces nothing better.
func (c *Cache) keep(f *flight, resp *http.Response, requested time.Time) (got result, err error) {
	r := f.request
	received := time.Now()
	cleanHeader(resp.Header)
	m := &meta{Key: r.key, Vary: varyOf(r.header, resp.Header), Status: resp.StatusCode, Header: resp.Header,
		Fetched: received, Requested: requested, Received: received}
	store := storable(r.header, resp.Header, resp.StatusCode, c.o.Surrogate)
	failed := resp.StatusCode >= 500
	if c.o.Poller {
		store = resp.StatusCode >= 200 && resp.StatusCode != http.StatusPartialContent
		failed = resp.StatusCode >= 400 && resp.StatusCode != http.StatusGone
		m.Vary = nil // all requests are alike
	}
	if failed {
		c.mu.Lock()
		if o := f.stored; o != nil && o.policy.status < 400 && o.policy.usableAfter(r.directives, received) {
			got.failed, store = &StatusError{resp.StatusCode, resp.Header}, false
		}
		c.mu.Unlock()
	}
	if store {
		got.object, err = c.put(m, resp.Body)
	} else {
		got.entry, err = c.pass(m, resp.Body)
	}
	return got, err
}

// cleanHeader makes the header of a response one to be stored.
func cleanHeader(h http.Header) {
	withoutHop(h)
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
}

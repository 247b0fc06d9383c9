package featurestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// lazy is a client or token that its first user makes, because making it may wait for the network. All wait
// for one attempt; after one that failed the next caller makes another. What expires is made anew in the
// background renewBefore that, and nobody waits.
type lazy[C any] struct {
	create  func() (C, error)
	expires func(C) time.Time // zero: never; nil: nothing does

	made     atomic.Pointer[C]
	attempts singleflight.Group
	mu       sync.Mutex
	failed   error // why the last attempt failed
}

const renewBefore = time.Minute

// get returns the client, or the error of the attempt to make it.
func (l *lazy[C]) get(ctx context.Context) (C, error) {
	if c := l.made.Load(); c != nil {
		var left time.Duration = renewBefore
		if l.expires != nil {
			if at := l.expires(*c); !at.IsZero() {
				left = time.Until(at)
			}
		}
		if left > 0 {
			if left < renewBefore {
				l.attempts.DoChan("", l.attempt)
			}
			return *c, nil
		}
	}
	var none C
	select {
	case r := <-l.attempts.DoChan("", l.attempt):
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(C), nil
	case <-ctx.Done():
		// An attempt may take longer than any caller has time. Its last error is still worth knowing.
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return none, &fault{kind: faultUnreachable, err: fmt.Errorf("%w; trying again", l.failed)}
		}
		return none, ctx.Err()
	}
}

// attempt makes the client. A panic is an error: the goroutine has nobody above who would catch it.
func (l *lazy[C]) attempt() (c any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &fault{kind: faultBug, err: fmt.Errorf("BUG: connecting to the feature store panicked: %v",
				p)}
		}
		l.mu.Lock()
		l.failed = err
		l.mu.Unlock()
	}()
	made, err := l.create()
	if err == nil {
		l.made.Store(&made)
	}
	return made, err
}

// last waits for an attempt under way and returns the client, if there is one. Nobody may call get any more.
func (l *lazy[C]) last() (client C, made bool) {
	_, _, _ = l.attempts.Do("", func() (any, error) { return nil, nil })
	if c := l.made.Load(); c != nil {
		return *c, true
	}
	return client, false
}

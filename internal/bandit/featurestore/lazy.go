package featurestore

import (
	"context"
	"fmt"
	"sync"
)

// lazy is a client that is made by whoever needs it first, because making it may wait for the network. Everybody
// waits for one attempt; after one that failed the next caller makes another.
type lazy[C any] struct {
	create func() (C, error)

	mu      sync.Mutex
	client  C
	made    bool
	attempt *attempt // nil when nobody makes it
	failed  error    // why the last attempt failed
}

type attempt struct {
	done chan struct{}
	err  error // valid once it is done
}

// get returns the client, or the error of the attempt to make it.
func (l *lazy[C]) get(ctx context.Context) (C, error) {
	l.mu.Lock()
	if l.made {
		defer l.mu.Unlock()
		return l.client, nil
	}
	a := l.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		l.attempt = a
		go func() {
			client, err := l.create()
			l.mu.Lock()
			l.client, l.made, l.attempt, l.failed = client, err == nil, nil, err
			l.mu.Unlock()
			a.err = err
			close(a.done)
		}()
	}
	l.mu.Unlock()

	var none C
	select {
	case <-a.done:
		if a.err != nil {
			return none, a.err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.client, nil
	case <-ctx.Done():
		// An attempt may take longer than any caller has time. Why they fail is worth knowing nonetheless.
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			return none, &fault{kind: faultUnreachable, err: fmt.Errorf("%w; trying again", l.failed)}
		}
		return none, ctx.Err()
	}
}

// last waits for an attempt under way and returns the client, if there is one. Nobody may call get any more.
func (l *lazy[C]) last() (client C, made bool) {
	l.mu.Lock()
	a := l.attempt
	l.mu.Unlock()
	if a != nil {
		<-a.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client, l.made
}

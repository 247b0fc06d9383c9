package flight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Group bounds the fetches of some caches and ends with all of them.
type Group struct {
	turns  chan struct{} // one for each fetch at a time
	began  time.Time     // when the clock started
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards closed, and running from growing after it
	closed  bool
	running sync.WaitGroup
}

// NewGroup returns a group of so many fetches at a time.
func NewGroup(concurrency int) *Group {
	g := &Group{turns: make(chan struct{}, concurrency), began: time.Now()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Running returns the number of fetches under way.
func (g *Group) Running() int { return len(g.turns) }

// Close ends all fetches and waits for them. Calls under way fail.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.running.Wait()
}

// now is the time since the group was made. Setting the system's clock does not change it.
func (g *Group) now() time.Duration { return time.Since(g.began) }

// start runs f in a goroutine of its own, unless the group is closed.
func (g *Group) start(f func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.running.Go(f)
	return nil
}

// chunk is one fetch.
type chunk[K comparable, V any] struct {
	keys   []K
	ctx    context.Context
	values []V   // valid once it has ended, if err is nil
	err    error // as values
	of     int   // chunks of the call it is for

	// The cache's lock guards what follows.
	cancel     context.CancelFunc
	waiters    []chan *chunk[K, V] // are told when it ends; it is cancelled when none is left
	background bool                // nobody needs to wait for it
}

// place is that of a key in a chunk.
type place[K comparable, V any] struct {
	chunk *chunk[K, V]
	row   int
}

// packer puts keys that nobody fetches into new chunks. The cache's lock is held.
type packer[K comparable, V any] struct {
	c      *Cache[K, V]
	chunks []*chunk[K, V]
}

func (p *packer[K, V]) add(key K) place[K, V] {
	c := p.c
	if n := len(p.chunks); n == 0 || len(p.chunks[n-1].keys) == c.o.Chunk {
		f := &chunk[K, V]{}
		f.ctx, f.cancel = context.WithTimeout(c.g.ctx, c.o.Timeout)
		p.chunks = append(p.chunks, f)
	}
	f := p.chunks[len(p.chunks)-1]
	key = clone(key)
	f.keys = append(f.keys, key)
	at := place[K, V]{f, len(f.keys) - 1}
	c.fetching[key] = at
	return at
}

// refresh fetches, in the background, those of the keys that nobody fetches.
func (c *Cache[K, V]) refresh(keys []K) {
	p := packer[K, V]{c: c}
	c.mu.Lock()
	for _, key := range keys {
		if _, is := c.fetching[key]; !is {
			p.add(key).chunk.background = true
		}
	}
	c.mu.Unlock()
	for _, f := range p.chunks {
		c.start(f)
	}
}

// wait fetches the wants, or waits for others who do, and returns how many of them keep their older values
// because that failed. The first failure that there is no older value for ends it.
func (c *Cache[K, V]) wait(ctx context.Context, keys []K, dst []V, wants []want[K, V]) (older int,
	err error) {
	ended := make(chan *chunk[K, V], len(wants)) // has room for all: no fetch ever waits for a caller
	var waited []*chunk[K, V]
	p := packer[K, V]{c: c}
	c.mu.Lock()
	for k := range wants {
		w := &wants[k]
		at, is := c.fetching[keys[w.i]]
		if !is {
			at = p.add(keys[w.i])
		}
		w.place = at
		// Under the lock nobody else can have been added since this call was.
		if n := len(at.chunk.waiters); n == 0 || at.chunk.waiters[n-1] != ended {
			at.chunk.waiters = append(at.chunk.waiters, ended)
			waited = append(waited, at.chunk)
		}
	}
	c.mu.Unlock()
	for _, f := range p.chunks {
		f.of = len(p.chunks)
		c.start(f)
	}

	for range waited {
		select {
		case f := <-ended:
			if f.err != nil && slices.ContainsFunc(wants, func(w want[K, V]) bool {
				return w.chunk == f && !w.stale
			}) {
				c.leave(waited, ended)
				return 0, f.err
			}
		case <-ctx.Done():
			c.leave(waited, ended)
			return 0, ctx.Err()
		}
	}
	for _, w := range wants {
		if w.chunk.err == nil {
			dst[w.i] = w.chunk.values[w.row]
		} else {
			older++
		}
	}
	return older, nil
}

// start fetches a chunk in a goroutine of its own.
func (c *Cache[K, V]) start(f *chunk[K, V]) {
	err := c.g.start(func() {
		defer f.cancel()
		f.values = make([]V, len(f.keys))
		asked := c.g.now()
		err := c.run(f)
		if err == nil && c.entries != nil {
			for i, key := range f.keys {
				c.entries.Set(key, entry[V]{f.values[i], asked})
			}
		}
		c.end(f, err)
		if err != nil {
			c.retry(f.keys)
		}
	})
	if err != nil {
		f.cancel()
		c.end(f, err)
	}
}

// run fetches when it is the chunk's turn, and remembers whether the source answers.
func (c *Cache[K, V]) run(f *chunk[K, V]) error {
	failed := Failure{Chunks: f.of}
	var took time.Duration
	select {
	case c.g.turns <- struct{}{}:
		began := time.Now()
		failed.Panicked, failed.Err = c.call(f)
		took = time.Since(began)
		<-c.g.turns
		if c.o.Took != nil {
			c.o.Took(took)
		}
	case <-f.ctx.Done():
		failed.Err = f.ctx.Err()
	}
	switch {
	case failed.Err == nil:
		if c.failed.Swap(nil) != nil && c.o.Recovered != nil {
			c.o.Recovered()
		}
		return nil
	case c.g.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(f.ctx.Err(), context.Canceled):
		return f.ctx.Err() // nobody waits for it any more, which says nothing of the source
	}
	failed.Expired = f.ctx.Err() != nil
	failed.NoTurn = failed.Expired && took < c.o.Timeout/2
	err := failed.Err
	if c.o.Failed != nil {
		err = c.o.Failed(failed)
	}
	c.failed.Store(&failure{err: err, hung: took >= c.o.Timeout/2})
	return err
}

// call calls Fetch. A panic in a goroutine that has nobody above to catch it would end the process.
func (c *Cache[K, V]) call(f *chunk[K, V]) (panicked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			panicked, err = true, fmt.Errorf("BUG: fetching panicked: %v", p)
		}
	}()
	return false, c.fetch(f.ctx, f.keys, f.values)
}

// end tells everybody who waits for a chunk how it went.
func (c *Cache[K, V]) end(f *chunk[K, V], err error) {
	c.mu.Lock()
	f.err = err
	c.detach(f)
	waiters := f.waiters
	f.waiters = nil
	c.mu.Unlock()
	for _, w := range waiters {
		w <- f
	}
}

// leave waits no longer. Chunks that nobody waits for then are cancelled.
func (c *Cache[K, V]) leave(chunks []*chunk[K, V], ended chan *chunk[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range chunks {
		i := slices.Index(f.waiters, ended)
		if i < 0 {
			continue
		}
		f.waiters = slices.Delete(f.waiters, i, i+1)
		if len(f.waiters) == 0 && !f.background {
			c.detach(f)
			f.cancel()
		}
	}
}

// detach lets nobody join a chunk any more. The lock is held.
func (c *Cache[K, V]) detach(f *chunk[K, V]) {
	for _, key := range f.keys {
		if c.fetching[key].chunk == f {
			delete(c.fetching, key)
		}
	}
}

// Package cluster is the client of a Valkey or Redis cluster (7.0 or newer, core commands only) in which
// several nodes of weir keep what they share.
//
// A shard has one connection for changes. What is submitted while a batch is under way goes out in the next
// one, in one write, with WAIT at its end where a command is durable: the more there is to do, the larger
// the batches. Commands of a slot that one goroutine submits are executed in that order, but for those which
// a resharding sends elsewhere. Reads that may wait or may be old have connections of their own (Read).
//
// What is promised:
//
//   - A durable command is done when Options.Replicas replicas have it, as WAIT says on the same connection
//     after it. What a failover then takes back was never answered for.
//   - Nothing is executed twice. A command is sent again only after an answer by which nothing has happened:
//     MOVED, ASK, or that the function has yet to be loaded.
//   - An error says what has become of the command: ErrUnavailable, it was not executed; ErrUnreplicated, it
//     was, and fewer replicas have it; ErrUnknown, nobody knows. An Error is the engine's own, about the
//     command. errors.Is and errors.As find them.
//   - Nobody waits long. A batch that is not answered within Options.Timeout ends its connection. A shard
//     that cannot be reached, or for which too much is queued, fails commands at once.
//
// Which shard has a slot is learned from several nodes at a time, the newest claims of which count: at Open,
// every so often, and as soon as a node redirects, a connection ends or replicas are missing.
package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/metrics"
)

var (
	// ErrUnavailable means that a command was not executed: the shard cannot be reached or refuses, too much
	// is queued for it, or who asked has gone.
	ErrUnavailable = errors.New("the cluster is not available")
	// ErrUnreplicated means that a command was executed, and fewer replicas have it than a durable one needs.
	ErrUnreplicated = errors.New("too few replicas have the change")
	// ErrUnknown means that a command was sent and not answered: it may have been executed.
	ErrUnknown = errors.New("the cluster did not answer, and the change may have happened")
)

// Options says which cluster, and how.
type Options struct {
	Addrs          []string    // HOST:PORT of some nodes; the others are learned from them
	TLS            *tls.Config // nil for none; without a ServerName each node is verified by its host
	User, Password string
	Prefix         string        // of all keys; "weir" if empty
	Replicas       int           // that must have a durable command before it is done; 0 for none
	Timeout        time.Duration // of a command, its WAIT included; 2 s if 0
	Log            *slog.Logger
	Metrics        *metrics.Registry
}

// Client is a connection to every shard. Its methods are for any number of goroutines.
type Client struct {
	o     Options
	table atomic.Pointer[table]
	pool  pool
	stats stats

	closing atomic.Bool
	format  atomic.Pointer[string] // the text of the format, once it is known
	refused atomic.Pointer[error]  // why nothing is executed any more
	done    chan struct{}          // closed with closing
	stale   chan struct{}          // asks for a refresh
	wg      sync.WaitGroup
	ctx     context.Context // ends when what was queued has drained
	cancel  context.CancelFunc

	mu        sync.Mutex
	links     map[string]*link
	libraries map[string]*Library // by their hash
	loading   map[loadKey][]call
}

// Command is one command to the primary of a slot. Args are not changed until it is done.
type Command struct {
	Slot    uint16
	Durable bool // done once Options.Replicas replicas have it
	Args    []string
}

// call is a command under way.
type call struct {
	ctx   context.Context
	cmd   Command
	done  func(Reply, error)
	hops  int8 // redirections so far
	ask   bool // ASKING comes first
	start int  // in the bytes of its batch
}

// maxHops is how often a command is sent elsewhere before it is given up.
const maxHops = 8

// Open connects, and learns which shards there are. Its errors say what to change.
func Open(ctx context.Context, o Options) (*Client, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("a cluster needs the address of a node at least")
	}
	if o.Prefix == "" {
		o.Prefix = "weir"
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(1)
	}
	c := &Client{o: o, done: make(chan struct{}), stale: make(chan struct{}, 1),
		links: make(map[string]*link), libraries: make(map[string]*Library),
		loading: make(map[loadKey][]call)}
	c.pool.c = c
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.table.Store(new(table))
	if err := c.refresh(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.stats.register(c)
	c.wg.Go(c.watch)
	return c, nil
}

// Close fails what is submitted from now on, and returns when all that was queued is done.
func (c *Client) Close() error {
	if c.closing.Swap(true) {
		return nil
	}
	close(c.done)
	c.mu.Lock()
	for _, l := range c.links {
		l.retire()
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.cancel()
	c.pool.close()
	return nil
}

// Key returns a key with the prefix in front.
func (c *Client) Key(name string) string { return c.o.Prefix + ":" + name }

// Replicas is how many replicas must have a durable command before it is done.
func (c *Client) Replicas() int { return c.o.Replicas }

// Submit queues a command. done is called once, from any goroutine or before Submit returns, and must not
// block: the shard waits for it. With ErrUnreplicated and Error it is given the reply as well. A command
// whose ctx ends before it is sent is not sent.
func (c *Client) Submit(ctx context.Context, cmd Command, done func(Reply, error)) {
	c.submit(call{ctx: ctx, cmd: cmd, done: done})
}

// Do submits a command and waits for it, or until ctx ends, which is an ErrUnknown.
func (c *Client) Do(ctx context.Context, cmd Command) (Reply, error) {
	type result struct {
		r   Reply
		err error
	}
	results := make(chan result, 1)
	c.Submit(ctx, cmd, func(r Reply, err error) { results <- result{r, err} })
	select {
	case r := <-results:
		return r.r, r.err
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// submit queues a call with the shard that has its slot.
func (c *Client) submit(k call) {
	if err := c.refused.Load(); err != nil {
		c.fail(k, *err)
		return
	}
	for {
		sh := c.table.Load().slot[k.cmd.Slot%slots]
		if sh == nil {
			c.refreshSoon()
			c.fail(k, unavailable(fmt.Errorf("no primary has slot %d", k.cmd.Slot)))
			return
		}
		if c.enqueue(sh.link, k) {
			return
		}
	}
}

// enqueue is false where the link is retired, which means that there is another, or none any more.
func (c *Client) enqueue(l *link, k call) bool {
	err := l.enqueue(k)
	switch {
	case err == nil:
	case err == errRetired && !c.closing.Load():
		return false
	case err == errRetired:
		c.fail(k, unavailable(errClosed))
	default:
		c.fail(k, err)
	}
	return true
}

var errClosed = errors.New("the client is closed")

// fail ends a call with an error.
func (c *Client) fail(k call, err error) {
	c.stats.count(err)
	k.done(Reply{}, err)
}

// unavailable says why a command was not executed.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// forward sends a call to where a node's answer says: another shard that has the slot now, or one that is
// about to.
func (c *Client) forward(k call, from *link, text string, ask bool) {
	slot, addr, ok := redirect(from.addr, text)
	if k.hops++; !ok || k.hops > maxHops {
		c.fail(k, unavailable(fmt.Errorf("redirected %d times, at last by %q", k.hops, text)))
		return
	}
	c.refreshSoon()
	if k.ask = ask; !ask {
		c.stats.moved.Add(0, 1)
		c.move(slot, addr)
		c.submit(k)
		return
	}
	c.stats.asked.Add(0, 1)
	for !c.enqueue(c.linkTo(addr), k) {
	}
}

// linkTo returns the link to a primary.
func (c *Client) linkTo(addr string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link(addr)
}

// link returns the link to a primary. The caller holds the lock.
func (c *Client) link(addr string) *link {
	l := c.links[addr]
	if l == nil {
		l = newLink(c, addr)
		c.links[addr] = l
		if c.closing.Load() {
			l.retire()
		}
		c.wg.Go(l.run)
	}
	return l
}

// move takes up that a slot has another primary.
func (c *Client) move(slot uint16, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.table.Load(); t.slot[slot] == nil || t.slot[slot].addr != addr {
		c.install(t.with(slot, addr))
	}
}

// install puts a table to use. The caller holds the lock.
func (c *Client) install(t *table) {
	for i := range t.shards {
		t.shards[i].link = c.link(t.shards[i].addr)
	}
	c.table.Store(t)
}

package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"
)

const readBuffer = 32 << 10

// conn is a connection to a node. One goroutine uses it at a time.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// dial connects to a node, says who we are, and sends one command of the caller's: an answer, whatever it
// is, shows that the node is alive.
func (c *Client) dial(ctx context.Context, addr string, first ...string) (*conn, error) {
	d := net.Dialer{KeepAlive: 15 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.o.TLS != nil {
		config := c.o.TLS
		if config.ServerName == "" {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		nc = tls.Client(nc, config)
	}
	cn := &conn{nc, bufio.NewReaderSize(nc, readBuffer)}
	stop := cn.until(ctx)
	err = cn.greet(c.o.User, c.o.Password, first)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cn.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return cn, nil
}

func (cn *conn) greet(user, password string, first []string) error {
	var buf []byte
	if password != "" {
		if user == "" {
			user = "default"
		}
		buf = appendCommand(buf, "AUTH", user, password)
	}
	buf = appendCommand(buf, "CLIENT", "SETNAME", "weir")
	if _, err := cn.Write(appendCommand(buf, first...)); err != nil {
		return err
	}
	if password != "" {
		if r, err := cn.read(); err != nil {
			return err
		} else if err := r.Err(); err != nil {
			return err
		}
	}
	if _, err := cn.read(); err != nil {
		return err
	}
	r, err := cn.read()
	if err == nil && len(r.s) >= 6 && r.kind == kindError && r.s[:6] == "NOAUTH" {
		err = r.Err()
	}
	return err
}

// until ends reads and writes with ctx, until stop is called. It is false where ctx was first.
func (cn *conn) until(ctx context.Context) (stop func() bool) {
	deadline, _ := ctx.Deadline() // the zero time is none
	cn.SetDeadline(deadline)
	return context.AfterFunc(ctx, func() { cn.SetDeadline(time.Unix(1, 0)) })
}

func (cn *conn) read() (Reply, error) { return readReply(cn.r) }

// do sends one command and reads the answer.
func (cn *conn) do(args ...string) (Reply, error) {
	if _, err := cn.Write(appendCommand(nil, args...)); err != nil {
		return Reply{}, err
	}
	return cn.read()
}

// maxIdle is how many connections for reading to a node are kept while nobody uses them.
const maxIdle = 8

// pool has connections for reading, to primaries and replicas.
type pool struct {
	c      *Client
	mu     sync.Mutex
	idle   map[string][]*conn
	closed bool
}

// do sends commands to a node in one write and returns their answers. Connections that were idle may have
// ended since: those are tried in turn, as commands of the pool may be repeated.
func (p *pool) do(ctx context.Context, addr string, commands ...[]string) ([]Reply, error) {
	for {
		cn := p.take(addr)
		fresh := cn == nil
		if fresh {
			var err error
			if cn, err = p.c.dial(ctx, addr, "READONLY"); err != nil {
				return nil, err
			}
		}
		replies, err := cn.all(ctx, commands)
		if err == nil {
			p.put(addr, cn)
			return replies, nil
		}
		cn.Close()
		if fresh || ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
	}
}

// all sends commands in one write and reads their answers.
func (cn *conn) all(ctx context.Context, commands [][]string) ([]Reply, error) {
	stop := cn.until(ctx)
	defer stop()
	var buf []byte
	for _, args := range commands {
		buf = appendCommand(buf, args...)
	}
	if _, err := cn.Write(buf); err != nil {
		return nil, err
	}
	replies := make([]Reply, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = cn.read(); err != nil {
			return nil, err
		}
	}
	if !stop() {
		return nil, context.Cause(ctx) // the connection is past its deadline
	}
	return replies, nil
}

func (p *pool) take(addr string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.idle[addr]
	if len(conns) == 0 {
		return nil
	}
	cn := conns[len(conns)-1]
	p.idle[addr] = conns[:len(conns)-1]
	return cn
}

func (p *pool) put(addr string, cn *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[addr]) >= maxIdle {
		cn.Close()
		return
	}
	if p.idle == nil {
		p.idle = make(map[string][]*conn)
	}
	p.idle[addr] = append(p.idle[addr], cn)
}

// keep closes the idle connections to nodes that are not wanted.
func (p *pool) keep(wanted func(addr string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, conns := range p.idle {
		if !wanted(addr) {
			for _, cn := range conns {
				cn.Close()
			}
			delete(p.idle, addr)
		}
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.keep(func(string) bool { return false })
}

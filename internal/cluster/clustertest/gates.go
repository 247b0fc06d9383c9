package clustertest

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// gates are the proxies in front of nodes. They know who connects by the address that the connection comes
// from: each node has one of its own, clients have another.
type gates struct {
	mu        sync.Mutex
	changed   chan struct{} // is closed at the next change
	isolated  *Node
	delay     time.Duration
	closed    bool
	listeners []net.Listener
	conns     []net.Conn
}

// set changes a rule, for what is under way as well.
func (g *gates) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// forward listens on a port and passes on what comes to another port of n.
func (g *gates) forward(listen int, n *Node, to int) error {
	l, err := net.Listen("tcp", loopback(listen))
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.listeners = append(g.listeners, l)
	g.mu.Unlock()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go g.join(conn, n, to)
		}
	}()
	return nil
}

func (g *gates) join(conn net.Conn, n *Node, to int) {
	client := conn.RemoteAddr().(*net.TCPAddr).IP.String()
	link := link{to: n}
	for _, other := range n.c.Nodes {
		if other.source == client {
			link.from = other
		}
	}
	link.data = to == n.port
	server, err := net.Dial("tcp", loopback(to))
	if err != nil {
		conn.Close() //nolint:errcheck // nothing was written
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, conn, server)
	closed := g.closed
	g.mu.Unlock()
	if closed {
		conn.Close()   //nolint:errcheck // nothing was written
		server.Close() //nolint:errcheck // nothing was written
		return
	}
	go g.pump(conn, server, link)
	g.pump(server, conn, link)
}

// link is a connection from a node, nil if it is a client's, to another's port for data or for the bus.
type link struct {
	from, to *Node
	data     bool
}

// pump passes on what is read, when the rules let it, and closes both ends at the end.
func (g *gates) pump(from, to net.Conn, l link) {
	type chunk struct {
		bytes []byte
		read  time.Time
	}
	chunks, ended := make(chan chunk, 1024), make(chan struct{})
	go func() {
		defer from.Close() //nolint:errcheck // the reader sees the same
		defer to.Close()   //nolint:errcheck // the reader sees the same
		for c := range chunks {
			if !g.pass(l, c.read, ended) {
				break
			}
			if _, err := to.Write(c.bytes); err != nil {
				break
			}
		}
		for range chunks { //nolint:revive // until the reader has noticed
		}
	}()
	defer close(chunks)
	defer close(ended)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now()}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				from.Close() //nolint:errcheck // it was reset
			}
			return
		}
	}
}

// pass waits until what was read at a time may go on, and says whether it may at all: what waits when its
// sender has ended is lost.
func (g *gates) pass(l link, read time.Time, ended <-chan struct{}) bool {
	for {
		g.mu.Lock()
		if g.closed || l.from == nil {
			open := !g.closed
			g.mu.Unlock()
			return open
		}
		cut := g.isolated != nil && (g.isolated == l.from || g.isolated == l.to)
		var early time.Duration
		if l.data {
			early = g.delay - time.Since(read)
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		switch {
		case cut:
			select {
			case <-ended:
				return false
			case <-changed:
			}
		case early > 0:
			select {
			case <-ended:
				return false
			case <-time.After(early):
			case <-changed:
			}
		default:
			return true
		}
	}
}

func (g *gates) close() error {
	g.set(func() { g.closed = true })
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, l := range g.listeners {
		errs = append(errs, l.Close())
	}
	for _, conn := range g.conns {
		conn.Close() //nolint:errcheck // may be closed
	}
	g.listeners, g.conns = nil, nil
	return errors.Join(errs...)
}

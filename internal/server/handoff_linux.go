package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// handedOff hands one wholly buffered request to net/http: an in-memory net.Conn whose Read gives exactly
// that request and then blocks, and whose Write sends on the socket. While a request is handed off nobody
// else reads, writes or closes the descriptor, so what the socket takes at once is sent without a copy; for
// the rest Write waits until the loop says that the socket takes more.
type handedOff struct {
	conn   *conn
	remote net.Addr

	mu       sync.Mutex
	change   *sync.Cond // of anything below
	request  io.Reader  // what is left to read
	over     bool       // given back: the descriptor is not ours any more
	gone     bool       // the client has gone
	writable bool       // the loop says that the socket takes more
	expired  bool       // the read deadline has passed
}

// fromLoop tells net/http's side that what comes was handed off by a loop.
func (*handedOff) fromLoop() {}

// handOff hands the request at the start of data, whose head is l.head, to net/http.
func (l *loop) handOff(c *conn, data []byte) {
	head := l.head.appendFramed(nil, c.bodyEnd-l.head.size) // before the data moves
	if !l.detach(c, data, phaseHandedOff) {
		return
	}
	h := &handedOff{conn: c, remote: peerAddr(c.fd), request: io.MultiReader(bytes.NewReader(head),
		bytes.NewReader(c.in[l.head.size:c.bodyEnd]))}
	h.change = sync.NewCond(&h.mu)
	c.handedOff = h
	if l.lane.toNetHTTP.offer(h) {
		return
	}
	c.phase, c.handedOff = phaseReading, nil
	l.s.detached.Add(-1)
	l.s.refused.Add(l.stripe, 1)
	l.resp.reset()
	l.resp.Problem(http.StatusServiceUnavailable, "too many requests wait for net/http; try again")
	c.closing = true
	l.out = l.heads.append(l.out[:0], &l.resp, false, true)
	if l.flush(c) {
		l.hangUp(c)
	}
}

// returned takes back a connection from net/http.
func (l *loop) returned(c *conn, open bool) {
	c.handedOff = nil
	if !l.reattach(c) {
		return
	}
	c.closing = !open
	l.resume(c)
}

// blocked watches for the socket of a connection that is handed off to take more.
func (l *loop) blocked(c *conn) {
	if c.phase != phaseHandedOff || c.gone {
		return
	}
	c.blocked = true
	l.rearm(c) // it may take more since
	l.write.start(&c.timed, l.now)
}

var errClientGone = errors.New("the client has gone")

// Read implements net.Conn.
func (h *handedOff) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.expired:
			return 0, os.ErrDeadlineExceeded
		case h.gone:
			return 0, errClientGone
		case h.over:
			return 0, io.EOF
		}
		if n, err := h.request.Read(p); err == nil {
			return n, nil
		}
		h.change.Wait()
	}
}

// Write implements net.Conn.
func (h *handedOff) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := 0
	for {
		if h.over {
			return sent, net.ErrClosed
		}
		if h.gone {
			return sent, errClientGone
		}
		n, err := send(h.conn.fd, p[sent:])
		sent += n
		switch {
		case err != nil:
			return sent, err
		case sent == len(p):
			return sent, nil
		}
		h.writable = false
		h.conn.loop.post(message{kind: msgBlocked, conn: h.conn})
		for !h.writable && !h.gone && !h.over {
			h.change.Wait()
		}
	}
}

// state implements connStater: an idle connection has had its whole answer written.
func (h *handedOff) state(s http.ConnState) {
	if s == http.StateIdle {
		h.giveBack(msgReturned)
	}
}

// Close implements net.Conn. Before the request is over it means that the connection is to be
// closed after what was written.
func (h *handedOff) Close() error {
	h.giveBack(msgSpent)
	return nil
}

func (h *handedOff) giveBack(kind messageKind) {
	h.set(func() {
		if !h.over {
			h.over = true
			h.conn.loop.post(message{kind: kind, conn: h.conn})
		}
	})
}

// lose tells net/http that the client has gone.
func (h *handedOff) lose() { h.set(func() { h.gone = true }) }

// unblock tells a blocked Write to try again.
func (h *handedOff) unblock() { h.set(func() { h.writable = true }) }

// set changes something, and tells those who wait for that.
func (h *handedOff) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	h.change.Broadcast()
}

// LocalAddr implements net.Conn.
func (h *handedOff) LocalAddr() net.Addr { return h.conn.loop.s.Addr() }

// RemoteAddr implements net.Conn.
func (h *handedOff) RemoteAddr() net.Addr { return h.remote }

// SetDeadline implements net.Conn.
func (h *handedOff) SetDeadline(t time.Time) error { return h.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn. net/http sets one in the past to end a Read; one to come
// means nothing here, as a request has wholly arrived and the loop looks after idle connections.
func (h *handedOff) SetReadDeadline(t time.Time) error {
	h.set(func() { h.expired = !t.IsZero() && time.Until(t) <= 0 })
	return nil
}

// SetWriteDeadline implements net.Conn. Writes are bounded by the kernel's own write timeout.
func (h *handedOff) SetWriteDeadline(time.Time) error { return nil }

// peerAddr returns the address of a socket's client.
func peerAddr(fd int) net.Addr {
	sa, err := unix.Getpeername(fd)
	if err != nil {
		return &net.TCPAddr{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	}
	return &net.TCPAddr{}
}

// handover is a net.Listener whose connections come from this process.
type handover struct {
	queue chan net.Conn
	addr  net.Addr
	once  sync.Once
	done  chan struct{}
}

func newHandover(size int, addr net.Addr) *handover {
	return &handover{queue: make(chan net.Conn, size), addr: addr, done: make(chan struct{})}
}

// offer queues a connection; false means that the queue is full. It never blocks.
func (h *handover) offer(c net.Conn) bool {
	select {
	case h.queue <- c:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case <-h.done:
		return nil, net.ErrClosed
	case c := <-h.queue:
		return c, nil
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.addr }

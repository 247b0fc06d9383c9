package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// handedOff hands wholly buffered requests of a connection to net/http, one at a time: an in-memory
// net.Conn whose Read gives exactly that request and then blocks, and whose Write sends on the
// socket. While a request is handed off nobody else reads, writes or closes the descriptor, so what the
// socket takes at once is sent without a copy; for the rest Write waits until the loop says that
// the socket takes more.
//
// Between two requests net/http's goroutine waits in Read, stack grown and buffers at hand: a
// request handed off costs 14 us of CPU so, and 20 with a goroutine for each. See maxKept.
type handedOff struct {
	conn   *conn
	remote net.Addr

	mu       sync.Mutex
	change   *sync.Cond // of anything below
	buf      []byte     // the request's head
	request  [2][]byte  // what is left to read of head and body
	over     bool       // given back: the descriptor is not ours until the next request
	ended    bool       // there will be no next request
	gone     bool       // the client has gone
	writable bool       // the loop says that the socket takes more
	expired  bool       // the read deadline has passed
}

// fromLoop tells net/http's side that what comes was handed off by a loop.
func (*handedOff) fromLoop() {}

// maxKept bounds the handed off connections of a loop that wait for a next request, at about 20 KiB each.
const maxKept = 256

// handOff hands the request at the start of data, whose head is l.head, to net/http.
func (l *loop) handOff(c *conn, data []byte) {
	l.framed = l.head.appendFramed(l.framed[:0], c.bodyEnd-l.head.size) // before the data moves
	if !l.detach(c, data, phaseHandedOff) {
		return
	}
	body := c.in[l.head.size:c.bodyEnd]
	if c.kept != nil {
		lc := c.kept
		c.kept = nil
		l.kept--
		if lc.again(l.framed, body) {
			c.handedOff = lc
			return
		}
	}
	lc := &handedOff{conn: c, remote: peerAddr(c.fd)}
	lc.change = sync.NewCond(&lc.mu)
	lc.again(l.framed, body)
	c.handedOff = lc
	if !l.lane.toNetHTTP.offer(lc) {
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
}

// returned takes back a connection from net/http.
func (l *loop) returned(c *conn, open bool) {
	if open && !c.gone && l.kept < maxKept && !l.stopping {
		c.kept = c.handedOff
		l.kept++
	} else {
		c.handedOff.end()
	}
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
func (lc *handedOff) Read(p []byte) (int, error) {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	for {
		switch {
		case lc.expired:
			return 0, os.ErrDeadlineExceeded
		case lc.gone:
			return 0, errClientGone
		case len(lc.request[0])+len(lc.request[1]) > 0:
			n := 0
			for i := range lc.request {
				m := copy(p[n:], lc.request[i])
				lc.request[i] = lc.request[i][m:]
				n += m
			}
			return n, nil
		case lc.ended:
			return 0, io.EOF
		}
		lc.change.Wait()
	}
}

// again hands off the next request; false means that net/http has done with the connection.
func (lc *handedOff) again(head, body []byte) bool {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	if lc.ended {
		return false
	}
	lc.buf = append(lc.buf[:0], head...)
	lc.request, lc.over = [2][]byte{lc.buf, body}, false
	lc.change.Broadcast()
	return true
}

// end lets net/http's goroutine go: there will be no next request.
func (lc *handedOff) end() {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	lc.ended = true
	lc.change.Broadcast()
}

// dropKept ends what is kept of c for its next request.
func (l *loop) dropKept(c *conn) {
	if c.kept != nil {
		c.kept.end()
		c.kept = nil
		l.kept--
	}
}

// Write implements net.Conn.
func (lc *handedOff) Write(p []byte) (int, error) {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	sent := 0
	for {
		if lc.over {
			return sent, net.ErrClosed
		}
		if lc.gone {
			return sent, errClientGone
		}
		n, err := send(lc.conn.fd, p[sent:])
		sent += n
		switch {
		case err != nil:
			return sent, err
		case sent == len(p):
			return sent, nil
		}
		lc.writable = false
		lc.conn.loop.post(message{kind: msgBlocked, conn: lc.conn})
		for !lc.writable && !lc.gone && !lc.over {
			lc.change.Wait()
		}
	}
}

// state implements connStater: an idle connection has had its whole answer written.
func (lc *handedOff) state(s http.ConnState) {
	if s == http.StateIdle {
		lc.giveBack(msgReturned)
	}
}

// Close implements net.Conn. Before the request is over it means that the connection is to be
// closed after what was written.
func (lc *handedOff) Close() error {
	lc.giveBack(msgSpent)
	lc.end()
	return nil
}

func (lc *handedOff) giveBack(kind messageKind) {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	if lc.over {
		return
	}
	lc.over = true
	lc.request = [2][]byte{}
	lc.change.Broadcast()
	lc.conn.loop.post(message{kind: kind, conn: lc.conn})
}

// lose tells net/http that the client has gone.
func (lc *handedOff) lose() {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	lc.gone = true
	lc.change.Broadcast()
}

// unblock tells a blocked Write to try again.
func (lc *handedOff) unblock() {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	lc.writable = true
	lc.change.Broadcast()
}

// LocalAddr implements net.Conn.
func (lc *handedOff) LocalAddr() net.Addr { return lc.conn.loop.s.Addr() }

// RemoteAddr implements net.Conn.
func (lc *handedOff) RemoteAddr() net.Addr { return lc.remote }

// SetDeadline implements net.Conn.
func (lc *handedOff) SetDeadline(t time.Time) error { return lc.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn. net/http sets one in the past to end a Read; one to come
// means nothing here, as a request has wholly arrived and the loop looks after idle connections.
func (lc *handedOff) SetReadDeadline(t time.Time) error {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	lc.expired = !t.IsZero() && time.Until(t) <= 0
	if lc.expired {
		lc.change.Broadcast()
	}
	return nil
}

// SetWriteDeadline implements net.Conn. Writes are bounded by the kernel's own write timeout.
func (lc *handedOff) SetWriteDeadline(time.Time) error { return nil }

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

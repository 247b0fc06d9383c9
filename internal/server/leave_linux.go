package server

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// leave gives a connection to net/http for good, with the bytes it has sent and that nobody has
// parsed. All its answers have been sent.
func (l *loop) leave(c *conn, data []byte) {
	l.observe()
	c.timed.stop()
	left := &leaving{fd: c.fd, unread: bytes.Clone(data)}
	unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil) //nolint:errcheck // it is there
	if !l.lane.left.offer(func() (net.Conn, error) { return left.conn(l.s) }) {
		// A loop never waits: a full queue closes and counts.
		l.s.refused.Add(l.stripe, 1)
		unix.Close(c.fd)
		l.s.connectionClosed()
	}
	l.forget(c)
}

// leaving is a connection on its way.
type leaving struct {
	fd     int
	unread []byte
}

// leftConn is a connection that has left: its unread bytes come first.
type leftConn struct {
	patientConn
	unread []byte
	closed sync.Once
	s      *Server
}

// conn makes a net.Conn of what has left.
func (l *leaving) conn(s *Server) (net.Conn, error) {
	f := os.NewFile(uintptr(l.fd), "left")
	nc, err := net.FileConn(f)
	f.Close()
	if err != nil {
		s.connectionClosed()
		return nil, err
	}
	return &leftConn{patientConn: patientConn{nc.(*net.TCPConn), s.cfg.WriteTimeout}, unread: l.unread, s: s}, nil
}

func (c *leftConn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	return c.TCPConn.Read(p)
}

// WriteTo hides that of TCPConn, by which io.Copy would pass the unread bytes over.
func (c *leftConn) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(c.unread)
	c.unread = c.unread[n:]
	if err != nil {
		return int64(n), err
	}
	m, err := io.Copy(w, c.TCPConn)
	return int64(n) + m, err
}

// Close implements net.Conn: until then the connection counts as open.
func (c *leftConn) Close() error {
	c.closed.Do(c.s.connectionClosed)
	return c.TCPConn.Close()
}

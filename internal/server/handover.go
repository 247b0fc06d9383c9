package server

import (
	"net"
	"sync"
)

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

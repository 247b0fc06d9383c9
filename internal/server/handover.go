package server

import (
	"net"
	"sync"
)

// handover is a net.Listener whose connections come from this process. What is offered is a
// function, called by Accept, so that the event loops do not pay for making a connection.
type handover struct {
	queue chan func() (net.Conn, error)
	addr  net.Addr
	once  sync.Once
	done  chan struct{}
}

func newHandover(size int, addr net.Addr) *handover {
	return &handover{queue: make(chan func() (net.Conn, error), size), addr: addr, done: make(chan struct{})}
}

// offer queues a connection; false means that the queue is full. It never blocks.
func (h *handover) offer(open func() (net.Conn, error)) bool {
	select {
	case h.queue <- open:
		return true
	default:
		return false
	}
}

// drain returns when all that was offered before has been accepted.
func (h *handover) drain() {
	accepted := make(chan struct{})
	select {
	case h.queue <- func() (net.Conn, error) { close(accepted); return nil, net.ErrClosed }:
	case <-h.done:
		return
	}
	select {
	case <-accepted:
	case <-h.done:
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	for {
		select {
		case <-h.done:
			return nil, net.ErrClosed
		case open := <-h.queue:
			if c, err := open(); err == nil {
				return c, nil
			}
		}
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.addr }

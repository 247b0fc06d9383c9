package client

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// handDriven is a loop without its thread.
func handDriven(t *testing.T, o Options) *loop {
	t.Helper()
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	l, err := newLoop(&o, time.Now(), fixed{wire: getRequest}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.warming = 0
	t.Cleanup(func() { l.release() })
	return l
}

// An event may be of a connection that was closed earlier in the same batch, and whose place another has by
// now.
func TestEventsOfClosedConnectionsAreNobodys(t *testing.T) {
	p := listen(t, func(c *net.TCPConn, _ int) { io.Copy(io.Discard, c) })
	l := handDriven(t, Options{Targets: []Target{p.target}})
	first, err := l.openConn(l.targets[0])
	if err != nil {
		t.Fatal(err)
	}
	late := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP, Fd: first.slot, Pad: first.generation}
	l.closeConn(first)
	second, err := l.openConn(l.targets[0])
	if err != nil {
		t.Fatal(err)
	}
	if second.slot != late.Fd {
		t.Fatalf("the second connection is at %d, not where the first was, at %d", second.slot, late.Fd)
	}
	l.dispatch(&late)
	if second.state != connecting {
		t.Errorf("the event of the first connection made the second one %d", second.state)
	}
}

func TestTheConnectionThatWasIdleLastIsTaken(t *testing.T) {
	var l list
	a, b, c := new(conn), new(conn), new(conn)
	l.pushFront(a)
	l.pushFront(b)
	l.pushFront(c)
	if l.front != c || l.back != a || l.size != 3 {
		t.Fatal("they are not in order")
	}
	b.remove()
	c.remove()
	c.remove() // once more is nothing
	if l.front != a || l.back != a || l.size != 1 || c.list != nil {
		t.Error("the first is not alone")
	}
	l.insertAfter(a, b)
	l.insertAfter(nil, c)
	if l.front != c || l.back != b || c.next != a || b.prev != a || l.size != 3 {
		t.Error("they are not where they were put")
	}
}

// With a system that knows no epoll_pwait2, waits are in milliseconds.
func TestWaitsWorkWithoutPwait2(t *testing.T) {
	p := listen(t, answering(okAnswer))
	l := handDriven(t, Options{Targets: []Target{p.target}})
	l.noPwait2 = true
	if _, err := l.openConn(l.targets[0]); err != nil {
		t.Fatal(err)
	}
	events := make([]unix.EpollEvent, 8)
	for deadline := time.Now().Add(30 * time.Second); l.targets[0].idle.size == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the connection was not made")
		}
		l.clock()
		for i := range events[:l.sleep(events, l.now+int64(5*time.Millisecond), 0)] {
			l.dispatch(&events[i])
		}
	}
	l.clock()
	due := l.now + int64(3*time.Millisecond)
	if n := l.sleep(events, due, 0); n != 0 {
		t.Errorf("%d events of an idle connection", n)
	}
}

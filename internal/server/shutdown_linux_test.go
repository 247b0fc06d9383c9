package server

import (
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A request that is in the socket's buffer when the stop comes is answered before the end.
func TestARequestNotYetReadAtTheStopIsAnswered(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, _ := d.connect()
	idle, _ := d.connect()
	c.send(get("/fast/a") + get("/fast/b"))
	d.post(message{kind: msgStop})
	d.loop.turn(nil, d.now) // the loop is not told of the request
	c.expect("GET", 200, "GET a ")
	if resp := c.expect("GET", 200, "GET b "); !resp.Close {
		t.Error("the answer does not say that it is the last")
	}
	c.expectClosed()
	idle.expectClosed()
}

// A request of which a part has come before the stop may come to its end.
func TestARequestHalfReceivedAtTheStopIsAnswered(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, _ := d.connect()
	raw := post("/fast/a", "body")
	c.send(raw[:len(raw)-2])
	d.turn()
	d.post(message{kind: msgStop})
	d.turn()
	c.quiet()
	c.send(raw[len(raw)-2:])
	d.turn()
	if resp := c.expect("POST", 200, "POST a body"); !resp.Close {
		t.Error("the answer does not say that it is the last")
	}
	c.expectClosed()
}

// What a client that is slow to read has sent meanwhile is answered, also at the stop.
func TestARequestNotYetReadOfASlowReaderIsAnsweredAtTheStop(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, conn := d.connect()
	smallBuffers(t, c, conn)
	c.send(get("/big/1000000"))
	d.turn()
	if conn.phase != phaseDraining {
		t.Fatal("the answer went into the socket at once; the test needs it to wait")
	}
	c.send(get("/fast/a"))
	d.post(message{kind: msgStop})
	d.turn()
	d.while(func() {
		c.expect("GET", 200, strings.Repeat("x", 1_000_000))
		if resp := c.expect("GET", 200, "GET a "); !resp.Close {
			t.Error("the answer does not say that it is the last")
		}
		c.expectClosed()
	})
}

// A connection that is dealt to a loop in its last moment is the loop's, or is told to be nobody's.
func TestALoopDoesNotEndWithMessagesUnread(t *testing.T) {
	d := newHandDriven(t, Config{})
	nobody := message{kind: msgBlocked, conn: new(conn)}
	if !d.post(nobody) {
		t.Fatal("a loop that runs takes no message")
	}
	if d.release() {
		t.Fatal("the loop has ended with a message unread")
	}
	d.turn()
	if !d.release() {
		t.Fatal("the loop does not end with nothing to do")
	}
	if d.post(nobody) {
		t.Error("a loop that has ended takes a message")
	}
	// A connection dealt to it is closed, and not counted any more.
	c, err := net.Dial("tcp", d.s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await(t, "the connection to arrive", func() bool {
		acceptAll(t, d)
		return d.lane.next.Load() == 1
	})
	newClient(t, c).expectClosed()
	if n := d.s.connections.Load(); n != 0 {
		t.Errorf("%d connections are counted, and none is open", n)
	}
	// The descriptors are closed again at the end of the test: they must not be others' by then.
	t.Cleanup(func() { d.epoll, d.wakeFD = -1, -1 })
}

// acceptAll deals the connections that wait at d's listener.
func acceptAll(t *testing.T, d *handDriven) {
	t.Helper()
	if err := d.lane.acceptAll(fdOf(t, d.s.listen.(*net.TCPListener)), math.MaxInt); err != nil {
		t.Fatal(err)
	}
}

// fdOf returns the descriptor of a listener that stays open.
func fdOf(t *testing.T, l *net.TCPListener) (fd int) {
	t.Helper()
	rc, err := l.SyscallConn()
	if err == nil {
		err = rc.Control(func(of uintptr) { fd = int(of) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// Connections that were made before the stop are taken, also when the acceptor learns of the stop first.
func TestConnectionsThatWaitAtTheStopAreAccepted(t *testing.T) {
	d := newHandDriven(t, Config{})
	listener, err := unix.Getsockname(fdOf(t, d.s.listen.(*net.TCPListener)))
	if err != nil {
		t.Fatal(err)
	}
	// By system calls, which take less time than the acceptor does to wake up.
	connect := func() (fd int) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, listener)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for range 200 {
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- d.lane.accept(d.s.listen.(*net.TCPListener), stop) }()
		first := connect()
		await(t, "the acceptor to run", d.mail.Load)
		second := connect()
		close(stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		d.turn()
		if d.loop.open != 2 {
			t.Fatalf("%d connections were accepted, want 2", d.loop.open)
		}
		unix.Close(first)
		unix.Close(second)
		for d.loop.open > 0 {
			d.turn()
		}
	}
}

// A loop that is told something just before it sleeps does not sleep.
func TestALoopDoesNotSleepOverAMessage(t *testing.T) {
	d := newHandDriven(t, Config{})
	over := false // the loop's
	done := make(chan struct{})
	go func() {
		defer close(done)
		for events := make([]unix.EpollEvent, maxEvents); !over; {
			d.loop.turn(events[:d.wait(events, false)], d.now)
			over = d.loop.stopping
		}
	}()
	read := func() bool { return !d.mail.Load() }
	nobody := message{kind: msgBlocked, conn: new(conn)}
	for i := range 3000 {
		d.post(nobody)
		for deadline := time.Now().Add(patient); !read(); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Errorf("message %d was not read", i)
				unix.Write(d.wakeFD, []byte{1, 0, 0, 0, 0, 0, 0, 0}) //nolint:errcheck // it is there
			}
		}
		if t.Failed() {
			break
		}
		for range i % 64 { // so that the next one comes at another moment
			read()
		}
	}
	d.post(message{kind: msgStop})
	<-done
}

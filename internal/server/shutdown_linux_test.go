package server

import (
	"strings"
	"testing"
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
	// The descriptors are closed again at the end of the test: they must not be others' by then.
	t.Cleanup(func() { d.epoll, d.wakeFD = -1, -1 })
}

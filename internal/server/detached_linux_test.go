package server

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is refused because net/http has too much to do counts as nowhere, and its connection as closed.
func TestAFullQueueToNetHTTPLeavesNothingCounted(t *testing.T) {
	d := newHandDriven(t, Config{})
	d.lane.toNetHTTP = newHandover(0, nil) // with room for none
	c, conn := d.connect()
	c.send(get("/handed/a"))
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 503 || !resp.Close {
		t.Errorf("got %d, close %t; want 503 and that it is the last", resp.StatusCode, resp.Close)
	}
	c.Close()
	for conn.fd >= 0 {
		d.turn()
	}
	if n := d.s.refused.Value(); n != 1 {
		t.Errorf("%d refusals are counted, want 1", n)
	}
	if out, open := d.s.detached.Load(), d.s.connections.Load(); out != 0 || open != 0 {
		t.Errorf("%d requests are detached and %d connections open, want none", out, open)
	}
}

// A Write may have told the loop that it waits just before its client went.
func TestAHandedOffConnectionThatIsGoneIsWatchedNoMore(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, conn := d.connect()
	c.send(get("/handed/a"))
	d.turn()
	handed := conn.handedOff
	d.close(conn)
	d.post(message{kind: msgBlocked, conn: conn})
	d.turn()
	handed.Close() //nolint:errcheck // never fails
	d.turn()
	if conn.fd >= 0 {
		t.Error("the descriptor is kept after all have gone")
	}
}

// Deadlines are for clients: of a request that somebody works on none runs.
func TestNoDeadlineRunsWhileARequestIsElsewhere(t *testing.T) {
	for _, path := range []string{"/handed/a", "/offloaded/a"} {
		d := newHandDriven(t, Config{})
		c, conn := d.connect()
		c.send(get(path))
		d.turn()
		if conn.phase == phaseReading {
			t.Fatalf("%s was answered at once", path)
		}
		d.pass(24 * time.Hour)
		if conn.gone || conn.fd < 0 {
			t.Errorf("%s: the connection was closed while its request was detached", path)
		}
	}
}

// An answer of a worker that the socket does not take at once goes on where it stopped.
func TestALongAnswerOfAWorkerArrivesAsItIs(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, conn := d.connect()
	smallBuffers(t, c, conn)
	c.send(get("/offloaded/a"))
	d.turn()
	if conn.phase != phaseOffloaded {
		t.Fatal("the request was not offloaded")
	}
	var answer []byte
	for i := 0; len(answer) < 2_000_000; i++ {
		answer = fmt.Appendf(answer, "%d ", i)
	}
	conn.out = append(conn.out, answer...)
	d.post(message{kind: msgRan, conn: conn})
	d.turn()
	if conn.phase != phaseDraining {
		t.Fatal("the answer went into the socket at once; the test needs it to wait")
	}
	got := make([]byte, len(answer))
	d.while(func() {
		if _, err := io.ReadFull(c.r, got); err != nil {
			t.Error(err)
		}
	})
	if !bytes.Equal(got, answer) {
		t.Error("the answer arrived changed")
	}
	d.turn()
	c.send(get("/fast/a"))
	d.turn()
	c.expect("GET", 200, "GET a ")
}

// Sleeping for a little too short, a loop would wake up again and again until it is time.
func TestALoopSleepsUntilItsNextDeadlineIsOver(t *testing.T) {
	d := newHandDriven(t, Config{IdleTimeout: time.Hour})
	for i := range 1000 {
		var one timed
		d.idle.startAt(&one, int64(time.Since(d.epoch)+time.Hour+time.Duration(i)*time.Microsecond))
		sleep := time.Duration(d.untilNext()) * time.Millisecond
		if now := time.Since(d.epoch); int64(now+sleep) < one.at {
			t.Fatalf("at %v it sleeps %v, and the deadline is at %v", now, sleep, time.Duration(one.at))
		}
		one.stop()
	}
}

// That the socket takes more again may be reported before the loop hears that net/http waits for it.
func TestRoomThatComesBeforeItIsAskedForIsNotMissed(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, _ := d.connect()
	c.send(get("/handed/a"))
	d.turn()
	nc, err := d.lane.toNetHTTP.Accept()
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20 // more than buffers take
	written := make(chan error, 1)
	go func() {
		_, err := nc.Write(make([]byte, size))
		written <- err
	}()
	for !d.mail.Load() {
		runtime.Gosched()
	}
	buf := make([]byte, 64<<10)
	for n := 0; n == 0; d.handle(d.events[:n]) { // until the event has come, which nobody wants yet
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
		n, _ = unix.EpollWait(d.epoll, d.events[:], 0)
		n = max(n, 0)
	}
	go io.Copy(io.Discard, c) //nolint:errcheck // until the test ends
	for deadline := time.Now().Add(patient); len(written) == 0; d.turn() {
		if time.Now().After(deadline) {
			t.Fatal("net/http waits for room that is there")
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

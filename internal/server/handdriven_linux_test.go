package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// handDriven is an event loop that a test turns by hand, on a clock of the test's: nothing happens
// between two turns, and no time passes but what the test says. There are neither workers nor
// net/http behind it.
type handDriven struct {
	*loop
	t      testing.TB
	now    time.Time
	events [maxEvents]unix.EpollEvent
}

func newHandDriven(t testing.TB, cfg Config) *handDriven {
	t.Helper()
	cfg.Listen, cfg.Loops = "127.0.0.1:0", 1
	s, err := New(cfg, &echo{})
	if err != nil {
		t.Fatal(err)
	}
	l := s.fast.loops[0]
	d := &handDriven{loop: l, t: t, now: l.epoch}
	t.Cleanup(func() {
		s.closeListeners()
		for _, c := range l.conns {
			if c != nil {
				c.phase = phaseReading // whoever has it will not give it back
				l.close(c)
			}
		}
		if n := s.input.Load(); n != 0 {
			t.Errorf("%d bytes of input are still counted", n)
		}
		if !l.release() {
			t.Error("the loop has messages that nobody read")
		}
	})
	return d
}

// turn lets the loop handle everything that is there now and returns the number of events.
func (d *handDriven) turn() int {
	n, err := unix.EpollWait(d.epoll, d.events[:], 0)
	if err != nil && err != unix.EINTR {
		d.t.Fatal(err)
	}
	n = max(n, 0)
	d.loop.turn(d.events[:n], d.now)
	return n
}

// pass lets time pass.
func (d *handDriven) pass(t time.Duration) {
	d.now = d.now.Add(t)
	d.turn()
}

// connect returns the client's side of a new TCP connection and the loop's.
func (d *handDriven) connect() (*client, *conn) {
	d.t.Helper()
	c, err := net.Dial("tcp", d.s.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	nc, err := d.s.listen.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	f, err := nc.(*net.TCPConn).File()
	nc.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	f.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		d.t.Fatal(err)
	}
	d.s.connectionOpened()
	d.accepted(fd)
	d.batch.n = 0 // it has sent nothing yet
	for _, conn := range d.conns {
		if conn != nil && conn.fd == fd {
			client := newClient(d.t, c)
			client.arrived = d.arrivals(conn)
			return client, conn
		}
	}
	d.t.Fatal("the loop does not have the connection")
	return nil, nil
}

// arrivals returns what waits until n bytes more are in the loop's socket. The system does not promise that
// what was sent by one end of a connection is at the other one at once, and a turn comes but once.
func (d *handDriven) arrivals(c *conn) func(n int) {
	fd, generation, total := c.fd, c.generation, uint64(0)
	return func(n int) {
		d.t.Helper()
		total += uint64(n)
		for range int(patient / time.Millisecond) {
			if c.fd != fd || c.generation != generation {
				return // the loop has closed it
			}
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				d.t.Fatal(err)
			}
			const closed = 7 // TCP_CLOSE: by a reset, or by both sides
			if info.Bytes_received >= total || info.State == closed {
				return
			}
			unix.Poll(nil, 1) // a clock of the test's may stand still
		}
		d.t.Fatalf("%d bytes have not arrived", total)
	}
}

// quiet checks that the server has said nothing that was not read, and has not closed.
func (c *client) quiet() {
	c.t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	var n int
	var peeked error
	if err := rc.Control(func(fd uintptr) {
		n, _, peeked = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}); err != nil {
		c.t.Fatal(err)
	}
	if peeked != unix.EAGAIN || c.r.Buffered() > 0 {
		c.t.Fatalf("got %d bytes, %v; want nothing yet", n+c.r.Buffered(), peeked)
	}
}

// while turns the loop until f, which does what a client does, has returned.
func (d *handDriven) while(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return
		default:
			d.turn()
		}
	}
}

func TestARequestMustBeCompleteInTimeHoweverItDribbles(t *testing.T) {
	d := newHandDriven(t, Config{RequestTimeout: 10 * time.Second})
	body := post("/fast/a", strings.Repeat("b", 50))
	for name, raw := range map[string]string{"head": get("/fast/a")[:30], "body": body[:len(body)-1]} {
		c, _ := d.connect()
		dribble := len(raw) - 20
		c.send(raw[:dribble])
		d.turn()
		for i := range 19 {
			c.send(raw[dribble+i : dribble+i+1])
			d.pass(500 * time.Millisecond)
		}
		d.pass(400 * time.Millisecond)
		c.quiet()
		d.pass(200 * time.Millisecond)
		if resp, _ := c.response("GET"); resp.StatusCode != 408 || !resp.Close {
			t.Errorf("%s: got %d, close %t; want 408 and close", name, resp.StatusCode, resp.Close)
		}
		c.expectClosed()
	}
	if n := d.s.closed[closedRequest].Value(); n != 2 {
		t.Errorf("%d closes counted, want 2", n)
	}
}

// Each request has its own deadline, also when every segment ends in the middle of one.
func TestTheDeadlineOfARequestIsNotThatOfTheOneBefore(t *testing.T) {
	d := newHandDriven(t, Config{RequestTimeout: 10 * time.Second})
	c, _ := d.connect()
	raw := get("/fast/a")
	c.send(raw[:20])
	for range 20 {
		d.pass(6 * time.Second)
		c.send(raw[20:] + raw[:20])
		d.turn()
		c.expect("GET", 200, "GET a ")
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	d := newHandDriven(t, Config{IdleTimeout: time.Second})
	never, _ := d.connect()
	busy, _ := d.connect()
	for range 9 {
		d.pass(100 * time.Millisecond)
		busy.send(get("/fast/a"))
		d.turn()
		busy.expect("GET", 200, "GET a ")
	}
	never.quiet()
	d.pass(150 * time.Millisecond)
	never.expectClosed()
	d.pass(700 * time.Millisecond)
	busy.quiet()
	d.pass(200 * time.Millisecond)
	busy.expectClosed()
	if n := d.s.closed[closedIdle].Value(); n != 2 {
		t.Errorf("%d closes counted, want 2", n)
	}
}

func TestATimeoutThatChangesHoldsForThoseWhoWaitAlready(t *testing.T) {
	d := newHandDriven(t, Config{IdleTimeout: time.Hour})
	c, _ := d.connect()
	d.pass(10 * time.Minute)
	cfg := d.s.cfg
	cfg.IdleTimeout = 15 * time.Minute
	if err := d.s.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	d.pass(4 * time.Minute)
	c.quiet()
	d.pass(2 * time.Minute)
	c.expectClosed()
}

// smallBuffers makes the sockets hold little, so that a client that does not read is felt soon.
func smallBuffers(t testing.TB, c *client, conn *conn) {
	t.Helper()
	if err := c.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(conn.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10); err != nil {
		t.Fatal(err)
	}
}

func TestAClientThatDoesNotReadIsClosedAfterTheWriteTimeout(t *testing.T) {
	d := newHandDriven(t, Config{WriteTimeout: 30 * time.Second})
	c, conn := d.connect()
	smallBuffers(t, c, conn)
	c.send(get("/big/1000000"))
	d.turn()
	if conn.phase != phaseDraining {
		t.Fatal("the answer went into the socket at once; the test needs it to wait")
	}
	if conn.timed.queue != &conn.loop.write {
		t.Fatal("a client that takes nothing at all has no deadline")
	}
	d.pass(29 * time.Second)
	if conn.fd < 0 {
		t.Fatal("closed too early")
	}
	// Taking some of the answer starts the time again.
	d.while(func() {
		if _, err := c.r.Discard(300_000); err != nil {
			t.Error(err)
		}
	})
	d.pass(29 * time.Second)
	if conn.fd < 0 {
		t.Fatal("closed although its client had taken some")
	}
	for i := 0; conn.fd >= 0; i++ { // the sockets may still take some of the answer
		if i == 20 {
			t.Fatal("not closed")
		}
		d.pass(31 * time.Second)
	}
	if n := d.s.closed[closedWrite].Value(); n != 1 {
		t.Errorf("%d closes counted, want 1", n)
	}
}

// While a client does not read, nothing more of it is parsed or read; once it reads, every answer
// is there.
func TestAClientThatDoesNotReadIsNotReadEither(t *testing.T) {
	d := newHandDriven(t, Config{MaxOutput: 16 << 10})
	c, conn := d.connect()
	smallBuffers(t, c, conn)
	const n = 20_000
	requests := strings.Repeat(get("/fast/abcdefgh"), n)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.TCPConn, requests)
		sent <- err
	}()
	route, _ := d.s.routes.find("GET", []byte("/fast/a"), new([maxParams][]byte))
	answered := func() uint64 { return d.s.counter(route, 200).Value() }
	// The sockets take some more while the system moves what they have from one to the other.
	for quiet, before := 0, uint64(0); quiet < 1000; quiet++ {
		d.turn()
		if now := answered(); now != before || conn.phase != phaseDraining && now < n {
			quiet, before = 0, now
		}
	}
	if parsed := answered(); parsed > n/4 { // twice of what the sockets hold
		t.Fatalf("%d of %d requests were parsed", parsed, n)
	}
	if held := cap(conn.in) + cap(conn.out); held > 2*(readSize+16<<10) {
		t.Errorf("%d bytes are held for a client that does not read", held)
	}
	d.while(func() {
		for range n {
			c.expect("GET", 200, "GET abcdefgh ")
		}
	})
	if err := <-sent; err != nil {
		t.Error(err)
	}
	c.quiet()
}

// A connection that somebody else works on must not keep the loop awake, whatever its client does.
func TestABusyConnectionDoesNotSpinTheLoop(t *testing.T) {
	for _, lane := range []string{"handed", "offloaded"} {
		t.Run(lane, func(t *testing.T) {
			d := newHandDriven(t, Config{})
			idle := func(when string) {
				t.Helper()
				d.turn()
				d.turn()
				if n := d.turn(); n != 0 {
					t.Errorf("%s: %d events again and again", when, n)
				}
			}
			c, conn := d.connect()
			c.send(get("/" + lane + "/a"))
			idle("after the request")
			if conn.phase != phaseHandedOff && conn.phase != phaseOffloaded {
				t.Fatal("the request was answered inline")
			}
			c.send(strings.Repeat(get("/fast/b"), 1000))
			idle("after more requests")
			c.CloseWrite()
			idle("after the client's end")
			if conn.gone {
				t.Fatal("a client that has only said its last request is taken for gone")
			}
			c.SetLinger(0)
			c.Close()
			idle("after a reset")
			if !conn.gone || conn.fd < 0 {
				t.Errorf("after a reset: gone %t, descriptor %d; want gone, and the descriptor kept",
					conn.gone, conn.fd)
			}
		})
	}
}

// What a client sends while its request is elsewhere is read into the room there is, and the rest left in
// the socket; all of it is answered afterwards.
func TestWhatComesWhileARequestIsElsewhereIsReadAhead(t *testing.T) {
	for _, lane := range []string{"handed", "offloaded"} {
		t.Run(lane, func(t *testing.T) {
			d := newHandDriven(t, Config{})
			c, conn := d.connect()
			first, next := get("/"+lane+"/a"), get("/fast/b")
			c.send(first)
			d.turn()
			c.send(next)
			d.turn()
			if len(conn.in) != len(first)+len(next) || conn.more {
				t.Errorf("%d bytes are read, of %d; taken to be more: %t", len(conn.in),
					len(first)+len(next), conn.more)
			}
			more := cap(conn.in)/len(next) + 1
			c.send(strings.Repeat(next, more))
			d.turn()
			d.turn()
			if len(conn.in) != cap(conn.in) || !conn.more {
				t.Errorf("%d bytes are read, with room for %d; taken to be more: %t", len(conn.in),
					cap(conn.in), conn.more)
			}
			if lane == "handed" {
				nc, err := d.lane.toNetHTTP.Accept()
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 2*len(first))
				if n, err := nc.Read(got); err != nil || string(got[:n]) != first {
					t.Fatalf("net/http reads %q, %v", got[:n], err)
				}
				_, err = nc.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"))
				if err != nil {
					t.Fatal(err)
				}
				nc.(*handedOff).state(http.StateIdle)
				d.turn()
				c.expect("GET", 200, "done")
			} else {
				d.worker.run((<-d.lane.jobs[0]).conn)
				d.post(message{kind: msgRan, conn: conn})
				d.turn()
				c.expect("GET", 200, "GET a ")
			}
			d.turn()
			for range 1 + more {
				c.expect("GET", 200, "GET b ")
			}
			c.quiet()
		})
	}
}

// An event of a connection that has ended must not reach the one that has its slot now.
func TestEventsOfAnEndedConnectionReachNobody(t *testing.T) {
	d := newHandDriven(t, Config{})
	c, old := d.connect()
	c.send(get("/fast/old"))
	slot, generation := old.slot, old.generation
	d.loop.close(old)
	c2, fresh := d.connect()
	if fresh.slot != slot || fresh.generation == generation {
		t.Fatalf("slot %d, generation %d follow %d, %d", fresh.slot, fresh.generation, slot, generation)
	}
	// It would be closed if it took the hang-up for its own.
	d.loop.turn([]unix.EpollEvent{{Events: unix.EPOLLIN | unix.EPOLLHUP, Fd: int32(slot), Pad: generation}},
		d.now)
	c2.send(get("/fast/fresh"))
	fresh.phase = phaseDraining // an event for the old one would make it write
	fresh.out = []byte("written by mistake")
	d.loop.turn([]unix.EpollEvent{{Events: unix.EPOLLOUT, Fd: int32(slot), Pad: generation}}, d.now)
	c2.quiet()
	fresh.phase, fresh.out = phaseReading, nil
	d.turn()
	c2.expect("GET", 200, "GET fresh ")
}

// What comes on a connection that is ending goes nowhere, least of all into what is read of
// another in the same turn.
func TestWhatIsDiscardedDoesNotTouchOtherRequests(t *testing.T) {
	d := newHandDriven(t, Config{})
	ending, conn := d.connect()
	ending.send("nonsense\n")
	d.turn()
	if conn.phase != phaseLinger {
		t.Fatal("the connection does not linger")
	}
	var others [4]*client
	for i := range others {
		others[i], _ = d.connect()
	}
	for range 10 {
		d.turn() // nothing is there: the next events come in the order of their causes
		for _, c := range others {
			c.send(get("/fast/a"))
		}
		ending.send(strings.Repeat("!", 1000)) // the last of the batch
		d.turn()
		for _, c := range others {
			c.expect("GET", 200, "GET a ")
		}
	}
}

func TestUnfinishedRequestsAreBoundedOverAllConnections(t *testing.T) {
	d := newHandDriven(t, Config{MaxHeader: 1000, MaxBody: 9000, MaxInput: 40_000})
	raw := post("/fast/a", strings.Repeat("b", 9000))
	var waiting []*client
	for {
		c, conn := d.connect()
		c.send(raw[:5000])
		d.turn()
		c.send(raw[5000:8500])
		d.turn()
		d.turn()
		if conn.phase == phaseLinger {
			if resp, _ := c.response("POST"); resp.StatusCode != 503 {
				t.Fatalf("got %d, want 503", resp.StatusCode)
			}
			break
		}
		waiting = append(waiting, c)
		if held := d.s.input.Load(); held > 40_000 {
			t.Fatalf("%d bytes of input are held", held)
		}
	}
	if len(waiting) != 2 {
		t.Fatalf("%d requests of 16 KiB buffers fit into 40 kB, want 2", len(waiting))
	}
	if n := d.s.closed[closedInput].Value(); n != 1 {
		t.Errorf("%d refusals counted, want 1", n)
	}
	for _, c := range waiting { // those that were there go on
		c.send(raw[8500:])
		d.turn()
		c.expect("POST", 200, "POST a "+strings.Repeat("b", 9000))
	}
	if held := d.s.input.Load(); held != 0 {
		t.Errorf("%d bytes of input are held after all was answered", held)
	}
}

func TestARefusedRequestIsFollowedForAWhileOnly(t *testing.T) {
	d := newHandDriven(t, Config{LingerTimeout: 500 * time.Millisecond})
	c, conn := d.connect()
	c.send("nonsense\n")
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 400 {
		t.Fatalf("got %d, want 400", resp.StatusCode)
	}
	c.expectClosed()
	for range 4 {
		c.send("more")
		d.pass(100 * time.Millisecond)
	}
	if conn.fd < 0 {
		t.Fatal("the connection was closed early")
	}
	d.pass(200 * time.Millisecond)
	if conn.fd >= 0 {
		t.Fatal("the connection is still there")
	}
}

// net/http, blocked in reading or writing, learns that its client has gone.
func TestWhoeverWaitsOnAHandedOffConnectionIsWokenWhenItsClientGoes(t *testing.T) {
	for name, wait := range map[string]func(net.Conn) error{
		"reading": func(nc net.Conn) error { _, err := nc.Read(make([]byte, 1)); return err },
		"writing": func(nc net.Conn) error { _, err := nc.Write(make([]byte, 50_000_000)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHandDriven(t, Config{})
				c, conn := d.connect()
				smallBuffers(t, c, conn)
				c.send(get("/handed/a"))
				d.turn()
				nc, err := d.lane.toNetHTTP.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(nc, make([]byte, len(get("/handed/a")))); err != nil {
					t.Fatal(err)
				}
				woken := make(chan error, 1)
				go func() { woken <- wait(nc) }()
				synctest.Wait()
				c.SetLinger(0)
				c.Close()
				for !conn.gone {
					d.turn()
				}
				if err := <-woken; err == nil {
					t.Error("it was told that all is well")
				}
				nc.Close()
				d.turn()
				if conn.fd >= 0 {
					t.Error("the descriptor is kept after all have gone")
				}
			})
		})
	}
}

// The events of a turn are collected before a loop is told to end all connections.
func TestAnEventOfAConnectionThatWasJustClosedDoesNothing(t *testing.T) {
	for _, lane := range []string{"handed", "offloaded"} {
		for _, events := range []uint32{unix.EPOLLIN, unix.EPOLLOUT, unix.EPOLLIN | unix.EPOLLHUP} {
			t.Run(fmt.Sprintf("%s %#x", lane, events), func(t *testing.T) {
				d := newHandDriven(t, Config{})
				c, conn := d.connect()
				c.send(get("/" + lane + "/a"))
				d.turn()
				c.CloseWrite()
				d.post(message{kind: msgKill})
				d.loop.turn([]unix.EpollEvent{{Events: events, Fd: int32(conn.slot), Pad: conn.generation}},
					d.now)
				if !conn.gone || d.loop.open != 1 {
					t.Errorf("gone %t, %d connections are open; want one, which is gone, and somebody "+
						"works on", conn.gone, d.loop.open)
				}
			})
		}
	}
}

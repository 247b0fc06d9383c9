package server

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/shed"
)

// pausedByTest returns a loop under full pressure and a connection whose request has been rejected, after
// which the pressure is gone.
func pausedByTest(t *testing.T) (*handDriven, *client, *conn) {
	t.Helper()
	d := newHandDriven(t, Config{Shed: pressable()})
	press(t, d.s, 1)
	c, conn := d.connect()
	c.send(get("/fast/a"))
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 503 {
		t.Fatalf("got %d, want 503", resp.StatusCode)
	}
	if conn.phase != phasePaused || d.s.paused.Load() != 1 {
		t.Fatalf("after a refusal the connection is in phase %d, %d are paused", conn.phase,
			d.s.paused.Load())
	}
	press(t, d.s, 0)
	return d, c, conn
}

// afterPause has the pause of all connections end, and what they have sent read.
func (d *handDriven) afterPause() {
	d.pass(time.Second)
	d.turn()
}

func TestWhatIsSentInAPauseIsReadAfterIt(t *testing.T) {
	d, c, conn := pausedByTest(t)
	c.send(get("/fast/b"))
	for range 9 {
		d.pass(time.Millisecond)
	}
	c.quiet()
	d.afterPause()
	c.expect("GET", 200, "GET b ")
	if conn.phase != phaseReading || d.s.paused.Load() != 0 {
		t.Errorf("then it is in phase %d, %d are paused", conn.phase, d.s.paused.Load())
	}
}

// crowd has n connections each send a request to a loop of which answers take each, and which has been busy
// for a while if lasting is set.
func crowd(t *testing.T, n int, each time.Duration, lasting bool) (d *handDriven, clients []*client) {
	t.Helper()
	d = newHandDriven(t, Config{Shed: pressable()})
	for range n {
		c, _ := d.connect()
		c.send(get("/fast/a"))
		clients = append(clients, c)
	}
	turns := 1
	if lasting {
		turns = 1000
	}
	for range turns {
		d.shed.queue.Passed(1000, 1000*each)
	}
	d.shed.began = d.loop.now
	return d, clients
}

// statuses returns what the clients were answered, in order, 0 for those that were not.
func statuses(clients []*client) (all []int) {
	for _, c := range clients {
		status := 0
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fdOfClient(c)), Events: unix.POLLIN}}, 0); n > 0 {
			resp, _ := c.response("GET")
			status = resp.StatusCode
		}
		all = append(all, status)
	}
	return all
}

func fdOfClient(c *client) (fd int) {
	rc, err := c.SyscallConn()
	if err == nil {
		err = rc.Control(func(of uintptr) { fd = int(of) })
	}
	if err != nil {
		panic(err)
	}
	return fd
}

// A loop with more to do than it can do in a turn answers in order of arrival, over several turns.
func TestABusyLoopReadsNoMoreInATurnThanItCanAnswerInTime(t *testing.T) {
	const n = shed.FreeQueue + 44
	d, clients := crowd(t, n, 40*time.Microsecond, false)
	d.turn()
	if d.shed.waitingNow != 44 || d.s.paused.Load() != 44 {
		t.Errorf("%d connections wait, %d are not read; want 44", d.shed.waitingNow, d.s.paused.Load())
	}
	for i, status := range statuses(clients) {
		if want := map[bool]int{true: 200}[i < shed.FreeQueue]; status != want {
			t.Fatalf("the request at place %d is answered %d in the first turn, want %d", i, status, want)
		}
	}
	clients[0].send(get("/fast/b"))
	late, _ := d.connect()
	late.send(get("/fast/c"))
	d.turn()
	for _, c := range append(clients[shed.FreeQueue:], clients[0], late) {
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("in the second turn one is answered %d", resp.StatusCode)
		}
	}
	if d.shed.waitingNow != 0 || d.s.paused.Load() != 0 {
		t.Errorf("%d connections wait, %d are not read at the end", d.shed.waitingNow, d.s.paused.Load())
	}
}

// When the queue stays too long, who came last is told so at once, and as many as there is time for.
func TestWhoCameLastIsRejected(t *testing.T) {
	const n = 3 * shed.FreeQueue
	d, clients := crowd(t, n, 40*time.Microsecond, true)
	d.pass(10 * time.Millisecond)
	rejected := 0
	for i, status := range statuses(clients) {
		switch {
		case i < shed.FreeQueue && status != 200:
			t.Fatalf("the request at place %d is answered %d", i, status)
		case status == 503:
			rejected++
		case i >= shed.FreeQueue && (status != 0 || rejected > 0):
			t.Fatalf("the request at place %d is answered %d after %d were rejected", i, status, rejected)
		}
	}
	if rejected == 0 || d.shed.waitingNow != n-shed.FreeQueue-rejected {
		t.Errorf("%d were rejected, %d wait", rejected, d.shed.waitingNow)
	}
	clients[n-1].send(get("/fast/b")) // it is read as before
	for range 4 {
		d.turn()
	}
	clients[n-1].expect("GET", 200, "GET b ")
}

// What has waited too long is rejected in place of being answered, but for what is never rejected.
func TestWhatHasWaitedTooLongIsRejected(t *testing.T) {
	d, clients := crowd(t, shed.FreeQueue+2, 40*time.Microsecond, false)
	old, health := clients[shed.FreeQueue], clients[shed.FreeQueue+1]
	health.send(get("/health"))
	d.turn()
	fresh, _ := d.connect()
	fresh.send(get("/fast/b"))
	d.pass(d.s.cfg.Shed.Wait + time.Millisecond)
	d.turn()
	fresh.expect("GET", 200, "GET b ")
	for _, c := range []*client{old, health} {
		if resp, _ := c.response("GET"); resp.StatusCode != 503 {
			t.Errorf("what has waited too long is answered %d", resp.StatusCode)
		}
	}
	health.expect("GET", 200, `{"status":"ready","services":{"echo":{"status":"ready"}}}`)
}

func TestAConnectionThatBreaksWhileItWaitsIsClosed(t *testing.T) {
	d, clients := crowd(t, shed.FreeQueue+1, 40*time.Microsecond, false)
	d.turn()
	last := clients[shed.FreeQueue]
	if err := last.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	last.Close()
	d.shed.left = 0
	for before := d.open; d.open == before; {
		d.turn()
	}
	if d.shed.waitingNow != 0 || d.s.paused.Load() != 0 || d.shed.waiting.head != nil {
		t.Errorf("%d connections wait, %d are not read", d.shed.waitingNow, d.s.paused.Load())
	}
}

// The request of a new connection is answered in the turn that takes the connection.
func TestARequestThatIsThereWithItsConnectionIsAnsweredAtOnce(t *testing.T) {
	d := newHandDriven(t, Config{})
	nc, err := net.Dial("tcp", d.s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := newClient(t, nc)
	c.send(get("/fast/a"))
	for d.open == 0 {
		acceptAll(t, d)
		d.loop.turn(nil, d.now)
	}
	c.expect("GET", 200, "GET a ") // though the loop was told of no event
}

// The goroutine that accepts waits for a processor while loops are busy.
func TestABusyLoopAcceptsConnectionsByItself(t *testing.T) {
	d := newHandDriven(t, Config{})
	busy, _ := d.connect()
	d.lane.listener.Store(int64(fdOf(t, d.s.listen.(*net.TCPListener))))
	defer d.lane.listener.Store(-1)
	nc, err := net.Dial("tcp", d.s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := newClient(t, nc)
	c.send(get("/fast/a"))
	d.loop.turn(nil, d.now)
	if d.mail.Load() {
		t.Error("a loop with nothing to do accepts")
	}
	busy.send(get("/fast/b"))
	for !d.mail.Load() {
		d.pass(time.Millisecond)
	}
	busy.expect("GET", 200, "GET b ")
	d.turn()
	c.expect("GET", 200, "GET a ")
}

func TestAClientThatWaitsNoticesNothing(t *testing.T) {
	d, c, conn := pausedByTest(t)
	d.afterPause()
	c.quiet()
	if conn.phase != phaseReading || conn.timed.queue != &d.idle {
		t.Errorf("it is in phase %d and not idle", conn.phase)
	}
	c.send(get("/fast/b"))
	d.turn()
	c.expect("GET", 200, "GET b ")
}

func TestHealthIsAnsweredOnAPausedConnectionInTheEnd(t *testing.T) {
	d, c, _ := pausedByTest(t)
	press(t, d.s, 1)
	c.send(get("/health"))
	d.turn()
	c.quiet()
	d.afterPause()
	c.expect("GET", 200, `{"status":"ready","services":{"echo":{"status":"ready"}}}`)
}

func TestAPipelineIsAnsweredBeforeItsConnectionIsPaused(t *testing.T) {
	d := newHandDriven(t, Config{Shed: pressable()})
	press(t, d.s, 1)
	c, conn := d.connect()
	half := get("/fast/later")
	c.send(get("/fast/a") + get("/health") + get("/fast/b") + half[:20])
	d.turn()
	for _, want := range []int{503, 200, 503} {
		if resp, _ := c.response("GET"); resp.StatusCode != want {
			t.Errorf("got %d, want %d", resp.StatusCode, want)
		}
	}
	if conn.phase != phasePaused {
		t.Errorf("it is in phase %d", conn.phase)
	}
	press(t, d.s, 0)
	d.afterPause()
	if conn.timed.queue != &d.request {
		t.Error("half a request has no deadline")
	}
	c.send(half[20:])
	d.turn()
	c.expect("GET", 200, "GET later ")
}

func TestAPausedConnectionThatBreaksIsClosed(t *testing.T) {
	d, c, conn := pausedByTest(t)
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for conn.fd >= 0 {
		d.turn()
	}
	if n := d.s.paused.Load(); n != 0 || d.shed.paused.head != nil {
		t.Errorf("%d are paused", n)
	}
}

func TestAStopResumesWhatIsPaused(t *testing.T) {
	d, c, conn := pausedByTest(t)
	c.send(get("/fast/b"))
	d.post(message{kind: msgStop})
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("got %d, close %t; want the answer, and the end", resp.StatusCode, resp.Close)
	}
	c.expectClosed()
	c.Close()
	for conn.fd >= 0 {
		d.turn()
	}
	if n := d.s.paused.Load(); n != 0 {
		t.Errorf("%d are paused", n)
	}
}

// What is to be answered elsewhere waits until the answers before it are sent, and is parsed again then.
func TestARequestThatWaitsForItsClientToReadIsCountedOnce(t *testing.T) {
	for path, class := range map[string]string{"/offloaded/a": "normal", "/handed/a": "normal",
		"/either/a?handoff": "normal", "/low/found": "low"} {
		t.Run(path, func(t *testing.T) {
			d := newHandDriven(t, Config{Shed: pressable(), MaxOutput: 2_000_000})
			for _, r := range byClass(new(atomic.Int64)) {
				d.s.Handle(r)
			}
			c, conn := d.connect()
			smallBuffers(t, c, conn)
			c.send(get("/big/1000000") + get(path))
			d.turn()
			if conn.phase != phaseDraining {
				t.Fatal("the answer went into the socket at once; the test needs it to wait")
			}
			d.while(func() { c.expect("GET", 200, strings.Repeat("x", 1_000_000)) })
			for conn.phase == phaseDraining {
				d.turn()
			}
			if conn.phase != phaseHandedOff && conn.phase != phaseOffloaded {
				t.Fatalf("it is in phase %d", conn.phase)
			}
			d.loop.publishStats()
			want := map[string]uint64{"normal": 1, "low": 0, "critical": 0} // the one before it
			want[class]++
			if st := d.s.shed.Status(); !maps.Equal(st.Admitted, want) ||
				st.Rejected["normal"]+st.Rejected["low"] != 0 {
				t.Errorf("%v are admitted, %v refused; want %v and none", st.Admitted, st.Rejected, want)
			}
		})
	}
}

func TestWithoutPausesARejectedConnectionIsReadOn(t *testing.T) {
	cfg := pressable()
	cfg.Pause = 0
	d := newHandDriven(t, Config{Shed: cfg})
	press(t, d.s, 1)
	c, _ := d.connect()
	for range 3 {
		c.send(get("/fast/a"))
		d.turn()
		if resp, _ := c.response("GET"); resp.StatusCode != 503 {
			t.Errorf("got %d", resp.StatusCode)
		}
	}
}

// Requests that others work on are in flight, and back to none when they are answered.
func TestWhatIsInFlightIsKnown(t *testing.T) {
	e, release := blocked(t)
	s := start(t, Config{Workers: 1, WorkerQueue: 1, Shed: pressable()}, e)
	var all []*client
	for i, path := range []string{"/offloaded/a", "/offloaded/b", "/handed/c", "/handed/d"} {
		c := dial(t, s)
		c.send(get(path))
		all = append(all, c)
		if i == 0 {
			<-e.started // so that there is room in the queue for the second
		}
	}
	// What loops have ready they tell when they rest.
	inFlight := func(want int64, when string) {
		t.Helper()
		await(t, fmt.Sprintf("%d to be in flight when %s", want, when),
			func() bool { return s.inFlight() == want })
	}
	inFlight(4, "all are detached")
	full := dial(t, s)
	full.send(get("/offloaded/one-too-many"))
	if resp, _ := full.response("GET"); resp.StatusCode != 503 {
		t.Errorf("beyond the queue: %d", resp.StatusCode)
	}
	inFlight(4, "one was refused")
	release()
	for _, c := range all {
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("got %d", resp.StatusCode)
		}
	}
	inFlight(0, "all are answered")
}

// Under changing pressure, with clients that never wait, every request has its answer, in order, on its
// connection.
func TestRefusalsMixNothingUp(t *testing.T) {
	cfg := pressable()
	cfg.Pause = 20 * time.Millisecond
	s := start(t, Config{Loops: 2, Shed: cfg}, &echo{})
	var stop atomic.Bool
	pressed := make(chan struct{})
	go func() {
		defer close(pressed)
		for i := 0; !stop.Load(); i++ {
			press(t, s, float64(i%11)/10)
			time.Sleep(time.Millisecond)
		}
	}()
	errs := make(chan string)
	const clients, rounds = 16, 60
	for id := range clients {
		c := dial(t, s)
		go func() {
			for i := range rounds {
				word := strings.Repeat(string(rune('a'+id)), i%7+1)
				c.send(get("/fast/"+word) + get("/offloaded/"+word) + get("/handed/"+word) + get("/health"))
				for _, want := range []string{"GET " + word, "GET " + word, word, `{"status":"ready"`} {
					resp, body := c.response("GET")
					if resp.StatusCode != 503 && !strings.Contains(body, want) || resp.StatusCode == 503 &&
						want[0] == '{' {
						errs <- body + " instead of " + want
						return
					}
				}
			}
			errs <- ""
		}()
	}
	for range clients {
		if err := <-errs; err != "" {
			t.Error(err)
		}
	}
	stop.Store(true)
	<-pressed
	if s.shed.Status().Rejected["normal"] == 0 {
		t.Error("nothing was refused")
	}
}

// pairOf returns the client's side of a connection of d that is no TCP.
func pairOf(t testing.TB, d *handDriven) (fd int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	d.s.connectionOpened()
	d.accepted(fds[1])
	return fds[0]
}

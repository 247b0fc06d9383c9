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
	d.loop.shed.slept = true // it has nothing else to do
	return d, c, conn
}

// age waits until what was sent last on a connection has waited there for longer than any threshold.
func age(t *testing.T, c *conn) {
	t.Helper()
	await(t, "what was sent to grow old",
		func() bool { return dataAge(c.fd, new(unix.TCPInfo)) >= 30*time.Millisecond })
}

func TestAClientThatDoesNotWaitIsRejectedOnceMoreAfterAPause(t *testing.T) {
	d, c, conn := pausedByTest(t)
	c.send(get("/fast/b"))
	age(t, conn)
	for range 9 {
		d.pass(time.Millisecond)
	}
	c.quiet()
	d.pass(time.Second)
	if resp, _ := c.response("GET"); resp.StatusCode != 503 {
		t.Errorf("what has waited is answered %d", resp.StatusCode)
	}
	if conn.phase != phaseReading || d.s.paused.Load() != 0 {
		t.Errorf("then it is in phase %d, %d are paused", conn.phase, d.s.paused.Load())
	}
	c.send(get("/fast/c"))
	d.turn()
	c.expect("GET", 200, "GET c ")
}

// What comes at the end of a pause has not waited.
func TestWhatComesAtTheEndOfAPauseIsAdmitted(t *testing.T) {
	d, c, conn := pausedByTest(t)
	age(t, conn)
	c.send(get("/fast/b"))
	d.pass(time.Second)
	c.expect("GET", 200, "GET b ")
	if conn.phase != phaseReading {
		t.Errorf("then it is in phase %d", conn.phase)
	}
}

// While the loop's queue is too long, what has waited for longer than the threshold is rejected, on new
// connections, too.
func TestWhatHasWaitedTooLongIsRejected(t *testing.T) {
	for _, overloaded := range []bool{false, true} {
		d := newHandDriven(t, Config{Shed: pressable()})
		old, oldConn := d.connect()
		d.turn()
		old.send(get("/fast/a"))
		age(t, oldConn)
		fresh, _ := d.connect()
		fresh.send(get("/fast/b") + get("/health"))
		events := d.events[:2]
		if n, err := unix.EpollWait(d.epoll, events, int(patient/time.Millisecond)); n != 2 || err != nil {
			t.Fatalf("%d events, %v", n, err)
		}
		if overloaded {
			d.shed.own = 1 // a probability of nothing, as draws go
		}
		d.handle(events)
		want := map[bool]int{false: 200, true: 503}[overloaded]
		if resp, _ := old.response("GET"); resp.StatusCode != want {
			t.Errorf("overloaded %t: got %d, want %d", overloaded, resp.StatusCode, want)
		}
		fresh.expect("GET", 200, "GET b ")
		if resp, _ := fresh.response("GET"); resp.StatusCode != 200 {
			t.Errorf("overloaded %t: health is answered %d", overloaded, resp.StatusCode)
		}
		if want := map[bool]phase{false: phaseReading, true: phasePaused}[overloaded]; oldConn.phase != want {
			t.Errorf("overloaded %t: it is in phase %d, want %d", overloaded, oldConn.phase, want)
		}
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
	c, next := newClient(t, nc), 0
	c.send(get("/fast/a"))
	for d.open == 0 {
		acceptAll(t, d, &next)
		d.loop.turn(nil, d.now)
	}
	c.expect("GET", 200, "GET a ") // though the loop was told of no event
}

func TestAClientThatWaitsNoticesNothing(t *testing.T) {
	d, c, conn := pausedByTest(t)
	d.pass(time.Second)
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
	d.pass(time.Second)
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
	d.loop.shed.slept = true
	d.pass(time.Second)
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

// A busy loop resumes few at a time, but everybody within the bound; one with nothing else to do resumes
// all.
func TestABusyLoopResumesAsManyAsItMayAfford(t *testing.T) {
	const n, afford = 60, 10
	for _, idle := range []bool{false, true} {
		d := newHandDriven(t, Config{Shed: pressable()})
		press(t, d.s, 1)
		clients := make([]*client, n)
		for i := range clients {
			clients[i], _ = d.connect()
			clients[i].send(get("/fast/a"))
		}
		d.turn()
		if got := d.s.paused.Load(); got != n {
			t.Fatalf("%d are paused", got)
		}
		d.shed.slept = idle
		// All pauses are over, and so long the loop has worked since it last resumed any.
		d.now = d.now.Add(time.Second)
		d.shed.resumed = int64(d.now.Add(-afford * resumeEvery).Sub(d.epoch))
		d.turn()
		resumed := n - d.s.paused.Load()
		if idle && resumed != n || !idle && resumed != afford {
			t.Errorf("idle %t: %d of %d were resumed", idle, resumed, n)
		}
		d.pass(n * resumeEvery)
		if left := d.s.paused.Load(); left > 0 {
			t.Errorf("idle %t: %d were not resumed", idle, left)
		}
	}
}

// A queue that stays too long is shortened by refusing, not at its first appearance, and what is refused
// does not come back at once.
func TestALoopRefusesWhatItCannotAnswerInTime(t *testing.T) {
	d := newHandDriven(t, Config{Shed: pressable()})
	const n, each = 400, 20 * time.Microsecond
	d.shed.age = func(int, *unix.TCPInfo) time.Duration { return 0 } // the test has a clock of its own
	type pair struct {
		*client
		*conn
	}
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i].client, pairs[i].conn = d.connect()
	}
	refusals := func() uint64 {
		d.loop.publishStats()
		return d.s.shed.Status().Rejected["normal"]
	}
	ready := 0
	for round := range 200 {
		ready = 0
		for _, p := range pairs {
			if p.phase == phaseReading {
				p.send(get("/fast/a"))
				ready++
			}
		}
		d.now = d.now.Add(time.Duration(ready) * each) // so long the round before took
		d.turn()
		for _, p := range pairs {
			if p.client.r.Buffered() > 0 || p.phase == phasePaused {
				p.client.r.Discard(p.client.r.Buffered()) //nolint:errcheck // it is there
			}
		}
		if round == 10 && refusals() > 0 {
			t.Error("refused in the first moment")
		}
	}
	if refusals() == 0 || ready > 370 || ready < shed.FreeQueue*3/4 {
		t.Errorf("%d refused; %d of %d are still served in a turn, which takes them %v", refusals(), ready, n,
			time.Duration(ready)*each)
	}
	if d.loop.shed.shared.waited.Load() == 0 {
		t.Error("the delay is not told")
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

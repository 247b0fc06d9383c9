package server

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/shed"
)

// deafened returns a loop under full pressure and a connection whose request has been refused, after which the pressure is
// gone.
func deafened(t *testing.T) (*handDriven, *client, *conn) {
	t.Helper()
	d := newHandDriven(t, Config{Shed: pressable()})
	press(t, d.s, 1)
	c, conn := d.connect()
	c.send(get("/fast/a"))
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 503 {
		t.Fatalf("got %d, want 503", resp.StatusCode)
	}
	if conn.phase != phaseDeaf || d.s.deaf.Load() != 1 {
		t.Fatalf("after a refusal the connection is in phase %d, %d are deaf", conn.phase, d.s.deaf.Load())
	}
	press(t, d.s, 0)
	d.loop.shed.slept = true // it has nothing else to do
	return d, c, conn
}

func TestAClientThatDoesNotWaitIsNotHeardForAWhileAndRefusedOnceMore(t *testing.T) {
	d, c, conn := deafened(t)
	c.send(get("/fast/b"))
	for range 9 {
		d.pass(time.Millisecond)
	}
	c.quiet()
	d.pass(time.Second)
	if resp, _ := c.response("GET"); resp.StatusCode != 503 {
		t.Errorf("what was said to a deaf ear is answered %d", resp.StatusCode)
	}
	if conn.phase != phaseReading || d.s.deaf.Load() != 0 {
		t.Errorf("then it is in phase %d, %d are deaf", conn.phase, d.s.deaf.Load())
	}
	c.send(get("/fast/c"))
	d.turn()
	c.expect("GET", 200, "GET c ")
}

func TestAClientThatWaitsNoticesNothing(t *testing.T) {
	d, c, conn := deafened(t)
	d.pass(time.Second)
	c.quiet()
	if conn.phase != phaseReading || conn.timed.queue != &d.idle {
		t.Errorf("it is in phase %d and not idle", conn.phase)
	}
	c.send(get("/fast/b"))
	d.turn()
	c.expect("GET", 200, "GET b ")
}

func TestHealthIsAnsweredOnADeafConnectionInTheEnd(t *testing.T) {
	d, c, _ := deafened(t)
	press(t, d.s, 1)
	c.send(get("/health"))
	d.turn()
	c.quiet()
	d.pass(time.Second)
	c.expect("GET", 200, `{"status":"ready","services":{"echo":{"status":"ready"}}}`)
}

func TestAPipelineIsAnsweredBeforeItsConnectionIsDeaf(t *testing.T) {
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
	if conn.phase != phaseDeaf {
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

func TestADeafConnectionThatBreaksIsClosed(t *testing.T) {
	d, c, conn := deafened(t)
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for conn.fd >= 0 {
		d.turn()
	}
	if n := d.s.deaf.Load(); n != 0 || d.shed.deaf.head != nil {
		t.Errorf("%d are deaf", n)
	}
}

func TestAStopHearsTheDeaf(t *testing.T) {
	d, c, conn := deafened(t)
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
	if n := d.s.deaf.Load(); n != 0 {
		t.Errorf("%d are deaf", n)
	}
}

// What is to be answered elsewhere waits until the answers before it are sent, and is parsed again then.
func TestARequestThatWaitsForItsClientToReadIsCountedOnce(t *testing.T) {
	for path, class := range map[string]string{"/deferred/a": "normal", "/lent/a": "normal", "/either/a?lend": "normal", "/low/found": "low"} {
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
			if conn.phase != phaseLent && conn.phase != phaseOffloaded {
				t.Fatalf("it is in phase %d", conn.phase)
			}
			d.loop.makeKnown()
			want := map[string]uint64{"normal": 1, "low": 0, "critical": 0} // the one before it
			want[class]++
			if st := d.s.shed.Status(); !maps.Equal(st.Admitted, want) || st.Refused["normal"]+st.Refused["low"] != 0 {
				t.Errorf("%v are admitted, %v refused; want %v and none", st.Admitted, st.Refused, want)
			}
		})
	}
}

func TestWithoutDeafnessARefusedConnectionIsReadOn(t *testing.T) {
	cfg := pressable()
	cfg.Deaf = 0
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

// A busy loop hears few at a time, but everybody within the bound; one with nothing else to do hears all.
func TestABusyLoopHearsFewOfTheDeaf(t *testing.T) {
	for _, idle := range []bool{false, true} {
		d := newHandDriven(t, Config{Shed: pressable()})
		press(t, d.s, 1)
		const n = 60
		clients := make([]*client, n)
		for i := range clients {
			clients[i], _ = d.connect()
			clients[i].send(get("/fast/a"))
		}
		d.turn()
		if got := d.s.deaf.Load(); got != n {
			t.Fatalf("%d are deaf", got)
		}
		d.loop.shed.slept = idle
		d.pass(time.Second) // of the four that --shed-deaf is
		heard := n - d.s.deaf.Load()
		if idle && heard != n || !idle && (heard < n/5 || heard > n/3) {
			t.Errorf("idle %t: %d of %d were heard", idle, heard, n)
		}
		for range 40 {
			d.pass(100 * time.Millisecond)
		}
		if left := d.s.deaf.Load(); left > 0 {
			t.Errorf("idle %t: %d were not heard in 5 s", idle, left)
		}
	}
}

// A queue that stays too long is shortened by refusing, not at its first appearance, and what is refused does not come back
// at once.
func TestALoopRefusesWhatItCannotAnswerInTime(t *testing.T) {
	d := newHandDriven(t, Config{Shed: pressable()})
	const n, each = 400, 20 * time.Microsecond
	type pair struct {
		*client
		*conn
	}
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i].client, pairs[i].conn = d.connect()
	}
	refusals := func() uint64 {
		d.loop.makeKnown()
		return d.s.shed.Status().Refused["normal"]
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
			if p.client.r.Buffered() > 0 || p.phase == phaseDeaf {
				p.client.r.Discard(p.client.r.Buffered()) //nolint:errcheck // it is there
			}
		}
		if round == 10 && refusals() > 0 {
			t.Error("refused in the first moment")
		}
	}
	if refusals() == 0 || ready > 330 || ready < shed.FreeQueue*3/4 {
		t.Errorf("%d refused; %d of %d are still served in a turn, which takes them %v", refusals(), ready, n, time.Duration(ready)*each)
	}
	if d.loop.shed.shared.waited.Load() == 0 {
		t.Error("the delay is not told")
	}
}

func TestNewConnectionsAreAcceptedAtAPaceUnderPressure(t *testing.T) {
	d := newHandDriven(t, Config{Shed: pressable()})
	var p pace
	wait := func(n int) (longest time.Duration) {
		for range n {
			longest = max(longest, d.lane.pause(&p))
		}
		return longest
	}
	if w := wait(1000); w != 0 {
		t.Errorf("without pressure one waits %v", w)
	}
	press(t, d.s, 1)
	d.rests()
	p = pace{}
	if w := wait(acceptAtOnce - 1); w != 0 {
		t.Errorf("the first ones wait %v", w)
	}
	if w := wait(10 * acceptAtOnce); w < acceptPause/2 || w > 2*acceptPause {
		t.Errorf("more of them wait %v", w)
	}
	p = pace{since: p.since.Add(-time.Second)}
	if w := wait(acceptAtOnce); w != 0 {
		t.Errorf("those that come slowly wait %v", w)
	}
}

// Requests that others work on are in flight, and back to none when they are answered.
func TestWhatIsInFlightIsKnown(t *testing.T) {
	e, release := blocked(t)
	s := start(t, Config{Workers: 1, WorkerQueue: 1, Shed: pressable()}, e)
	var all []*client
	for i, path := range []string{"/deferred/a", "/deferred/b", "/lent/c", "/lent/d"} {
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
		await(t, fmt.Sprintf("%d to be in flight when %s", want, when), func() bool { return s.inFlight() == want })
	}
	inFlight(4, "all are away")
	full := dial(t, s)
	full.send(get("/deferred/one-too-many"))
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

// Under changing pressure, with clients that never wait, every request has its answer, in order, on its connection.
func TestRefusalsMixNothingUp(t *testing.T) {
	cfg := pressable()
	cfg.Deaf = 20 * time.Millisecond
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
				c.send(get("/fast/"+word) + get("/deferred/"+word) + get("/lent/"+word) + get("/health"))
				for _, want := range []string{"GET " + word, "GET " + word, word, `{"status":"ready"`} {
					resp, body := c.response("GET")
					if resp.StatusCode != 503 && !strings.Contains(body, want) || resp.StatusCode == 503 && want[0] == '{' {
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
	if s.shed.Status().Refused["normal"] == 0 {
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

package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// putsOff has routes that are put off besides those of echo.
type putsOff struct{ echo }

func (p *putsOff) Routes() []Route {
	return append(p.echo.Routes(),
		Route{Pattern: "GET /later/{word}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return WhenIdle
			}
			if string(r.Param(0)) == "long" {
				time.Sleep(2 * idleAtOnce)
			}
			w.Body = append(append(w.Body, "later "...), r.Param(0)...)
			return Done
		}},
		Route{Pattern: "GET /later-handed/{word}", Stream: http.HandlerFunc(p.echo.handed),
			Handler: func(_ *Response, r *Request) Outcome {
				if r.Inline() {
					return WhenIdle
				}
				return NetHTTP
			}},
	)
}

// addLater adds these routes to a server that does not run.
func addLater(s *Server) {
	for _, r := range (&putsOff{}).Routes()[len((&echo{}).Routes()):] {
		s.Handle(r)
	}
}

func TestALoopRunsWhatWasPutOffAfterWhatIsReady(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 1})
	addLater(d.s)
	c1, _ := d.connect()
	c2, _ := d.connect()
	c3, _ := d.connect()
	c1.send(get("/later/a"))
	d.turn()
	c1.expect("GET", 200, "later a")
	// Each turn answers what is ready, and then one at least of what was put off.
	c1.send(get("/later/long") + get("/fast/b") + get("/later/long"))
	c2.send(get("/later/long"))
	c3.send(get("/fast/c"))
	d.turn()
	c3.expect("GET", 200, "GET c ")
	c1.expect("GET", 200, "later long")
	c1.expect("GET", 200, "GET b ")
	c2.quiet()
	c3.send(get("/fast/d"))
	d.turn()
	c3.expect("GET", 200, "GET d ")
	c2.expect("GET", 200, "later long")
	c1.quiet()
	d.turn()
	c1.expect("GET", 200, "later long")
	if n := d.turn(); n != 0 || len(d.whenIdle) != 0 || len(d.s.fast.jobs[0]) != 0 {
		t.Errorf("%d events, %d requests put off and %d for workers are left", n, len(d.whenIdle),
			len(d.s.fast.jobs[0]))
	}
	if n := d.s.detached.Load(); n != 0 {
		t.Errorf("%d requests are counted as being elsewhere", n)
	}
}

func TestWithProcessorsToSpareAWorkerRunsWhatWasPutOff(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 2})
	addLater(d.s)
	c, conn := d.connect()
	c.send(get("/later/a"))
	d.turn()
	if len(d.whenIdle) != 0 || len(d.s.fast.jobs[0]) != 1 || conn.phase != phaseOffloaded {
		t.Errorf("%d requests are put off, %d wait for a worker; want 0 and 1", len(d.whenIdle),
			len(d.s.fast.jobs[0]))
	}
}

// A client may go before its request is run.
func TestAClientMayGoBeforeWhatWasPutOffIsRun(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 1})
	addLater(d.s)
	c1, _ := d.connect()
	c2, conn := d.connect()
	c1.send(get("/later/long"))
	d.turn()
	c1.expect("GET", 200, "later long")
	c1.send(get("/later/long"))
	c2.send(get("/later/a"))
	d.turn()
	if len(d.whenIdle) != 1 {
		t.Fatalf("%d requests are put off", len(d.whenIdle))
	}
	last := d.whenIdle[0]
	other := c1
	if last == conn {
		other = c2
	}
	other.SetLinger(0)
	other.Close()
	d.turn()
	d.turn()
	if last.fd >= 0 || len(d.whenIdle) != 0 {
		t.Errorf("descriptor %d, %d requests put off", last.fd, len(d.whenIdle))
	}
}

// What is put off beyond the queue's bound is a worker's, and beyond that is refused.
func TestWhatIsPutOffIsBounded(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 1, WorkerQueue: 1})
	addLater(d.s)
	c1, _ := d.connect()
	c2, _ := d.connect()
	c3, _ := d.connect()
	for _, c := range []*client{c1, c2, c3} {
		c.send(get("/later/a"))
	}
	n, err := unix.EpollWait(d.epoll, d.events[:], 1000)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	d.handle(d.events[:n])
	if len(d.whenIdle) != 1 || len(d.s.fast.jobs[0]) != 1 {
		t.Errorf("%d requests are put off, %d wait for a worker; want one of each", len(d.whenIdle),
			len(d.s.fast.jobs[0]))
	}
	refused := d.s.refused.Value()
	if refused != 1 {
		t.Errorf("%d requests are refused, want 1", refused)
	}
}

// A loop neither sleeps nor waits while there is something to be done later, and hands-off what is to be
// handed.
func TestALoopGoesOnWithWhatWasPutOff(t *testing.T) {
	s := start(t, Config{Loops: 1, Processors: 1}, &putsOff{})
	var all []*client
	const clients, each = 8, 20
	for range clients {
		all = append(all, dial(t, s))
	}
	for _, c := range all {
		c.send(strings.Repeat(get("/later/long")+get("/fast/x"), each))
	}
	for range each {
		for _, c := range all {
			c.expect("GET", 200, "later long")
			c.expect("GET", 200, "GET x ")
		}
	}
	all[0].send(get("/later-handed/a"))
	all[0].expect("GET", 200, "GET handed a  ")
}

// Several of what was put off are run in a turn, for as long as the loop may, and no more of them.
func TestALoopRunsAsMuchOfWhatWasPutOffAsItHasTimeFor(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 1})
	const inTime = 3 // the third begins within the time, and ends after it
	d.s.Handle(Route{Pattern: "GET /third", Handler: func(_ *Response, r *Request) Outcome {
		if r.Inline() {
			return WhenIdle
		}
		for began := time.Now(); time.Since(began) < idleAtOnce*11/30; {
		}
		return Done
	}})
	clients := make([]*client, 3*inTime)
	for i := range clients {
		clients[i], _ = d.connect()
	}
	most := 0
	for range 100 { // what takes part of the time by itself, or interrupts, is not always there
		for _, c := range clients {
			c.send(get("/third"))
		}
		for left := len(clients); left > 0; {
			d.turn()
			ran := left - len(d.whenIdle)
			left = len(d.whenIdle)
			if ran < 1 || ran > inTime {
				t.Fatalf("%d were run in a turn, want 1 to %d", ran, inTime)
			}
			most = max(most, ran)
		}
		for _, c := range clients {
			c.expect("GET", 200, "")
		}
	}
	if most < 2 {
		t.Error("never more than one was run in a turn")
	}
}

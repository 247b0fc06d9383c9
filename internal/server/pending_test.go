package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// pends is a service whose routes are completed by the test.
type pends struct {
	echo
	begun chan *Completion
}

func newPends() *pends { return &pends{begun: make(chan *Completion, 100)} }

func (p *pends) Routes() []Route {
	return append(p.echo.Routes(),
		Route{Pattern: "GET /pending/{word}", Handler: func(w *Response, r *Request) Outcome {
			w.Body = append(w.Body, "not to be seen"...)
			p.begun <- r.Pend()
			return Pending
		}},
		Route{Pattern: "GET /pending-worker", Handler: func(_ *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			p.begun <- r.Pend()
			return Pending
		}},
		Route{Pattern: "GET /completed-at-once", Handler: func(_ *Response, r *Request) Outcome {
			c := r.Pend()
			c.Complete(say("at once"))
			c.Complete(say("twice"))
			return Pending
		}},
		Route{Pattern: "GET /pended/{how}", Handler: func(w *Response, r *Request) Outcome {
			c := r.Pend()
			p.begun <- c
			switch string(r.Param(0)) {
			case "and-answered":
				w.Body = append(w.Body, "done"...)
				return Done
			case "and-panicked":
				panic("on purpose")
			}
			c.Go(func(context.Context, *Response) { panic("on purpose") })
			return Pending
		}},
	)
}

// say completes a request with a text.
func say(text string) func(*Response) {
	return func(w *Response) { w.Body = append(w.Body, text...) }
}

func TestAPendingRequestIsCompletedFromAnyGoroutine(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		p := newPends()
		s := start(t, cfg, p)
		c := dial(t, s)
		// Pipelined, with what comes before and after in their order.
		c.send(get("/fast/a") + get("/pending/b") + get("/fast/c") + get("/pending-worker") +
			head_("/pending/d") + get("/completed-at-once"))
		c.expect("GET", 200, "GET a ")
		for _, one := range []struct{ method, body string }{{"GET", "b"}, {"GET", "worker"}, {"HEAD", "d"}} {
			by := <-p.begun
			if by.Context().Err() != nil {
				t.Fatal("the context has ended while the client waits")
			}
			by.Complete(func(w *Response) {
				w.Field("X-By", "completion")
				w.Body = append(w.Body, one.body...)
			})
			by.Complete(say("twice"))
			want := one.body
			if one.method == "HEAD" {
				want = ""
			}
			if resp := c.expect(one.method, 200, want); resp.Header.Get("X-By") != "completion" ||
				resp.ContentLength != int64(len(one.body)) {
				t.Errorf("got %v of %d bytes", resp.Header, resp.ContentLength)
			}
			if by.Context().Err() == nil {
				t.Error("the context goes on after the request was completed")
			}
			if one.body == "b" {
				c.expect("GET", 200, "GET c ")
			}
		}
		c.expect("GET", 200, "at once")
		await(t, "them to be counted", func() bool {
			route, _ := s.routes.find("GET", []byte("/pending/b"), new([maxParams][]byte))
			return s.counter(route, 200).Value() == 2 && s.inFlight() == 0
		})
	})
}

func TestAClientThatGoesEndsTheContextOfItsPendingRequest(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		p := newPends()
		s := start(t, cfg, p)
		c, other := dial(t, s), dial(t, s)
		c.send(get("/pending/a"))
		by := <-p.begun
		c.SetLinger(0)
		c.Close()
		<-by.Context().Done()
		by.Complete(say("nobody reads this"))
		other.send(get("/fast/b"))
		other.expect("GET", 200, "GET b ")
		await(t, "the connection to be gone",
			func() bool { return s.connections.Load() == 1 && s.inFlight() == 0 })
	})
}

func TestWhatAHandlerPendedAndDidNotLeavePendingIsAbandoned(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		p := newPends()
		s := start(t, cfg, p)
		c := dial(t, s)
		for path, status := range map[string]int{"/pended/and-answered": 200, "/pended/and-panicked": 500,
			"/pended/and-panics-later": 500} {
			c.send(get(path))
			if resp, body := c.response("GET"); resp.StatusCode != status || strings.Contains(body, "late") {
				t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, body, status)
			}
			by := <-p.begun
			<-by.Context().Done()
			by.Complete(say("too late"))
		}
		c.passed()
		if n := s.panics.Value(); n != 2 {
			t.Errorf("%d panics counted, want 2", n)
		}
	})
}

// Nobody completes what is pending at the end: it is given up when the time for stopping is over.
func TestAStopWaitsForPendingRequestsAndThenGivesThemUp(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.ShutdownTimeout = 300 * time.Millisecond
		p := newPends()
		s, stop := launch(t, cfg, p)
		c, other := dial(t, s), dial(t, s)
		c.send(get("/pending/a"))
		kept := <-p.begun
		other.send(get("/pending/b"))
		left := <-p.begun
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		await(t, "the listener to be closed", func() bool {
			conn, err := net.Dial("tcp", s.Addr().String())
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		kept.Complete(say("in time"))
		if resp := c.expect("GET", 200, "in time"); !resp.Close {
			t.Error("the answer does not say that the connection ends")
		}
		<-left.Context().Done()
		if err := <-stopped; err == nil {
			t.Error("the stop is said to be orderly")
		}
		left.Complete(say("too late"))
	})
}

// A request's answers before it may not be taken yet: it is pending all the same, and not begun again.
func TestAPendingRequestBehindAnswersThatAreNotTaken(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		const size = 20 << 20
		cfg.MaxOutput = 2 * size // or it would not be begun yet
		p := newPends()
		s := start(t, cfg, p)
		c := dial(t, s)
		c.send(get(fmt.Sprint("/big/", size)) + get("/pending/a") + get("/fast/b"))
		if cfg.NetHTTP { // which begins it when the answer before is taken
			c.expect("GET", 200, strings.Repeat("x", size))
		}
		by := <-p.begun
		by.Complete(say("pending"))
		if !cfg.NetHTTP {
			c.expect("GET", 200, strings.Repeat("x", size))
		}
		c.expect("GET", 200, "pending")
		c.expect("GET", 200, "GET b ")
		if len(p.begun) > 0 {
			t.Error("the request was begun twice")
		}
	})
}

// Clients go, requests are completed and connections are used again, all at once.
func TestCompletionsRaceWithClientsThatGo(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{},
			routes{{Pattern: "GET /race/{word}", Handler: func(_ *Response, r *Request) Outcome {
				word := string(r.Param(0))
				by := r.Pend()
				for range 2 {
					go by.Complete(say(word))
				}
				return Pending
			}}})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 50 {
					c := dial(t, s)
					word := fmt.Sprint(i, "-", k)
					c.send(get("/race/"+word) + get("/race/"+word))
					if k%3 > 0 { // else it goes at once
						c.expect("GET", 200, word)
					}
					if k%3 > 1 {
						c.expect("GET", 200, word)
					}
					c.Close()
				}
			})
		}
		wg.Wait()
		await(t, "all to be over", func() bool { return s.connections.Load() == 0 && s.inFlight() == 0 })
	})
}

func TestARequestThatIsOfClassLowAfterAllMayBeRejected(t *testing.T) {
	for name, cfg := range map[string]Config{"loops": {}, "net-http": {NetHTTP: true}} {
		t.Run(name, func(t *testing.T) {
			s := startPressable(t, cfg,
				routes{{Pattern: "GET /found-low", Handler: func(_ *Response, r *Request) Outcome {
					if !r.Admit(Low) {
						return Done
					}
					r.Pend().Go(func(_ context.Context, w *Response) { say("admitted")(w) })
					return Pending
				}}})
			c := dial(t, s)
			c.send(get("/found-low"))
			c.expect("GET", 200, "admitted")
			pressCalm(t, s, 0.5)
			c = dial(t, s)
			c.send(get("/found-low"))
			if resp, _ := c.response("GET"); resp.StatusCode != http.StatusServiceUnavailable ||
				resp.Header.Get("Retry-After") == "" {
				t.Errorf("got %d, want a rejection", resp.StatusCode)
			}
		})
	}
}

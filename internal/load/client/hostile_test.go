package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// peer is a hand-written server: serve has a connection to itself, the n-th from 0, until it returns.
type peer struct {
	target Target
	ln     net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	all    sync.WaitGroup
}

func listen(t *testing.T, serve func(c *net.TCPConn, n int)) *peer {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, serve)
}

// listenApart is listen for a peer that ends before its test does: nobody else is given ports of its
// address, so that what asks there is refused, and it may come back.
func listenApart(t *testing.T, serve func(c *net.TCPConn, n int)) *peer {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Skipf("this system has one loopback address only: %v", err)
	}
	return serveOn(t, ln, serve)
}

func serveOn(t *testing.T, ln net.Listener, serve func(c *net.TCPConn, n int)) *peer {
	t.Helper()
	p := &peer{ln: ln, target: Target{URL: "http://" + ln.Addr().String(), Host: "target",
		Addr: netip.MustParseAddrPort(ln.Addr().String())}}
	p.all.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn), n)
			})
		}
	})
	t.Cleanup(p.end)
	return p
}

// end closes the listener and all connections.
func (p *peer) end() {
	p.ln.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// request reads one, and returns false at the end of the connection.
func request(r *bufio.Reader) bool {
	q, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, q.Body)
	return err == nil
}

// answering serves every request with the same bytes.
func answering(text string) func(c *net.TCPConn, n int) {
	return func(c *net.TCPConn, _ int) {
		for r := bufio.NewReader(c); request(r); {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// closedLoop makes requests on two connections until enough says so.
func closedLoop(t *testing.T, o Options, p *peer, source func(int, int) Source,
	enough func(w *measure.Window) bool) *measure.Window {
	t.Helper()
	o.Targets, o.Closed, o.Connections, o.Threads = []Target{p.target}, true, 2, 1
	e := start(t, o, source)
	if err := e.SetConnections(2); err != nil {
		t.Fatal(err)
	}
	w := measure.NewWindow()
	await(t, e, w, enough)
	finish(t, e, w)
	return w
}

func requests(n uint64) func(w *measure.Window) bool {
	return func(w *measure.Window) bool { return w.Done() >= n }
}

func TestAnswersCount(t *testing.T) {
	longChunks := strings.Repeat("4000\r\n"+strings.Repeat("x", 0x4000)+"\r\n", 40) + "0\r\nX-Sum: 1\r\n\r\n"
	for name, test := range map[string]struct {
		answer, request string
		count           func(w *measure.Window) uint64
	}{
		"404": {answer: "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
			count: failed(measure.Status)},
		"500": {answer: "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
			count: failed(measure.Status)},
		"503 is shed": {answer: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
			count: func(w *measure.Window) uint64 { return w.Shed }},
		"302": {answer: "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"},
		"304": {answer: "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"},
		"204": {answer: "HTTP/1.1 204 No Content\r\n\r\n"},
		"HEAD": {answer: "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
			request: "HEAD / HTTP/1.1\r\nHost: target\r\n\r\n"},
		"interim answers": {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" +
			okAnswer},
		"chunks": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" +
			"0\r\n\r\n"},
		"long": {answer: "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" +
			strings.Repeat("x", 3_000_000)},
		"as long as read": {answer: longAnswer(16 << 10)},
		"long chunks":     {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + longChunks},
		"POST": {answer: okAnswer,
			request: "POST / HTTP/1.1\r\nHost: target\r\nContent-Length: 100000\r\n\r\n" +
				strings.Repeat("y", 100_000)},
		"garbage":         {answer: "I am not a web server\r\n\r\n", count: failed(measure.Malformed)},
		"half a protocol": {answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\nx", count: failed(measure.Malformed)},
		"bad chunks": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
			count: failed(measure.Malformed)},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, o Options) {
				wire, count := test.request, test.count
				if wire == "" {
					wire = getRequest
				}
				if count == nil {
					count = func(w *measure.Window) uint64 { return w.Served }
				}
				p := listen(t, answering(test.answer))
				w := closedLoop(t, o, p, func(int, int) Source { return fixed{wire: wire} }, requests(20))
				if count(w) != w.Done() {
					t.Errorf("of %d requests, served %d, shed %d, failed %v", w.Done(), w.Served, w.Shed,
						w.Failed)
				}
				if !o.netHTTP && w.In < w.Done()*uint64(len(test.answer)) &&
					w.Failed[measure.Malformed] == 0 {
					t.Errorf("%d bytes in for %d answers of %d", w.In, w.Done(), len(test.answer))
				}
				if w.Out < w.Sent*uint64(len(wire)) && w.Failed[measure.Malformed] == 0 && !o.netHTTP {
					t.Errorf("%d bytes out for %d requests of %d", w.Out, w.Sent, len(wire))
				}
			})
		})
	}
}

// longAnswer is an answer of so many bytes.
func longAnswer(size int) string {
	head := "HTTP/1.1 200 OK\r\nContent-Length: "
	for digits := 1; ; digits++ {
		if body := fmt.Sprint(size - len(head) - digits - 4); len(body) == digits {
			return head + body + "\r\n\r\n" + strings.Repeat("x", size-len(head)-digits-4)
		}
	}
}

func failed(why measure.Failure) func(w *measure.Window) uint64 {
	return func(w *measure.Window) uint64 { return w.Failed[why] }
}

func TestAnAnswerInPiecesOfAByteCounts(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		p := listen(t, func(c *net.TCPConn, _ int) {
			for r := bufio.NewReader(c); request(r); {
				for _, b := range []byte(answers[3].text) { // with a trailer
					c.Write([]byte{b})
				}
			}
		})
		if w := closedLoop(t, o, p, get, requests(20)); w.Served != w.Done() {
			t.Errorf("served %d of %d, failed %v", w.Served, w.Done(), w.Failed)
		}
	})
}

// What follows an answer unasked cannot belong to any request.
func TestBytesAfterAnAnswerSpoilItsConnection(t *testing.T) {
	if !hasLoops {
		t.Skip("net/http has its own way with them")
	}
	for name, answer := range map[string]string{
		"together": okAnswer, "after a read": longAnswer(16 << 10), "after a long one": longAnswer(1 << 20),
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, answering(answer+"x"))
			if w := closedLoop(t, Options{}, p, get, requests(20)); w.Failed[measure.Malformed] != w.Done() {
				t.Errorf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
			}
		})
	}
	t.Run("alone", func(t *testing.T) {
		var conns atomic.Int64
		p := listen(t, func(c *net.TCPConn, n int) {
			conns.Add(1)
			if n == 0 {
				io.WriteString(c, "HTTP/1.1 408 Too late\r\nContent-Length: 0\r\n\r\n")
			}
			answering(okAnswer)(c, n)
		})
		e := start(t, Options{Targets: []Target{p.target}, Warm: 1}, get)
		w := measure.NewWindow()
		await(t, e, w, func(w *measure.Window) bool { return w.Connections == 0 })
		if err := e.SetRate(1000); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, requests(3))
		finish(t, e, w)
		if w.Served != w.Done() || conns.Load() < 2 {
			t.Errorf("served %d of %d on %d connections, failed %v", w.Served, w.Done(), conns.Load(),
				w.Failed)
		}
	})
}

func TestConnectionsThatSayCloseAreReplaced(t *testing.T) {
	for name, answer := range map[string]string{
		"close":      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":   "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"to the end": "HTTP/1.1 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, o Options) {
				var conns atomic.Uint64
				p := listen(t, func(c *net.TCPConn, _ int) {
					if request(bufio.NewReader(c)) {
						conns.Add(1)
						io.WriteString(c, answer)
					}
				})
				w := closedLoop(t, o, p, get, requests(30))
				if w.Served != w.Done() || conns.Load() != w.Done() {
					t.Errorf("served %d of %d on %d connections, failed %v", w.Served, w.Done(), conns.Load(),
						w.Failed)
				}
			})
		})
	}
}

func TestCutAnswersCount(t *testing.T) {
	for name, cut := range map[string]func(c *net.TCPConn){
		"in the head": func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nConte") },
		"in the body": func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
		},
		"in the chunks": func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc")
		},
		"reset": func(c *net.TCPConn) { c.SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, o Options) {
				p := listen(t, func(c *net.TCPConn, n int) {
					if request(bufio.NewReader(c)) {
						cut(c)
					}
				})
				w := closedLoop(t, o, p, get, requests(6))
				lost := w.Failed[measure.Cut]
				if o.netHTTP {
					lost += w.Failed[measure.Malformed] // what is cut within a header is that to net/http
				}
				if lost != w.Done() {
					t.Errorf("of %d requests, served %d, failed %v", w.Done(), w.Served, w.Failed)
				}
			})
		})
	}
}

// A server may close an idle connection just as a request is on its way to it.
func TestARequestThatMetAClosingConnectionIsSentAgain(t *testing.T) {
	if !hasLoops {
		t.Skip("net/http has its own rules")
	}
	// Each connection answers one request and leaves the second without a byte.
	serve := func(seen *atomic.Uint64) func(c *net.TCPConn, n int) {
		return func(c *net.TCPConn, _ int) {
			r := bufio.NewReader(c)
			if request(r) {
				seen.Add(1)
				io.WriteString(c, okAnswer)
				if request(r) {
					seen.Add(1)
				}
			}
		}
	}
	t.Run("GET", func(t *testing.T) {
		var seen atomic.Uint64
		w := closedLoop(t, Options{}, listen(t, serve(&seen)), get, requests(20))
		if w.Served != w.Done() {
			t.Errorf("served %d of %d, failed %v", w.Served, w.Done(), w.Failed)
		}
		if n := seen.Load(); n <= w.Done() || n > 2*w.Done() {
			t.Errorf("the server saw %d requests for %d", n, w.Done())
		}
	})
	t.Run("POST", func(t *testing.T) {
		var seen atomic.Uint64
		post := func(int, int) Source {
			return fixed{wire: "POST / HTTP/1.1\r\nHost: target\r\nContent-Length: 1\r\n\r\nx"}
		}
		w := closedLoop(t, Options{}, listen(t, serve(&seen)), post, requests(20))
		if w.Failed[measure.Cut] == 0 || w.Failed[measure.Cut]+w.Served != w.Done() {
			t.Errorf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
		}
		if seen.Load() > w.Done() {
			t.Errorf("the server saw %d requests for %d: some came twice", seen.Load(), w.Done())
		}
	})
	t.Run("once", func(t *testing.T) {
		var seen atomic.Uint64
		p := listen(t, func(c *net.TCPConn, _ int) {
			if request(bufio.NewReader(c)) {
				seen.Add(1)
			}
		})
		w := closedLoop(t, Options{}, p, get, requests(6))
		if w.Failed[measure.Cut] != w.Done() {
			t.Errorf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
		}
		// Two connections had been idle, since the start; the others were made for their request.
		if seen.Load() > w.Done()+2 {
			t.Errorf("the server saw %d requests for %d", seen.Load(), w.Done())
		}
	})
}

func TestRequestsThatAreNotAnsweredTimeOut(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		o.Timeout = 60 * time.Millisecond
		p := listen(t, func(c *net.TCPConn, _ int) {
			io.WriteString(c, "") // nothing, for ever
			io.Copy(io.Discard, c)
		})
		w := closedLoop(t, o, p, get, requests(6))
		if w.Failed[measure.TimedOut] != w.Done() {
			t.Fatalf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
		}
		if n := w.Latency.TotalCount(); n != int64(w.Done()) ||
			time.Duration(w.Latency.ValueAtQuantile(0)) < o.Timeout*99/100 {
			t.Errorf("%d latencies from %v on, want %d from %v on", n,
				time.Duration(w.Latency.ValueAtQuantile(0)), w.Done(), o.Timeout)
		}
	})
}

// An answer may come before the request is sent whole; the rest of it is nobody's then.
func TestAnAnswerBeforeTheEndOfItsRequestCounts(t *testing.T) {
	long := "POST / HTTP/1.1\r\nHost: target\r\nContent-Length: 20000000\r\n\r\n" +
		strings.Repeat("x", 20_000_000)
	over := make(chan struct{})
	p := listen(t, func(c *net.TCPConn, _ int) {
		buf := make([]byte, 1000)
		if _, err := c.Read(buf); err == nil {
			io.WriteString(c, "HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n")
			<-over // and reads no more of it
		}
	})
	defer close(over)
	w := closedLoop(t, Options{}, p, func(int, int) Source { return fixed{wire: long} }, requests(4))
	if w.Failed[measure.Status] != w.Done() {
		t.Errorf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
	}
}

func TestADeadTargetIsAskedEverMoreRarely(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		p := listenApart(t, answering(okAnswer))
		o.Targets, o.Closed, o.Connections, o.Threads = []Target{p.target}, true, 10, 1
		e := start(t, o, get)
		w := measure.NewWindow()
		if err := e.SetConnections(10); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, requests(100))
		p.end()
		await(t, e, w, func(w *measure.Window) bool { return w.Failed[measure.Refused] >= 50 })
		w.Reset()
		began := time.Now()
		await(t, e, w, func(w *measure.Window) bool { return w.Failed[measure.Refused] >= 50 })
		// Each of ten came as often as its pauses allow, were they all the shortest that a second failure
		// has.
		if most := 10 * (2 + uint64(time.Since(began)/time.Duration(pause(2)))); w.Intended > most {
			t.Errorf("%d requests in %v, want %d at most", w.Intended, time.Since(began), most)
		}
		ln, err := net.Listen("tcp4", p.target.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		serveOn(t, ln, answering(okAnswer))
		w.Reset()
		await(t, e, w, func(w *measure.Window) bool { return w.Served >= 100 && w.InFlight == 10 })
	})
}

func TestPausesDoubleUpToALimit(t *testing.T) {
	for n, want := range map[int]int64{1: firstPause, 2: 2 * firstPause, 3: 4 * firstPause, 20: longestPause,
		1000: longestPause} {
		if got := pause(n); got != want {
			t.Errorf("after %d failures %d ns, want %d", n, got, want)
		}
	}
}

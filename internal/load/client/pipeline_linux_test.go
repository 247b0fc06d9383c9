package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"weir/internal/load/measure"
)

// answerBatches reads size requests before it answers them all at once, in pieces of so many bytes.
func answerBatches(size, piece int, answer string) func(*net.TCPConn, int) {
	return func(c *net.TCPConn, _ int) {
		r := bufio.NewReader(c)
		for {
			for range size {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
			}
			text := strings.Repeat(answer, size)
			for len(text) > 0 {
				n := min(piece, len(text))
				if _, err := io.WriteString(c, text[:n]); err != nil {
					return
				}
				text = text[n:]
			}
		}
	}
}

// The target answers a batch only when it has all of it, so anything but a pipeline of that depth would
// stand still.
func TestAPipelineSendsItsRequestsAtOnceAndTakesTheAnswersInAnyPieces(t *testing.T) {
	short := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	long := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 30<<10,
		strings.Repeat("x", 30<<10))
	for name, serve := range map[string]func(*net.TCPConn, int){
		"whole":        answerBatches(8, 1<<20, short),
		"byte by byte": answerBatches(8, 1, short),
		"long bodies":  answerBatches(8, 7001, long),
		"chunked": answerBatches(8, 5,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Targets: []Target{listen(t, serve).target}, Closed: true, Connections: 3,
				Pipeline: 8, Threads: 1}
			e := start(t, o, get)
			w := measure.NewWindow()
			if err := e.SetConnections(3); err != nil {
				t.Fatal(err)
			}
			await(t, e, w, func(w *measure.Window) bool { return w.Served >= 240 })
			if w.InFlight > 24 || w.Connections != 3 {
				t.Errorf("%d in flight on %d connections, want 24 on 3", w.InFlight, w.Connections)
			}
			finish(t, e, w)
			if w.Errors() > 0 || w.Served%8 != 0 {
				t.Errorf("served %d, failed %v", w.Served, w.Failed)
			}
		})
	}
}

func TestWhatAPipelineLosesIsCounted(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
	for name, c := range map[string]struct {
		answer string
		why    measure.Failure
	}{
		"closed in order":   {answer + "\r\n" + answer + "\r\n", measure.Cut},
		"said to be last":   {answer + "Connection: close\r\n\r\n", measure.Cut},
		"more than asked":   {strings.Repeat(answer+"\r\n", 5), measure.Malformed},
		"nothing that fits": {answer + "\r\n" + "nonsense\r\n\r\n", measure.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Targets: []Target{listen(t, func(conn *net.TCPConn, _ int) {
				r := bufio.NewReader(conn)
				for range 4 {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
				}
				io.WriteString(conn, c.answer) //nolint:errcheck // the client may be gone
			}).target}, Closed: true, Connections: 2, Pipeline: 4, Threads: 1}
			e := start(t, o, get)
			w := measure.NewWindow()
			if err := e.SetConnections(2); err != nil {
				t.Fatal(err)
			}
			await(t, e, w, func(w *measure.Window) bool { return w.Failed[c.why] >= 12 })
			finish(t, e, w)
		})
	}
}

package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/systest"
)

// blocked returns a service whose offloaded and handed handlers wait until release is called.
func blocked(t *testing.T) (e *echo, release func()) {
	e = &echo{block: make(chan struct{}), started: make(chan struct{}, 10_000)}
	released := false
	release = func() {
		if !released {
			released = true
			close(e.block)
		}
	}
	t.Cleanup(release)
	return e, release
}

// A service whose work hangs has its own workers and its own queue, and takes nobody else's.
func TestAServiceThatHangsHoldsUpNoOther(t *testing.T) {
	e, release := blocked(t)
	s := start(t, Config{Workers: 2, WorkerQueue: 3}, e,
		routes{{Pattern: "GET /sound/{word}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			w.Body = append(append(w.Body, "sound "...), r.Param(0)...)
			return Done
		}}})
	hanging := make([]*client, 2+3)
	for i := range hanging {
		hanging[i] = dial(t, s)
		hanging[i].send(get("/offloaded/a"))
		if i < 2 {
			<-e.started // a worker has it: until then it would take a place in the queue
		}
	}
	await(t, "the service to take no more", func() bool { return len(s.fast.jobs[0]) == 3 })
	refused, sound := dial(t, s), dial(t, s)
	refused.send(get("/offloaded/b"))
	if resp, _ := refused.response("GET"); resp.StatusCode != 503 {
		t.Errorf("one request more is answered %d, want 503", resp.StatusCode)
	}
	for range 10 {
		sound.send(get("/sound/c"))
		sound.expect("GET", 200, "sound c")
	}
	release()
	for _, c := range hanging {
		c.expect("GET", 200, "GET a ")
	}
}

func TestRequestsBeyondTheWorkersQueueAreRefused(t *testing.T) {
	e, release := blocked(t)
	s := start(t, Config{Workers: 1, WorkerQueue: 2}, e)
	running := dial(t, s)
	running.send(get("/offloaded/running"))
	<-e.started
	waiting := []*client{dial(t, s), dial(t, s)}
	for _, c := range waiting {
		c.send(get("/offloaded/waiting"))
	}
	await(t, "the queue to be full", func() bool { return len(s.fast.jobs[0]) == 2 })
	refused := dial(t, s)
	refused.send(get("/fast/a") + get("/offloaded/b") + get("/offloaded/c") + get("/fast/d"))
	refused.expect("GET", 200, "GET a ")
	for range 2 {
		resp, body := refused.response("GET")
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" ||
			!strings.Contains(body, "--worker-queue") {
			t.Errorf("got %d %s, want 503, Retry-After and the flag to raise", resp.StatusCode, body)
		}
	}
	refused.expect("GET", 200, "GET d ") // the connection goes on
	if n := s.refused.Value(); n != 2 {
		t.Errorf("%d refusals counted, want 2", n)
	}
	release()
	running.expect("GET", 200, "GET running ")
	for _, c := range waiting {
		c.expect("GET", 200, "GET waiting ")
	}
}

// With the queue nearly full on all loops at once, every request gets its own answer or a 503.
func TestACrowdedQueueMixesNothingUp(t *testing.T) {
	s := start(t, Config{Loops: 2, Workers: 1, WorkerQueue: 1}, &echo{})
	errs := make(chan error)
	const clients, each = 8, 2000
	for id := range clients {
		c := dial(t, s)
		go func() {
			var raw strings.Builder
			for i := range each {
				fmt.Fprintf(&raw, "GET /offloaded/c%d-%d HTTP/1.1\r\nHost: weir\r\n\r\n", id, i)
			}
			io.WriteString(c, raw.String()) //nolint:errcheck // an answer would be missing
		}()
		go func() {
			for i := range each {
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil {
					errs <- err
					return
				}
				body, err := io.ReadAll(resp.Body)
				if want := fmt.Sprintf("GET c%d-%d ", id, i); err != nil || resp.StatusCode != 503 &&
					string(body) != want {
					errs <- fmt.Errorf("got %d %q, %v; want %q or a 503", resp.StatusCode, body, err, want)
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// The way to net/http is bounded: a loop never waits for it.
func TestAFullWayToNetHTTPRefuses(t *testing.T) {
	d := newHandDriven(t, Config{})
	d.lane.toNetHTTP = newHandover(1, d.s.Addr())

	first, _ := d.connect()
	first.send(get("/handed/a"))
	d.turn()
	second, conn := d.connect()
	second.send(get("/handed/a") + get("/fast/b"))
	d.turn()
	if resp, _ := second.response("GET"); resp.StatusCode != 503 || !resp.Close {
		t.Errorf("got %d, close %t; want 503 and close", resp.StatusCode, resp.Close)
	}
	second.expectClosed()
	second.Close()
	for conn.fd >= 0 {
		d.turn()
	}

	if n := d.s.refused.Value(); n != 1 {
		t.Errorf("%d refusals counted, want 1", n)
	}
}

// Nothing of net/http's side is left when a handed request is answered, whatever becomes of its connection.
func TestWhatServesHandedOffRequestsIsLetGo(t *testing.T) {
	s := start(t, Config{}, &echo{})
	dial(t, s).passed()
	before := runtime.NumGoroutine()
	clients := make([]*client, 300)
	for i := range clients {
		clients[i] = dial(t, s)
	}
	for round := range 3 {
		for i, c := range clients {
			c.send(get(fmt.Sprintf("/handed/c%d-%d", i, round)) + get("/fast/between"))
		}
		for i, c := range clients {
			c.expect("GET", 200, fmt.Sprintf("GET handed c%d-%d  ", i, round))
			c.expect("GET", 200, "GET between ")
		}
	}
	letGo := func() bool { return runtime.NumGoroutine() <= before }
	await(t, "all to be let go", letGo)
	for i, c := range clients {
		if i%2 == 0 {
			c.SetLinger(0)
		}
		c.Close()
	}
	await(t, "what is closed to be let go", letGo)
}

// The child of the test below: a server that may have few descriptors.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_FEW_DESCRIPTORS") != "" {
		serveWithFewDescriptors()
		return
	}
	os.Exit(m.Run())
}

func serveWithFewDescriptors() {
	s, err := New(Config{Listen: "127.0.0.1:0", Loops: 1}, &echo{})
	if err != nil {
		panic(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40}); err != nil {
		panic(err)
	}
	fmt.Println(s.Addr())
	go s.Run(context.Background()) //nolint:errcheck // it ends with the process
	// The parent asks for the count of failed accepts by a line, and ends us by closing the pipe.
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(s.acceptErrors.Value() > 0)
	}
}

func TestRunningOutOfDescriptorsIsSurvived(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "WEIR_TEST_FEW_DESCRIPTORS=1")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := systest.Start(child); err != nil {
		t.Fatal(err)
	}
	defer child.Wait() //nolint:errcheck // its answers tell
	defer in.Close()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child did not start")
	}
	addr := lines.Text()
	open := func() *client {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return newClient(t, c)
	}
	first := open()
	first.passed()
	many := make([]*client, 60) // more than it may have; they wait in the listener's queue
	for i := range many {
		many[i] = open()
		many[i].send(get("/fast/a"))
	}
	await(t, "accepting to fail", func() bool {
		fmt.Fprintln(in, "failed?")
		return lines.Scan() && lines.Text() == "true"
	})
	first.passed() // those that are in go on
	first.send(get("/handed/a"))
	first.expect("GET", 200, "GET handed a  ")
	// Each that ends makes room for one that waits.
	for _, c := range many {
		c.expect("GET", 200, "GET a ")
		c.Close()
	}
	open().passed()
}

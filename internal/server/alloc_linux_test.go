//go:build !race

package server

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The fast lane does not allocate: not for a request, not for a pipeline of them, not when they
// come in pieces.
func TestTheFastLaneDoesNotAllocate(t *testing.T) {
	answer := func(w *Response, r *Request) {
		w.Field("Cache-Control", "no-store")
		for q := r.Query; ; {
			_, value, rest, more, _ := r.NextQuery(q)
			if !more {
				break
			}
			w.Body = append(w.Body, value...)
			q = rest
		}
		w.Body = append(w.Body, r.Param(0)...)
		w.Body = append(w.Body, r.Header("X-Id")...)
		w.Body = append(w.Body, r.Body...)
	}
	d := newHandDriven(t, Config{})
	for _, pattern := range []string{"GET /test/{word}", "POST /test/{word}"} {
		d.s.Handle(Route{Pattern: pattern, Handler: done(answer)})
	}
	parts, release := [][]byte{[]byte("some"), []byte("parts")}, func() {}
	d.s.Handle(Route{Pattern: "GET /parts", Handler: done(func(w *Response, _ *Request) {
		w.Pieces(release, parts...)
	})})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	d.s.connectionOpened()
	d.accepted(fds[1])

	one := "GET /test/abc?a=b&c=%20d+e HTTP/1.1\r\nHost: weir\r\nX-Id: 7\r\nAccept: */*\r\n\r\n"
	for name, pieces := range map[string][]string{
		"one":              {one},
		"pipelined":        {strings.Repeat(one, 16)},
		"with a body":      {post("/test/a", "body")},
		"in two pieces":    {one[:30], one[30:]},
		"body in pieces":   {post("/test/a", "body")[:60], post("/test/a", "body")[60:]},
		"cut pipeline":     {one + one[:50], one[50:] + one[:9], one[9:]},
		"answers in parts": {strings.Repeat(get("/parts"), 3)},
		"HEAD":             {head_("/test/a")},
		"escapes in paths": {get("/test/%41%42")},
	} {
		t.Run(name, func(t *testing.T) {
			data := make([][]byte, len(pieces))
			for i := range pieces {
				data[i] = []byte(pieces[i])
			}
			answers, got := make([]byte, 64<<10), 0
			round := func() {
				for _, p := range data {
					if n, err := send(fds[0], p); err != nil || n != len(p) {
						t.Fatalf("sent %d, %v", n, err)
					}
					d.turn()
				}
				n, err := receive(fds[0], answers)
				if err != nil {
					t.Fatal(err)
				}
				got = n
				d.now = d.now.Add(time.Millisecond)
			}
			round()
			want := strings.Count(strings.Join(pieces, ""), "HTTP/1.1\r\n")
			if n := strings.Count(string(answers[:got]), "HTTP/1.1 "); n != want {
				t.Fatalf("%d answers to %d requests: %q", n, want, answers[:got])
			}
			if n := testing.AllocsPerRun(3000, round); n > 0 {
				t.Errorf("%v allocations a round", n)
			}
		})
	}
}

func BenchmarkFastLane(b *testing.B) {
	d := newHandDriven(b, Config{})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fds[0])
	d.s.connectionOpened()
	d.accepted(fds[1])
	request, answers := []byte(get("/fast/abc")), make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := send(fds[0], request); err != nil {
			b.Fatal(err)
		}
		d.turn()
		if n, err := receive(fds[0], answers); err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
}

// Nor does a worker's answer: what it takes to hand a request over and back is used again.
func TestAWorkersAnswerDoesNotAllocate(t *testing.T) {
	d := newHandDriven(t, Config{})
	body := strings.Repeat("x", 20_000)
	d.s.Handle(Route{Pattern: "POST /test", Handler: func(w *Response, r *Request) Outcome {
		if r.Inline() {
			return Offload
		}
		w.Body = append(w.Body, body...)
		return Done
	}})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	d.s.connectionOpened()
	d.accepted(fds[1])
	go d.s.fast.work(d.s.fast.jobs[0], 1)
	defer close(d.s.fast.jobs[0])
	request := []byte(post("/test", strings.Repeat("y", 9_000)))
	answers := make([]byte, 64<<10)
	round := func() {
		if n, err := send(fds[0], request); err != nil || n != len(request) {
			t.Fatalf("sent %d, %v", n, err)
		}
		d.turn()
		for got := 0; got < len(body); {
			runtime.Gosched() // to the worker: AllocsPerRun leaves one processor
			d.turn()
			n, err := receive(fds[0], answers)
			if err == nil {
				got += n
			} else if err != unix.EAGAIN {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n > 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// Nor does what is put off allocate.
func TestWhatIsPutOffDoesNotAllocate(t *testing.T) {
	d := newHandDriven(t, Config{Processors: 1})
	addLater(d.s)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	d.s.connectionOpened()
	d.accepted(fds[1])
	request, answers := []byte(get("/later/a")), make([]byte, 4<<10)
	round := func() {
		if _, err := send(fds[0], request); err != nil {
			t.Fatal(err)
		}
		d.turn()
		if n, err := receive(fds[0], answers); err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	for range 10 {
		round()
	}
	runtime.GC()
	if n := testing.AllocsPerRun(500, round); n > 0 {
		t.Errorf("%v allocations a round", n)
	}
}

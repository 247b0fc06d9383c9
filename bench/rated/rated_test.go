//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve counts how many of requests that come every so often are served in a time, by a pacer looked at as often.
func served(p *pacer, from, to, every time.Duration) (n int) {
	for now := from; now < to; now += every {
		if ok, _ := p.due(now); ok {
			n++
		}
	}
	return n
}

func TestAPacerServesItsRateExactly(t *testing.T) {
	for _, rate := range []float64{1, 50, 333, 2000, 33333, 100000} {
		p := &pacer{kind: kindShed, burst: 20 * time.Millisecond}
		p.set(rate)
		served(p, time.Hour, time.Hour+time.Second, 3*time.Microsecond)
		want := 10 * rate
		got := float64(served(p, time.Hour+time.Second, time.Hour+11*time.Second, 3*time.Microsecond))
		if got < want-1 || got > want+1 {
			t.Errorf("at %v/s %v were served in 10 s", rate, got)
		}
	}
}

func TestAPacerMakesGoodAShortStallOnly(t *testing.T) {
	p := &pacer{kind: kindQueue, burst: 20 * time.Millisecond}
	p.set(1000)
	served(p, time.Second, 2*time.Second, time.Microsecond)
	if got := served(p, 2*time.Second+10*time.Millisecond, 3*time.Second, time.Microsecond); got < 999 || got > 1001 {
		t.Errorf("after a stall of 10 ms %d were served in the second", got)
	}
	if got := served(p, 3*time.Second+500*time.Millisecond, 4*time.Second, time.Microsecond); got < 519 || got > 521 {
		t.Errorf("after a stall of 500 ms %d were served in the second", got)
	}
	p.set(100)
	if got := served(p, 4*time.Second, 5*time.Second, time.Microsecond); got < 99 || got > 101 {
		t.Errorf("at a tenth of the rate %d were served in the second", got)
	}
}

func TestAPacerSaysWhenTheNextIsServed(t *testing.T) {
	p := &pacer{kind: kindBoth, longest: 50 * time.Millisecond}
	p.set(1000)
	if ok, _ := p.due(time.Second); !ok {
		t.Fatal("the first one is not served")
	}
	if ok, at := p.due(time.Second); ok || at != time.Second+time.Millisecond {
		t.Errorf("the second one: %v, %v", ok, at)
	}
	if !p.accepts(49) || p.accepts(50) {
		t.Error("50 ms at 1000/s are 50 that wait")
	}
}

// start runs a loop and returns it with its address. It ends with the tests.
func start(t *testing.T, kind string, rate float64) (*loop, string) {
	t.Helper()
	l, err := newLoop("127.0.0.1:0", pacer{kind: kind, burst: time.Millisecond, longest: time.Millisecond}, rate)
	if err != nil {
		t.Fatal(err)
	}
	go l.run()
	return l, l.address()
}

// ask sends n requests on as many connections at once and returns how many answers of each status came; 0 is none.
func ask(t *testing.T, address string, n int) map[int]int {
	t.Helper()
	var conns []net.Conn
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		conns = append(conns, c)
	}
	for _, c := range conns {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: rated\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	statuses := map[int]int{}
	for _, c := range conns {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			statuses[0]++
			continue
		}
		statuses[r.StatusCode]++
	}
	return statuses
}

func TestMoreThanTheRateWaitsOrIsRefused(t *testing.T) {
	for kind, refused := range map[string]int{kindQueue: 200, kindShed: 503, kindCut: 0, kindBoth: 503} {
		l, address := start(t, kind, 10) // 12 at once are more than fit into a second
		got := ask(t, address, 12)
		if kind == kindQueue {
			if got[200] != 12 || l.served.Load() != 12 {
				t.Errorf("%s: %v", kind, got)
			}
			continue
		}
		if got[200] == 0 || got[refused] == 0 || got[200]+got[refused] != 12 || l.refused.Load() != uint64(got[refused]) {
			t.Errorf("%s: %v, refused %d", kind, got, l.refused.Load())
		}
	}
}

func TestRequestsAreFoundHoweverTheyArrive(t *testing.T) {
	l, address := start(t, kindQueue, 10000)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	text := strings.Repeat("GET / HTTP/1.1\r\nHost: rated\r\n\r\n", 3)
	for i := 0; i < len(text); i += 7 {
		if _, err := io.WriteString(c, text[i:min(i+7, len(text))]); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(c)
	for range 3 {
		answer, err := http.ReadResponse(r, nil)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "[1]" {
			t.Fatalf("%q, %v", body, err)
		}
	}
	if n := l.served.Load(); n != 3 {
		t.Errorf("%d were served", n)
	}
}

func TestTheRateIsChangedWhileItServes(t *testing.T) {
	l, address := start(t, kindShed, 1)
	admin := httptest.NewServer(l.admin())
	defer admin.Close()
	put := func(text string) int {
		r, err := http.NewRequest("PUT", admin.URL+"/rate", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := ask(t, address, 5); got[200] != 1 || got[503] != 4 {
		t.Errorf("at 1/s: %v", got)
	}
	for _, wrong := range []string{"", "fast", "0", "-1", "NaN", "1e9"} {
		if status := put(wrong); status != 400 {
			t.Errorf("a rate of %q: %d", wrong, status)
		}
	}
	if status := put("1000000\n"); status != 200 {
		t.Fatalf("a rate of 1,000,000: %d", status)
	}
	// The moment that the last answer took is a second away at the old rate.
	deadline := time.Now().Add(10 * time.Second)
	for ask(t, address, 1)[200] == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing is served at the new rate")
		}
	}
	var stats string
	answer, err := http.Get(admin.URL + "/stats")
	if err == nil {
		var b []byte
		b, err = io.ReadAll(answer.Body)
		answer.Body.Close()
		stats = string(b)
	}
	if want := fmt.Sprintf(`"served":%d`, l.served.Load()); err != nil || !strings.Contains(stats, want) {
		t.Errorf("the counts are %s, %v, want %s", stats, err, want)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, wrong := range []struct {
		address, kind string
		rate          float64
	}{{"localhost:0", kindQueue, 5}, {"[::1]:0", kindQueue, 5}, {"127.0.0.1:0", "slow", 5}, {"127.0.0.1:0", kindQueue, 0}} {
		if _, err := newLoop(wrong.address, pacer{kind: wrong.kind}, wrong.rate); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

package mock

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/systest"
)

// timed answers one request without a network, and says how long it took by the clock of a bubble.
func timed(t *testing.T, s *Server, path string) (time.Duration, int) {
	t.Helper()
	w := httptest.NewRecorder()
	start := time.Now()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return time.Since(start), w.Code
}

func TestDelayAndJitterAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stepped(t)
		defer s.Stop()
		if took, _ := timed(t, s, "/feed/1.rss"); took != 0 {
			t.Errorf("without delay: %v", took)
		}
		if took, code := timed(t, s, "/feed/1.rss?delay=250ms"); took != 250*time.Millisecond || code != 200 {
			t.Errorf("delay=250ms: %v, %d", took, code)
		}
		if took, code := timed(t, s, "/feed/1.rss?delay=1s&status=500"); took != time.Second || code != 500 {
			t.Errorf("errors are delayed as well: %v, %d", took, code)
		}
		var first []time.Duration
		for round := range 2 {
			s.ResetStats()
			var sum, least, most time.Duration
			least = time.Hour
			for i := range 500 {
				took, _ := timed(t, s, "/feed/1.rss?delay=100ms&jitter=100ms")
				sum, least, most = sum+took, min(least, took), max(most, took)
				if round == 0 {
					first = append(first, took)
				} else if took != first[i] {
					t.Fatalf("request %d took %v, and %v when repeated", i, first[i], took)
				}
			}
			if mean := sum / 500; least < 100*time.Millisecond || most >= 200*time.Millisecond ||
				mean < 140*time.Millisecond || mean > 160*time.Millisecond {
				t.Errorf("from %v to %v, on average %v", least, most, mean)
			}
		}
		// Another step is another row of chances.
		s.ResetStats()
		if err := s.Advance(1); err != nil {
			t.Fatal(err)
		}
		if took, _ := timed(t, s, "/feed/1.rss?delay=100ms&jitter=100ms"); took == first[0] {
			t.Error("the step makes no difference")
		}
	})
}

func TestBodiesTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stepped(t)
		defer s.Stop()
		if took, code := timed(t, s, "/feed/1.rss?trickle=1m"); took != time.Minute || code != 200 {
			t.Errorf("trickle=1m: %v, %d", took, code)
		}
		if took, code := timed(t, s, "/feed/1.rss?trickle=1m&status=500"); took != 0 || code != 500 {
			t.Errorf("errors have no feed that could trickle: %v, %d", took, code)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/feed/1.rss?trickle=1s", nil))
		whole := httptest.NewRecorder()
		s.ServeHTTP(whole, httptest.NewRequest("GET", "/feed/1.rss", nil))
		if w.Body.String() != whole.Body.String() {
			t.Error("a feed that trickles is another one")
		}
	})
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		resp, err := client.Get(url + "/feed/1.rss?trickle=10m")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		s.Stop() // the head is there at once, the body when nothing waits any more
		body, err := io.ReadAll(resp.Body)
		if err != nil || int64(len(body)) != resp.ContentLength {
			t.Errorf("%d of %d bytes, %v", len(body), resp.ContentLength, err)
		}
	})
}

// The same outcomes, whoever draws them, by whichever way.
func TestFatesAreTheSameInEveryProcess(t *testing.T) {
	k := Defaults()
	k.Hang, k.Error, k.Malformed, k.Share, k.Jitter = 0.3, 0.3, html, 0.3, time.Second
	var got []string
	for n := range uint64(4) {
		f := k.draw(7, 3, n)
		got = append(got, fmt.Sprintf("hang=%t fail=%t %s after %v", f.hang, f.fail,
			damages[f.damage].name, f.wait))
	}
	want := []string{
		"hang=false fail=false html after 135.551344ms",
		"hang=false fail=true html after 505.092257ms",
		"hang=true fail=false off after 703.93988ms",
		"hang=false fail=true off after 405.690256ms",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %d of seed 7 in step 3: %s, want %s", i, got[i], want[i])
		}
	}
	hung, failed, broken := 0, 0, 0
	for n := range uint64(10_000) {
		f := k.draw(n%10, 0, n/10)
		if f.hang {
			hung++
		}
		if f.fail {
			failed++
		}
		if f.damage == html {
			broken++
		}
	}
	for _, n := range []int{hung, failed, broken} {
		if n < 2800 || n > 3200 {
			t.Errorf("of 10000 requests %d hang, %d fail, %d are malformed; want about 3000 of each", hung,
				failed, broken)
		}
	}
}

func TestHungRequestsEndWithTheirClients(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		get(t, url+"/feed/1.rss")
		before := runtime.NumGoroutine()
		client := &http.Client{Transport: &http.Transport{DialContext: systest.DialReset}}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				req, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/feed/%d.rss?hang=1", url, i),
					nil)
				if resp, err := client.Do(req); err == nil {
					t.Errorf("a hung request was answered: %s", resp.Status)
					resp.Body.Close()
				}
			})
		}
		systest.Eventually(t, "30 requests hang", func() bool { return s.Stats().Waiting == 30 })
		get(t, url+"/feed/1.rss").want(t, 200) // the others go on
		leave()
		all.Wait()
		systest.Eventually(t, "no request hangs", func() bool { return s.Stats().Waiting == 0 })
		client.CloseIdleConnections()
		systest.Eventually(t, "their goroutines are gone",
			func() bool { return runtime.NumGoroutine() <= before+2 })
		if got := s.Stats(); got.Hung != 30 || got.Statuses[200] != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestStopEndsWhatWaits(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if resp, err := client.Get(fmt.Sprintf("%s/feed/%d.rss?hang=1", url, i)); err == nil {
					t.Errorf("a hung request was answered: %s", resp.Status)
					resp.Body.Close()
				}
			})
			all.Go(func() { get(t, fmt.Sprintf("%s/feed/%d.rss?delay=10m", url, 10+i)).want(t, 200) })
		}
		systest.Eventually(t, "8 requests wait", func() bool { return s.Stats().Waiting == 8 })
		s.Stop()
		all.Wait()
	})
}

// A hung request leaves its number to nobody else, whichever lane takes it.
func TestChanceIsByNumberAlsoOnEventLoops(t *testing.T) {
	s := stepped(t)
	url := onKernel(t, s, false)
	k := Defaults()
	k.Hang = 0.2
	for n := range uint64(40) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req, _ := http.NewRequestWithContext(ctx, "GET", url+"/feed/5.rss?hang=0.2", nil)
		if k.draw(5, 0, n).hang {
			done := make(chan error, 1)
			hung := s.Stats().Hung
			go func() {
				_, err := client.Do(req)
				done <- err
			}()
			systest.Eventually(t, fmt.Sprintf("request %d hangs", n),
				func() bool { return s.Stats().Hung == hung+1 })
			cancel()
			if err := <-done; err == nil || !strings.Contains(err.Error(), "canceled") {
				t.Errorf("request %d: %v", n, err)
			}
			continue
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		resp.Body.Close()
		cancel()
	}
	if got := s.Requests(5); got != 40 {
		t.Errorf("%d requests were numbered, want 40", got)
	}
}

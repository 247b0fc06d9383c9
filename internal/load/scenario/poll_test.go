package scenario

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/client"
)

func TestEverySubscriptionIsPolledOnceATurn(t *testing.T) {
	for _, threads := range []int{1, 3, 7, 30} {
		sc := open(t, Spec{Scenario: "poll", Target: origin, Users: 10, FirstUser: 100, Feeds: 3,
			FeedURL: "/{user}/{feed}"})
		seen := make(map[string]int)
		for thread := range threads {
			// The numbers thread, thread + threads and so on below 30.
			turn := (30 - thread + threads - 1) / threads
			for _, u := range targets(take(sc.Source(thread, threads), turn)) {
				seen[u]++
			}
		}
		if len(seen) != 30 {
			t.Errorf("%d threads: %d subscriptions, expected 30: %v", threads, len(seen), seen)
		}
		for u, n := range seen {
			if n != 1 {
				t.Errorf("%d threads: %s is polled %d times", threads, u, n)
			}
		}
		for user := 100; user < 110; user++ {
			n := 0
			for u := range seen {
				if strings.HasPrefix(u, fmt.Sprintf("/%d/", user)) {
					n++
				}
			}
			if n != 3 {
				t.Errorf("user %d has %d different feeds, expected 3", user, n)
			}
		}
	}
}

func TestSubscriptionsOfAFileArePolledOnceATurn(t *testing.T) {
	text := "/filtered/a?x={1}\n\n" + origin + "/filtered/b.rss\n  /filtered/c\r\n"
	sc := open(t, Spec{Scenario: "poll", Target: origin, FeedURLs: "f", FeedURLsText: text,
		Every: time.Minute})
	got := targets(take(sc.Source(0, 1), 6))
	want := []string{"/filtered/a?x=%7B1%7D", "/filtered/b.rss", "/filtered/c"}
	if !slices.Equal(got, append(want, want...)) {
		t.Errorf("polled %q, expected %q twice", got, want)
	}
	if rate := sc.Rate(); rate != 3./60 {
		t.Errorf("%v requests a second, expected three a minute", rate)
	}
	for text, want := range map[string]string{
		"/a\n\nhttp://127.0.0.2:80/b": "--feed-urls f, subscription 2: expected all URLs at one host",
		"\n\n":                        "--feed-urls f: expected 1 to 10000000 URLs, got 0",
	} {
		_, err := Open(t.Context(), Spec{Scenario: "poll", Target: origin, FeedURLs: "f", FeedURLsText: text},
			nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

func TestSubscriptionsHaveNumbers(t *testing.T) {
	sc := open(t, Spec{Scenario: "poll", Target: origin, Users: 2, Feeds: 2,
		FeedURL: "/filtered/{n}?of={user}"})
	want := []string{"/filtered/1?of=0", "/filtered/2?of=1", "/filtered/3?of=0", "/filtered/4?of=1",
		"/filtered/1?of=0"}
	if got := targets(take(sc.Source(0, 1), 5)); !slices.Equal(got, want) {
		t.Errorf("polled %q, expected %q", got, want)
	}
}

// TestTurnsAreAlike holds the schedule: the same subscription comes again after exactly as many requests as
// there are.
func TestTurnsAreAlike(t *testing.T) {
	all := targets(take(
		open(t, Spec{Scenario: "poll", Target: origin, Users: 10, Feeds: 3,
			FeedURL: "/{user}/{feed}"}).Source(0, 1), 90))
	for i := range 60 {
		if all[i] != all[i+30] {
			t.Fatalf("request %d is %s and request %d %s", i, all[i], i+30, all[i+30])
		}
	}
	for i := range 10 { // one feed of every user before anybody's second
		if want := fmt.Sprintf("/%d/", i); !strings.HasPrefix(all[i], want) {
			t.Errorf("request %d is %s, expected one of user %d", i, all[i], i)
		}
	}
}

// TestThreadsOfAMixPollTheirOwnSubscriptions holds that a thread's second turn is its first one again,
// whatever comes between, and that the first ones of all together are one turn.
func TestThreadsOfAMixPollTheirOwnSubscriptions(t *testing.T) {
	sc := open(t, Spec{Scenario: "poll=1,feed=1", Target: origin, Users: 500, Feeds: 4,
		FeedURL: "/{user}/{feed}"})
	seen := make(map[string]bool)
	for thread := range 3 {
		var polls []string
		for _, u := range targets(take(sc.Source(thread, 3), 3000)) {
			if !strings.HasPrefix(u, "/feed/") {
				polls = append(polls, u)
			}
		}
		own := slices.Index(polls[1:], polls[0]) + 1
		if own < 600 || own > 730 {
			t.Fatalf("thread %d has %d subscriptions of its own, expected about a third of 2000", thread, own)
		}
		for i, u := range polls[own : 2*own] {
			if u != polls[i] {
				t.Fatalf("poll %d of thread %d is %s in the second turn, and %s in the first", i, thread, u,
					polls[i])
			}
		}
		for _, u := range polls[:own] {
			if seen[u] {
				t.Errorf("%s is polled by two threads", u)
			}
			seen[u] = true
		}
	}
	if len(seen) != 2000 {
		t.Errorf("%d subscriptions, expected 2000", len(seen))
	}
}

func TestPopularityIsZipfs(t *testing.T) {
	const users, feeds, pool = 20_000, 2, 1000
	n := make(map[uint32]int)
	for _, feed := range subscriptions(newDice(3, "test"), users, feeds, pool) {
		n[feed]++
	}
	// The first of 1000 has 1/7.485 of all, were it not that nobody subscribes to it twice: 2*0.1336 - what
	// the second choice loses. Ratios further down hold as they are.
	if n[10] < 950*users*feeds/1000/75 || n[10] > 1150*users*feeds/1000/75 {
		t.Errorf("the tenth has %d of %d, expected about a 75th", n[10], users*feeds)
	}
	if n[1] < n[2]*3/2 || n[10] < n[40]*3 || n[10] > n[40]*5 {
		t.Errorf("the first have %d, %d, the 10th %d, the 40th %d: expected the law", n[1], n[2],
			n[10], n[40])
	}
	for feed := range n {
		if feed < 1 || feed > pool {
			t.Errorf("there is no feed %d", feed)
		}
	}
}

func TestUsersMayHaveAllFeedsThereAre(t *testing.T) {
	seen := make(map[uint32]bool)
	for _, feed := range subscriptions(newDice(3, "test"), 1, 300, 300) {
		seen[feed] = true
	}
	if len(seen) != 300 {
		t.Errorf("%d different feeds, expected 300", len(seen))
	}
}

// TestReadersAskForWhatHasChanged polls a real upstream: first whole feeds, then, until one changes, only
// whether it has.
func TestReadersAskForWhatHasChanged(t *testing.T) {
	const modified = "Fri, 20 Nov 2026 15:54:34 GMT"
	var version atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		etag := fmt.Sprintf(`"%s-%d"`, r.URL.Path, version.Load())
		if r.URL.Path == "/bare" { // no validators at all
			if r.Header["If-None-Match"] != nil || r.Header["If-Modified-Since"] != nil {
				t.Errorf("a condition for a feed without validators: %v", r.Header)
			}
			return
		}
		if r.Header.Get("Accept-Encoding") != "gzip" ||
			!strings.Contains(r.Header.Get("Accept"), "application/rss+xml") || r.UserAgent() == "" {
			t.Errorf("header %v, expected a reader's", r.Header)
		}
		if r.Header.Get("If-None-Match") == etag {
			if r.Header.Get("If-Modified-Since") != modified {
				t.Errorf("header %v, expected both validators", r.Header)
			}
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if version.Load() == 9 {
			w.Header().Set("ETag", `"of an error"`)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Last-Modified", modified)
		fmt.Fprint(w, "a feed")
	}))
	defer upstream.Close()
	s := open(t, Spec{Scenario: "poll", Target: upstream.URL, Users: 6, Feeds: 2}).Source(
		0, 1).(client.Listener)
	turn := func(now int64) (statuses map[int]int) {
		version.Store(now)
		statuses = make(map[int]int)
		for range 12 {
			wire, q := s.Next(nil)
			a := do(t, upstream, wire)
			statuses[a.Status]++
			s.Heard(q.Ref, a)
		}
		return statuses
	}
	for i, step := range []struct {
		version int64
		status  int
	}{
		{1, 200}, {1, 304}, {1, 304}, // the second 304 shows that one leaves the validators as they are
		{2, 200}, {2, 304},
		{9, 500}, {2, 304}, // an error does, too
	} {
		if got := turn(step.version); got[step.status] != 12 {
			t.Errorf("turn %d: %v, expected 12 times %d", i, got, step.status)
		}
	}

	// What a lost answer, a strange reference or a strange validator does: nothing.
	s.Heard(1, client.Answer{})
	s.Heard(0, client.Answer{Status: 200})
	s.Heard(13, client.Answer{Status: 200})
	if got := turn(2); got[304] != 12 {
		t.Errorf("%v, expected 12 times 304", got)
	}

	bare := open(t, Spec{Scenario: "poll", Target: upstream.URL, Users: 1, Feeds: 1,
		FeedURL: "/bare"}).Source(0, 1).(client.Listener)
	for range 2 {
		wire, q := bare.Next(nil)
		bare.Heard(q.Ref, do(t, upstream, wire))
	}
	bare.Heard(1, client.Answer{Status: 200, ETag: []byte("\"a\r\nX: y\""),
		LastModified: []byte(strings.Repeat("x", 600))})
	if wire, _ := bare.Next(nil); strings.Contains(string(wire), "If-") {
		t.Errorf("%q, expected no condition", wire)
	}
}

// do makes a request and returns what a Listener hears.
func do(t *testing.T, upstream *httptest.Server, wire []byte) client.Answer {
	t.Helper()
	req, err := sample{wire: wire}.request(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := upstream.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return client.Answer{Status: answer.StatusCode, ETag: []byte(answer.Header.Get("ETag")),
		LastModified: []byte(answer.Header.Get("Last-Modified"))}
}

func TestAMixHearsForItsPolls(t *testing.T) {
	s := open(t, Spec{Scenario: "feed,poll", Target: origin, Users: 1, Feeds: 1}).Source(
		0, 1).(client.Listener)
	heard := false
	for range 100 {
		wire, q := s.Next(nil)
		if strings.Contains(string(wire), ".rss") &&
			heard != strings.Contains(string(wire), "If-None-Match: \"x\"\r\n") {
			t.Fatalf("%q after an answer: %v", wire, heard)
		}
		heard = heard || q.Ref != 0
		s.Heard(q.Ref, client.Answer{Status: 200, ETag: []byte(`"x"`)})
	}
	if !heard {
		t.Error("no request wants its answer")
	}
}

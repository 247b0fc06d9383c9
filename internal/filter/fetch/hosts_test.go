package fetch

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("no route to host")

// wantAlone says whether a host is left alone, and for how long.
func wantAlone(t *testing.T, s *hosts, want time.Duration) {
	t.Helper()
	release, err := s.enter(context.Background(), "feeds.test")
	var backoff *BackoffError
	got := time.Duration(0)
	if errors.As(err, &backoff) {
		got = time.Until(backoff.Until)
	} else if err == nil {
		release()
	}
	if got != want {
		t.Errorf("left alone for %v, want %v", got, want)
	}
}

func enter(t *testing.T, s *hosts) (release func()) {
	t.Helper()
	release, err := s.enter(context.Background(), "feeds.test")
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestAHostThatFailsIsLeftAloneForLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Options
		o.setDefaults()
		s := newHosts(o)
		fail := func() {
			defer enter(t, &s)()
			s.failed("feeds.test", errDown)
		}
		fail()
		fail()
		wantAlone(t, &s, 0)
		for want := 10 * time.Second; want < 15*time.Minute; want *= 2 {
			fail()
			wantAlone(t, &s, want)
			time.Sleep(want)
		}
		for range 100 { // and no longer than that
			fail()
			wantAlone(t, &s, 15*time.Minute)
			time.Sleep(15 * time.Minute)
		}
		release := enter(t, &s)
		s.answered("feeds.test", &http.Response{StatusCode: 200})
		release()
		fail()
		wantAlone(t, &s, 0)
	})
}

func TestHowLongAHostAsksToBeLeftAlone(t *testing.T) {
	for _, test := range []struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{429, "Sat, 01 Jan 2000 00:05:00 GMT", 5 * time.Minute},
		{429, "", time.Minute},
		{429, "soon", time.Minute},
		{429, "99999999", 24 * time.Hour},
		{503, "120", 2 * time.Minute},
		{503, "-1", 0},
		{503, "", 0},
		{200, "120", 0},
		{404, "120", 0},
	} {
		synctest.Test(t, func(t *testing.T) { // its clock begins with the year 2000
			var o Options
			o.setDefaults()
			s := newHosts(o)
			release := enter(t, &s)
			h := http.Header{"Retry-After": {test.retryAfter}}
			s.answered("feeds.test", &http.Response{StatusCode: test.status, Header: h})
			release()
			wantAlone(t, &s, test.want)
		})
	}
}

func TestHostsAreForgotten(t *testing.T) {
	var o Options
	o.setDefaults()
	s := newHosts(o)
	for i := range 3 * maxHosts {
		release, err := s.enter(context.Background(), string(rune(i+0x10000)))
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	if len(s.all) > maxHosts {
		t.Errorf("%d hosts are remembered", len(s.all))
	}
}

// FuzzRetryAfter: no answer has a host left alone for longer than a day, or for less than no time.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "Sat, 01 Jan 2000 00:05:00 GMT", "", "-1", "99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := RetryAfter(http.Header{"Retry-After": {text}}, time.Now()); d < 0 || !ok && d != 0 {
			t.Errorf("%q: %v, %v", text, d, ok)
		}
	})
}

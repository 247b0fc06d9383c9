package httpcache_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/filter/httpcache"
)

// TestHowLongResponsesAreFresh: the clock of a bubble begins on 1 January 2000, 00:00:00 GMT.
func TestHowLongResponsesAreFresh(t *testing.T) {
	for lines, want := range map[string]time.Duration{
		"Cache-Control: max-age=60":                                         time.Minute,
		"Cache-Control: max-age=60, s-maxage=10":                            10 * time.Second,
		"Cache-Control: MAX-AGE=\"60\"":                                     time.Minute,
		"Cache-Control: max-age=60|Cache-Control: max-age=10":               time.Minute,
		"Cache-Control: x=\", max-age=99\", max-age=60":                     time.Minute,
		"Cache-Control: max-age=6.5|Expires: Sat, 01 Jan 2000 01:00:00 GMT": 0,
		"Cache-Control: max-age=-1":                                         0,
		"Cache-Control: max-age=60|Age: 45":                                 15 * time.Second,
		"Cache-Control: max-age=60|Age: 45, 10":                             0,
		"Cache-Control: max-age=60|Date: Fri, 31 Dec 1999 23:59:30 GMT":     30 * time.Second,
		"Cache-Control: max-age=99999999999999999999":                       (1 << 31) * time.Second,
		"Expires: Sat, 01 Jan 2000 01:00:00 GMT":                            time.Hour,
		"Expires: Saturday, 01-Jan-00 01:00:00 GMT":                         time.Hour,
		"Expires: 0|Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT":           0,
		"Expires: Fri, 31 Dec 1999 00:00:00 GMT":                            0,
		"Last-Modified: Fri, 31 Dec 1999 14:00:00 GMT":                      time.Hour,
		"Last-Modified: Fri, 31 Dec 1990 14:00:00 GMT":                      7 * 24 * time.Hour,
		"Last-Modified: Sun, 02 Jan 2000 00:00:00 GMT":                      0,
		"ETag: \"1\"": 0,
	} {
		inBubble(t, httpcache.Options{}, with(strings.Split(lines, "|")...),
			func(t *testing.T, c *httpcache.Cache, _ *upstream) {
				if e, _ := get(t, c, feed); max(0, e.Fresh) != want {
					t.Errorf("%q is fresh for %v, want %v", lines, e.Fresh, want)
				}
			})
	}
}

func TestWhatASharedCacheMustNotStore(t *testing.T) {
	for _, test := range []struct {
		response, request string
		stored            bool
	}{
		{"Cache-Control: max-age=60", "", true},
		{"Cache-Control: max-age=60, private", "", false},
		{"Cache-Control: max-age=60, no-store", "", false},
		{"Cache-Control: max-age=60, no-store, must-understand", "", true},
		{"Cache-Control: max-age=60", "Cache-Control: no-store", false},
		{"Cache-Control: max-age=60", "Authorization: Basic eDp5", false},
		{"Cache-Control: max-age=60, public", "Authorization: Basic eDp5", true},
		{"Cache-Control: max-age=60, must-revalidate", "Authorization: Basic eDp5", true},
		{"Cache-Control: s-maxage=60", "Authorization: Basic eDp5", true},
		{"Cache-Control: max-age=60|Vary: Accept, *", "", false},
	} {
		inBubble(t, httpcache.Options{}, with(strings.Split(test.response, "|")...),
			func(t *testing.T, c *httpcache.Cache, _ *upstream) {
				get(t, c, feed, strings.Split(test.request, "|")...)
				e, ok := c.Peek(feed)
				if ok {
					e.Release()
				}
				if ok != test.stored {
					t.Errorf("%q to %q: stored %v, want %v", test.response, test.request, ok, test.stored)
				}
			})
	}
}

func TestARequestSaysHowFreshAResponseMustBe(t *testing.T) {
	for directives, fetched := range map[string]bool{
		"max-age=40": false, "max-age=20": true, "max-age=0": true, "min-fresh=20": false,
		"min-fresh=40": true,
		"no-cache":     true, "only-if-cached": false, "unknown": false,
	} {
		inBubble(t, httpcache.Options{}, with("Cache-Control: max-age=60"),
			func(t *testing.T, c *httpcache.Cache, u *upstream) {
				get(t, c, feed)
				time.Sleep(30 * time.Second)
				get(t, c, feed, "Cache-Control: "+directives)
				if got := u.count() == 2; got != fetched {
					t.Errorf("%s: fetched %v", directives, got)
				}
			})
	}
	inBubble(t, httpcache.Options{}, with("Cache-Control: max-age=60"),
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			_, err := c.Get(t.Context(), feed, http.Header{"Cache-Control": {"only-if-cached"}})
			if !errors.Is(err, httpcache.ErrNotStored) {
				t.Error(err)
			}
			get(t, c, feed)
			time.Sleep(90 * time.Second)
			if e, _ := get(t, c, feed, "Cache-Control: max-stale=60"); !e.Stale || e.Age != 90*time.Second {
				t.Errorf("stale %v, age %v", e.Stale, e.Age)
			}
			wantAsked(t, u, 1)
			get(t, c, feed, "Cache-Control: max-stale=10")
			wantAsked(t, u, 2)
		})
}

func TestResponsesAreChosenByWhatTheyVaryBy(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		a.set("Cache-Control: max-age=60", "Vary: Accept-Language, X-Kind")
		a.body = "in " + r.Header.Get("Accept-Language")
	}
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		for range 2 {
			for _, language := range []string{"de, en", "en"} {
				if _, body := get(t, c, feed, "Accept-Language: "+language); body != "in "+language {
					t.Errorf("%s: %s", language, body)
				}
			}
		}
		get(t, c, feed, "Accept-Language: DE,en")
		wantAsked(t, u, 2)
		get(t, c, feed, "Accept-Language: en", "X-Kind: ")
		wantAsked(t, u, 3)
		if n := c.Stats().Entries; n != 3 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestRequestsThatAResponseIsNotForAskAgain(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		time.Sleep(time.Second)
		a.set("Cache-Control: max-age=60", "Vary: Accept-Language")
		a.body = r.Header.Get("Accept-Language")
	}
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				language := []string{"de", "en"}[i%2]
				if _, body := get(t, c, feed, "Accept-Language: "+language); body != language {
					t.Errorf("%q, wanted in %s", body, language)
				}
			})
		}
		all.Wait()
		if n := u.count(); n < 2 || n > 6 {
			t.Errorf("asked %d times", n)
		}
	})
	private := func(a *answer, _ *http.Request) { time.Sleep(time.Second); a.set("Cache-Control: private") }
	inBubble(t, httpcache.Options{}, private, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { get(t, c, feed) })
		}
		all.Wait()
		wantAsked(t, u, 10)
		if s := c.Stats(); s.Entries != 0 || s.Pinned != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAStaleResponseIsUsedWhileItIsRevalidated(t *testing.T) {
	n := 0
	handle := func(a *answer, _ *http.Request) {
		n++
		time.Sleep(time.Second)
		a.set("Cache-Control: max-age=60, stale-while-revalidate=30")
		a.body = fmt.Sprint(n)
	}
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		get(t, c, feed)
		time.Sleep(80 * time.Second)
		before := time.Now()
		if e, body := get(t, c, feed); !e.Stale || e.Err != nil || body != "1" || time.Since(before) != 0 {
			t.Errorf("%q, stale %v, after %v", body, e.Stale, time.Since(before))
		}
		time.Sleep(2 * time.Second)
		if e, body := get(t, c, feed); e.Stale || body != "2" {
			t.Errorf("%q, stale %v", body, e.Stale)
		}
		time.Sleep(91 * time.Second)
		if e, body := get(t, c, feed); e.Stale || body != "3" {
			t.Errorf("%q, stale %v", body, e.Stale)
		}
		wantAsked(t, u, 3)
	})
}

var errDown = errors.New("no route to host")

// failing answers 200 until down, and then fails.
func failing(down *bool, fail func(*answer), lines ...string) func(*answer, *http.Request) {
	return func(a *answer, _ *http.Request) {
		a.set(lines...)
		if *down {
			fail(a)
		}
	}
}

func TestAStaleResponseIsUsedIfTheUpstreamFails(t *testing.T) {
	unreachable := func(a *answer) { a.err = errDown }
	unavailable := func(a *answer) { a.status, a.body = 503, "sorry" }
	missing := func(a *answer) { a.status, a.body = 404, "gone" }
	for _, test := range []struct {
		control string
		fail    func(*answer)
		options httpcache.Options
		used    bool
	}{
		{"max-age=60, stale-if-error=120", unreachable, httpcache.Options{}, true},
		{"max-age=60, stale-if-error=120", unavailable, httpcache.Options{}, true},
		{"max-age=60, stale-if-error=120", missing, httpcache.Options{}, false},
		{"max-age=60, stale-if-error=20", unreachable, httpcache.Options{}, false},
		{"max-age=60", unreachable, httpcache.Options{}, false},
		{"max-age=60", unreachable, httpcache.Options{StaleIfError: time.Hour}, true},
		{"max-age=60, must-revalidate, stale-if-error=120", unreachable, httpcache.Options{}, false},
		{"s-maxage=60, stale-if-error=120", unreachable, httpcache.Options{}, false},
		{"max-age=60, must-revalidate", unreachable, httpcache.Options{Poller: true}, true},
		{"no-store", unavailable, httpcache.Options{Poller: true}, true},
		{"private", missing, httpcache.Options{Poller: true}, true},
	} {
		down := false
		handle := failing(&down, test.fail, "Cache-Control: "+test.control)
		inBubble(t, test.options, handle, func(t *testing.T, c *httpcache.Cache, _ *upstream) {
			get(t, c, feed)
			time.Sleep(2 * time.Minute)
			down = true
			e, err := c.Get(t.Context(), feed, nil)
			used := err == nil && e.Status == 200
			if used != test.used {
				t.Errorf("%s: %v, %v", test.control, e, err)
			}
			if used && (!e.Stale || e.Err == nil || string(e.Body()) != "body") {
				t.Errorf("%s: %q, stale %v, %v", test.control, e.Body(), e.Stale, e.Err)
			}
			if err == nil {
				e.Release()
			}
			down = false
			time.Sleep(2 * time.Minute)
			if e, body := get(t, c, feed); e.Stale || body != "body" {
				t.Errorf("%s: %q, stale %v once the upstream is back", test.control, body, e.Stale)
			}
		})
	}
}

func TestAPollerDoesNotAskAgainAtOnce(t *testing.T) {
	down := false
	handle := failing(&down, func(a *answer) { a.err = errDown }, "Cache-Control: no-store")
	inBubble(t, httpcache.Options{Poller: true, MinFresh: time.Minute}, handle,
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			get(t, c, feed)
			time.Sleep(59 * time.Second)
			get(t, c, feed)
			wantAsked(t, u, 1)
			time.Sleep(time.Second)
			down = true
			for range 10 {
				if e, _ := get(t, c, feed); !errors.Is(e.Err, errDown) {
					t.Errorf("an error of %v", e.Err)
				}
			}
			wantAsked(t, u, 2)
			get(t, c, feed, "Cache-Control: no-cache") // asks all the same
			wantAsked(t, u, 3)
			time.Sleep(time.Minute)
			down = false
			if e, _ := get(t, c, feed); e.Stale || e.Err != nil {
				t.Errorf("stale %v, %v", e.Stale, e.Err)
			}
		})
}

func TestAFailingUpstreamIsNotRevalidatedAtEachUse(t *testing.T) {
	down := false
	handle := failing(&down, func(a *answer) { a.status = 500 },
		"Cache-Control: max-age=0, stale-while-revalidate=600")
	inBubble(t, httpcache.Options{Poller: true, MinFresh: time.Minute}, handle,
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			get(t, c, feed)
			down = true
			time.Sleep(2 * time.Minute)
			for range 10 {
				if e, body := get(t, c, feed); !e.Stale || body != "body" {
					t.Errorf("%q, stale %v", body, e.Stale)
				}
				synctest.Wait()
			}
			wantAsked(t, u, 2)
		})
}

func TestGoneReplacesWhatAPollerHas(t *testing.T) {
	down := false
	handle := failing(&down, func(a *answer) { a.status = 410 })
	inBubble(t, httpcache.Options{Poller: true}, handle, func(t *testing.T, c *httpcache.Cache, _ *upstream) {
		get(t, c, feed)
		down = true
		time.Sleep(time.Second)
		if e, _ := get(t, c, feed); e.Status != 410 || e.Stale {
			t.Errorf("%d, stale %v", e.Status, e.Stale)
		}
	})
}

func TestA304NobodyAskedForIsAnError(t *testing.T) {
	inBubble(t, httpcache.Options{}, func(a *answer, _ *http.Request) { a.status, a.body = 304, "" },
		func(t *testing.T, c *httpcache.Cache, _ *upstream) {
			_, err := c.Get(t.Context(), feed, http.Header{"If-None-Match": {`"1"`}})
			if !errors.Is(err, httpcache.ErrUnsolicited) {
				t.Error(err)
			}
			if s := c.Stats(); s.Entries != 0 || s.Failures != 1 {
				t.Errorf("%+v", s)
			}
		})
}

func TestA304OfAnotherVersionIsNotBelieved(t *testing.T) {
	version := 1
	handle := func(a *answer, r *http.Request) {
		a.set("Cache-Control: max-age=60", "Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT",
			fmt.Sprintf(`ETag: "%d"`, version))
		a.body = fmt.Sprint(version)
		if r.Header.Get("If-Modified-Since") != "" { // and the tag is not looked at
			a.status, a.body = 304, ""
		}
	}
	inBubble(t, httpcache.Options{}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		first, _ := get(t, c, feed)
		time.Sleep(time.Hour)
		version = 2
		if e, body := get(t, c, feed); body != "2" || e.Version == first.Version {
			t.Errorf("%q", body)
		}
		wantAsked(t, u, 3)
	})
}

func TestRedirectsAreFollowedAndRemembered(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		a.set("Cache-Control: max-age=60", `ETag: "1"`)
		switch r.URL.Path {
		case "/old":
			a.status = 301
			a.header = http.Header{"Location": {"http://x:y@new.test/b"}}
		case "/b":
			a.status = 302
			a.set("Location: c#part")
		default:
			if r.Header.Get("If-None-Match") != "" {
				a.status, a.body = 304, ""
			}
		}
	}
	inBubble(t, httpcache.Options{Poller: true}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		e, body := get(t, c, "http://me:secret@feeds.test/old")
		if e.URL != "http://new.test/c" || e.MovedTo != "http://new.test/b" || body != "body" {
			t.Errorf("%q of %s, moved to %s", body, e.URL, e.MovedTo)
		}
		for i, want := range []string{"Basic bWU6c2VjcmV0", "", ""} {
			if got := u.asked[i].Header.Get("Authorization"); got != want {
				t.Errorf("request %d to %s has Authorization %q", i, u.asked[i].URL, got)
			}
			if u.asked[i].URL.User != nil {
				t.Errorf("request %d has a user in its URL", i)
			}
		}
		time.Sleep(time.Hour)
		get(t, c, "http://me:secret@feeds.test/old")
		wantAsked(t, u, 5) // the first redirect is remembered, the page behind both validated
		if got := u.asked[4].Header.Get("If-None-Match"); got != `"1"` {
			t.Errorf("validated by %q", got)
		}
	})
	for _, to := range []string{"/a.rss", "ftp://feeds.test/", "//", "http://%zz/", "file:///etc/passwd"} {
		inBubble(t, httpcache.Options{}, with("Location: "+to),
			func(t *testing.T, c *httpcache.Cache, u *upstream) {
				u.handle = func(a *answer, _ *http.Request) { a.status = 302; a.set("Location: " + to) }
				if _, err := c.Get(t.Context(), feed, nil); !errors.Is(err, httpcache.ErrRedirects) {
					t.Errorf("%s: %v", to, err)
				}
				if n := u.count(); n > 6 {
					t.Errorf("%s: asked %d times", to, n)
				}
			})
	}
}

func TestWhatIsAskedForWithCredentialsIsKeptApart(t *testing.T) {
	handle := func(a *answer, r *http.Request) {
		a.set("Cache-Control: max-age=60")
		a.body = "for " + r.Header.Get("Authorization")
	}
	inBubble(t, httpcache.Options{Poller: true}, handle, func(t *testing.T, c *httpcache.Cache, u *upstream) {
		_, mine := get(t, c, "http://me:secret@feeds.test/")
		_, yours := get(t, c, "http://you:secret@feeds.test/")
		_, public := get(t, c, "http://feeds.test/")
		if mine == yours || mine == public || public != "for " {
			t.Errorf("%q %q %q", mine, yours, public)
		}
		wantAsked(t, u, 3)
	})
}

func TestABodyThatIsTooLongOrCutOffIsNotStored(t *testing.T) {
	inBubble(t, httpcache.Options{MaxBody: 1000}, with("Cache-Control: max-age=60"),
		func(t *testing.T, c *httpcache.Cache, u *upstream) {
			u.handle = func(a *answer, _ *http.Request) { a.body = strings.Repeat("x", 1001) }
			if _, err := c.Get(t.Context(), feed, nil); !errors.Is(err, httpcache.ErrTooLarge) {
				t.Error(err)
			}
			u.handle = func(a *answer, _ *http.Request) { a.set("Cache-Control: max-age=60"); a.cut = true }
			if _, err := c.Get(t.Context(), feed, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 {
				t.Errorf("%+v", s)
			}
		})
}

func TestAFetchTakesNoLongerThanItMay(t *testing.T) {
	handle := func(a *answer, r *http.Request) { <-r.Context().Done() }
	inBubble(t, httpcache.Options{Timeout: time.Minute}, handle,
		func(t *testing.T, c *httpcache.Cache, _ *upstream) {
			began := time.Now()
			if _, err := c.Get(t.Context(), feed, nil); err == nil || time.Since(began) != time.Minute {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
}

func TestClosingEndsFetchesAndStatisticsGoOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{handle: func(_ *answer, r *http.Request) { <-r.Context().Done() }}
		c := open(t, dir, httpcache.Options{Fetch: u})
		failed := make(chan error)
		go func() {
			_, err := c.Get(t.Context(), feed, nil)
			failed <- err
		}()
		synctest.Wait()
		go c.Close() //nolint:errcheck // tested below
		if err := <-failed; !errors.Is(err, httpcache.ErrClosed) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if s := c.Stats(); s.Failures != 1 || s.Fetching != 0 {
			t.Errorf("%+v", s)
		}
		if _, err := c.Get(t.Context(), feed, nil); !errors.Is(err, httpcache.ErrClosed) {
			t.Error(err)
		}
	})
}

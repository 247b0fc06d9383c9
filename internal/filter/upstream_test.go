package filter_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"weir/internal/filter"
	"weir/internal/server"
	"weir/internal/systest"
)

// png is the beginning of a picture, which is all that its type is told by.
const png = "\x89PNG\r\n\x1a\n"

// polled has sources fetched all the time.
func polled(c *filter.Config) { c.Interval = 50 * time.Millisecond }

// state returns what the admin port says of a source.
func (s *served) state(url string) filter.State {
	s.t.Helper()
	var list struct{ Sources []filter.State }
	got := s.do("GET", s.admin+"/admin/filters/sources", "")
	err := json.Unmarshal([]byte(got.body), &list)
	for _, st := range list.Sources {
		if st.URL == url {
			return st
		}
	}
	s.t.Fatalf("%v %s", err, got.body)
	return filter.State{}
}

func TestAnIconIsAPictureOfTheFeedOrOfItsSite(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		site := "http://" + r.Host
		switch r.URL.Path {
		case "/with-image":
			io.WriteString(w, `<rss version="2.0"><channel><image><url>picture</url></image></channel></rss>`)
		case "/of-a-site":
			fmt.Fprintf(w, `<rss version="2.0"><channel><link>%s/site/</link></channel></rss>`, site)
		case "/without":
			io.WriteString(w, `<rss version="2.0"><channel><image><url>/script.svg</url></image></channel></rss>`)
		case "/site/":
			io.WriteString(w, `<html><head><link rel="icon" href="small.png"></head></html>`)
		case "/picture", "/site/small.png":
			io.WriteString(w, png+r.URL.Path)
		case "/script.svg":
			w.Header().Set("Content-Type", "image/svg+xml")
			io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
		default:
			w.WriteHeader(404)
		}
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	for path, want := range map[string]string{"/with-image": png + "/picture",
		"/of-a-site": png + "/site/small.png", "/without": ""} {
		at := s.add(`{"url":"` + up.URL + path + `"}`)
		var got answer
		systest.Eventually(t, "the icon of "+path+" was looked for", func() bool {
			got = s.do("GET", s.admin+"/admin/filters/"+at[strings.LastIndexByte(at, '/')+1:]+"/icon", "")
			return got.status != 204
		})
		if want == "" {
			if got.status != 404 {
				t.Errorf("%s: %+v", path, got)
			}
		} else if got.status != 200 || got.body != want || got.header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %+v, want %q", path, got, want)
		}
	}
}

func TestASourceThatIsGoneIsAskedNoMore(t *testing.T) {
	var asked, others atomic.Int64
	var gone atomic.Bool
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			others.Add(1)
		} else if asked.Add(1); gone.Load() {
			w.WriteHeader(410)
			return
		}
		feed(rss)(w, r)
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, polled)
	at, other := s.add(`{"url":"`+up.URL+`/one"}`), s.add(`{"url":"`+up.URL+`/other"}`)
	before := s.want(at, 200)
	gone.Store(true)
	systest.Eventually(t, "that it is gone", func() bool {
		s.want(at, 200)
		return s.state(up.URL + "/one").Gone
	})
	then, since := asked.Load(), others.Load()
	systest.Eventually(t, "that another one is asked twice", func() bool {
		s.want(other, 200)
		if got := s.want(at, 200); got.body != before.body ||
			!strings.Contains(got.header.Get("Weir-Stale"), "failed since") {
			t.Fatalf("%+v", got)
		}
		return others.Load() > since+1
	})
	if st := s.state(up.URL + "/one"); asked.Load() != then || st.Status != 410 || st.Failures != 1 {
		t.Errorf("asked %d times after it was gone; %+v", asked.Load()-then, st)
	}
}

func TestAPermanentRedirectIsRemembered(t *testing.T) {
	for status, remembered := range map[int]bool{301: true, 308: true, 302: false} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var asked, edition atomic.Int64
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/old" {
					asked.Add(1)
					http.Redirect(w, r, "/new", status)
					return
				}
				feed(strings.Replace(rss, "Sports", fmt.Sprint("Edition ", edition.Add(1)), 1))(w, r)
			})
			dir := t.TempDir()
			s, stop := serve(t, dir, up, server.Config{}, polled)
			at := strings.TrimPrefix(s.add(`{"url":"`+up.URL+`/old"}`), s.public)
			systest.Eventually(t, "two more editions", func() bool {
				s.want(s.public+at, 200)
				return edition.Load() > 2
			})
			stop()
			s, _ = serve(t, dir, up, server.Config{}, nil)
			if got := s.want(s.public+at, 200); !strings.Contains(got.body, "Edition") {
				t.Errorf("after a restart %s", got.body)
			}
			if n := asked.Load(); (n == 1) != remembered {
				t.Errorf("the old URL was asked %d times", n)
			}
		})
	}
}

func TestASourceSaysWhenItIsAskedAgain(t *testing.T) {
	now := time.Now().UTC()
	later := now.Add(5 * time.Hour)
	var hours, days strings.Builder
	for h := range 24 {
		if h != later.Hour() {
			fmt.Fprintf(&hours, "<hour>%d</hour>", h)
		}
	}
	for d := range time.Weekday(7) {
		if d != now.Add(48*time.Hour).Weekday() {
			fmt.Fprintf(&days, "<day>%s</day>", d)
		}
	}
	const hour = time.Hour
	for _, c := range []struct {
		name, in    string
		header      []string
		status      int
		from, until time.Duration // of the next fetch
	}{
		{"nothing", "", nil, 200, hour, hour + 7*time.Minute},
		{"ttl", "<ttl>600</ttl>", nil, 200, 10 * hour, 11*hour + time.Minute},
		{"ttl of less", "<ttl>5</ttl>", nil, 200, hour, hour + 7*time.Minute},
		{"max-age", "", []string{"Cache-Control", "max-age=36000"}, 200, 10 * hour, 11*hour + time.Minute},
		{"max-age for ever", "", []string{"Cache-Control", "max-age=99999999"}, 200, 24 * hour, 27 * hour},
		{"skipHours", "<skipHours>" + hours.String() + "</skipHours>", nil, 200, 4*hour - time.Minute,
			5*hour + time.Minute},
		{"skipDays", "<skipDays>" + days.String() + "</skipDays>", nil, 200, 24*hour - time.Minute,
			48*hour + time.Minute},
		{"Retry-After", "", []string{"Retry-After", "7200"}, 503, 2 * hour, 2*hour + 13*time.Minute},
		{"a date in it", "", []string{"Retry-After", now.Add(3 * hour).Format(http.TimeFormat)}, 429,
			2*hour + 58*time.Minute, 3*hour + 20*time.Minute},
		{"429 alone", "", nil, 429, time.Minute, 24 * hour},
	} {
		up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(c.header); i += 2 {
				w.Header().Set(c.header[i], c.header[i+1])
			}
			w.WriteHeader(c.status)
			io.WriteString(w, strings.Replace(rss, "<channel>", "<channel>"+c.in, 1))
		})
		s, stop := serve(t, t.TempDir(), up, server.Config{}, nil)
		at := s.add(`{"url":"` + up.URL + `"}`)
		got := s.do("GET", at, "")
		if (got.status == 200) != (c.status == 200) {
			t.Errorf("%s: %+v", c.name, got)
		}
		st := s.state(up.URL + "/")
		if wait := st.Next.Sub(*st.Fetched); wait < c.from || wait > c.until {
			t.Errorf("%s: it is asked again after %v, want from %v to %v", c.name, wait, c.from, c.until)
		}
		if after, _ := strconv.Atoi(got.header.Get("Retry-After")); c.status != 200 &&
			time.Until(*st.Next)-time.Duration(after)*time.Second > 2*time.Second {
			t.Errorf("%s: readers are told to come after %d s, the source is asked at %v", c.name, after,
				st.Next)
		}
		stop()
	}
}

func TestASourceInUTF16StaysInUTF16(t *testing.T) {
	encode := func(text string) string {
		b := []byte("\xff\xfe")
		for _, u := range utf16.Encode([]rune(text)) {
			b = append(b, byte(u), byte(u>>8))
		}
		return string(b)
	}
	text := strings.Replace(strings.Replace(rss, "utf-8", "utf-16", 1), "News", "Grüße \U0001f600", 1)
	up := newUpstream(t, feed(encode(text)))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	at := s.add(`{"url":"` + up.URL + `","rules":["title contains \"advert\""]}`)
	want := encode(without(text, "An advert"))
	got := s.want(at, 200)
	if got.body != want || got.header.Get("Content-Type") != "application/rss+xml; charset=utf-16le" {
		t.Errorf("%v %q, want %q", got.header, got.body, want)
	}
	r, err := gzip.NewReader(strings.NewReader(s.want(at, 200, "Accept-Encoding", "gzip").body))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != want {
		t.Errorf("gunzipped %q %v", b, err)
	}
	if json := s.want(at+".json", 200); !strings.Contains(json.body, "Grüße \U0001f600") {
		t.Errorf("%s", json.body)
	}
}

func TestAgeIsTheTimeSinceTheSourceWasAsked(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	at := s.add(`{"url":"` + up.URL + `"}`)
	asked := time.Now()
	s.want(at, 200)
	answered := time.Now()
	systest.Eventually(t, "an age", func() bool {
		least := int(time.Since(answered) / time.Second)
		got := s.do("HEAD", at, "")
		age, err := strconv.Atoi(got.header.Get("Age"))
		most := int(time.Since(asked) / time.Second)
		if err != nil || got.body != "" || age < least || age > most {
			t.Fatalf("%v, want %d to %d", got.header, least, most)
		}
		return age > 0
	})
	up.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	for _, url := range []string{at, s.add(`{"url":"` + up.URL + `/none"}`)} {
		head, get := s.do("HEAD", url, ""), s.do("GET", url, "")
		if head.status != get.status || head.body != "" ||
			head.header.Get("Content-Length") != strconv.Itoa(len(get.body)) {
			t.Errorf("HEAD %+v, GET %+v", head, get)
		}
	}
}

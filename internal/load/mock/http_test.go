package mock

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
)

func TestFeedsAreAnsweredTheSameWayEveryWay(t *testing.T) {
	requests := []struct {
		method, path, fields string
	}{
		{"GET", "/feed/1.rss", ""},
		{"GET", "/feed/1.rss", "Accept-Encoding: gzip"},
		{"GET", "/feed/1.atom?br=always", ""},
		// Beyond what is answered inline.
		{"GET", "/feed/1.json?items=200&body=1000", "Accept-Encoding: br, gzip"},
		{"GET", "/feed/1.json?items=200&body=1000", ""},
		{"HEAD", "/feed/1.rss", ""},
		{"GET", "/feed/1.rss?charset=windows-1251&ttl=90s", ""},
		{"GET", "/feed/1.rss?malformed=truncated", ""},
		{"GET", "/feed/1.rss?status=404", ""},
		{"GET", "/feed/1.rss?status=301&items=3", ""},
		{"GET", "/feed/1.rss?status=204", ""},
		{"GET", "/feed/1.rss?status=304", ""},
		{"GET", "/feed/1.rss?status=203", ""},
		{"GET", "/feed/1.rss?status=599", ""},
		{"GET", "/feed/1.rss?error=1", ""},
		{"GET", "/feed/1.rss?status=302&redirects=3&items=2", ""},
		{"GET", "/feed/1.rss?status=429&retry=90s", ""},
		{"GET", "/feed/1.rss?status=410", ""},
		{"GET", "/feed/1.rss?delay=1ms", ""},
		{"GET", "/feed/1.rss?delay=1ms&status=503", ""},
		{"GET", "/feed/1.rss", "If-None-Match: *"},
		{"GET", "/feed/1.rss?delay=1ms", "If-None-Match: *"},
		{"GET", "/feed/1.rss?items=x", ""},
		{"GET", "/feed/1.xml", ""},
		{"GET", "/feed/1.rss?error=0.5", ""},
		{"GET", "/feed/1.rss?error=0.5", ""},
		{"GET", "/feed/1.rss?error=0.5", ""},
		{"GET", "/feed/1.rss?error=0.5&malformed=html:0.5", ""},
	}
	var want []reply
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		for i, q := range requests {
			var fields []string
			if q.fields != "" {
				fields = []string{q.fields}
			}
			r := ask(t, q.method, url+q.path, "", fields...)
			r.header.Del("Date")
			if len(want) == i {
				want = append(want, r)
			}
			w := want[i]
			if r.status != w.status || r.body != w.body {
				t.Errorf("%s %s: %d %.100q, by the first way %d %.100q", q.method, q.path, r.status, r.body,
					w.status, w.body)
			}
			for name := range w.header {
				if r.header.Get(name) != w.header.Get(name) {
					t.Errorf("%s %s: %s is %q, by the first way %q", q.method, q.path, name,
						r.header.Get(name), w.header.Get(name))
				}
			}
			if len(r.header) != len(w.header) {
				t.Errorf("%s %s: %v, by the first way %v", q.method, q.path, r.header, w.header)
			}
		}
		got := s.Stats()
		if got.Requests != uint64(len(requests)) || got.Kinds["refused"] != 2 || got.Statuses[400] != 2 ||
			got.Delayed != 3 || got.Waiting != 0 {
			t.Errorf("stats are %+v", got)
		}
		if n := s.Requests(1); n != uint64(len(requests)-2) {
			t.Errorf("%d requests were numbered, want %d", n, len(requests)-2)
		}
	})
}

func TestRedirectsFollowOneAnother(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		url := start(stepped(t))
		for _, c := range []struct{ from, to string }{
			{"?status=301&items=2", "?error=0&items=2"},
			{"?error=1&status=302&redirects=3&items=2", "?status=302&redirects=2&items=2"},
			{"?status=302&redirects=2&items=2", "?status=302&redirects=1&items=2"},
			{"?status=302&redirects=1&items=2", "?error=0&items=2"},
			{"?status=308&redirects=0", "?status=308&redirects=0"},
			{"?status=307&delay=1ms&redirects=2", "?status=307&redirects=1&delay=1ms"},
		} {
			if got := ask(t, "GET", url+"/feed/1.rss"+c.from, "").header.Get(
				"Location"); got != "/feed/1.rss"+c.to {
				t.Errorf("%s leads to %q, want %q", c.from, got, c.to)
			}
		}
		if got := ask(t, "GET", url+"/feed/1.rss?status=301&location=http://169.254.169.254/x",
			"").header.Get("Location"); got != "http://169.254.169.254/x" {
			t.Errorf("location= leads to %q", got)
		}
	})
}

func TestThoseRefusedAreToldWhenToComeAgain(t *testing.T) {
	url := onKernel(t, stepped(t), false)
	for query, want := range map[string]string{
		"?status=429": "1", "?status=503&retry=90s": "90", "?status=429&retry=1500ms": "2",
		"?status=429&retry=0s": "", "?status=500&retry=90s": "",
	} {
		if got := strings.Join(ask(t, "GET", url+"/feed/1.rss"+query, "").header.Values("Retry-After"),
			"|"); got != want {
			t.Errorf("%s: Retry-After is %q, want %q", query, got, want)
		}
	}
}

func TestParametersThatCannotBeAreNamed(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		url := start(stepped(t))
		for name, s := range samples {
			for _, value := range s.bad {
				if strings.ContainsAny(value, "%+") {
					continue // another parameter in a URL
				}
				r := get(t, url+"/feed/1.rss?"+name+"="+value).want(t, 400, `"status":400`, name+" must be ")
				if typ := r.header.Get("Content-Type"); typ != "application/problem+json" {
					t.Errorf("%s=%s: %s", name, value, typ)
				}
			}
			for value := range s.good {
				if name == "hang" || name == "delay" || name == "jitter" {
					continue // elsewhere
				}
				if r := get(t, url+"/feed/1.rss?body=0&"+name+"="+value); r.status == 400 && name != "body" {
					t.Errorf("%s=%s is refused: %s", name, value, r.body)
				}
			}
		}
		for query, says := range map[string]string{
			"colour=red":                        `there is no parameter \"colour\"; there are items, body, `,
			"items=1&items=2":                   "items is given twice",
			"items=%zz":                         "malformed percent-escape",
			"items=10000&body=100000":           "items times body must be at most",
			"gzip=always&br=always":             "cannot both be always",
			"=":                                 `no parameter \"\"`,
			"items":                             "items must be",
			"malformed=truncated%3A2":           "malformed must be",
			"charset=koi8-r&charset=iso-8859-1": "charset is given twice",
		} {
			get(t, url+"/feed/1.rss?"+query).want(t, 400, says)
		}
		get(t, url+"/feed/1.json?charset=koi8-r").want(t, 400, "charset must be utf-8 for a JSON feed")
		get(t, url+"/feed/1.json?charset=utf-8").want(t, 200)
		get(t, url+"/feed/1.rss?malformed=truncated%3A1").want(t, 200)
		for _, path := range []string{"x.rss", "-1.rss", "1.xml", "1", "1.rss.gz", ".rss", "01.rss",
			"18446744073709551616.rss", "+1.rss", "1.RSS"} {
			get(t, url+"/feed/"+path).want(t, 400)
		}
		get(t, url+"/feed/18446744073709551615.rss").want(t, 200)
		for _, path := range []string{"/feed/", "/feed", "/feed/1.rss/x", "/other"} {
			get(t, url+path).want(t, 404)
		}
	})
}

func TestConditionalRequests(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t, "churn", "1", "ttl", "90s")
		url := start(s)
		feed := url + "/feed/9.rss"
		first := get(t, feed).want(t, 200, "<ttl>2</ttl>")
		tag, modified := first.header.Get("ETag"), first.header.Get("Last-Modified")
		if first.header.Get("Cache-Control") != "max-age=90" ||
			first.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("header %v", first.header)
		}
		for _, c := range []struct {
			query, field string
			status       int
		}{
			{"", "If-None-Match: " + tag, 304},
			{"", "If-None-Match: W/" + tag, 304},
			{"", `If-None-Match: "other", ` + tag, 304},
			{"", `If-None-Match: "other"`, 200},
			{"", "If-None-Match: " + strings.Trim(tag, `"`), 200},
			{"", "If-None-Match: *", 304},
			{"", "If-Modified-Since: " + modified, 304},
			{"", "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT", 304},
			{"", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT", 200},
			{"", "If-Modified-Since: yesterday", 200},
			{"?etag=weak", "If-None-Match: " + tag, 304},
			{"?etag=off", "If-None-Match: " + tag, 200},
			{"?lastmod=off", "If-Modified-Since: " + modified, 200},
			{"?items=19", "If-None-Match: " + tag, 200},
		} {
			r := get(t, feed+c.query, c.field).want(t, c.status)
			if c.status == 304 && (r.body != "" || r.header.Get("ETag") == "" ||
				r.header.Get("Cache-Control") == "") {
				t.Errorf("%s: %v %q", c.field, r.header, r.body)
			}
			if has, want := r.header.Get("ETag") != "", c.query != "?etag=off"; has != want {
				t.Errorf("%s: ETag %q", c.query, r.header.Get("ETag"))
			}
			if strings.HasPrefix(r.header.Get("ETag"), "W/") != (c.query == "?etag=weak") {
				t.Errorf("%s: ETag %q", c.query, r.header.Get("ETag"))
			}
			if has, want := r.header.Get("Last-Modified") != "", c.query != "?lastmod=off"; has != want {
				t.Errorf("%s: Last-Modified %q", c.query, r.header.Get("Last-Modified"))
			}
		}
		// If-None-Match goes before If-Modified-Since.
		get(t, feed, `If-None-Match: "other"`, "If-Modified-Since: "+modified).want(t, 200)
		if got := s.Stats(); got.Conditional != 15 || got.NotModified != 7 {
			t.Errorf("stats are %+v", got)
		}
		// A step later there is an item more.
		if err := s.Advance(1); err != nil {
			t.Fatal(err)
		}
		next := get(t, feed, "If-None-Match: "+tag).want(t, 200)
		if a, b := parse(t, first.body).Items, parse(t, next.body).Items; a[0].GUID != b[1].GUID ||
			a[18].GUID != b[19].GUID {
			t.Errorf("the feed has not moved on by one item: %s, then %s", a[0].GUID, b[0].GUID)
		}
		get(t, feed, "If-Modified-Since: "+modified).want(t, 200)
		get(t, feed, "If-None-Match: "+next.header.Get("ETag")).want(t, 304)
		// Back again, the bytes are the same.
		ask(t, "POST", url+"/clock", `{"step":0}`).want(t, 200)
		if r := get(t, feed); r.body != first.body || r.header.Get("ETag") != tag {
			t.Error("the same step does not give the same bytes")
		}
	})
}

func TestEncodingsAreNegotiated(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s) + "/feed/4.atom"
		plain := get(t, url)
		tags := make(map[string]string)
		for _, c := range []struct{ query, accept, want string }{
			{"", "", ""},
			{"", "gzip", "gzip"},
			{"", "x-gzip", "gzip"},
			{"", "GZIP;q=0.2", "gzip"},
			{"", "br", "br"},
			{"", "gzip, deflate, br", "br"},
			{"", "gzip;q=1, br;q=0.5", "gzip"},
			{"", "gzip;q=0.5, br;q=0.8, identity;q=0.9", ""},
			{"", "gzip;q=0", ""},
			{"", "gzip;q=2", ""},
			{"", "gzip; q=0.5", "gzip"},
			{"", "*", "br"},
			{"", "*;q=0.5, br;q=0", "gzip"},
			{"", "deflate, zstd", ""},
			{"?gzip=off", "gzip", ""},
			{"?gzip=off", "gzip, br", "br"},
			{"?br=off", "gzip, br", "gzip"},
			{"?gzip=off&br=off", "gzip, br", ""},
			{"?gzip=always", "", "gzip"},
			{"?gzip=always", "br", "gzip"},
			{"?br=always", "gzip", "br"},
		} {
			var fields []string
			if c.accept != "" {
				fields = []string{"Accept-Encoding: " + c.accept}
			}
			r := get(t, url+c.query, fields...).want(t, 200)
			var body io.Reader = strings.NewReader(r.body)
			got := r.header.Get("Content-Encoding")
			if got != c.want {
				t.Errorf("%s %q: %q, want %q", c.query, c.accept, got, c.want)
			}
			var err error
			switch got {
			case "gzip":
				body, err = gzip.NewReader(body)
			case "br":
				body = brotli.NewReader(body)
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if err != nil || string(text) != plain.body {
				t.Errorf("%s %q: %v, %d bytes, want %d", c.query, c.accept, err, len(text), len(plain.body))
			}
			if vary := r.header.Get("Vary"); (vary == "") != (c.query == "?gzip=off&br=off") {
				t.Errorf("%s: Vary %q", c.query, vary)
			}
			if old, ok := tags[got]; ok && old != r.header.Get("ETag") {
				t.Errorf("%s: ETag %s, was %s", got, r.header.Get("ETag"), old)
			}
			tags[got] = r.header.Get("ETag")
		}
		if tags[""] == tags["gzip"] || tags["br"] == tags["gzip"] {
			t.Errorf("different bytes have the same strong ETag: %v", tags)
		}
		e := s.Stats().Encodings
		if e["gzip"] != 9 || e["br"] != 5 || e["identity"] != 8 {
			t.Errorf("counted %v", e)
		}
	})
}

func TestRedirectsLeadToTheFeed(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		// Also where all requests are redirected by default.
		url := start(stepped(t, "error", "1", "status", "302"))
		for _, path := range []string{"/feed/1.rss", "/feed/1.rss?items=3&status=308",
			"/feed/1.rss?error=1&items=3&etag=off"} {
			r := get(t, url+path)
			if r.status/100 != 3 {
				t.Fatalf("%s: %d", path, r.status)
			}
			items := len(parse(t, get(t, url+r.header.Get("Location")).want(t, 200).body).Items)
			if want := map[bool]int{true: 3, false: 20}[strings.Contains(path, "items=3")]; items != want {
				t.Errorf("%s leads to %s with %d items", path, r.header.Get("Location"), items)
			}
		}
	})
}

func TestErrorsComeAsOftenAsAsked(t *testing.T) {
	s := stepped(t, "error", "0.1", "status", "503")
	url := onKernel(t, s, false)
	failed := make([]bool, 1000)
	for i := range failed {
		r := get(t, url+"/feed/77.rss")
		if failed[i] = r.status == 503; failed[i] && r.header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		} else if !failed[i] && r.status != 200 {
			t.Errorf("status %d", r.status)
		}
	}
	n := 0
	for _, f := range failed {
		if f {
			n++
		}
	}
	if n < 70 || n > 130 {
		t.Errorf("%d of 1000 failed, want about 100", n)
	}
	if got := s.Stats().Errors; got != uint64(n) {
		t.Errorf("%d errors counted, want %d", got, n)
	}
	// Again: the same requests fail, and those with a larger share among others.
	ask(t, "DELETE", url+"/stats", "").want(t, 204)
	for i := range failed {
		if r := get(t, url+"/feed/77.rss?error=0.2"); failed[i] && r.status != 503 {
			t.Fatalf("request %d fails with 0.1 and not with 0.2", i)
		}
	}
	if n := s.Stats().Errors; n < 150 || n > 250 {
		t.Errorf("%d of 1000 failed, want about 200", n)
	}
}

func TestKnobsChangeLive(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		if n := len(parse(t, get(t, url+"/feed/1.rss").body).Items); n != 20 {
			t.Errorf("%d items", n)
		}
		var shown map[string]any
		r := ask(t, "PUT", url+"/knobs", `{"items":3,"error":0.5,"status":418}`).want(t, 200)
		if err := json.Unmarshal([]byte(r.body), &shown); err != nil || shown["items"] != 3.0 ||
			shown["delay"] != "0s" {
			t.Errorf("%v: %s", err, r.body)
		}
		if again := get(t, url+"/knobs").want(t, 200); again.body != r.body {
			t.Errorf("PUT shows %s, GET %s", r.body, again.body)
		}
		if n := len(parse(t, get(t, url+"/feed/1.rss?error=0").want(t, 200).body).Items); n != 3 {
			t.Errorf("%d items, want 3", n)
		}
		get(t, url+"/feed/1.rss?error=1").want(t, 418)
		for body, says := range map[string]string{
			`{"items":-3}`:            "items must be a whole number",
			`{"items":4,"colour":1}`:  "there is no knob",
			``:                        `the body must be a JSON object of knobs, such as {\"delay\":\"50ms\",\"error\":0.01}: unexpected end`,
			`delay=1s`:                `the body must be a JSON object of knobs, such as {\"delay\":\"50ms\",\"error\":0.01}: invalid character 'd'`,
			`{"status":"x"}`:          "status must be a status from 200 to 599",
			`{"malformed":"bomb:-1"}`: "malformed must be",
		} {
			ask(t, "PUT", url+"/knobs", body).want(t, 400, says)
		}
		ask(t, "PUT", url+"/knobs", strings.Repeat(" ", 2e4)).want(t, 413, "longer than 16384 bytes")
		if s.Knobs().Items != 3 {
			t.Error("a refused change was made")
		}
		get(t, url+"/").want(t, 200, "  items      3 ", "  status     418", "truncated",
			"shift_jis", "/stats")
	})
}

func TestTheClock(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		url := start(stepped(t))
		get(t, url+"/clock").want(t, 200,
			`"clock":"stepped","step":0,"step_seconds":60,"time":"2026-01-01T00:00:00Z"`)
		ask(t, "POST", url+"/clock", "").want(t, 200, `"step":1,`)
		ask(t, "POST", url+"/clock", `{"advance":9}`).want(t, 200, `"step":10,`, `"2026-01-01T00:10:00Z"`)
		ask(t, "POST", url+"/clock", `{"step":4}`).want(t, 200, `"step":4,`)
		for _, body := range []string{`{}`, `{"advance":1,"step":2}`, `{"by":1}`, `{"advance":1.5}`,
			`{"advance":1}{}`, `[1]`, `x`} {
			ask(t, "POST", url+"/clock", body).want(t, 400, `the body must be {\"advance\":N}`)
		}
		for _, body := range []string{`{"advance":-1}`, `{"step":-1}`, `{"step":9000000000000000000}`,
			`{"advance":9223372036854775807}`} {
			ask(t, "POST", url+"/clock", body).want(t, 400, "must be a whole number from 0 to ")
		}
		get(t, url+"/clock").want(t, 200, `"step":4,`)
	})
	url := onKernel(t, clocked(t, epoch.Add(150*time.Second)), false)
	get(t, url+"/clock").want(t, 200,
		`"clock":"real","step":2,"step_seconds":60,"time":"2026-01-01T00:02:00Z"`)
	ask(t, "POST", url+"/clock", "").want(t, 409, "--clock stepped")
	ask(t, "POST", url+"/clock", `{"step":3}`).want(t, 409, "--clock stepped")
	if at := clocked(t, epoch.Add(-time.Hour)).Step(); at != 0 {
		t.Errorf("before the epoch it is step %d", at)
	}
}

func TestStats(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		body := get(t, url+"/feed/1.rss").body
		get(t, url+"/feed/1.atom")
		get(t, url+"/feed/65537.json")
		ask(t, "HEAD", url+"/feed/2.rss", "")
		get(t, url+"/feed/2.rss?x=1")
		var got Stats
		if err := json.Unmarshal([]byte(get(t, url+"/stats").want(t, 200).body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Requests != 5 || got.Kinds["rss"] != 2 || got.Kinds["atom"] != 1 || got.Kinds["json"] != 1 ||
			got.Kinds["refused"] != 1 ||
			got.Statuses[200] != 4 || got.Statuses[400] != 1 || got.Bytes < 2*uint64(len(body)) ||
			got.Encodings["identity"] != 3 || got.Rendered != 4 {
			t.Errorf("got %+v", got)
		}
		get(t, url+"/stats?seed=1").want(t, 200, `{"seed":1,"requests":3}`)
		get(t, url+"/stats?seed=3").want(t, 200, `{"seed":3,"requests":0}`)
		for _, q := range []string{"?seed=x", "?seed=1&seed=2", "?a=1", "?seed=-1", "?seed=%zz"} {
			get(t, url+"/stats"+q).want(t, 400)
		}
		ask(t, "DELETE", url+"/stats", "").want(t, 204)
		after := s.Stats()
		if after.Requests != 0 || after.Bytes != 0 || len(after.Statuses) != 0 || s.Requests(1) != 0 ||
			after.Since.Before(got.Since) {
			t.Errorf("after a reset: %+v", after)
		}
	})
}

func TestOtherMethodsAreRefused(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		url := start(stepped(t))
		for _, path := range []string{"/feed/1.rss", "/", "/stats"} {
			if r := ask(t, http.MethodPost, url+path, "x"); r.status != http.StatusMethodNotAllowed ||
				r.header.Get("Allow") == "" {
				t.Errorf("POST %s: %d %v", path, r.status, r.header)
			}
		}
	})
}

func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	s := stepped(t)
	for _, field := range []string{"Origin", "Sec-Fetch-Site"} {
		for _, of := range []struct{ method, path string }{{"PUT", "/knobs"}, {"POST", "/clock"},
			{"DELETE", "/stats"}} {
			r := httptest.NewRequest(of.method, of.path, strings.NewReader(`{"error":1}`))
			r.Header.Set(field, "https://elsewhere.example")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s %s with %s is answered %d", of.method, of.path, field, w.Code)
			}
		}
	}
	if s.Knobs().Error != 0 {
		t.Error("the knobs were changed")
	}
}

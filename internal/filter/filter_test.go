package filter_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/filter"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/systest"
)

// upstream is an origin whose answers a test sets.
type upstream struct {
	*httptest.Server
	handler atomic.Pointer[http.HandlerFunc]
	asked   atomic.Int64
}

func newUpstream(t testing.TB, handler http.HandlerFunc) *upstream {
	u := new(upstream)
	u.set(handler)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.asked.Add(1)
		(*u.handler.Load())(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) set(h http.HandlerFunc) { u.handler.Store(&h) }

func (u *upstream) port() int {
	parsed, _ := url.Parse(u.URL)
	port, _ := strconv.Atoi(parsed.Port())
	return port
}

// served is the service behind a server.
type served struct {
	t             testing.TB
	public, admin string
	client        *http.Client
}

// serve serves filters from a directory until stop is called or the test ends.
func serve(t testing.TB, dir string, origin *upstream, kernel server.Config,
	change func(*filter.Config)) (s *served, stop func()) {
	t.Helper()
	cfg := filter.Config{Path: "/filtered", Base: "http://readers.example",
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Ports: []int{origin.port()}, CacheBytes: 64 << 20, Memory: 64 << 20, MaxBody: 1 << 20,
		Interval: time.Hour, Idle: time.Hour,
		Wait: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	m, log := metrics.New(4), slog.New(slog.DiscardHandler)
	service, err := filter.Open(cfg, server.Env{DataDir: dir, Metrics: m, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	kernel.Listen, kernel.Admin, kernel.Metrics, kernel.Log, kernel.Loops = "127.0.0.1:0",
		"127.0.0.1:0", m, log, 1
	k, err := server.New(kernel, service)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	transport := &http.Transport{DisableCompression: true}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return &served{t, "http://" + k.Addr().String(), "http://" + k.AdminAddr().String(),
		&http.Client{Transport: transport, Timeout: time.Minute}}, stop
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(method, url, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// add adds a filter and returns its URL.
func (s *served) add(spec string) string {
	s.t.Helper()
	got := s.do("POST", s.admin+"/admin/filters", spec)
	var shown filter.Shown
	if err := json.Unmarshal([]byte(got.body), &shown); got.status != 201 || err != nil {
		s.t.Fatalf("adding %s: %+v", spec, got)
	}
	return s.public + shown.Path
}

func (s *served) want(url string, status int, header ...string) answer {
	s.t.Helper()
	got := s.do("GET", url, "", header...)
	if got.status != status {
		s.t.Fatalf("GET %s: %d %v %s, want %d", url, got.status, got.header, got.body, status)
	}
	return got
}

const rss = `<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel>
<title>News</title><link>https://news.example/</link>
<atom:link rel="self" href="https://news.example/rss"/>
<!-- a comment -->
<item><title>Go 1.26 is released</title><guid>1</guid><link>https://news.example/1</link><pubDate>Tue, 10 Feb 2026 10:00:00 GMT</pubDate>
  <itunes:duration>10</itunes:duration><enclosure url="https://news.example/1.mp3" length="9" type="audio/mpeg"/></item>
<item><title>An advert</title><guid>2</guid><link>https://news.example/2</link><pubDate>Wed, 11 Feb 2026 10:00:00 GMT</pubDate></item>
<item><title>Sports</title><guid>3</guid><link>https://news.example/3?utm_source=x</link><pubDate>Thu, 12 Feb 2026 10:00:00 GMT</pubDate></item>
</channel></rss>
`

func feed(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Upstream", "secret")
		w.Header().Set("ETag", strconv.Quote(fmt.Sprint(len(text))))
		if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, text)
	}
}

func without(text, title string) string {
	from := strings.Index(text, "\n<item><title>"+title)
	return text[:from] + text[from+strings.Index(text[from:], "</item>")+len("</item>"):]
}

// lanes runs a test on the event loops and on net/http.
func lanes(t *testing.T, test func(t *testing.T, kernel server.Config)) {
	t.Run("loops", func(t *testing.T) { test(t, server.Config{}) })
	t.Run("net-http", func(t *testing.T) { test(t, server.Config{NetHTTP: true}) })
}

func TestAFilteredFeedIsTheSourceWithoutWhatIsDropped(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		up := newUpstream(t, feed(rss))
		s, _ := serve(t, t.TempDir(), up, kernel, nil)
		at := s.add(`{"url":"` + up.URL + `/rss","rules":["title contains \"advert\""]}`)
		want := strings.Replace(without(rss, "An advert"), "https://news.example/rss",
			strings.Replace(at, s.public, "http://readers.example", 1), 1)
		for range 3 { // waited for, then at hand
			got := s.want(at, 200)
			if got.body != want {
				t.Fatalf("got\n%s\nwant\n%s", got.body, want)
			}
			if got.header.Get("Content-Type") != "application/rss+xml; charset=utf-8" ||
				got.header.Get("X-Content-Type-Options") != "nosniff" ||
				got.header.Get("Cache-Control") == "" || got.header.Get("Age") == "" ||
				got.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("header %v", got.header)
			}
			if got.header.Get("Set-Cookie") != "" || got.header.Get("X-Upstream") != "" {
				t.Errorf("a header of the source was passed on: %v", got.header)
			}
			zipped := s.want(at, 200, "Accept-Encoding", "br, gzip;q=0.5")
			r, err := gzip.NewReader(strings.NewReader(zipped.body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(r); err != nil || string(text) != want {
				t.Fatalf("gunzipped: %v\n%s", err, text)
			}
			if zipped.header.Get("ETag") == got.header.Get("ETag") ||
				zipped.header.Get("Content-Encoding") != "gzip" {
				t.Errorf("header of gzip: %v", zipped.header)
			}
			for _, has := range []answer{got, zipped} {
				encoding := "identity"
				if has.header.Get("Content-Encoding") != "" {
					encoding = "gzip"
				}
				not := s.want(at, 304, "If-None-Match", has.header.Get("ETag"), "Accept-Encoding", encoding)
				if not.body != "" || not.header.Get("ETag") != has.header.Get("ETag") {
					t.Errorf("304: %+v", not)
				}
			}
			head := s.do("HEAD", at, "")
			if head.status != 200 || head.body != "" ||
				head.header.Get("Content-Length") != strconv.Itoa(len(want)) {
				t.Errorf("HEAD: %+v", head)
			}
			s.want(at, 304, "If-Modified-Since", got.header.Get("Last-Modified"))
		}
		if n := up.asked.Load(); n != 1 {
			t.Errorf("the source was asked %d times", n)
		}
	})
}

func TestWithNothingDroppedTheFeedIsTheSource(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, func(c *filter.Config) { c.Base = "" })
	if got := s.want(s.add(`{"url":"`+up.URL+`","rules":[]}`), 200); got.body != rss {
		t.Errorf("got\n%s", got.body)
	}
}

func TestASuffixConverts(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	at := s.add(`{"url":"` + up.URL + `","mode":"keep","rules":["title contains \"go\""]}`)
	for range 2 {
		var got struct {
			FeedURL string `json:"feed_url"`
			Items   []struct{ Title string }
		}
		answer := s.want(at+".json", 200)
		if err := json.Unmarshal([]byte(answer.body), &got); err != nil || len(got.Items) != 1 ||
			got.Items[0].Title != "Go 1.26 is released" {
			t.Fatalf("%v: %s", err, answer.body)
		}
		if !strings.HasPrefix(got.FeedURL, "http://readers.example/filtered/") ||
			!strings.HasSuffix(got.FeedURL, ".json") {
			t.Errorf("it names itself %q", got.FeedURL)
		}
		if answer.header.Get("Content-Type") != "application/feed+json; charset=utf-8" {
			t.Errorf("%v", answer.header)
		}
		atom := s.want(at+".atom", 200, "Accept-Encoding", "gzip")
		r, err := gzip.NewReader(strings.NewReader(atom.body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || !bytes.Contains(text, []byte("<feed")) {
			t.Errorf("%v %s", err, text)
		}
		s.want(at+".atom", 304, "If-None-Match", atom.header.Get("ETag"), "Accept-Encoding", "gzip")
	}
	for _, wrong := range []string{at + ".rdf", at + ".", at + "x", s.public + "/filtered/x"} {
		s.want(wrong, 404)
	}
}

func TestAChangedRuleChangesWhatIsThere(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	at := s.add(`{"url":"` + up.URL + `","rules":["title contains \"advert\""]}`)
	before := s.want(at, 200)
	id := at[strings.LastIndexByte(at, '/')+1:]
	if got := s.do("PATCH", s.admin+"/admin/filters/"+id,
		`{"rules":["title = \"sports\""],"title":"mine"}`); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	after := s.want(at, 200, "If-None-Match", before.header.Get("ETag"))
	if strings.Contains(after.body, "Sports") || !strings.Contains(after.body, "advert") ||
		after.header.Get("ETag") == before.header.Get("ETag") {
		t.Errorf("%+v", after)
	}
	if got := s.do("PUT", s.admin+"/admin/filters/rules",
		`{"mode":"drop","rules":["title contains \"go\""]}`); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if got := s.want(at, 200); strings.Contains(got.body, "Go 1.26") {
		t.Errorf("a global rule is not applied: %s", got.body)
	}
	if got := s.do("DELETE", s.admin+"/admin/filters/"+id, ""); got.status != 204 {
		t.Fatalf("%+v", got)
	}
	s.want(at, 404)
	if n := up.asked.Load(); n != 1 {
		t.Errorf("the source was asked %d times", n)
	}
}

func TestARestartServesWithoutTheSource(t *testing.T) {
	dir := t.TempDir()
	up := newUpstream(t, feed(rss))
	s, stop := serve(t, dir, up, server.Config{}, nil)
	at := strings.TrimPrefix(s.add(`{"url":"`+up.URL+`","rules":["title contains \"advert\""]}`), s.public)
	before := s.want(s.public+at, 200)
	stop()
	up.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	s, _ = serve(t, dir, up, server.Config{}, nil)
	s.want(s.public+at, 304, "If-None-Match", before.header.Get("ETag"))
	if after := s.want(s.public+at, 200); after.body != before.body {
		t.Errorf("%+v, want %+v", after, before)
	}
}

func TestTroubleOfASourceIsAnswered(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		hang := make(chan struct{})
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/404":
				w.WriteHeader(404)
			case "/410":
				w.WriteHeader(410)
			case "/html":
				io.WriteString(
					w, "<html><head><link rel=alternate type=application/rss+xml href=/rss></head>")
			case "/hang":
				select {
				case <-hang:
				case <-r.Context().Done():
				}
			}
		})
		defer close(hang)
		s, _ := serve(t, t.TempDir(), up, kernel, func(c *filter.Config) { c.Wait = 50 * time.Millisecond })
		for path, status := range map[string]int{"/404": 502, "/410": 410, "/html": 502, "/hang": 504} {
			at := s.add(`{"url":"` + up.URL + path + `"}`)
			got := s.do("GET", at, "")
			if path != "/hang" && got.status == 504 { // slower than it waits for, today
				systest.Eventually(t, path+" is answered",
					func() bool { got = s.do("GET", at, ""); return got.status != 504 })
			}
			if got.status != status || got.header.Get("Content-Type") != "application/problem+json" ||
				status != 410 && got.header.Get("Retry-After") == "" {
				t.Errorf("%s: %+v, want %d", path, got, status)
			}
		}
		asked := up.asked.Load()
		for _, f := range []string{"/404", "/html"} {
			if got := s.do("GET", s.add(`{"url":"`+up.URL+f+`"}`), ""); got.status != 502 {
				t.Errorf("%+v", got)
			}
		}
		if up.asked.Load() != asked {
			t.Error("what has failed is asked again at once")
		}
		var list struct{ Sources []filter.State }
		got := s.do("GET", s.admin+"/admin/filters/sources", "")
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list.Sources) != 4 ||
			list.Sources[0].Failures == 0 {
			t.Errorf("%v %s", err, got.body)
		}
	})
}

func TestAFailingSourceIsAnsweredByItsLastGoodContent(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, polled)
	at := s.add(`{"url":"` + up.URL + `"}`)
	reporting := s.add(`{"url":"` + up.URL + `","report_failures":true}`)
	before := s.want(at, 200)
	up.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	systest.Eventually(t, "the marker", func() bool {
		got := s.want(at, 200)
		return got.header.Get("Weir-Stale") != "" && got.body == before.body
	})
	if got := s.want(reporting, 200); !strings.Contains(got.body, "cannot be fetched") ||
		!strings.Contains(got.body, "Sports") {
		t.Errorf("no item says so: %s", got.body)
	}
	up.set(feed(without(rss, "Sports")))
	systest.Eventually(t, "the new content", func() bool {
		got := s.want(at, 200)
		return got.header.Get("Weir-Stale") == "" && !strings.Contains(got.body, "Sports")
	})
	if got := s.want(reporting, 200); strings.Contains(got.body, "cannot be fetched") {
		t.Errorf("an item still says that it fails: %s", got.body)
	}
}

func TestSeveralSourcesAreOneFeed(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			io.WriteString(w, rss)
		case "/b":
			io.WriteString(w, `{"version":"https://jsonfeed.org/version/1.1","title":"B","items":[
				{"id":"9","title":"Newest","date_published":"2026-03-01T00:00:00Z","url":"https://b.example/9"},
				{"id":"8","title":"Twice","date_published":"2026-02-28T00:00:00Z","url":"https://news.example/3#top"}]}`)
		default:
			w.WriteHeader(404)
		}
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	at := s.add(`{"urls":["` + up.URL + `/a","` + up.URL + `/b","` + up.URL +
		`/none"],"sort":"newest","dedup":["link"],"limit":3,"rules":["title contains \"advert\""]}`)
	for range 2 {
		got := s.want(at+".json", 200)
		var titles []string
		var parsed struct{ Items []struct{ Title string } }
		if err := json.Unmarshal([]byte(got.body), &parsed); err != nil {
			t.Fatal(err)
		}
		for _, it := range parsed.Items {
			titles = append(titles, it.Title)
		}
		if fmt.Sprint(titles) != "[Newest Twice Go 1.26 is released]" {
			t.Errorf("%q", titles)
		}
	}
	s.want(at, 304, "If-None-Match", s.want(at, 200).header.Get("ETag"))
}

func TestAPreviewSaysWhichRuleDecided(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			io.WriteString(
				w,
				`<html><head><link rel="alternate" type="application/rss+xml" href="/rss" title="All"></head></html>`)
			return
		}
		feed(rss)(w, r)
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	got := s.do("POST", s.admin+"/admin/filters/preview", `{"url":"`+up.URL+
		`/rss","rules":["title contains \"advert\"","title matches \"(i?)x\""]}`)
	var p filter.Preview
	if err := json.Unmarshal([]byte(got.body), &p); got.status != 200 || err != nil || p.Kept != 2 ||
		p.Dropped != 1 {
		t.Fatalf("%v %+v", err, got)
	}
	for _, it := range p.Items {
		if it.Kept != (it.Title != "An advert") || it.Kept != (it.Rule == "") {
			t.Errorf("%+v", it)
		}
	}
	if got := s.do("POST", s.admin+"/admin/filters/preview", `{"url":"`+up.URL+`/"}`); !strings.Contains(
		got.body, up.URL+"/rss") {
		t.Errorf("%+v", got)
	}
	if got := s.do("POST", s.admin+"/admin/filters/discover", `{"url":"`+up.URL+`/"}`); !strings.Contains(
		got.body, up.URL+"/rss") {
		t.Errorf("%+v", got)
	}
}

func TestARuleThatHasNotMatchedForManyItemsIsReported(t *testing.T) {
	var edition atomic.Int64
	dir := t.TempDir()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		n := edition.Load()
		io.WriteString(w, strings.ReplaceAll(strings.ReplaceAll(rss, "Sports", fmt.Sprint("Sports of day ", n)),
			"<guid>3", fmt.Sprint("<guid>3.", n)))
	})
	s, stop := serve(t, dir, up, server.Config{}, polled)
	at := s.add(`{"url":"` + up.URL + `","rules":["title contains \"advert\"","title contains \"weather\"",` +
		`"title contains words \"day 0\""]}`)
	s.want(at, 200)
	shown := func() (f filter.Shown) {
		got := s.do("GET", s.admin+"/admin/filters/"+at[strings.LastIndexByte(at, '/')+1:], "")
		if err := json.Unmarshal([]byte(got.body), &f); err != nil || len(f.Matches) != 3 {
			t.Fatalf("%v %+v", err, got)
		}
		return f
	}
	f := shown()
	if m := f.Matches; m[0].Items != 1 || m[0].At == nil || m[1].Items != 0 || m[1].At != nil ||
		m[1].Unmatched != 3 || m[2].Items != 1 || len(f.Notes) != 1 ||
		f.Notes[0] != (filter.Note{Rule: 2, Text: "matches none of the 3 items that there are now"}) {
		t.Errorf("%+v %+v", f.Matches, f.Notes)
	}
	for n := range int64(2) { // an item a day
		edition.Store(n + 1)
		systest.Eventually(t, "the next edition", func() bool {
			return strings.Contains(s.want(at, 200).body, fmt.Sprintf("Sports of day %d", n+1))
		})
	}
	for range 2 { // before and after a restart
		f = shown()
		if m := f.Matches; m[0].Items != 1 || m[1].Unmatched != 5 || m[1].At != nil || m[2].Unmatched < 2 ||
			m[2].At == nil || len(f.Notes) != 2 || f.Notes[0].Text != "matches none of the last 5 items" ||
			!strings.Contains(f.Notes[1].Text, "it has matched last on 20") || f.Source[0].Items != 5 {
			t.Errorf("%+v %+v %+v", f.Matches, f.Notes, f.Source)
		}
		stop()
		s, stop = serve(t, dir, up, server.Config{}, polled)
	}
}

func TestWhatIsWrongIsRefusedWithItsPlace(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	for body, says := range map[string]string{
		`{"url":"` + up.URL + `","rules":["title contains"]}`:      "rule 1",
		`{"url":"file:///etc/passwd"}`:                             "http://",
		`{"urls":[]}`:                                              "URLs",
		`{"url":"` + up.URL + `","mode":"maybe"}`:                  "mode",
		`{"url":"` + up.URL + `","colour":"red"}`:                  "colour",
		`{"url":"` + up.URL + `","sort":"oldest"}`:                 "sort",
		`{"url":"` + up.URL + `","limit":-1}`:                      "limit",
		`{"urls":["` + up.URL + `","` + up.URL + `/"]}`:            "twice",
		`{"url":"` + up.URL + `","rules":["title matches \"(\""]}`: "rule 1",
	} {
		if got := s.do("POST", s.admin+"/admin/filters", body); got.status != 422 ||
			!strings.Contains(got.body, says) {
			t.Errorf("%s: %+v, want %q", body, got, says)
		}
	}
}

func TestAGlobalRuleThatCannotMatchIsReported(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	for _, put := range []bool{true, false} {
		got := s.do("GET", s.admin+"/admin/filters/rules", "")
		if put {
			got = s.do("PUT", s.admin+"/admin/filters/rules",
				`{"mode":"keep","rules":["title contains \"go\"","title matches /(i?)/","age > 7d and age < 1d"]}`)
		}
		var shown filter.GlobalRules
		if err := json.Unmarshal([]byte(got.body), &shown); err != nil || got.status != 200 ||
			len(shown.Notes) != 2 || shown.Notes[0].Rule != 2 || shown.Notes[1].Rule != 3 {
			t.Errorf("%v %+v", err, got)
		}
	}
	got := s.do("PUT", s.admin+"/admin/filters/rules", `{"mode":"keep","rules":[]}`)
	if got.status != 200 || strings.Contains(got.body, "notes") {
		t.Errorf("%+v", got)
	}
}

func TestAGlobalRuleThatMatchesNothingIsReported(t *testing.T) {
	text := `<rss version="2.0"><channel><title>t</title>` +
		strings.Repeat("<item><title>some</title><guid>%d</guid></item>", 1000) + `</channel></rss>`
	numbers := make([]any, 1000)
	for i := range numbers {
		numbers[i] = i
	}
	up := newUpstream(t, feed(fmt.Sprintf(text, numbers...)))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	s.do("PUT", s.admin+"/admin/filters/rules",
		`{"mode":"drop","rules":["title contains \"go\"","title contains \"some\""]}`)
	s.want(s.add(`{"url":"`+up.URL+`"}`), 200)
	var shown filter.GlobalRules
	got := s.do("GET", s.admin+"/admin/filters/rules", "")
	if err := json.Unmarshal([]byte(got.body), &shown); err != nil || len(shown.Notes) != 1 ||
		shown.Notes[0] != (filter.Note{Rule: 1, Text: "has matched none of the last 1000 items"}) {
		t.Errorf("%v %s", err, got.body)
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, func(c *filter.Config) { c.Allow = nil })
	if got := s.do("GET", s.add(`{"url":"`+up.URL+`"}`), ""); got.status != 502 ||
		strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("%+v", got)
	}
	if up.asked.Load() != 0 {
		t.Error("it was asked")
	}
}

func TestAHitIsAnsweredWhateverElseHangs(t *testing.T) {
	hang := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rss" {
			feed(rss)(w, r)
			return
		}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	s, _ := serve(t, t.TempDir(), up, server.Config{Workers: 1}, func(c *filter.Config) {
		c.Limits.Requests = 5
	})
	at := s.add(`{"url":"` + up.URL + `/rss"}`)
	s.want(at, 200)
	for i := range 10 {
		slow := s.add(fmt.Sprintf(`{"url":"%s/%d"}`, up.URL, i))
		go http.Get(slow)
	}
	systest.Eventually(t, "that no more may wait", func() bool {
		return s.do("GET", s.add(`{"url":"`+up.URL+`/more"}`), "").status == 503
	})
	s.want(at, 200)
}

func TestContentBeyondTheMemoryIsMadeAnew(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		feed(strings.Replace(rss, "News", "News of "+r.URL.Path, 1))(w, r)
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, func(c *filter.Config) { c.Memory = 4000 })
	var all []string
	for i := range 20 {
		all = append(all, s.add(fmt.Sprintf(`{"url":"%s/%d","rules":["title contains \"advert\""]}`,
			up.URL, i)))
	}
	for range 3 {
		for i, at := range all {
			if got := s.want(at, 200); !strings.Contains(got.body, fmt.Sprintf("News of /%d<", i)) ||
				strings.Contains(got.body, "advert") {
				t.Fatalf("%d: %s", i, got.body)
			}
		}
	}
	if n := up.asked.Load(); n != 20 {
		t.Errorf("the sources were asked %d times", n)
	}
}

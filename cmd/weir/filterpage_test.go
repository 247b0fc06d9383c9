package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/webui/webuitest"
)

// newsFeed is a feed of somebody else, whose texts try to be more than texts.
func newsFeed(title string) string {
	text := `<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>` + title + `</title>` +
		`<link>/</link>`
	for i, one := range []string{"Go 1.26 is released", "Sponsored: a chair to sit on",
		"How the cache is kept warm", "&lt;img src=x onerror=alert(1)&gt; in a title", "Sponsored: shoes",
		"What we learned from a year of small services", "A parser in one pass", "Sports &amp;amp; games",
		"The weather tomorrow", "Notes on <![CDATA[<script>alert(2)</script>]]>"} {
		text += fmt.Sprintf(`<item><title>%s</title><guid>%d</guid><link>javascript:alert(%d)</link><pubDate>%s</pubDate></item>`,
			one, i, i, time.Now().Add(-time.Duration(i)*7*time.Hour).Format(time.RFC1123Z))
	}
	return text + "</channel></rss>"
}

// newsSite is an origin of a page with two feeds and an icon, and of a feed that fails once it is told to.
func newsSite(t *testing.T) (site *httptest.Server, broken *atomic.Bool) {
	broken = new(atomic.Bool)
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			io.WriteString(w, `<html><head><link rel="icon" href="/icon.png"><link rel="alternate" type="application/rss+xml" `+
				`href="/rss" title="The Daily Example"><link rel="alternate" type="application/rss+xml" href="/more" title="More"></head></html>`)
		case r.URL.Path == "/icon.png":
			w.Write([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\b\x06" +
				"\x00\x00\x00\x1f\x15\xc4\x89" +
				"\x00\x00\x00\rIDATx\x9cc\xf8\xcfP\xff\x1f\x00\x06\x03\x02\xff\xbb\xa6\x9d\xdb\x00\x00\x00\x00IEND\xaeB`\x82"))
		case broken.Load() && r.URL.Path == "/broken":
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(503)
		case r.URL.Path == "/rss" || r.URL.Path == "/more" || r.URL.Path == "/broken" ||
			strings.HasPrefix(r.URL.Path, "/a/"):
			io.WriteString(w, newsFeed("The Daily Example"))
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(site.Close)
	return site, broken
}

func TestAFilterIsMadeWithAPreviewAndThenFetched(t *testing.T) {
	site, broken := newsSite(t)
	at, _ := url.Parse(site.URL)
	_, public, admin := startAPI(t, "--filter-allow-net", "127.0.0.0/8", "--filter-ports", at.Port(),
		"--filter-url", "http://feeds.example.org")
	post := func(path string, v any) map[string]any {
		t.Helper()
		text, _ := json.Marshal(v)
		var answer map[string]any
		if err := json.Unmarshal(callAPI(t, "POST", admin+path, string(text), 0).body, &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	b := webuitest.Open(t, admin, 1280, 900, "light")
	look := func(name string) {
		t.Helper()
		b.Eval("scrollTo(0, 0)")
		b.Look(name)
	}
	b.Go("/ui/filters")
	b.Wait("document.querySelector('.filters-empty')")
	look("filters-empty")

	// By the keyboard: a page is found to have two feeds, of which both are taken.
	b.Click("#filters-add")
	b.Wait("document.activeElement.id === 'filters-url'")
	b.Fill("filters-url", site.URL+"/")
	b.Press("\r")
	b.Wait("document.querySelectorAll('.filters-found input').length === 2")
	look("filters-found")
	b.Click("#filters-choose")
	b.Wait("document.querySelectorAll('#filters-preview .filters-items li').length > 5")
	// The rules are typed; what is under way when the next key comes is not shown.
	b.Click("#filters-rules")
	b.Do(chromedp.KeyEvent("title contains \"sponsored\"\nauthor = \"nobody\"\n"))
	b.Wait("document.querySelector('#filters-dropped').textContent === 'Dropped (2)'")
	b.Wait("document.querySelector('.filters-gutter').innerText.startsWith('2')")
	b.Eval("document.querySelector('.filters-why').focus({ preventScroll: true })")
	b.Wait("document.querySelector('.filters-mirror .marked').textContent.includes('sponsored')")
	look("filters-editor")
	if n := b.Text("document.querySelectorAll('#filters-preview img, #filters-preview script, " +
		"#filters-preview a[href^=java]').length"); n != "0" {
		t.Errorf("%s elements of a feed are on the page", n)
	}
	b.Do(chromedp.Click(chromedp.CSS("#filters-rules")))
	b.Do(chromedp.KeyEvent("title has \"x\""))
	b.Wait("document.querySelector('#filters-rules-wrong').textContent.includes('column 7')")
	b.Wait("document.querySelector('.filters-mirror mark').textContent === 'has'")
	look("filters-wrong")
	b.Fill("filters-rules", "title contains \"sponsored\"")
	b.Fill("filters-title", "Without adverts")
	b.Fill("filters-folder", "News/Local")
	b.Fill("filters-tags", "daily, example")
	b.Wait("document.querySelector('#filters-preview').getAttribute('aria-busy') === 'false' && " +
		"!document.querySelector('#filters-rules[aria-invalid]')")
	b.Click("#filters-save")
	b.Wait("location.hash.startsWith('#/filter/') && document.querySelector('#filters-address')")
	feed := strings.TrimPrefix(b.Text("document.querySelector('#filters-address').value"),
		"http://feeds.example.org")
	if got := string(callAPI(t, "GET", public+feed, "", 0).body); strings.Contains(got, "Sponsored") ||
		!strings.Contains(got, "Go 1.26") {
		t.Errorf("%s is answered with\n%s", feed, got)
	}
	b.Click("#filters-fetch")
	b.Wait("document.querySelectorAll('.filters-history tbody tr').length > 1")

	// More filters, of which one fails.
	for i := range 60 {
		post("/admin/filters", map[string]any{"url": fmt.Sprintf("%s/a/%d", site.URL, i),
			"title":  fmt.Sprintf("Feed %02d", i),
			"folder": []string{"News", "Blogs/Go", "Blogs/Other", ""}[i%4], "tags": []string{"work",
				"daily"}[:i%3]})
	}
	failing := post("/admin/filters", map[string]any{"url": site.URL + "/broken",
		"title": "A source that fails",
		"rules": []string{`title contains "sponsored"`, `age > 3d and age < 1d`}})["id"].(string)
	post("/admin/filters/"+failing+"/fetch", nil)
	broken.Store(true)
	post("/admin/filters/"+failing+"/fetch", nil)
	b.Go("/ui/filters#/filter/" + failing)
	b.Wait("document.querySelector('.filters-history .failed')")
	look("filters-one")
	b.Go("/ui/filters")
	b.Wait("document.querySelectorAll('.filters-list tbody tr').length === 50")
	b.Wait("[...document.querySelectorAll('.filters-icons img')].some((i) => i.naturalWidth > 0)")
	look("filters")
	b.Click(".filters-main > .actions button")
	b.Wait("document.querySelectorAll('.filters-list tbody tr').length === 62")
	b.Fill("filters-q", "ADVERTS daily")
	b.Wait("document.querySelectorAll('.filters-list tbody tr').length === 1")
	b.Go("/ui/filters#/?folder=Blogs")
	b.Wait("document.querySelectorAll('.filters-list tbody tr').length === 30")
	b.Go("/ui/filters#/?state=failing")
	b.Wait("document.querySelectorAll('.filters-list tbody tr').length === 1")
	look("filters-failing")
	b.Go("/ui/filters#/rules")
	b.Wait("document.querySelector('#filters-global')")
	look("filters-rules")
	b.Go("/ui/filters#/opml")
	b.Wait("document.querySelector('#filters-file')")
	list := fmt.Sprintf(`<opml version="2.0"><body><outline text="New"><outline text="One more" xmlUrl="%[1]s/a/99"/></outline>`+
		`<outline text="Feed 01" xmlUrl="%[1]s/a/1"/><outline text="Mail" xmlUrl="mailto:somebody@example.org"/></body></opml>`, site.URL)
	b.Eval(fmt.Sprintf("(() => { const d = new DataTransfer(); d.items.add(new File([%q], 'a.opml')); "+
		"const f = document.querySelector('#filters-file'); f.files = d.files; f.dispatchEvent(new "+
		"Event('change')); })()", list))
	b.Wait("document.querySelector('#filters [role=status]').innerText.includes('1 filter would be added, " +
		"2 of the list skipped')")
	look("filters-opml")
	b.Click("#filters [role=status] .primary")
	b.Wait("document.querySelector('#filters [role=status] .good').textContent === '1 filter added.'")

	// It is changed, and removed at the second press.
	b.Go("/ui/filters#/edit/" + failing)
	b.Wait("document.querySelector('#filters-title')")
	b.Fill("filters-title", "Renamed")
	b.Click("#filters-save")
	b.Wait("document.querySelector('.filters-title')?.textContent === 'Renamed'")
	b.Clean()
	b.Click("#filters .danger")
	b.Wait("document.querySelector('#filters .asked')")
	b.Click("#filters .danger")
	b.Wait("location.hash === '#/' && document.querySelectorAll('.filters-list tbody tr').length === 50")
	callAPI(t, "GET", admin+"/admin/filters/"+failing, "", http.StatusNotFound)
}

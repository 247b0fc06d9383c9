package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestFilterAddOfAPageTakesItsFeed(t *testing.T) {
	link := `<link rel="alternate" type="application/rss+xml" title="%[1]s" href="/%[1]s">`
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/one", "/two", "/none":
			fmt.Fprint(w, `<html><head><link rel="icon" href="/icon.png">`)
			if r.URL.Path != "/none" {
				fmt.Fprintf(w, link, "news")
			}
			if r.URL.Path == "/two" {
				fmt.Fprintf(w, link, "sports")
			}
			fmt.Fprint(w, `</head></html>`)
		case "/news":
			fmt.Fprint(w, newsFeed("News"))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(site.Close)
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, _, admin := startAPI(t, "--filter-allow-net", "127.0.0.0/8", "--filter-ports", at.Port())
	for path, want := range map[string]struct{ source, says string }{
		"/news":   {source: "/news"},
		"/one":    {source: "/news", says: "is a page; its feed is " + site.URL + "/news"},
		"/broken": {source: "/broken", says: "is added all the same"},
		"/two": {says: "several feeds, of which one is to be given:\n  " + site.URL + "/news  news\n  " +
			site.URL + "/sports"},
		"/none": {says: "links to no feed"},
	} {
		root, out, said := newRoot(), new(bytes.Buffer), new(bytes.Buffer)
		root.SetOut(out)
		root.SetErr(said)
		root.SetArgs([]string{"filter", "add", site.URL + path, "--admin", admin})
		if err := root.ExecuteContext(t.Context()); (err == nil) != (want.source != "") {
			t.Errorf("%s: %v", path, err)
		} else if err != nil {
			fmt.Fprint(said, err)
		}
		if !strings.Contains(said.String(), want.says) || want.says == "" && said.Len() > 0 {
			t.Errorf("%s: it says %q, want %q", path, said, want.says)
		}
		if want.source != "" && !strings.Contains(out.String(), "source  "+site.URL+want.source+"\n") {
			t.Errorf("%s: %s", path, out)
		}
	}
	if list, err := execute(t, "filter", "list", "--admin", admin); err != nil ||
		strings.Count(list, "http://") != 3 {
		t.Errorf("%s %v", list, err)
	}
}

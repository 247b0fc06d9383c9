package syndication_test

import (
	"net/url"
	"slices"
	"testing"

	"weir/internal/filter/syndication"
)

func TestPagesAreSearchedForFeedsAndIcons(t *testing.T) {
	base, err := url.Parse("https://example.org/blog/")
	if err != nil {
		t.Fatal(err)
	}
	type link = syndication.Link
	for _, c := range []struct {
		name, page string
		want       []link
	}{
		{"announced", `<!doctype html><HEAD><!-- <link rel=alternate type="application/rss+xml" href=/no> -->
			<LINK REL="alternate" TYPE="application/rss+xml" TITLE="All &amp; sundry" HREF="feed.xml?a=1&amp;b=2">
			<link rel=alternate type=application/atom+xml href=//cdn.example.org/atom>
			<link rel="alternate" hreflang="de" href="/de"><link rel="shortcut icon" href="/favicon.ico">
			<script>document.write('<link rel="alternate" type="text/xml" href="/script">')</script>
			<link rel="alternate" type="application/feed+json" href="javascript:alert(1)"><a href="/rss">RSS</a>`,
			[]link{{URL: "https://example.org/blog/feed.xml?a=1&b=2", Title: "All & sundry",
				Type: "application/rss+xml"},
				{URL: "https://cdn.example.org/atom", Type: "application/atom+xml"},
				{URL: "https://example.org/favicon.ico", Icon: true}}},
		{"base", `<base href="https://other.example/x/"><link rel="alternate" type="text/xml" href="f">`,
			[]link{{URL: "https://other.example/x/f", Type: "text/xml"}}},
		{"guessed",
			`<a href="/about">x</a><a href="../feed/#top">x</a><a href="/feed/">x</a><a href="news.rss?x">x</a>`,
			[]link{{URL: "https://example.org/feed/"}, {URL: "https://example.org/blog/news.rss?x"}}},
		{"none", `<p>nothing`, nil},
		{"broken", `<link rel="alternate" type="application/rss+xml" href="x`, nil},
	} {
		if got := syndication.Discover([]byte(c.page), base); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

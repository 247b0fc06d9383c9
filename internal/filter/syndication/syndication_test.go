package syndication

import (
	"bytes"
	"testing"

	"weir/internal/filter/text"
)

const rss = `<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel>
  <title>Übungen &amp; more</title>
  <link>https://example.org/</link>
  <atom:link rel="self" href="https://example.org/feed?a=1&amp;b=2"/>
  <!-- stays -->
  <item>
    <title><![CDATA[Öl <b>now</b>]]></title>
    <guid isPermaLink="false">one</guid>
    <link>https://example.org/1</link>
    <content:encoded>&lt;p&gt;Crème&amp;nbsp;brûlée&lt;/p&gt;&lt;p&gt;two&lt;/p&gt;</content:encoded>
    <pubDate>Sat, 02 Nov 2024 08:28:28 +0100</pubDate>
    <author>bob@example.org (Bob)</author>
    <enclosure url="https://example.org/1.mp3" type="audio/mpeg" length="12"/>
  </item>
  <item><title>Second</title><guid>https://example.org/2</guid></item>
</channel>
</rss>
`

func TestParseReadsAFeed(t *testing.T) {
	f, err := Parse([]byte(rss), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Title != "Übungen & more" || f.FeedURL != "https://example.org/feed?a=1&b=2" || len(f.Items) != 2 ||
		len(f.Damage) != 0 {
		t.Fatalf("%+v", f)
	}
	one := f.Items[0]
	for field, want := range map[text.Field]string{text.Title: "ol now", text.Content: "creme brulee two",
		text.Author: "bob"} {
		got := ""
		for value := range f.Text().Values(field, 0) {
			got = string(value)
			break
		}
		if got != want {
			t.Errorf("%d: %q, want %q", field, got, want)
		}
	}
	if one.Authors[0] != (Person{Name: "Bob", Email: "bob@example.org"}) {
		t.Errorf("%+v", one)
	}
	if got := one.Published.Format("2006-01-02T15:04:05Z07:00"); got != "2024-11-02T07:28:28Z" {
		t.Error(got)
	}
	if f.Items[1].URL != "https://example.org/2" {
		t.Errorf("%+v", f.Items[1])
	}
}

func TestRelativeURLsAreOfWhereTheFeedWasFound(t *testing.T) {
	const at = "https://example.org/feeds/one"
	for format, src := range map[string]string{
		"rss": `<rss version="2.0"><channel><link>/</link><image><url>i.png</url></image><item>` +
			`<link>../1</link><enclosure url="//cdn.example/1.mp3" type="a" length="1"/></item></channel></rss>`,
		"atom": `<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><logo>i.png</logo><entry>` +
			`<link href="../1"/><link rel="enclosure" href="//cdn.example/1.mp3"/></entry></feed>`,
		"json": `{"version":"https://jsonfeed.org/version/1.1","home_page_url":"/","icon":"i.png",` +
			`"items":[{"id":"1","url":"../1","attachments":[{"url":"//cdn.example/1.mp3"}]}]}`,
	} {
		f, err := Parse([]byte(src), Options{URL: at})
		if err != nil {
			t.Fatal(err)
		}
		it := f.Items[0]
		if f.URL != "https://example.org/" || f.Image != "https://example.org/feeds/i.png" ||
			it.URL != "https://example.org/1" || it.Enclosures[0].URL != "https://cdn.example/1.mp3" {
			t.Errorf("%s: %q %q %+v", format, f.URL, f.Image, it)
		}
	}
}

func TestPiecesAreTheSource(t *testing.T) {
	f, err := Parse([]byte(rss), Options{})
	if err != nil {
		t.Fatal(err)
	}
	keep := NewBits(2)
	keep.Set(0)
	keep.Set(1)
	all := f.Pieces(nil, keep, "")
	if len(all) != 1 || string(all[0]) != rss {
		t.Errorf("keep all: %q", all)
	}
	keep.Clear(0)
	out := string(bytes.Join(f.Pieces(nil, keep, "https://x.example/?a&b"), nil))
	from, to := bytes.Index([]byte(rss), []byte("\n  <item>\n")),
		bytes.Index([]byte(rss), []byte("\n  <item><title>"))
	want := string(bytes.Replace([]byte(rss[:from]+rss[to:]), []byte("https://example.org/feed?a=1&amp;b=2"),
		[]byte("https://x.example/?a&amp;b"), 1))
	if out != want {
		t.Errorf("got %s\nwant %s", out, want)
	}
}

package syndication_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"weir/internal/filter/syndication"
	"weir/internal/filter/text"
)

// parse reads a feed that can be read.
func parse(t testing.TB, src string) *syndication.Feed {
	t.Helper()
	f, err := syndication.Parse([]byte(src), syndication.Options{})
	if err != nil {
		t.Fatalf("%v in %.300q", err, src)
	}
	return f
}

func all(f *syndication.Feed) syndication.Bits {
	keep := syndication.NewBits(len(f.Items))
	for i := range f.Items {
		keep.Set(i)
	}
	return keep
}

func converted(f *syndication.Feed, to syndication.Format) string {
	return string(f.Convert(nil, to, f.Refs(nil, all(f)), ""))
}

// wellFormed reports what is wrong with a document, by other parsers.
func wellFormed(doc string, format syndication.Format) error {
	if format == syndication.JSON {
		if !json.Valid([]byte(doc)) {
			return errors.New("no JSON")
		}
		return nil
	}
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

const podcastFeed = `<rss version="2.0" xmlns:i="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:m="http://search.yahoo.com/mrss/"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:other="urn:other">
<channel><title>T &amp; U</title><link>https://example.org/</link><description>D</description><language>de</language>
<copyright>C</copyright><managingEditor>m@example.org (M)</managingEditor><category>one</category><generator>G</generator>
<image><url>https://example.org/i.png</url></image><ttl>60</ttl><skipHours><hour>3</hour></skipHours><skipDays><day>Sunday</day></skipDays>
<i:category text="Arts"><i:category text="Design"/></i:category><i:owner><i:name>O</i:name></i:owner><other:x>no</other:x>
<item><title>One</title><guid isPermaLink="false">g1</guid><link>https://example.org/1?a=1&amp;b=2</link>
<description>&lt;b&gt;Short&lt;/b&gt; &amp;amp; sweet</description><content:encoded><![CDATA[<p>Long</p>]]></content:encoded>
<author>a@example.org (A)</author><dc:creator>B</dc:creator><category>x</category><category>y</category>
<enclosure url="https://example.org/1.mp3" type="audio/mpeg" length="9"/><comments>https://example.org/1#c</comments>
<pubDate>Sat, 02 Nov 2024 08:28:28 GMT</pubDate><i:duration>12:34</i:duration><m:group><m:content url="u" medium="video"><m:title>mt</m:title></m:content></m:group>
<dc:publisher>P &lt;</dc:publisher><other:y>no</other:y></item>
</channel></rss>`

// arranged is a feed with these items.
func arranged(f *syndication.Feed, items ...syndication.Ref) (string, string) {
	parts, charset := f.Arrange(nil, items, "")
	return string(bytes.Join(parts, nil)), charset
}

// same are the fields that all formats have.
func same(t *testing.T, what string, got, want *syndication.Feed) {
	t.Helper()
	norm := func(s string) string { return text.Of(s, text.HTML|text.KeepCase|text.KeepAccents) }
	type common struct {
		title, link, description, language, image, feedURL, next, hub string
	}
	head := func(f *syndication.Feed) common {
		return common{norm(f.Title), f.URL, norm(f.Summary), f.Language, f.Image, f.FeedURL,
			f.Next, f.Hub}
	}
	if got, want := head(got), head(want); got != want {
		t.Errorf("%s: feed %+v\nwant %+v", what, got, want)
	}
	if len(got.Items) != len(want.Items) {
		t.Fatalf("%s: %d items, want %d", what, len(got.Items), len(want.Items))
	}
	for i := range want.Items {
		g, w := &got.Items[i], &want.Items[i]
		if g.GUID != w.Key() || g.URL != w.URL || norm(g.Title) != norm(w.Title) ||
			norm(g.Summary+g.Content) != norm(w.Summary+w.Content) {
			t.Errorf("%s: item %+v\nwant %+v", what, *g, *w)
		}
		if !g.Published.Equal(either(w.Published, w.Updated)) && !g.Published.Equal(w.Published) ||
			!reflect.DeepEqual(append([]string{}, g.Categories...), append([]string{}, w.Categories...)) ||
			!reflect.DeepEqual(append([]syndication.Enclosure{}, g.Enclosures...),
				append([]syndication.Enclosure{}, w.Enclosures...)) || len(g.Authors) != len(w.Authors) {
			t.Errorf("%s: item %+v\nwant %+v", what, *g, *w)
		}
	}
}

func TestConversionsThereAndBackKeepWhatFormatsShare(t *testing.T) {
	source := parse(t, podcastFeed)
	for _, to := range []syndication.Format{syndication.RSS, syndication.Atom, syndication.JSON} {
		doc := converted(source, to)
		if err := wellFormed(doc, to); err != nil {
			t.Fatalf("%s: %v\n%s", to, err, doc)
		}
		there := parse(t, doc)
		if there.Format != to || len(there.Damage) != 0 {
			t.Errorf("%s: %s, damage %q", to, there.Format, there.Damage)
		}
		same(t, to.String(), there, source)
		back := parse(t, converted(there, syndication.RSS))
		same(t, to.String()+" and back", back, source)
	}
}

func TestConversionsBetweenXMLKeepExtensions(t *testing.T) {
	source := parse(t, podcastFeed)
	for _, to := range []syndication.Format{syndication.RSS, syndication.Atom} {
		doc := converted(source, to)
		for _, want := range []string{"<itunes:duration>12:34</itunes:duration>",
			`<media:group><media:content url="u" medium="video"><media:title>mt</media:title></media:content></media:group>`,
			"<dc:publisher>P &lt;</dc:publisher>",
			`<itunes:category text="Arts"><itunes:category text="Design"></itunes:category></itunes:category>`, "<itunes:owner><itunes:name>O</itunes:name></itunes:owner>"} {
			if strings.Count(doc, want) != 1 {
				t.Errorf("%s has not once %s:\n%s", to, want, doc)
			}
		}
		if strings.Contains(doc, "other") {
			t.Errorf("%s has what it cannot say:\n%s", to, doc)
		}
	}
}

func TestRSSKeepsWhenNotToFetch(t *testing.T) {
	got, want := parse(t, converted(parse(t, podcastFeed), syndication.RSS)), parse(t, podcastFeed)
	if got.TTL != want.TTL || got.SkipHours != want.SkipHours || got.SkipDays != want.SkipDays ||
		want.SkipHours != 8 || want.SkipDays != 1 {
		t.Errorf("%v %b %b, want %v %b %b", got.TTL, got.SkipHours, got.SkipDays, want.TTL, want.SkipHours,
			want.SkipDays)
	}
}

func TestEveryConversionIsWellFormedAndKeepsItems(t *testing.T) {
	for _, path := range gofeedFiles(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := parse(t, string(src))
		for _, to := range []syndication.Format{syndication.RSS, syndication.Atom, syndication.JSON} {
			doc := converted(f, to)
			if err := wellFormed(doc, to); err != nil {
				t.Errorf("%s to %s: %v\n%s", path, to, err, doc)
				continue
			}
			if got := parse(t, doc); len(got.Items) != len(f.Items) || got.Format != to {
				t.Errorf("%s to %s has %d items, want %d", path, to, len(got.Items), len(f.Items))
			}
		}
	}
}

func TestItemsOfOtherFeedsKeepTheirBytesAndNamespaces(t *testing.T) {
	one := parse(
		t,
		`<rss version="2.0" xmlns:a="urn:one"><channel><title>x</title><item><title>1</title></item> <item><title>2</title></item></channel></rss>`)
	two := parse(
		t,
		`<rss version="2.0" xmlns:a="urn:two" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel> <item k="v"><a:x/><itunes:author>A</itunes:author></item></channel></rss>`)
	ref := func(f *syndication.Feed, item int) syndication.Ref { return syndication.Ref{Feed: f, Item: item} }
	got, _ := arranged(one, ref(one, 1), ref(two, 0), ref(one, 0))
	want := `<rss version="2.0" xmlns:a="urn:one"><channel><title>x</title> <item><title>2</title></item> <item xmlns:a="urn:two" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" k="v"><a:x/><itunes:author>A</itunes:author></item><item><title>1</title></item></channel></rss>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	empty := parse(t, `<rss version="2.0"><channel><title>x</title></channel></rss>`)
	got, _ = arranged(empty, ref(one, 0))
	if want := `<rss version="2.0"><channel><title>x</title><item xmlns:a="urn:one"><title>1</title></item></channel></rss>`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	j := parse(
		t, `{"version":"https://jsonfeed.org/version/1.1","items":[ {"id":"1"}, {"id":"2"} ],"title":"t"}`)
	got, _ = arranged(j, ref(j, 1), ref(j, 0))
	if want := `{"version":"https://jsonfeed.org/version/1.1","items":[ {"id":"2"}, {"id":"1"} ],"title":"t"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, _ = arranged(one, ref(j, 1), ref(one, 0))
	mixed := parse(t, got)
	if mixed.Format != syndication.RSS || len(mixed.Items) != 2 || mixed.Items[0].GUID != "2" {
		t.Errorf("%+v", mixed)
	}
}

func TestItemsThatJoinAFeedOfAnotherCharsetMakeItUTF8(t *testing.T) {
	const russian = "Сегодня в Москве прошёл дождь"
	parts := encode(t, `<rss version="2.0"><channel><title>`+russian+`</title><item><title>1 `+russian+
		`</title></item><item><title>2</title></item></channel></rss>`, "windows-1251")
	envelope := parseAs(t, string(parts), "text/xml; charset=windows-1251")
	other := parse(t, `<rss version="2.0"><channel><item><title>`+russian+`</title></item></channel></rss>`)
	own := syndication.Ref{Feed: envelope, Item: 0}
	for _, c := range []struct {
		items   []syndication.Ref
		charset string
	}{
		{[]syndication.Ref{own}, "windows-1251"},
		{[]syndication.Ref{{Feed: other, Item: 0}, own}, "utf-8"},
	} {
		doc, charset := arranged(envelope, c.items...)
		got := parseAs(t, doc, "text/xml; charset="+charset)
		if charset != c.charset || got.Title != russian || len(got.Items) != len(c.items) ||
			got.Items[len(c.items)-1].Title != "1 "+russian {
			t.Errorf("%s: %q %+v, want %s", charset, got.Title, got.Items, c.charset)
		}
	}
}

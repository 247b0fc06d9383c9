package syndication_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"weir/internal/filter/syndication"
)

// FuzzParse looks at what holds for every document: ranges lie in order within the source, and do not
// overlap; pieces with all items are the source, and items kept and items dropped are together what there
// is; conversions are well-formed, and keep items.
func FuzzParse(f *testing.F) {
	f.Add([]byte(podcastFeed), "")
	for _, s := range mockFeeds(f) {
		f.Add(s.src[:min(len(s.src), 4000)], s.contentType)
	}
	for i, path := range gofeedFiles(f) {
		if src, err := os.ReadFile(path); err == nil && i%25 == 0 {
			f.Add(src, "")
		}
	}
	for _, s := range []string{"", "<", "<rss", "<rss><channel><item><title>",
		"<rss><channel><item/><item></channel>", "<feed><entry><entry></feed>",
		`{"version":"https://jsonfeed.org/version/1","items":[{"id":1},{"id"`, `{"items":[{},{}]}`,
		"<rss><channel><item><title><![CDATA[x", "\x00<\x00r\x00s\x00s\x00>",
		"<rss xmlns:a='b'><channel><a:item/></channel></rss>",
		`<rss version="2.0"><channel><link rel='self' href='x'/><atom:link rel="self" href="y"/></channel></rss>`} {
		f.Add([]byte(s), "text/xml; charset=shift_jis")
	}
	f.Fuzz(func(t *testing.T, src []byte, contentType string) {
		if len(src) > 1<<16 {
			return
		}
		before := bytes.Clone(src)
		feed, err := syndication.Parse(src, syndication.Options{ContentType: contentType, MaxItems: 200,
			MaxDepth: 40})
		if !bytes.Equal(before, src) {
			t.Fatal("Parse changed its source")
		}
		if err != nil {
			var limit *syndication.LimitError
			if feed != nil || !errors.Is(err, syndication.ErrNoFeed) && !errors.As(err, &limit) &&
				!strings.Contains(err.Error(), "JSON") {
				t.Fatalf("%v with %v", err, feed)
			}
			return
		}
		at := 0
		for i, it := range feed.Items {
			if it.Start < at || it.End <= it.Start || it.End > len(src) {
				t.Fatalf("item %d is [%d, %d) after %d of %d", i, it.Start, it.End, at, len(src))
			}
			at = it.End
		}
		whole := bytes.Join(feed.Pieces(nil, all(feed), ""), nil)
		if !strings.Contains(strings.Join(feed.Damage, " "), "truncated") && !bytes.Equal(whole, src) {
			t.Fatalf("all items are %q, not the source", whole)
		}
		if again, err := syndication.Parse(whole,
			syndication.Options{ContentType: contentType}); err != nil ||
			len(again.Items) != len(feed.Items) {
			t.Fatalf("%d items become %v (%v) in %q", len(feed.Items), again, err, whole)
		}
		odd, even := syndication.NewBits(len(feed.Items)), syndication.NewBits(len(feed.Items))
		for i := range feed.Items {
			if i%2 == 0 {
				even.Set(i)
			} else {
				odd.Set(i)
			}
		}
		some := len(bytes.Join(feed.Pieces(nil, odd, ""), nil)) +
			len(bytes.Join(feed.Pieces(nil, even, ""), nil))
		none := len(bytes.Join(feed.Pieces(nil, nil, ""), nil))
		if feed.Format != syndication.JSON && some != len(whole)+none {
			t.Fatalf("%d bytes of the two halves, %d of the whole, %d of nothing", some, len(whole), none)
		}
		feed.Pieces(nil, all(feed), "https://example.org/?a&b")
		feed.Arrange(nil, feed.Refs(nil, all(feed)), "")
		for _, to := range []syndication.Format{syndication.RSS, syndication.Atom, syndication.JSON} {
			doc := converted(feed, to)
			if err := wellFormed(doc, to); err != nil {
				t.Fatalf("%s: %v in %q", to, err, doc)
			}
			if got, err := syndication.Parse([]byte(doc), syndication.Options{}); err != nil ||
				len(got.Items) != len(feed.Items) {
				t.Fatalf("%s: %v, %d items of %d in %q", to, err, len(got.Items), len(feed.Items), doc)
			}
		}
	})
}

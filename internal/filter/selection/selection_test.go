package selection_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/filter/selection"
	"weir/internal/filter/syndication"
)

// source returns a feed of which all is kept. Each item is a line: its title, date, GUID and link, or - for
// none.
func source(t *testing.T, lines string) []syndication.Ref {
	t.Helper()
	var b strings.Builder
	b.WriteString(`<rss version="2.0"><channel><title>t</title>`)
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		b.WriteString("<item>")
		for i, v := range strings.Fields(line) {
			if tag := []string{"title", "pubDate", "guid", "link"}[i]; v != "-" {
				fmt.Fprintf(&b, "<%s>%s</%s>", tag, strings.ReplaceAll(v, "&", "&amp;"), tag)
			}
		}
		b.WriteString("</item>")
	}
	b.WriteString("</channel></rss>")
	f, err := syndication.Parse([]byte(b.String()), syndication.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []syndication.Ref
	for i := range f.Items {
		all = append(all, syndication.Ref{Feed: f, Item: i})
	}
	return all
}

// titles names what is selected.
func titles(o selection.Options, sources ...[]syndication.Ref) string {
	var names []string
	for _, r := range selection.Select(slices.Concat(sources...), o) {
		names = append(names, r.Feed.Items[r.Item].Title)
	}
	return strings.Join(names, " ")
}

func TestItemsAreSelectedInTheirOrder(t *testing.T) {
	s := source(t, `
		a 2026-11-01T00:00:00Z
		b 2026-11-03T00:00:00Z
		c -
		d 2026-11-02T00:00:00Z`)
	if got := titles(selection.Options{}, s); got != "a b c d" {
		t.Errorf("as found: %s", got)
	}
	if got := titles(selection.Options{Sort: selection.Newest}, s); got != "b c d a" {
		t.Errorf("newest first: %s, want what has no date behind what it follows", got)
	}
	if got := titles(selection.Options{Sort: selection.Newest, Limit: 2}, s); got != "b c" {
		t.Errorf("two: %s", got)
	}
	undated := source(t, "a -\nb -\nc 2026-11-02T00:00:00Z")
	if got := titles(selection.Options{Sort: selection.Newest}, undated); got != "a b c" {
		t.Errorf("%s, want what has no date before what follows it", got)
	}
}

func TestSourcesAreMergedNewestFirst(t *testing.T) {
	a := source(t, "a1 2026-11-04T00:00:00Z\na2 2026-11-02T00:00:00Z")
	b := source(t, "b1 2026-11-03T00:00:00Z\nb2 2026-11-01T00:00:00Z\nb3 -")
	if got := titles(selection.Options{Sort: selection.Newest}, a, b); got != "a1 b1 a2 b2 b3" {
		t.Errorf("%s", got)
	}
}

func TestWhatIsThereTwiceStaysOnce(t *testing.T) {
	for _, c := range []struct {
		by          selection.Dedup
		items, want string
	}{
		{selection.GUID, "a - g1\nb - g1\nc - g2\nd - -\ne - -", "a c d e"},
		{selection.GUID, "a - https://x.example/p#0\nb - https://x.example/p#3\nc - https://x.example/q#3",
			"a c"},
		{selection.Link, "a - g#0 https://x.example/p?id=1\nb - g#3 https://x.example/p?id=1", "a"},
		{selection.Link,
			"a - - https://x.example/p?id=1#top\nb - - http://X.example/p?utm_source=rss&id=1&fbclid=x", "a"},
		{selection.Link, "a - - https://x.example/p?id=1\nb - - https://x.example/p?id=2", "a b"},
		{selection.Link, "a - - https://x.example/#!/1\nb - - https://x.example/#!/2", "a b"},
		{selection.Link, "a - - https://x.example\nb - - https://x.example/?utm_medium=feed", "a"},
		{selection.Link, "a - - https://x.example/P\nb - - https://x.example/p", "a b"},
		{selection.Title, "Über\nuber\nother", "Über other"},
		{selection.Title, "- - g1\n- - g2", " "},
		{selection.GUID | selection.Title, "a - g1\nA - g2\nb - g2", "a b"},
		{0, "a - g1\na - g1", "a a"},
	} {
		if got := titles(selection.Options{Dedup: c.by}, source(t, c.items)); got != c.want {
			t.Errorf("by %s: %q, want %q of %q", c.by, got, c.want, c.items)
		}
	}
}

func TestGUIDsThatAreNumbersAreTheirFeedsOwn(t *testing.T) {
	a, b := source(t, "a - 17\nx - urn:uuid:1"), source(t, "b - 17\ny - urn:uuid:1")
	if got := titles(selection.Options{Dedup: selection.GUID}, a, b); got != "a x b" {
		t.Errorf("%s", got)
	}
}

func TestOptionsAreReadAsTheyAreWritten(t *testing.T) {
	var o selection.Options
	if err := json.Unmarshal([]byte(`{"Sort":"newest","Dedup":"title, guid"}`), &o); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(o); err != nil ||
		string(got) != `{"Sort":"newest","Dedup":"guid,title","Limit":0}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, wrong := range []string{`{"Sort":"oldest"}`, `{"Dedup":"url"}`} {
		if err := json.Unmarshal([]byte(wrong), &o); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}

package syndication_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/syndication"
)

func TestDates(t *testing.T) {
	for in, want := range map[string]string{
		"Sat, 02 Nov 2024 08:28:28 GMT":      "2024-11-02T08:28:28Z",
		"Sat, 30 Nov 2024 08:28:28 +0000":    "2024-11-30T08:28:28Z",
		"Sat, 31 Nov 2024 08:28:28 +0000":    "",
		"Sat, Oct 28 2023 08:28:28 PM":       "2023-10-28T20:28:28Z",
		"28 Oct 2023 12:05 AM":               "2023-10-28T00:05:00Z",
		"Sat, 28 Oct 2023 08:28:28 GMT+7":    "2023-10-28T01:28:28Z",
		"Sat, 28 Oct 2023 08:28:28 -05:30":   "2023-10-28T13:58:28Z",
		"Sat, 28 Oct 23 08:28 EST":           "2023-10-28T13:28:00Z",
		"Sa, 28 Okt 2023 08:28:28 MESZ":      "2023-10-28T06:28:28Z",
		"Samstag, 2. März 2024 08:28":        "2024-03-02T08:28:00Z",
		"mar, 05 dic 2023 08:28:28 +0100":    "2023-12-05T07:28:28Z",
		"2023-10-28T08:28:28.25+02:00":       "2023-10-28T06:28:28.25Z",
		"2023-10-28 08:28:28":                "2023-10-28T08:28:28Z",
		"2023-10-28t08:28:28z":               "2023-10-28T08:28:28Z",
		"20231028T082828Z":                   "2023-10-28T08:28:28Z",
		"2023-10":                            "2023-10-01T00:00:00Z",
		"2023":                               "2023-01-01T00:00:00Z",
		"Sat Oct 28 08:28:28 2023":           "2023-10-28T08:28:28Z",
		"Sat Oct 28 08:28:28 EDT 2023":       "2023-10-28T12:28:28Z",
		"28/10/2023 08:28":                   "2023-10-28T08:28:00Z",
		"28.10.2023":                         "2023-10-28T00:00:00Z",
		"10/28/2023":                         "2023-10-28T00:00:00Z",
		"Чт, 28 октября 2023 08:28:28 +0300": "2023-10-28T05:28:28Z",
		"yesterday, at noon":                 "",
		"Mon, 32 Foo 2026 12:00:00 GMT":      "",
		"2026-02-31T25:61:00Z":               "",
		"":                                   "",
	} {
		f := parse(t, `<rss version="2.0"><channel><item><pubDate>`+in+`</pubDate></item></channel></rss>`)
		got := ""
		if d := f.Items[0].Published; !d.IsZero() {
			got = d.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if told := slices.Contains(f.Damage, "dates that are none"); told != (want == "" && in != "") {
			t.Errorf("%q: damage %q", in, f.Damage)
		}
	}
}

func TestFeedsThatAreCutOffEndAfterTheirLastWholeItem(t *testing.T) {
	src := `<rss version="2.0"><channel><title>t</title><item><title>1</title></item> <item><title>2</title></item></channel></rss>`
	second := strings.Index(src, " <item><title>2")
	for n := second + 2; n < strings.Index(src, "</item></channel>")+7; n++ {
		f := parse(t, src[:n])
		want := src[:second+1] + "</channel></rss>"
		if got := string(bytes.Join(f.Pieces(nil, all(f), ""), nil)); got != want || len(f.Items) != 1 ||
			!slices.Contains(f.Damage, "truncated") {
			t.Fatalf("%q: %d items, damage %q\n%q, want\n%q", src[:n], len(f.Items), f.Damage, got, want)
		}
	}
}

func TestBoundsHold(t *testing.T) {
	deep := `<rss version="2.0"><channel>` + strings.Repeat("<x>", 300)
	many := `<rss version="2.0"><channel>` + strings.Repeat("<item/>", 11) + "</channel></rss>"
	wide := `<rss version="2.0"` + strings.Repeat(" a='b'", 300) + "/>"
	for _, c := range []struct {
		what, src string
		o         syndication.Options
		max       int
	}{
		{"depth", deep, syndication.Options{}, 256},
		{"depth", `{"version":"https://jsonfeed.org/version/1","items":[{"id":"1"}],"x":` + strings.Repeat("[", 100),
			syndication.Options{}, 64},
		{"items", many, syndication.Options{MaxItems: 10}, 10},
		{"items", `{"version":"https://jsonfeed.org/version/1","items":[{},{}]}`,
			syndication.Options{MaxItems: 1}, 1},
		{"attributes", wide, syndication.Options{}, 256},
		{"bytes", many, syndication.Options{MaxBytes: 20}, 20},
	} {
		var limit *syndication.LimitError
		if _, err := syndication.Parse([]byte(c.src), c.o); !errors.As(err, &limit) ||
			*limit != (syndication.LimitError{What: c.what, Max: c.max}) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestEntitiesOfADocumentTypeAreNotExpanded(t *testing.T) {
	f := parse(
		t,
		`<!DOCTYPE rss [<!ENTITY a "boom"><!ENTITY b SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel><title>&a;&b; &nbsp;R&D &copy=2;</title></channel></rss>`)
	if f.Title != "&a;&b; \u00a0R&D &copy=2;" {
		t.Errorf("%q", f.Title)
	}
}

func TestWhatIsNoFeedIsRefused(t *testing.T) {
	for _, src := range []string{"", "  ", "<html><body>no</body></html>", "no", `{"a":1}`,
		"<!doctype html><p>x", "<?xml version='1.0'?><opml/>"} {
		if f, err := syndication.Parse([]byte(src), syndication.Options{}); !errors.Is(err,
			syndication.ErrNoFeed) {
			t.Errorf("%q: %v, %v", src, f, err)
		}
	}
}

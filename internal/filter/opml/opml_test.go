package opml_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/opml"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
)

var created = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// show writes feeds in a form that tests compare.
func show(t testing.TB, feeds []opml.Feed) string {
	t.Helper()
	b, err := json.Marshal(feeds)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "},{", "},\n{")
}

func list(t testing.TB) []opml.Feed {
	t.Helper()
	set, err := rules.ParseSet([]byte("keep\ntitle contains \"a<b>&\\\"ü\"\nage < 2w"))
	if err != nil {
		t.Fatal(err)
	}
	return []opml.Feed{
		{URL: "https://a.example/?x=1&y=2", Title: "Ä & <A>", Site: "https://a.example/",
			Tags: []string{"one", "two words"}},
		{URL: "https://weir.example/filtered/x",
			Sources: []string{"https://b.example/1", "https://b.example/2"}, Title: "B",
			Folder: []string{"News", "Tech/Go"}, Rules: *set, Format: "atom",
			Selection: selection.Options{Sort: selection.Newest, Dedup: selection.GUID | selection.Title,
				Limit: 20}},
		{URL: "https://c.example/", Folder: []string{"News"}},
		{URL: "https://d.example/", Title: "line\nbreak\ttab", Rules: rules.Set{Mode: rules.Keep}},
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	feeds := list(t)
	var b bytes.Buffer
	if err := opml.Write(&b, "Feeds & more", created, feeds); err != nil {
		t.Fatal(err)
	}
	again, err := opml.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, again), show(t, feeds); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOtherReadersSeeSubscriptions(t *testing.T) {
	var b bytes.Buffer
	if err := opml.Write(&b, "Feeds", created, list(t)[1:3]); err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0" xmlns:weir="urn:weir:filter">
  <head>
    <title>Feeds</title>
    <dateCreated>Sun, 22 Nov 2026 12:00:00 +0000</dateCreated>
  </head>
  <body>
    <outline text="News">
      <outline text="Tech/Go">
        <outline text="B" title="B" type="rss" xmlUrl="https://weir.example/filtered/x" weir:sources="https://b.example/1 https://b.example/2" weir:mode="keep" weir:rules="title contains &#34;a&lt;b&gt;&amp;\&#34;ü&#34;&#xA;age &lt; 2w&#xA;" weir:sort="newest" weir:dedup="guid,title" weir:limit="20" weir:format="atom"/>
      </outline>
      <outline text="" type="rss" xmlUrl="https://c.example/"/>
    </outline>
  </body>
</opml>
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestListsOfOtherProgramsAreRead(t *testing.T) {
	const text = `<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<OPML version="1.0" xmlns:fz="urn:forumzilla:">
 <head><title>x</title></head>
 <body>
  <outline title="Caf` + "\xe9" + ` &nbsp;" fz:quickMode="false">
   <outline text="R&D" type="rss" xmlurl=" https://a.example/?a=1&b=2 " htmlURL="https://a.example/" category="/Boston/Weather,go"><outline text="inner" xmlUrl="https://inner.example/"/></outline>
  </outline>
  <outline text="an empty folder"/>
  <outline text="" title="Last" xmlUrl="https://b.example/"></outline>
 </body>
</OPML>`
	feeds, err := opml.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range feeds {
		got = append(got, fmt.Sprintf("%s %q %q %q %q", f.URL, f.Title, f.Site, f.Folder, f.Tags))
	}
	const want = `https://a.example/?a=1&b=2 "R&D" "https://a.example/" ["Café \u00a0"] ["Boston/Weather" "go"]
https://inner.example/ "inner" "" ["Café \u00a0"] []
https://b.example/ "Last" "" [] []`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestWrongListsAreRefusedWithTheLine(t *testing.T) {
	outline := func(attributes string) string {
		return "<opml xmlns:weir='urn:weir:filter'><body>\n\n<outline text='a' xmlUrl='https://a.example/' " +
			attributes + "/></body></opml>"
	}
	for text, want := range map[string]string{
		``:                                 `line 1: the document ends before`,
		"<rss>\n<channel/></rss>":          `line 1: the document is no OPML: it begins with <rss>`,
		"<opml><body>\n<outline text='a'>": `line 2: unexpected EOF`,
		"<?xml version='1.0' encoding='x-none'?><opml/>": `line 1: xml: opening charset "x-none"`,
		outline(`weir:rules='title has "x"'`):            `line 3: rules: line 1, column 7: how to compare`,
		outline(`weir:mode='hide'`):                      `line 3: mode: the mode is drop or keep`,
		outline(
			`weir:limit='-1'`): `line 3: limit: a number of items is expected, not "-1"`,
		outline(`weir:sort='oldest'`): `line 3: sort: items are sorted`,
		outline(`weir:dedup='url'`):   `line 3: dedup: items are the same by`,
		outline(`weir:format='html'`): `line 3: format: rss, atom or json is expected`,
		"<opml>" + strings.Repeat("<outline>",
			100): `line 1: the list has more than 32 outlines in each other`,
		"<opml>" + strings.Repeat(" ", opml.MaxBytes): `line 1: the list has more than 16777216 bytes`,
	} {
		_, err := opml.Read(strings.NewReader(text))
		var at *opml.Error
		if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
	if feeds, err := opml.Read(strings.NewReader(outline("weir:later='x'"))); err != nil || len(feeds) != 1 {
		t.Errorf("an attribute of a later version: %v, %v", feeds, err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := opml.Write(&b, "Feeds", created, list(f)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("<OPML><outline title='R&D&nbsp;'><outline xmlurl='x' category=',/a/,b'>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		feeds, err := opml.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var once bytes.Buffer
		if err := opml.Write(&once, "t", created, feeds); err != nil {
			t.Fatal(err)
		}
		written := once.String()
		again, err := opml.Read(&once)
		if err != nil {
			t.Fatalf("%v in what was written:\n%s", err, written)
		}
		var twice bytes.Buffer
		if err := opml.Write(&twice, "t", created, again); err != nil {
			t.Fatal(err)
		}
		if len(again) != len(feeds) || twice.String() != written {
			t.Fatalf("got\n%s\nwant\n%s", &twice, written)
		}
	})
}

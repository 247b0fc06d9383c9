package syndication_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding/htmlindex"

	"weir/internal/filter/syndication"
)

// encode writes a document in a charset.
func encode(t *testing.T, doc, charset string) []byte {
	t.Helper()
	var out []byte
	switch charset {
	case "utf-16le", "utf-16be":
		for _, u := range utf16.Encode([]rune(doc)) {
			b := []byte{byte(u), byte(u >> 8)}
			if charset == "utf-16be" {
				b[0], b[1] = b[1], b[0]
			}
			out = append(out, b...)
		}
		return out
	case "utf-32be":
		for _, r := range doc {
			out = append(out, byte(r>>24), byte(r>>16), byte(r>>8), byte(r))
		}
		return out
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		t.Fatal(err)
	}
	out, err = e.NewEncoder().Bytes([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCharsetsAreReadAndStayInWhatIsLeft(t *testing.T) {
	for _, c := range []struct{ charset, title string }{
		{"utf-8", "Grüße 漢"}, {"windows-1252", "“Grüße”"}, {"koi8-r", "Привет"}, {"shift_jis", "ソ表\\予"},
		{"euc-jp", "日本語"}, {"iso-2022-jp", "日本語"},
		{"gb18030", "乗漢字"}, {"big5", "許功蓋"}, {"euc-kr", "한국어"}, {"utf-16le", "漢\U0001f600"},
		{"utf-16be", "漢"}, {"utf-32be", "漢\U0001f600"},
	} {
		doc := `<?xml version="1.0" encoding="` + c.charset +
			`"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>` + c.title +
			`</title><atom:link rel="self" title="` + c.title + `" href="https://example.org/"/>` +
			"\n <item><title>" + c.title + "1</title></item>\n <item><title>" + c.title +
			"2</title></item>\n</channel></rss>"
		src := encode(t, doc, c.charset)
		f, err := syndication.Parse(src, syndication.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.charset, err)
			continue
		}
		if f.Charset != c.charset || f.Title != c.title || len(f.Items) != 2 ||
			f.Items[1].Title != c.title+"2" || len(f.Damage) != 0 {
			t.Errorf("%s: %s %q %+v %q", c.charset, f.Charset, f.Title, f.Items, f.Damage)
			continue
		}
		keep := syndication.NewBits(2)
		keep.Set(1)
		got := bytes.Join(f.Pieces(nil, keep, "https://x.example/"), nil)
		left := strings.Replace(doc, "\n <item><title>"+c.title+"1</title></item>", "", 1)
		if want := encode(t, strings.Replace(left, "https://example.org/", "https://x.example/", 1),
			c.charset); !bytes.Equal(got, want) {
			t.Errorf("%s: %q\nwant %q", c.charset, got, want)
		}
	}
}

func TestWhatTellsTheCharset(t *testing.T) {
	feed := func(prolog, title string) string {
		return prolog + `<rss version="2.0"><channel><title>` + title + `</title></channel></rss>`
	}
	for _, c := range []struct{ name, src, contentType, charset, title string }{
		{"byte order mark before all", feed("\xef\xbb\xbf", "ü"), "text/xml; charset=koi8-r", "utf-8", "ü"},
		{"HTTP before the declaration", feed(`<?xml version="1.0" encoding="utf-8"?>`, "\xfc"),
			"text/xml; charset=iso-8859-1", "windows-1252", "ü"},
		{"the declaration", feed(`<?xml version='1.0' encoding='iso-8859-1'?>`, "\xfc"), "text/xml",
			"windows-1252", "ü"},
		{"UTF-8 without a word", feed("", "ü"), "", "utf-8", "ü"},
		{"windows-1252 said to be UTF-8", feed(`<?xml version="1.0" encoding="utf-8"?>`, "\x93\xfc\x94"), "",
			"windows-1252", "“ü”"},
		{"a wrong byte in UTF-8", feed("", "ü\xff"), "", "utf-8", "ü\ufffd"},
		{"an unknown name", feed(`<?xml version="1.0" encoding="klingon"?>`, "ü"), "", "utf-8", "ü"},
	} {
		f := parseAs(t, c.src, c.contentType)
		if f.Charset != c.charset || f.Title != c.title {
			t.Errorf("%s: %s %q, want %s %q", c.name, f.Charset, f.Title, c.charset, c.title)
		}
	}
}

func parseAs(t *testing.T, src, contentType string) *syndication.Feed {
	t.Helper()
	f, err := syndication.Parse([]byte(src), syndication.Options{ContentType: contentType})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

package syndication_test

import (
	"bytes"
	"cmp"
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
		{"UTF-8 said to be Shift JIS", feed("", "日本語 ü"), "text/xml; charset=shift_jis", "utf-8", "日本語 ü"},
		{"the declaration where HTTP does not fit", feed(`<?xml version="1.0" encoding="windows-1252"?>`, "\xfc"),
			"text/xml; charset=shift_jis", "windows-1252", "ü"},
		{"Shift JIS with a wrong byte", feed(`<?xml version="1.0" encoding="shift_jis"?>`,
			strings.Repeat("\x93\xfa\x96\x7b\x8c\xea\x82\xcc", 4)+"\xff"), "", "shift_jis",
			strings.Repeat("日本語の", 4) + "\ufffd"},
		{"UTF-16 of JSON", "{\x00\"\x00v\x00e\x00r\x00s\x00i\x00o\x00n\x00\"\x00:\x00\"\x001\x00\"\x00,\x00" +
			"\"\x00t\x00i\x00t\x00l\x00e\x00\"\x00:\x00\"\x00\xfc\x00\"\x00,\x00\"\x00i\x00t\x00e\x00m\x00s\x00\"\x00:\x00[\x00]\x00}\x00",
			"", "utf-16le", "ü"},
		{"an unknown name", feed(`<?xml version="1.0" encoding="klingon"?>`, "ü"), "", "utf-8", "ü"},
	} {
		f := parseAs(t, c.src, c.contentType)
		if f.Charset != c.charset || f.Title != c.title {
			t.Errorf("%s: %s %q, want %s %q", c.name, f.Charset, f.Title, c.charset, c.title)
		}
	}
}

// What a newspaper of each charset might say. ISO 8859-15 is not told from windows-1252, which has another
// character where it has the euro sign.
func TestACharsetThatNothingNamesIsDetected(t *testing.T) {
	const (
		russian  = "Сегодня в Москве прошёл дождь, и жители города остались дома."
		japanese = "今日は東京で雨が降り、多くの人が家にいました。新聞は明日の天気について書いています。"
		hebrew   = "היום ירד גשם בתל אביב ואנשים רבים נשארו בבית. העיתון כותב על מזג האוויר של מחר."
		french   = "Il a plu à Paris et beaucoup de gens sont restés à la maison; l’été est fini."
		german   = "Heute hat es in München geregnet, und viele Leute blieben zu Hause – schön war es nicht."
		greek    = "Σήμερα έβρεξε στην Αθήνα και πολλοί άνθρωποι έμειναν στο σπίτι."
		turkish  = "Bugün İstanbul'da yağmur yağdı ve birçok insan evde kaldı. Gazete hava durumunu yazıyor."
		arabic   = "أمطرت اليوم في القاهرة وبقي كثير من الناس في بيوتهم. تكتب الصحيفة عن طقس الغد."
		korean   = "오늘 서울에 비가 내려서 많은 사람들이 집에 있었습니다. 신문은 내일의 날씨에 대해 썼습니다."
		chinese  = "今天北京下雨了，很多人都留在家里。报纸写了关于明天的天气的文章。我们的国家是一个大国。"
		taiwan   = "今天台北下雨了，很多人都留在家裡。報紙寫了關於明天的天氣的文章。我們的國家是一個大國。"
	)
	for _, c := range []struct{ charset, detected, text string }{
		{"windows-1251", "", russian}, {"koi8-r", "", russian}, {"iso-8859-5", "", russian},
		{"shift_jis", "", japanese}, {"euc-jp", "", japanese}, {"iso-2022-jp", "", japanese},
		{"gb18030", "", chinese}, {"gbk", "gb18030", chinese}, {"big5", "", taiwan}, {"euc-kr", "", korean},
		{"windows-1252", "", french}, {"windows-1252", "", german},
		{"iso-8859-15", "windows-1252", strings.Replace(french, "’", "'", 1)},
		{"iso-8859-7", "", greek}, {"windows-1254", "", turkish}, {"windows-1255", "", hebrew},
		{"windows-1256", "", arabic}, {"utf-16le", "", russian}, {"utf-16be", "", japanese},
	} {
		wrong := []string{"", `<?xml version="1.0" encoding="utf-8"?>`}
		if strings.HasPrefix(c.charset, "utf-16") || c.charset == "iso-2022-jp" { // which is UTF-8 as well
			wrong = wrong[:1]
		}
		for _, prolog := range wrong {
			doc := prolog + "<rss version=\"2.0\"><channel><title>T</title>\n<item><title>" + c.text +
				"</title></item><item><title>2</title></item></channel></rss>"
			f, err := syndication.Parse(encode(t, doc, c.charset), syndication.Options{})
			if err != nil {
				t.Fatalf("%s: %v", c.charset, err)
			}
			if f.Charset != cmp.Or(c.detected, c.charset) || f.Items[0].Title != c.text {
				t.Errorf("%s %q is taken for %s: %q", c.charset, prolog, f.Charset, f.Items[0].Title)
			}
			if said := len(f.Damage) > 0; said != (f.Charset[0:3] != "utf" && c.charset != "iso-2022-jp") {
				t.Errorf("%s: damage %q", c.charset, f.Damage)
			}
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

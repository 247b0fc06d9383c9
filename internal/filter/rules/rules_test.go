package rules_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/rules"
	"weir/internal/filter/syndication"
)

// now is when the items of feed are looked at.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// feed has an item each for what rules tell apart.
func feed(t testing.TB) *syndication.Feed {
	t.Helper()
	f, err := syndication.Parse(
		[]byte(
			`<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>t</title><language>en-GB</language>
<item><title>Go 1.30 is out</title><link>https://go.dev/blog/go1.30#top</link><guid>a0</guid><author>rsc@example.org (Russ)</author>
 <category>Programming</category><category>Go</category><description>A release &lt;b&gt;of&lt;/b&gt; Go</description>
 <pubDate>Sun, 22 Nov 2026 11:00:00 GMT</pubDate></item>
<item><title>Ergo Bücher: ÉLAN</title><guid>a1</guid><author>bot</author><pubDate>Fri, 20 Nov 2026 12:00:00 GMT</pubDate>
 <content:encoded><![CDATA[<p>Crème&nbsp;brûlée</p><script>go</script>]]></content:encoded></item>
<item><title>Episode 3</title><guid>a2</guid><enclosure url="https://e.example/3.mp3" type="audio/mpeg" length="30000000"/>
 <pubDate>Thu, 01 Oct 2026 00:00:00 GMT</pubDate></item>
<item><title></title><guid>a3</guid><dc:language>de</dc:language><link>https://x.example/?a=1&amp;b=2</link></item>
</channel></rss>`), syndication.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Items) != 4 {
		t.Fatalf("%d items", len(f.Items))
	}
	return f
}

// kept returns which items a set keeps.
func kept(s *rules.Set, f *syndication.Feed) []int {
	return items(s.Decide(f, now).Keep, len(f.Items))
}

func items(bits syndication.Bits, n int) []int {
	list := []int{}
	for i := range n {
		if bits.Has(i) {
			list = append(list, i)
		}
	}
	return list
}

func parse(t testing.TB, text string) *rules.Rule {
	t.Helper()
	r, err := rules.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func TestRulesMatchItems(t *testing.T) {
	f := feed(t)
	for text, want := range map[string][]int{
		`title contains "go"`:                             {0, 1},
		`title contains words "go"`:                       {0},
		`title contains words "GO 1.30"`:                  {0},
		`title contains "bucher"`:                         {1},
		`title contains "BÜCHER"`:                         {1},
		`title contains accents "bücher"`:                 {1},
		`title contains accents "bucher"`:                 {},
		`title contains case "bucher"`:                    {},
		`title contains case "Bucher"`:                    {1},
		`title contains case accents "Bücher"`:            {1},
		`title contains case "Go"`:                        {0},
		`title = "episode 3"`:                             {2},
		`title = "episode"`:                               {},
		`title != "episode 3"`:                            {0, 1, 3},
		`title starts "go"`:                               {0},
		`title starts words "epi"`:                        {},
		`title ends "out"`:                                {0},
		`title ends words "lan"`:                          {},
		`title exists`:                                    {0, 1, 2},
		`not title exists`:                                {3},
		`title matches /^(go|episode) \d/`:                {0, 2},
		`title matches /É.?LAN/`:                          {1},
		`title matches /[ÀÉ]lan/`:                         {1},
		`title matches case /elan/`:                       {},
		`title matches case accents /É/`:                  {1},
		`summary = "a release of go"`:                     {0},
		`content contains "creme brulee"`:                 {1},
		`content contains "go"`:                           {},
		`any contains "go"`:                               {0, 1},
		`any = "go"`:                                      {0},
		`author = "bot"`:                                  {1},
		`author = "rsc@example.org"`:                      {0},
		`category = "go"`:                                 {0},
		`category != "go"`:                                {1, 2, 3},
		`category ends "ing"`:                             {0},
		`url contains "?a=1&b"`:                           {3},
		`guid = "A2"`:                                     {2},
		`language starts "en"`:                            {0, 1, 2},
		`language = "de"`:                                 {3},
		`enclosure.type starts "audio/"`:                  {2},
		`enclosure.url ends ".mp3"`:                       {2},
		`enclosure.length > 20MB`:                         {2},
		`enclosure.length >= 30MB`:                        {2},
		`enclosure.length > 30MB`:                         {},
		`enclosure.length exists`:                         {2},
		`age < 1d`:                                        {0},
		`age <= 2d`:                                       {0, 1},
		`age < 2d`:                                        {0},
		`age > 4w`:                                        {2},
		`not age > 4w`:                                    {0, 1, 3},
		`date exists`:                                     {0, 1, 2},
		`date > 2026-10`:                                  {0, 1},
		`date = 2026`:                                     {0, 1, 2},
		`date <= 2026-11-20`:                              {1, 2},
		`date < 2026-11-20T13:00+01:00`:                   {2},
		`date = "2026-11-22T11:00:00Z"`:                   {0},
		`title contains "go" and not author = "bot"`:      {0},
		`author = "bot" or age > 4w and title exists`:     {1, 2},
		`(author = "bot" or age > 4w) and content exists`: {1},
		`not (author = "bot" or age > 4w)`:                {0, 3},
		`not not author = "bot"`:                          {1},
	} {
		r := parse(t, text)
		keep, drop := &rules.Set{Mode: rules.Keep, Rules: rules.Rules{r}},
			&rules.Set{Mode: rules.Drop, Rules: rules.Rules{r}}
		if got := kept(keep, f); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		both := append(kept(keep, f), kept(drop, f)...)
		if slices.Sort(both); !slices.Equal(both, []int{0, 1, 2, 3}) {
			t.Errorf("%s: keep and drop have %v", text, both)
		}
		for i := range f.Items {
			if r.Matches(f, i, now) != slices.Contains(want, i) {
				t.Errorf("%s: the reference is wrong about item %d", text, i)
			}
		}
		var again rules.Rule
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again.String() != r.String() ||
			parse(t, r.String()).String() != r.String() {
			t.Errorf("%s is %s, as JSON %s, and that %s, %v", text, r, written, &again, err)
		}
	}
}

func TestFormsAreEqual(t *testing.T) {
	for text, want := range map[string]string{
		`title contains "a\"b\\ü/"`:         `{"field":"title","op":"contains","value":"a\"b\\ü/"}`,
		`title matches case /\bgo\/rust\b/`: `{"field":"title","op":"matches","value":"\\bgo\\/rust\\b","case":true}`,
		`age >= 36h`:                        `{"field":"age","op":">=","value":"1d12h"}`,
		`enclosure.length < 1KiB`:           `{"field":"enclosure.length","op":"<","value":"1024"}`,
		`date > 2026-11-22T21:30+01:00`:     `{"field":"date","op":">","value":"2026-11-22T20:30Z"}`,
		`title exists or (url exists or guid exists) and (not guid = "x")`: `{"any":[{"field":"title","op":"exists"},{"all":[{"any":[{"field":"url","op":"exists"},{"field":"guid","op":"exists"}]},{"not":{"field":"guid","op":"=","value":"x"}}]}]}`,
		`title contains accents case words "x"`:                            `{"field":"title","op":"contains","value":"x","words":true,"case":true,"accents":true}`,
	} {
		r := parse(t, text)
		written, err := r.MarshalJSON()
		if err != nil || string(written) != want {
			t.Errorf("%s is %s, want %s", text, written, want)
		}
		var fromText rules.Rule
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(quoted, &fromText); err != nil || fromText.String() != r.String() {
			t.Errorf("%s as a JSON text is %s, %v", text, &fromText, err)
		}
	}
	var r rules.Rule
	if err := json.Unmarshal([]byte(`{"op":"<","value":1000,"field":"enclosure.length"}`), &r); err != nil ||
		r.String() != "enclosure.length < 1000" {
		t.Errorf("%s, %v", &r, err)
	}
}

func TestWrongRulesSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		``:                            `line 1, column 1: a field is expected, not the end`,
		`titel contains "x"`:          `line 1, column 1: a field is expected, not "titel"`,
		`title has "x"`:               `line 1, column 7: how to compare is expected after title, not "has"`,
		`title contains x`:            `line 1, column 16: a value is expected after contains, not "x"`,
		`title contains`:              `line 1, column 15: a value is expected after contains, not the end`,
		"# ü\n\n  title contains \"ü": `line 3, column 18: the text that begins here`,
		`"ü" = title`:                 `line 1, column 1: a field is expected, not the text "ü"`,
		`title = "ü" or (url exists`:  `line 1, column 27: and, or, or ) is expected, not the end`,
		`title = "ü" url exists`:      `line 1, column 13: and, or, or the end of the rule is expected, not "url"`,
		`title contains ""`:           `line 1, column 16: the text is empty: write title exists`,
		"title contains \" \u0301\"":  `line 1, column 16: the text is empty`,
		`title contains "\d"`:         `line 1, column 16: in a text, \ stands only before`,
		`title matches /a(b/`:         `line 1, column 15: in the regular expression: missing closing )`,
		`title matches /a{1001}/`:     `line 1, column 15: in the regular expression: invalid repeat count`,
		`title matches /ab`:           `line 1, column 15: the regular expression that begins here has no /`,
		`title matches words /ab/`:    `line 1, column 1: a regular expression says by itself`,
		`title < "x"`:                 `line 1, column 1: title is a text`,
		`age contains "1d"`:           `line 1, column 1: age is compared by`,
		`age = 1d`:                    `line 1, column 1: an age is compared by`,
		`age < 1x`:                    `line 1, column 7: "1x" is no age`,
		`age < 1h1d`:                  `line 1, column 7: "1h1d" is no age`,
		`date < yesterday`:            `line 1, column 8: "yesterday" is no date`,
		`date < 2026-02-30`:           `line 1, column 8: "2026-02-30" is no date`,
		`enclosure.length < -1`:       `line 1, column 20: "-1" is no number of bytes`,
		`date words < 2026`:           `line 1, column 6: how to compare`,
		`date < words 2026`:           `line 1, column 1: words, case and accents are for texts`,
		`title = 'x'`:                 `line 1, column 9: "'" has no meaning here`,
		"title = \"a\xff\"":           `line 1, column 11: the text is not UTF-8`,
		strings.Repeat("(", 1000):     `line 1, column 65: there are more than 64 groups`,
		strings.Repeat("not ", 1000):  `line 1, column 257: there are more than 64 groups`,
		strings.Repeat(" ",
			1<<20): `line 1, column 1: the rules have 1048576 bytes, and may have 65536`,
		`{"field":"titel"}`:                                   `line 1, column 10: a field is expected: title, summary`,
		"{\n \"field\":\"title\",\n \"op\":\"has\"}":          `line 3, column 7: how to compare is expected`,
		`{"field":"title","op":"="}`:                          `line 1, column 1: a value belongs to every op but exists`,
		`{"field":"title","op":"=","value":true}`:             `line 1, column 35: value is a text, or a number of bytes`,
		`{"field":"title","op":"=","value":"x","words":1}`:    `line 1, column 47: words is true or false`,
		`{"field":"age","op":"<","value":"1x"}`:               `line 1, column 33: "1x" is no age`,
		`{"all":[]}`:                                          `line 1, column 8: a group of no rules decides nothing`,
		`{"all":[{"not":3}]}`:                                 `line 1, column 16: an object is expected`,
		`{"all":{}}`:                                          `line 1, column 8: a list of rules is expected`,
		`{"not":{"field":"url","op":"exists"},"field":"url"}`: `line 1, column 1: of all, any, not and field a rule has one`,
		`{"op":"=","value":"x"}`:                              `line 1, column 1: the rule lacks field or op`,
		`{"rule":1}`:                                          `line 1, column 2: there is no member "rule"`,
		`{"field":"url","field":"url"}`:                       `line 1, column 16: field is there twice`,
		strings.Repeat(`{"not":`, 100) + "1" +
			strings.Repeat("}", 100): `line 1, column 449: there are more than 64 groups`,
	} {
		var err error
		if strings.HasPrefix(text, "{") {
			err = new(rules.Rule).UnmarshalJSON([]byte(text))
		} else {
			_, err = rules.Parse(text)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"field" "url"}`: `line 1, column 9: it is not JSON`,
		`{"all":[`:        `line 1, column 9: it ends before its JSON does`,
		`{"not":{"field":"url","op":"exists"}} x`: `line 1, column 39: nothing may follow the rule`,
	} {
		if err := new(rules.Rule).UnmarshalJSON([]byte(text)); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestRulesThatCannotMatchAreReported(t *testing.T) {
	const never, always = "the rule can never match", "the rule matches every item"
	for text, want := range map[string][]string{
		`title matches /(i?)/`: {"line 1, column 1: the regular " +
			"expression matches every title: write title exists if that is meant; (i?) is an i"},
		`title matches /(i?)foo/`: {"line 1, column 1: (i?) is an i that " +
			"may be there or not"},
		`title matches /^.*$/`: {"line 1, column 1: the regular " +
			"expression matches every title"},
		`title matches /a*|b/`: {"line 1, column 1: the regular " +
			"expression matches every title"},
		`title matches /./`: {"line 1, column 1: the regular " +
			"expression matches every title"},
		`title matches /^a*$/`: nil,
		`title matches /[^\x00-\x{10FFFF}]/`: {never,
			"the regular expression matches no text"},
		`title matches /a^b/`: {never,
			"the regular expression matches no text"},
		`title matches /(go)$x|y^/`: {never,
			"the regular expression matches no text"},
		`title matches /(go)$x|y/`:                                  nil,
		`title matches /(?-i:Go)/`:                                  {"(?-i changes nothing"},
		`title = "a" and title = "b"`:                               {never},
		`title = "a" and title contains "b"`:                        {never},
		`title = "ab" and title contains "B"`:                       nil,
		`title = "ab" and title contains case "B"`:                  nil,
		`title = "go" and title contains words "g"`:                 {never},
		`category = "a" and category = "b"`:                         nil,
		`title starts "a" and title starts "b"`:                     {never},
		`title starts "a" and title starts "ab"`:                    nil,
		`title ends "xa" and title ends "b"`:                        {never},
		`age > 7d and age < 1d`:                                     {never},
		`age >= 1d and age < 1d`:                                    {never},
		`age >= 1d and age <= 1d`:                                   nil,
		`age > 7d and age <= 8d`:                                    nil,
		`date > 2026 and date < 2025-06`:                            {never},
		`date >= 2026 and date <= 2026`:                             nil,
		`enclosure.length < 0`:                                      {never},
		`enclosure.length > 5 and enclosure.length < 2`:             nil, // two enclosures
		`title exists and not title exists`:                         {never},
		`title contains "go" and not title exists`:                  {never},
		`title contains "golang" and not title contains "go"`:       {never},
		`title contains "golang" and not any contains "go"`:         {never},
		`category = "golang" and not category starts "go"`:          {never},
		`title contains "golang" and not title contains words "go"`: nil,
		`title contains case "Go" and not title contains "go"`:      {never},
		`title contains "go" and not title contains case "Go"`:      nil,
		`title exists or not title exists`:                          {always},
		`not (title = "a" and title = "b")`:                         {always},
		`title = "a" and (title = "b" or title = "c")`: {never, `title = "b" can never match`,
			`title = "c"`},
		`url exists or title = "a" and title = "b"`:       {`line 1, column 15: title = "a" and title = "b" can never match`},
		`not (title exists or url exists) and url exists`: {never},
		`url exists`: nil,
	} {
		var got []string
		for _, p := range parse(t, text).Problems() {
			got = append(got, p.String())
		}
		ok := len(got) == len(want) || len(want) == 3 // parts of what cannot match are not told again
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], want[i])
		}
		if !ok || len(got) == 0 && len(want) > 0 {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestSetsReportWhatDecidesNothing(t *testing.T) {
	s, err := rules.ParseSet(
		[]byte("keep\ntitle = \"a\" and title = \"b\"\n\n# another\nage < 2d and\n  age > 3d\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.Problems())
	if want := "[line 2, column 1: the rule can never match line 5, column 1: the rule can never match " +
		"line 1, column 1: no rule can match, so nothing is kept]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s, err = rules.ParseSet([]byte("url exists\nguid exists\nurl   exists"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Problems(); len(got) != 1 || got[0].Rule != 2 ||
		got[0].Text != "the rule is the same as rule 1" {
		t.Errorf("%v", got)
	}
	if got := new(rules.Set).Problems(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestSetsAreReadFromTextAndJSON(t *testing.T) {
	want := "keep\ntitle contains \"go\" and url exists\nage < 1d\n"
	for _, text := range []string{
		"keep title contains \"go\"\n and url exists\nage < 24h",
		`{"mode":"keep","rules":["title contains \"go\" and url exists",{"field":"age","op":"<","value":"1d"}]}`,
		`{"rules":"title contains \"go\" and url exists\nage < 1d", "mode":"keep"}`,
		want,
	} {
		s, err := rules.ParseSet([]byte(text))
		if err != nil || s.String() != want {
			t.Errorf("%s is %s, %v", text, s, err)
			continue
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = rules.ParseSet(written); err != nil || s.String() != want {
			t.Errorf("%s is %s, %v", written, s, err)
		}
	}
	for text, want := range map[string]string{
		"drop\nurl exists guid exists": "line 2, column 12: and, or, or a new line for another rule is " +
			"expected",
		`[{"field":"x"}]`:                 "rule 1: line 1, column 10: a field",
		`{"mode":"hide"}`:                 "the mode is drop or keep",
		`{"rules":["url exists", "url"]}`: "rule 2: line 1, column 4: how to compare",
		`{"rule":[]}`:                     "the body may have mode and rules, and not",
		`{"mode":"drop"} x`:               "not JSON: invalid character 'x'",
	} {
		if _, err := rules.ParseSet([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	f := feed(t)
	set := func(text string) *rules.Set {
		s, err := rules.ParseSet([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := set("keep\ntitle contains \"go\"\nurl exists")
	s.Global = set("drop\nauthor = \"bot\"")
	d := s.Decide(f, now)
	if got := items(d.Keep, 4); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("kept %v", got)
	}
	if want := []*rules.Rule{s.Rules[0], s.Global.Rules[0], nil, s.Rules[1]}; !slices.Equal(d.By, want) {
		t.Errorf("decided by %v, want %v", d.By, want)
	}
	if want := []int{1, 2, 2}; !slices.Equal(d.Matched, want) {
		t.Errorf("matched %v, want %v", d.Matched, want)
	}
	s = set("drop\ndate exists")
	s.Global = set("keep\nauthor = \"bot\"")
	if got := kept(s, f); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("kept %v", got)
	}
	if got := kept(&rules.Set{Mode: rules.Keep}, f); len(got) != 0 {
		t.Errorf("a set that keeps nothing keeps %v", got)
	}
	if got := kept(&rules.Set{}, f); len(got) != 4 {
		t.Errorf("a set that drops nothing keeps %v", got)
	}
}

func TestADecisionSaysWhenAgesChangeIt(t *testing.T) {
	f := feed(t)
	for text, want := range map[string]time.Time{
		`age < 1d`:                        f.Items[0].Published.Add(24 * time.Hour),
		`age <= 1d`:                       f.Items[0].Published.Add(24*time.Hour + time.Second),
		`age > 3d`:                        f.Items[1].Published.Add(3*24*time.Hour + time.Second),
		`age > 20w`:                       f.Items[2].Published.Add(20*7*24*time.Hour + time.Second),
		`age < 1h`:                        {},
		`date > 2026`:                     {},
		`author = "bot" and not age < 3d`: f.Items[1].Published.Add(3 * 24 * time.Hour),
	} {
		s := &rules.Set{Rules: rules.Rules{parse(t, text)}}
		d := s.Decide(f, now)
		if !d.Until.Equal(want) {
			t.Errorf("%s: until %v, want %v", text, d.Until, want)
		}
		if d := s.Decide(f, want.Add(-time.Second)); !want.IsZero() && !d.Until.Equal(want) {
			t.Errorf("%s: a second before until %v, want %v", text, d.Until, want)
		}
		if !want.IsZero() && (slices.Equal(kept(s, f), items(s.Decide(f, want).Keep, 4)) ||
			!slices.Equal(kept(s, f), items(s.Decide(f, want.Add(-time.Second)).Keep, 4))) {
			t.Errorf("%s: the decision does not change at %v, or before", text, want)
		}
	}
}

func TestWordsAreFoundBehindOtherHits(t *testing.T) {
	f, err := syndication.Parse([]byte(`{"version":"https://jsonfeed.org/version/1.1","title":"t",
		"items":[{"id":"1","title":"Google goes Go"},{"id":"2","title":"Google goes"}]}`), syndication.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &rules.Set{Mode: rules.Keep, Rules: rules.Rules{parse(t, `title contains words "go"`)}}
	if got := items(s.Decide(f, now).Keep, 2); !slices.Equal(got, []int{0}) {
		t.Errorf("kept %v", got)
	}
}

// random writes a rule out of words that are in feeds.
func random(r *rand.Rand, depth int) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	if depth > 0 && r.IntN(3) > 0 {
		switch r.IntN(3) {
		case 0:
			return "not (" + random(r, depth-1) + ")"
		default:
			return "(" + random(r, depth-1) + pick(" and ", " or ") + random(r, depth-1) + ")"
		}
	}
	value := pick("go", "Go", "ü", "1.30", "e", "É", "bot", "audio/mpeg", "of", "a release of go", "en-GB",
		"a1", "out", "ergo ", " is", "https")
	field := pick("title", "summary", "content", "author", "category", "url", "guid", "enclosure.url",
		"enclosure.type", "language", "any")
	flags := pick("", "", "", " case", " accents", " case accents")
	switch r.IntN(8) {
	case 0:
		return field + " exists"
	case 1:
		return "age " + pick("<", "<=", ">", ">=") + pick(" 1h", " 2d", " 0s", " 4w")
	case 2:
		return "date " + pick("<", "<=", ">", ">=", "=") + pick(" 2026", " 2026-11", " 2026-11-22",
			" 2026-11-22T11:00")
	case 3:
		return field + " matches" + flags + " /" + pick("g.", "^e", "(go|b)+", "[É-Ö]L", `\bgo\b`, "x?$",
			"of.*go", `(?i)G|\d{2}`, "ü") + "/"
	default:
		return field + pick(" contains", " =", " starts", " ends") + pick("", " words") + flags +
			` "` + value + `"`
	}
}

// check compares a rule with the reference and with its own other forms.
func check(t *testing.T, r *rules.Rule, f *syndication.Feed) {
	t.Helper()
	again, err := rules.Parse(r.String())
	if err != nil || again.String() != r.String() {
		t.Fatalf("%s: read again: %v, %v", r, again, err)
	}
	written, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON := new(rules.Rule)
	if err := json.Unmarshal(written, fromJSON); err != nil || fromJSON.String() != r.String() {
		t.Fatalf("%s: as JSON %s: %v, %v", r, written, fromJSON, err)
	}
	d := (&rules.Set{Mode: rules.Keep, Rules: rules.Rules{r}}).Decide(f, now)
	dropped := (&rules.Set{Mode: rules.Drop, Rules: rules.Rules{fromJSON}}).Decide(f, now)
	for i := range f.Items {
		if matches := r.Matches(f, i, now); d.Keep.Has(i) != matches || dropped.Keep.Has(i) == matches {
			t.Fatalf("%s: item %d (%s): kept %v, kept by drop %v, and it should match: %v", r, i,
				f.Items[i].Title, d.Keep.Has(i), dropped.Keep.Has(i), matches)
		}
	}
	for _, p := range r.Problems() {
		if p.Text == "the rule can never match" && d.Matched[0] > 0 ||
			p.Text == "the rule matches every item" && d.Matched[0] < len(f.Items) {
			t.Fatalf("%s: %s, and it matches %d of %d", r, p.Text, d.Matched[0], len(f.Items))
		}
	}
}

func TestRandomRulesDoWhatTheReferenceDoes(t *testing.T) {
	f := feed(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		check(t, parse(t, random(r, 4)), f)
	}
}

func FuzzRules(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(random(r, 3), "Go 1.30 Größe go &lt;b&gt;x")
	}
	f.Add(`title matches /(i?)[^a-z]\x{1F600}$/ and url = "\u0301x"`, "a\x00b")
	f.Fuzz(func(t *testing.T, text, title string) {
		r, err := rules.Parse(text)
		if err != nil {
			if place, ok := err.(*rules.SyntaxError); !ok || place.Line < 1 || place.Column < 1 ||
				place.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		feed, err := syndication.Parse(
			fmt.Appendf(nil,
				`{"version":"https://jsonfeed.org/version/1.1","title":"t","items":[{"id":"1","title":%s,"content_html":"<p>%s"},{"id":"2"}]}`,
				quoted(title), "x"), syndication.Options{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, feed)
	})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func FuzzRulesJSON(f *testing.F) {
	f.Add(
		[]byte(
			`{"all":[{"field":"title","op":"contains","value":"go","words":true},{"not":{"any":[{"field":"age","op":"<","value":"1d"}]}}]}`))
	f.Add([]byte(`"title contains \"go\""`))
	f.Add([]byte(`{"field":"enclosure.length","op":">=","value":1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := new(rules.Rule)
		if err := json.Unmarshal(b, r); err == nil {
			check(t, r, feed(t))
		}
	})
}

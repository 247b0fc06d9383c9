package rules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/rules"
	"weir/internal/filter/syndication"
)

// large is a feed of as many items, about a kilobyte each, of English-looking words.
func large(t testing.TB, n int) *syndication.Feed {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	words := strings.Fields(
		`the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which
		one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only
		other time new some could these two may first then do any like my now over such our man me even most made after also well must years
		release server memory language community security update kernel database network research market Köln São façade performance review`)
	sentence := func(n int) string {
		var s []string
		for range n {
			s = append(s, words[r.IntN(len(words))])
		}
		return strings.Join(s, " ")
	}
	var b strings.Builder
	b.WriteString(
		`<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>t</title><language>en</language>`)
	for i := range n {
		fmt.Fprintf(&b,
			`<item><title>%s</title><link>https://news.example/2026/11/%d</link><guid>https://news.example/?p=%d</guid><author>%s</author><category>%s</category>`+
				`<category>%s</category><pubDate>%s</pubDate><description>%s</description></item>`,
			sentence(8), i, i, sentence(2), sentence(1), sentence(1),
			now.Add(-time.Duration(i)*time.Hour).Format(time.RFC1123Z), "&lt;p&gt;"+sentence(110)+
				"&lt;/p&gt;")
	}
	b.WriteString("</channel></rss>")
	f, err := syndication.Parse([]byte(b.String()), syndication.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// twenty are rules as people write them: against what they are tired of.
const twenty = `drop
title contains words "sponsored"
title contains "webinar"
title contains words "deal" or title contains words "deals"
title contains words "bitcoin"
any contains "crypto"
title starts "podcast:"
title contains "horoscope"
category = "celebrities"
category = "sports"
author = "bot"
author contains "press release"
title matches /\b(black|cyber) (friday|monday)\b/
summary contains "click here to subscribe"
url contains "/sponsored/"
title contains words "quiz" and not author = "anna"
title contains case "AI"
any contains words "giveaway"
title contains "kardashian"
enclosure.type starts "video/"
age > 30d
`

func TestSetsDecideAboutManyItems(t *testing.T) {
	f := large(t, 150)
	r := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		check(t, parse(t, random(r, 3)), f)
	}
}

func BenchmarkDecide(b *testing.B) {
	f := large(b, 25)
	s, err := rules.ParseSet([]byte(twenty))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(f.Source)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		if d := s.Decide(f, now); !d.Keep.Has(3) {
			b.Fatal("dropped")
		}
	}
}

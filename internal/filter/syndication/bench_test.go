package syndication_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mmcdole/gofeed"

	"weir/internal/filter/syndication"
)

// ordinaryFeed is RSS of 25 items in 24 KB, as a blog has it, with its HTML in CDATA sections or escaped.
func ordinaryFeed(escaped bool) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel>
  <title>An ordinary blog</title>
  <link>https://blog.example.org/</link>
  <atom:link rel="self" type="application/rss+xml" href="https://blog.example.org/feed.xml"/>
  <description>News of nothing in particular &amp; more</description>
  <language>en</language>
  <lastBuildDate>Sat, 02 Nov 2024 08:28:28 GMT</lastBuildDate>
`)
	const words = "The quick brown fox jumps over the lazy dog while Zürich’s cafés are filling with " +
		"people who read about compilers, databases and bread. "
	text := func(html string) string {
		if escaped {
			return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(html)
		}
		return "<![CDATA[" + html + "]]>"
	}
	for i := range 25 {
		fmt.Fprintf(&b, `  <item>
    <title>Post number %d: how we made Résumé parsing &amp; scheduling faster</title>
    <link>https://blog.example.org/2024/%d/how-we-made-it-faster</link>
    <guid isPermaLink="false">https://blog.example.org/?p=%d</guid>
    <dc:creator><![CDATA[Ann Author]]></dc:creator>
    <category>performance</category>
    <pubDate>Sat, %02d Nov 2024 08:28:28 +0000</pubDate>
    <description>%s</description>
  </item>
`, i, i, i, i%28+1, text(fmt.Sprintf(`<p>%s</p><p><a href="https://blog.example.org/%d">Read more</a></p>`, strings.Repeat(words, 3), i)))
	}
	b.WriteString("</channel>\n</rss>\n")
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for name, src := range map[string][]byte{"cdata": ordinaryFeed(false), "escaped": ordinaryFeed(true)} {
		b.Run("weir/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := syndication.Parse(src, syndication.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("gofeed/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := gofeed.NewParser().Parse(bytes.NewReader(src)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

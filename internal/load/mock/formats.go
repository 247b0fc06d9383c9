package mock

import (
	"bytes"
	"strconv"
	"time"
)

// rss writes RSS 2.0, with content, authors and a link to itself from the usual namespaces.
func (w *writer) rss() {
	w.opening("rss")
	if w.damage == prefixes {
		w.add(`<rss version="2.0"><channel>` + "\n")
	} else {
		w.add(
			`<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" `+
				`xmlns:dc="http://purl.org/dc/elements/1.1/" `+
				`xmlns:atom="http://www.w3.org/2005/Atom"><channel>`, "\n")
	}
	w.channelTitle("title")
	w.add("<link>https://example.org/", w.seedText(),
		"</link>\n<description>Made up by weir mock, not to be believed.</description>\n<language>",
		w.lang.Tag, "</language>\n")
	w.add(`<atom:link href="https://example.org/feed/`, w.seedText(),
		`.rss" rel="self" type="application/rss+xml"/>`, "\n")
	w.add("<lastBuildDate>", w.row.came(w.newest).Format(time.RFC1123Z),
		"</lastBuildDate>\n<generator>weir mock</generator>\n")
	if w.minutes > 0 {
		w.add("<ttl>", strconv.Itoa(int(w.minutes)), "</ttl>\n")
	}
	w.each(func(it *item) {
		w.add("<item>\n")
		w.title(it, "<title>", "<link>"+w.link(it)+"</link>")
		if id := w.id(it); id != "" {
			w.add(`<guid isPermaLink="false">`, id, "</guid>\n")
		}
		if date, ok := w.date(it, time.RFC1123Z); ok {
			w.add("<pubDate>", date, "</pubDate>\n")
		}
		w.element("dc:creator", []byte(it.author))
		w.element("category", []byte(it.topic))
		w.element("description", it.summary)
		w.add("<content:encoded>")
		if charsets[w.charset].encoding == nil && !bytes.Contains(it.html, []byte("]]>")) {
			w.add("<![CDATA[")
			w.dst = append(w.dst, it.html...)
			w.add("]]>")
		} else { // where characters may have to be references, CDATA would show them as such
			w.escaped(it.html)
		}
		w.add("</content:encoded>\n")
		if it.sound {
			w.add(`<enclosure url="https://example.org/sound/`, it.id,
				`.mp3" length="1048576" type="audio/mpeg"/>`, "\n")
		}
		if w.damage == prefixes {
			w.add(`<media:thumbnail url="https://example.org/picture/`, it.id, `.jpg"/>`, "\n")
		}
		if w.damage != unclosed || it.i%2 == 0 {
			w.add("</item>\n")
		}
	})
	w.add("</channel></rss>\n")
}

func (w *writer) atom() {
	w.opening("feed")
	w.add(`<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="`, w.lang.Tag, "\">\n")
	w.channelTitle("title")
	w.add("<id>tag:example.org,2026:", w.seedText(), "</id>\n")
	w.add(`<link href="https://example.org/`, w.seedText(), `"/>`, "\n")
	w.add(`<link rel="self" href="https://example.org/feed/`, w.seedText(), `.atom"/>`, "\n")
	w.add("<updated>", w.row.came(w.newest).Format(time.RFC3339),
		"</updated>\n<generator>weir mock</generator>\n")
	w.each(func(it *item) {
		w.add("<entry>\n")
		w.title(it, "<title>", `<link href="`+w.link(it)+`"/>`)
		if id := w.id(it); id != "" {
			w.add("<id>", id, "</id>\n")
		}
		if date, ok := w.date(it, time.RFC3339); ok {
			w.add("<published>", date, "</published>\n<updated>", date, "</updated>\n")
		}
		w.add("<author><name>")
		w.escapedText(it.author)
		w.add("</name></author>\n", `<category term="`)
		w.escapedText(it.topic)
		w.add("\"/>\n")
		w.element("summary", it.summary)
		w.add(`<content type="html">`)
		w.escaped(it.html)
		w.add("</content>\n")
		if it.sound {
			w.add(`<link rel="enclosure" href="https://example.org/sound/`, it.id,
				`.mp3" length="1048576" type="audio/mpeg"/>`, "\n")
		}
		if w.damage == prefixes {
			w.add(`<media:thumbnail url="https://example.org/picture/`, it.id, `.jpg"/>`, "\n")
		}
		if w.damage != unclosed || it.i%2 == 0 {
			w.add("</entry>\n")
		}
	})
	w.add("</feed>\n")
}

func (w *writer) channelTitle(name string) {
	w.add("<", name, ">")
	if w.damage == bomb {
		w.add("&a9;")
	}
	w.escapedText(w.heading())
	w.add("</", name, ">\n")
}

func (w *writer) json() {
	w.add(`{"version":"https://jsonfeed.org/version/1.1","title":`)
	w.quotedText(w.heading())
	w.add(`,"home_page_url":"https://example.org/`, w.seedText(), `","feed_url":"https://example.org/feed/`,
		w.seedText(), `.json","language":"`, w.lang.Tag,
		`","items":[`)
	w.each(func(it *item) {
		if it.i > 0 {
			w.add(",")
		}
		w.add("\n{")
		if id := w.id(it); id != "" {
			w.add(`"id":"`, id, `",`)
		}
		w.add(`"url":"`, w.link(it), `","title":`)
		w.quoted(it.title)
		if date, ok := w.date(it, time.RFC3339); ok {
			w.add(`,"date_published":"`, date, `"`)
		}
		w.add(`,"authors":[{"name":`)
		w.quotedText(it.author)
		w.add(`}],"tags":[`)
		w.quotedText(it.topic)
		w.add(`],"summary":`)
		w.quoted(it.summary)
		w.add(`,"content_html":`)
		w.quoted(it.html)
		if it.sound {
			w.add(`,"attachments":[{"url":"https://example.org/sound/`, it.id,
				`.mp3","mime_type":"audio/mpeg","size_in_bytes":1048576}]`)
		}
		switch {
		case w.damage == unclosed && it.i%3 == 0:
		case w.damage == crossed && it.i%3 == 0:
			w.add("]")
		default:
			w.add("}")
		}
	})
	switch {
	case w.damage == unclosed:
	case w.damage == crossed:
		w.add("\n}]\n")
	default:
		w.add("\n]}\n")
	}
}

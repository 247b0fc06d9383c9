package mock

import (
	"strconv"
	"time"
)

// Format is the kind of feed.
type Format uint8

const (
	RSS Format = iota
	Atom
	JSON
	formats
)

// formatNames are also how paths end.
var formatNames = [formats]string{"rss", "atom", "json"}

// page names the bytes of an answer: pages that are equal have the same ones. It is a key of the cache.
type page struct {
	seed    uint64
	newest  int64 // item
	churn   float64
	items   int32
	body    int32
	minutes int32 // of ttl, in RSS
	format  Format
	charset Charset
	damage  Damage
	coding  coding
}

// firstID is the id of item 0; ids of older items are below it.
const firstID = 1_000_000

type writer struct {
	page
	row  row
	lang *language
	dst  []byte
	text []byte // scratch: an item's HTML
	name []byte // scratch: a title
}

// item is one of a feed's, the same in all formats.
type item struct {
	i       int // from the top, as damage counts
	id      string
	came    time.Time
	title   []byte
	html    []byte // the text in paragraphs, escaped once
	summary []byte // the beginning of the text, escaped once
	author  string
	topic   string
	sound   bool // has an enclosure
}

// feed returns the bytes of a page, UTF-8 and not compressed. step is how many seconds one takes.
func feed(p page, step float64) []byte {
	of := charsets[p.charset].languages
	w := &writer{page: p, row: row{p.seed, p.churn, step}, lang: &vocabulary[of[mix(p.seed)%uint64(len(of))]]}
	w.dst = make([]byte, 0, 1024+int(p.items)*(1024+2*int(p.body)))
	switch p.format {
	case RSS:
		w.rss()
	case Atom:
		w.atom()
	default:
		w.json()
	}
	return w.dst
}

// each calls write with every item, the newest first. The item is good until the next one.
func (w *writer) each(write func(*item)) {
	for i := range int(w.items) {
		number := w.newest - int64(i)
		d := newDice(w.seed, uint64(number), 0x6974656d)
		l := w.lang
		it := item{i: i, id: strconv.FormatInt(firstID+number, 10), came: w.row.came(number)}
		w.name = l.phrase(w.name[:0], &d, 3+d.below(6))
		if d.below(3) == 0 {
			w.name = append(w.name, extras[d.below(len(extras))]...)
		}
		it.author, it.topic = l.Names[d.below(len(l.Names))], l.Topics[d.below(len(l.Topics))]
		it.sound = d.below(8) == 0
		w.paragraphs(&d, &it)
		w.name = w.damage.title(w.name, w.format, i)
		it.title, it.html = w.name, w.text
		write(&it)
	}
}

func (w *writer) paragraphs(d *dice, it *item) {
	w.text = w.text[:0]
	left := int(w.body)/2 + d.below(int(w.body)+1)
	for first := true; left > 0; first = false {
		long := min(left, 200+d.below(400))
		left -= long
		w.text = append(w.text, "<p>"...)
		start := len(w.text)
		w.text = w.lang.sentences(w.text, d, long)
		if len(w.text) == start { // no word is that short
			w.text = w.text[:start-len("<p>")]
			break
		}
		if first {
			it.summary = beginning(w.text[start:], 200)
		}
		switch d.below(5) {
		case 0:
			w.text = append(w.text, ` <a href="https://example.org/`...)
			w.text = strconv.AppendUint(w.text, w.seed, 10)
			w.text = append(w.text, `/about?a=1&amp;b=2">`...)
			w.text = append(w.text, it.topic...)
			w.text = append(w.text, "</a>"...)
		case 1:
			w.text = append(w.text, ` <img src="https://example.org/picture/`...)
			w.text = append(w.text, it.id...)
			w.text = append(w.text, `.jpg" alt="">`...)
		}
		w.text = append(w.text, "</p>\n"...)
	}
	// The scratch may have moved while it grew: a summary is small, and has memory of its own.
}

// beginning returns a copy of at most n bytes, of whole characters.
func beginning(text []byte, n int) []byte {
	if len(text) > n {
		for n > 0 && text[n]&0xc0 == 0x80 {
			n--
		}
		text = text[:n]
	}
	return append([]byte(nil), text...)
}

func (w *writer) add(parts ...string) {
	for _, p := range parts {
		w.dst = append(w.dst, p...)
	}
}

func (w *writer) escaped(text []byte) {
	bare := w.damage == ampersands || w.damage == entities
	for _, c := range text {
		switch c {
		case '&':
			if bare {
				w.dst = append(w.dst, c)
			} else {
				w.add("&amp;")
			}
		case '<':
			if bare {
				w.dst = append(w.dst, c)
			} else {
				w.add("&lt;")
			}
		case '>':
			w.add("&gt;")
		case '"':
			w.add("&quot;")
		default:
			w.dst = append(w.dst, c)
		}
	}
}

func (w *writer) quoted(text []byte) {
	const hex = "0123456789abcdef"
	w.dst = append(w.dst, '"')
	for _, c := range text {
		switch {
		case c == '"' && w.damage != ampersands, c == '\\' && w.damage != entities:
			w.dst = append(w.dst, '\\', c)
		case c == '\n':
			w.add(`\n`)
		case c < ' ' && w.damage != control:
			w.dst = append(w.dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			w.dst = append(w.dst, c)
		}
	}
	w.dst = append(w.dst, '"')
}

func (w *writer) quotedText(text string) { w.quoted([]byte(text)) }
func (w *writer) escapedText(text string) {
	w.escaped([]byte(text))
}

// seedText and the links are part of every format.
func (w *writer) seedText() string { return strconv.FormatUint(w.seed, 10) }

func (w *writer) link(it *item) string {
	return "https://example.org/" + w.seedText() + "/" + it.id
}

func (w *writer) heading() string { return "Mock " + w.seedText() + " – " + w.lang.Topics[0] }

// id is an item's identity in a form that is no link; "" when it is to have none.
func (w *writer) id(it *item) string {
	if w.damage == guids {
		if it.i%4 == 3 {
			return ""
		}
		return "tag:example.org,2026:the-same"
	}
	return "tag:example.org,2026:" + w.seedText() + "/" + it.id
}

// date renders when an item came; false when it is to have no date.
func (w *writer) date(it *item, layout string) (string, bool) {
	if w.damage == dates {
		switch it.i % 4 {
		case 0:
			return "yesterday, at noon", true
		case 1:
			return "2026-02-31T25:61:00Z", true
		case 2:
			return "Mon, 32 Foo 2026 12:00:00 GMT", true
		}
		return "", false
	}
	return it.came.Format(layout), true
}

// opening is what comes before the root element.
func (w *writer) opening(root string) {
	w.add(`<?xml version="1.0" encoding="`, charsets[w.charset].name, "\"?>\n")
	if w.damage == bomb {
		w.add("<!DOCTYPE ", root, " [\n<!ENTITY a0 \"boom \">\n")
		for i := 1; i <= 9; i++ {
			a, b := strconv.Itoa(i), "&a"+strconv.Itoa(i-1)+";"
			w.add("<!ENTITY a", a, ` "`)
			for range 10 {
				w.add(b)
			}
			w.add("\">\n")
		}
		w.add("]>\n")
	}
}

func (w *writer) element(name string, text []byte) {
	w.add("<", name, ">")
	w.escaped(text)
	w.add("</", name, ">\n")
}

// title writes the title and link of an item, which unclosed and crossed tear.
func (w *writer) title(it *item, title, link string) {
	w.add(title)
	w.escaped(it.title)
	switch {
	case w.damage == unclosed && it.i%3 == 0:
		w.add("\n", link, "\n")
	case w.damage == crossed && it.i%3 == 0:
		w.add("<b>", "</title></b>\n", link, "\n")
	default:
		w.add("</title>\n", link, "\n")
	}
}

package syndication

import (
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"weir/internal/filter/text"
)

// Convert appends a document in another format: what the feed says of itself, with these items, in UTF-8.
// It carries what both formats have, and what iTunes, Media RSS, Dublin Core and Podcasting 2.0 say, to RSS
// and Atom. RDF is written as RSS 2.0. What is written is well-formed, whatever damage the source has.
func (f *Feed) Convert(dst []byte, to Format, items []Ref, self string) []byte {
	if self == "" {
		self = f.FeedURL
	}
	switch to {
	case JSON:
		return f.toJSON(dst, items, self)
	case Atom:
		w := xmlWriter{dst}
		f.toAtom(&w, items, self)
		return w.dst
	}
	w := xmlWriter{dst}
	f.toRSS(&w, items, self)
	return w.dst
}

// xmlWriter appends elements.
type xmlWriter struct{ dst []byte }

// extensionNamespaces are declared in every document that is written.
const extensionNamespaces = ` xmlns:content="http://purl.org/rss/1.0/modules/content/"` +
	` xmlns:dc="http://purl.org/dc/elements/1.1/"` +
	` xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:media="http://search.yahoo.com/mrss/"` +
	` xmlns:podcast="https://podcastindex.org/namespace/1.0"`

func (w *xmlWriter) raw(s string) { w.dst = append(w.dst, s...) }

// open writes a start tag with attributes, given as names and values in turn; those without a value are
// left out.
func (w *xmlWriter) open(name string, attrs ...string) {
	w.raw("<" + name)
	for i := 0; i+1 < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			w.raw(" " + attrs[i] + `="`)
			w.dst = append(appendEscaped(w.dst, attrs[i+1]), '"')
		}
	}
	w.raw(">")
}

// empty writes an element without content.
func (w *xmlWriter) empty(name string, attrs ...string) {
	w.open(name, attrs...)
	w.dst = append(w.dst[:len(w.dst)-1], "/>\n"...)
}

// element writes an element with text, unless there is none.
func (w *xmlWriter) element(name, s string, attrs ...string) {
	if s == "" {
		return
	}
	w.open(name, attrs...)
	w.dst = appendEscaped(w.dst, s)
	w.raw("</" + name + ">\n")
}

// appendEscaped appends text for XML, without the characters that XML does not allow.
func appendEscaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '&':
			dst = append(dst, "&amp;"...)
		case r == '<':
			dst = append(dst, "&lt;"...)
		case r == '>':
			dst = append(dst, "&gt;"...)
		case r == '"':
			dst = append(dst, "&quot;"...)
		case r == '\r':
			dst = append(dst, "&#13;"...)
		case r < ' ' && r != '\n' && r != '\t', r == 0xfffe, r == 0xffff:
		case r == utf8.RuneError:
			dst = append(dst, "\uFFFD"...)
		default:
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return dst
}

// markup reports whether a text reads otherwise as HTML than as it is.
func markup(s string) bool { return strings.ContainsAny(s, "<&") }

// asHTML returns a text as HTML.
func asHTML(s string, isHTML bool) string {
	if isHTML || !markup(s) {
		return s
	}
	return html.EscapeString(s)
}

// asText returns what HTML says.
func asText(s string, isHTML bool) string {
	if !isHTML || !markup(s) {
		return s
	}
	return norm.NFC.String(text.Of(s, text.HTML|text.KeepCase|text.KeepAccents))
}

func rfc1123(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// either returns the first time that is one.
func either(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func (f *Feed) toRSS(w *xmlWriter, items []Ref, self string) {
	w.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" " +
		"xmlns:atom=\"http://www.w3.org/2005/Atom\"" + extensionNamespaces + ">\n<channel>\n")
	title := f.Title
	if title == "" {
		title = f.URL
	}
	w.element("title", title)
	w.element("link", f.URL)
	w.raw("<description>")
	w.dst = appendEscaped(w.dst, asHTML(f.Summary, f.html&htmlSummary != 0))
	w.raw("</description>\n")
	w.links("atom:link", f, self)
	w.element("language", f.Language)
	w.element("copyright", f.Copyright)
	w.persons("managingEditor", f.Authors)
	w.element("pubDate", rfc1123(f.Published))
	w.element("lastBuildDate", rfc1123(f.Updated))
	for _, c := range f.Categories {
		w.element("category", c)
	}
	w.element("generator", f.Generator)
	if m := int(f.TTL / time.Minute); m > 0 {
		w.element("ttl", strconv.Itoa(m))
	}
	if f.Image != "" {
		w.raw("<image>")
		w.element("url", f.Image)
		w.element("title", title)
		w.element("link", f.URL)
		w.raw("</image>\n")
	}
	w.element("atom:icon", f.Icon)
	w.skips(f)
	w.dst = f.appendExtensions(w.dst, nil)
	for _, r := range items {
		r.Feed.itemToRSS(w, &r.Feed.Items[r.Item])
	}
	w.raw("</channel>\n</rss>\n")
}

// skips writes when the feed asks not to be fetched.
func (w *xmlWriter) skips(f *Feed) {
	if f.SkipHours != 0 {
		w.raw("<skipHours>")
		for h := range 24 {
			if f.SkipHours>>h&1 != 0 {
				w.element("hour", strconv.Itoa(h))
			}
		}
		w.raw("</skipHours>\n")
	}
	if f.SkipDays != 0 {
		w.raw("<skipDays>")
		for d := time.Sunday; d <= time.Saturday; d++ {
			if f.SkipDays>>d&1 != 0 {
				w.element("day", d.String())
			}
		}
		w.raw("</skipDays>\n")
	}
}

// links writes where the feed itself, its next page and its hub are.
func (w *xmlWriter) links(name string, f *Feed, self string) {
	for _, l := range [][2]string{{"self", self}, {"next", f.Next}, {"hub", f.Hub}} {
		if l[1] != "" {
			w.empty(name, "rel", l[0], "href", l[1])
		}
	}
}

// persons writes persons as RSS does, whose element for them is that of a mail address.
func (w *xmlWriter) persons(name string, persons []Person) {
	for _, p := range persons {
		switch {
		case p.Email == "":
			w.element("dc:creator", p.Name)
		case p.Name == "":
			w.element(name, p.Email)
		default:
			w.element(name, p.Email+" ("+p.Name+")")
		}
	}
}

func (f *Feed) itemToRSS(w *xmlWriter, it *Item) {
	w.open("item", "xml:base", it.base)
	w.raw("\n")
	w.element("title", asHTML(it.Title, it.html&htmlTitle != 0))
	w.element("link", it.URL)
	if it.GUID == it.URL {
		w.element("guid", it.GUID)
	} else {
		w.element("guid", it.GUID, "isPermaLink", "false")
	}
	w.element("description", asHTML(it.Summary, it.html&htmlSummary != 0))
	w.element("content:encoded", asHTML(it.Content, it.html&htmlContent != 0))
	w.persons("author", it.Authors)
	for _, c := range it.Categories {
		w.element("category", c)
	}
	for _, e := range it.Enclosures {
		w.empty("enclosure", "url", e.URL, "length", strconv.FormatInt(e.Length, 10), "type", e.Type)
	}
	w.element("comments", it.Comments)
	w.element("pubDate", rfc1123(either(it.Published, it.Updated)))
	w.element("atom:updated", rfc3339(it.Updated))
	w.element("dc:language", it.Language)
	w.itemExtensions(f, it)
	w.raw("</item>\n")
}

// itemExtensions writes what formats of XML share.
func (w *xmlWriter) itemExtensions(f *Feed, it *Item) {
	if f.Format == JSON && it.Image != "" {
		w.empty("media:thumbnail", "url", it.Image)
	}
	w.dst = f.appendExtensions(w.dst, it)
}

func (f *Feed) toAtom(w *xmlWriter, items []Ref, self string) {
	w.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	w.open("feed", "xml:lang", f.Language)
	w.dst = w.dst[:len(w.dst)-1]
	w.raw(" xmlns=\"http://www.w3.org/2005/Atom\"" + extensionNamespaces + ">\n")
	w.construct("title", f.Title, f.html&htmlTitle != 0, true)
	w.construct("subtitle", f.Summary, f.html&htmlSummary != 0, false)
	id := self
	if id == "" {
		id = f.URL
	}
	w.element("id", id)
	newest := either(f.Updated, f.Published)
	for _, r := range items {
		it := &r.Feed.Items[r.Item]
		if t := either(it.Updated, it.Published); newest.IsZero() || f.Updated.IsZero() && t.After(newest) {
			newest = t
		}
	}
	w.element("updated", rfc3339(either(newest, time.Unix(0, 0))))
	w.element("published", rfc3339(f.Published))
	if f.URL != "" {
		w.empty("link", "rel", "alternate", "href", f.URL)
	}
	w.links("link", f, self)
	w.element("rights", f.Copyright)
	w.element("generator", f.Generator)
	w.element("logo", f.Image)
	w.element("icon", f.Icon)
	w.authors(f.Authors)
	for _, c := range f.Categories {
		w.empty("category", "term", c)
	}
	w.dst = f.appendExtensions(w.dst, nil)
	for _, r := range items {
		r.Feed.itemToAtom(w, &r.Feed.Items[r.Item], newest)
	}
	w.raw("</feed>\n")
}

// construct writes one of Atom's texts.
func (w *xmlWriter) construct(name, s string, isHTML, required bool) {
	switch {
	case s == "" && required:
		w.empty(name)
	case isHTML && markup(s):
		w.element(name, s, "type", "html")
	default:
		w.element(name, s)
	}
}

func (w *xmlWriter) authors(persons []Person) {
	for _, p := range persons {
		w.raw("<author>")
		name := p.Name
		if name == "" {
			name = p.Email
		}
		w.element("name", name)
		w.element("email", p.Email)
		w.element("uri", p.URL)
		w.raw("</author>\n")
	}
}

func (f *Feed) itemToAtom(w *xmlWriter, it *Item, updated time.Time) {
	w.open("entry", "xml:lang", it.Language, "xml:base", it.base)
	w.raw("\n")
	w.construct("title", it.Title, it.html&htmlTitle != 0, true)
	w.element("id", it.Key())
	w.element("updated", rfc3339(either(it.Updated, it.Published, updated, time.Unix(0, 0))))
	w.element("published", rfc3339(it.Published))
	if it.URL != "" {
		w.empty("link", "rel", "alternate", "href", it.URL)
	}
	for _, e := range it.Enclosures {
		length := ""
		if e.Length > 0 {
			length = strconv.FormatInt(e.Length, 10)
		}
		w.empty("link", "rel", "enclosure", "href", e.URL, "type", e.Type, "length", length)
	}
	if it.Comments != "" {
		w.empty("link", "rel", "replies", "type", "text/html", "href", it.Comments)
	}
	w.authors(it.Authors)
	for _, c := range it.Categories {
		w.empty("category", "term", c)
	}
	w.construct("summary", it.Summary, it.html&htmlSummary != 0, false)
	w.construct("content", it.Content, it.html&htmlContent != 0, false)
	w.itemExtensions(f, it)
	w.raw("</entry>\n")
}

// carried are the vocabularies that conversions between RSS and Atom keep, by the prefixes they get.
var carried = map[vocabulary]string{dublinCore: "dc:", itunes: "itunes:", media: "media:",
	podcast: "podcast:"}

// rewritten are the elements of Dublin Core that conversions write as the format's own.
var rewritten = map[string]bool{"title": true, "creator": true, "author": true, "subject": true, "date": true,
	"description": true, "language": true}

// appendExtensions appends the elements of the carried vocabularies in an item, or outside of items, with
// their content, in the prefixes of extensionNamespaces.
func (f *Feed) appendExtensions(dst []byte, it *Item) []byte {
	if f.Format == JSON {
		return dst
	}
	x := extensions{b: f.text, scope: scope{bound: f.bound[:len(f.bound):len(f.bound)]}, dst: dst}
	x.setBare()
	if it != nil {
		var t tag
		if ok, _ := t.read(f.text, it.in.Start+1, defaultAttributes); ok {
			x.declare(f.text, t.attrs, false)
			x.region(t.end, it.in.End)
		}
		return x.dst
	}
	at := 0
	for i := range f.Items {
		x.region(at, f.Items[i].in.Start)
		at = f.Items[i].in.End
	}
	end := len(f.text)
	if f.closed != "" {
		end = at
	}
	x.region(at, end)
	return x.dst
}

// extensions copies elements.
type extensions struct {
	b string
	scope
	dst  []byte
	open []extension
}

type extension struct {
	name  string // in the source
	as    string // as it was written, "" when it was not
	bound int
}

func (x *extensions) written() bool { return len(x.open) > 0 && x.open[len(x.open)-1].as != "" }

// region copies what is in a part of the source.
func (x *extensions) region(i, end int) {
	b := x.b[:end]
	var scratch []byte
	for i < end {
		j := strings.IndexByte(b[i:], '<')
		if j < 0 || i+j+1 >= end {
			break
		}
		if x.written() {
			scratch, _ = appendText(scratch[:0], b[i:i+j])
			x.dst = appendEscaped(x.dst, string(scratch))
		}
		i += j
		switch c := b[i+1]; {
		case c == '!' || c == '?':
			after := skipMarkup(b, i)
			if after < 0 {
				i = end
				break
			}
			if x.written() && strings.HasPrefix(b[i:], cdataStart) {
				x.dst = appendEscaped(x.dst, b[i+len(cdataStart):after-3])
			}
			i = after
		case c == '/' || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z':
			from := i + 1
			if c == '/' {
				from++
			}
			var t tag
			if ok, err := t.read(b, from, defaultAttributes); !ok || err != nil {
				i = end
				break
			}
			if i = t.end; c == '/' {
				x.endTag(t.name)
			} else {
				x.startTag(&t)
			}
		default:
			i++
		}
	}
	x.close(0)
}

func (x *extensions) startTag(t *tag) {
	bound := len(x.bound)
	x.declare(x.b, t.attrs, false)
	prefix, local := t.split()
	v := x.of(prefix)
	e := extension{name: t.name, bound: bound}
	as, carry := carried[v]
	switch {
	case len(x.open) == 0 && (local == "channel" || local == "rss" ||
		local == "RDF" || local == "feed"):
		return // what is in it counts, and its bindings stay
	case !carry || len(x.open) > 0 && !x.written() || v == dublinCore && rewritten[local] ||
		!isName(local):
	default:
		e.as = as + local
		x.dst = append(append(x.dst, '<'), e.as...)
		var scratch []byte
		seen := map[string]bool{}
		for _, a := range t.attrs {
			if !isName(a.name) && a.name != "xml:lang" || a.name == "xmlns" ||
				seen[a.name] {
				continue // prefixes of attributes mean nothing here
			}
			seen[a.name] = true
			scratch, _ = appendText(scratch[:0], x.b[a.value.Start:a.value.End])
			x.dst = append(append(append(x.dst, ' '), a.name...), `="`...)
			x.dst = append(appendEscaped(x.dst, string(scratch)), '"')
		}
		x.dst = append(x.dst, '>')
	}
	x.open = append(x.open, e)
	if t.empty || len(x.open) > defaultDepth {
		x.close(len(x.open) - 1)
	}
}

// isName is true for names of ASCII without a prefix.
func isName(b string) bool {
	for i, c := range []byte(b) {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'; !letter &&
			(i == 0 || c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return len(b) > 0
}

func (x *extensions) endTag(name string) {
	for k := len(x.open) - 1; k >= 0; k-- {
		if strings.EqualFold(x.open[k].name, name) {
			x.close(k)
			return
		}
	}
}

// close closes all but the first n open elements.
func (x *extensions) close(n int) {
	for len(x.open) > n {
		e := x.open[len(x.open)-1]
		x.open = x.open[:len(x.open)-1]
		x.release(e.bound)
		if e.as != "" {
			x.dst = append(append(append(x.dst, "</"...), e.as...), '>')
			if len(x.open) == 0 {
				x.dst = append(x.dst, '\n')
			}
		}
	}
}

package syndication

import (
	"bytes"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// place is what an open element is to the feed.
type place uint8

const (
	nowhere place = iota // nothing inside matters
	inRoot               // rss, RDF
	inChannel
	inFeed
	inItem
	inPerson
	inImage
	inHours
	inDays
)

// open is an element whose end has not come yet.
type open struct {
	name  []byte
	is    place
	bound int    // bindings before it
	base  string // xml:base outside it
}

// xmlParser reads RSS, RDF and Atom. Elements with text are read at once, and never open.
type xmlParser struct {
	f     *Feed
	o     Options
	b     []byte
	i     int
	stack []open
	scope
	base    string
	attrs   []attribute // of the tag that is read
	inside  tag         // within its text
	scratch []byte
	builder
	common
	item      *Item
	itemDepth int // of its element in stack
	ofItem    precedence
	ofFeed    precedence
	person    *Person
	done      bool // the root is closed
	cutOff    int  // where the document ends within an element or tag, -1
	hasRoot   bool
	period    string // sy:updatePeriod
	often     int    // sy:updateFrequency
}

func (f *Feed) parseXML(o Options) error {
	p := parsers.Get().(*xmlParser)
	defer p.recycle()
	p.f, p.o, p.b, p.cutOff, p.base = f, o, f.text, -1, o.URL
	p.read(nil)
	p.expect(len(p.b))
	p.invalid = f.invalid
	if err := p.run(); err != nil {
		return err
	}
	if !p.hasRoot {
		return ErrNoFeed
	}
	p.finish()
	return nil
}

// parsers are used again for their stacks and scratch.
var parsers = sync.Pool{New: func() any { return new(xmlParser) }}

// recycle forgets all but memory that no feed refers to.
func (p *xmlParser) recycle() {
	clear(p.stack[:cap(p.stack)])
	clear(p.attrs[:cap(p.attrs)])
	clear(p.inside.attrs[:cap(p.inside.attrs)])
	if cap(p.scratch) > 1<<16 {
		p.scratch = nil
	}
	*p = xmlParser{stack: p.stack[:0], attrs: p.attrs[:0], scratch: p.scratch[:0],
		inside: tag{attrs: p.inside.attrs[:0]}}
	parsers.Put(p)
}

// run reads tags until the root is closed or the document ends.
func (p *xmlParser) run() error {
	b := p.b
	t := tag{attrs: p.attrs}
	defer func() { p.attrs = t.attrs }()
	for !p.done {
		j := bytes.IndexByte(b[p.i:], '<')
		if j < 0 || p.i+j+1 == len(b) {
			if p.i = len(b); j >= 0 {
				p.i--
			}
			return p.cut(p.i)
		}
		at := p.i + j
		switch c := b[at+1]; {
		case c == '!' || c == '?':
			end := skipMarkup(b, at)
			if end < 0 {
				return p.cut(at)
			}
			p.i = end
		case c == '/':
			if ok, err := t.read(b, at+2, p.o.MaxAttributes); err != nil {
				return err
			} else if !ok {
				return p.cut(at)
			}
			p.i = t.end
			p.endTag(t.name, at, t.end)
		case c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':' || c >= 0x80:
			if ok, err := t.read(b, at+1, p.o.MaxAttributes); err != nil {
				return err
			} else if !ok {
				return p.cut(at)
			}
			p.i = t.end
			if err := p.startTag(&t); err != nil {
				return err
			}
			if p.cutOff >= 0 {
				return p.cut(p.cutOff)
			}
		default:
			p.f.damaged("markup characters that are not escaped")
			p.i = at + 1
		}
	}
	return nil
}

// cut ends a document that ends at, or within what begins at, i: an item that is not whole is left out, and
// what is open is closed.
func (p *xmlParser) cut(i int) error {
	if len(p.stack) == 0 {
		return nil
	}
	p.f.damaged("truncated")
	if p.item != nil {
		i = p.item.in.Start
		p.f.Items = p.f.Items[:len(p.f.Items)-1]
		p.stack, p.item = p.stack[:p.itemDepth], nil
	}
	for k := len(p.stack) - 1; k >= 0; k-- {
		p.f.closed += "</" + string(p.stack[k].name) + ">"
	}
	p.f.end = i
	return nil
}

// top returns what the innermost open element is.
func (p *xmlParser) top() place {
	if len(p.stack) == 0 {
		return nowhere
	}
	return p.stack[len(p.stack)-1].is
}

// push opens an element.
func (p *xmlParser) push(t *tag, is place, bound int) error {
	if t.empty {
		p.release(bound)
		return nil
	}
	if len(p.stack) == p.o.MaxDepth {
		return &LimitError{"depth", p.o.MaxDepth}
	}
	p.stack = append(p.stack, open{name: t.name, is: is, bound: bound, base: p.base})
	if is != nowhere && len(t.attrs) > 0 {
		p.base = p.baseOf(t)
	}
	return nil
}

// endTag closes the innermost element of that name and what is open within it. One that closes nothing says
// nothing.
func (p *xmlParser) endTag(name []byte, start, end int) {
	k := p.opened(name)
	if k < 0 {
		p.f.damaged("end tags that close nothing")
		return
	}
	for len(p.stack) > k {
		at := end
		if len(p.stack) > k+1 {
			at = start
			p.f.damaged("elements that are not closed")
		}
		switch is := p.top(); {
		case is == inChannel && p.f.Format == RSS, is == inFeed, is == inRoot && p.f.Format == RDF:
			p.f.insert = start
		}
		p.pop(at)
	}
}

// opened returns the index of the innermost open element of that name, -1 for none.
func (p *xmlParser) opened(name []byte) int {
	for k := len(p.stack) - 1; k >= 0; k-- {
		if n := p.stack[k].name; len(n) == len(name) && (bytes.Equal(n, name) || bytes.EqualFold(n, name)) {
			return k
		}
	}
	return -1
}

// pop closes the innermost element at a byte.
func (p *xmlParser) pop(at int) {
	e := &p.stack[len(p.stack)-1]
	p.base = e.base
	p.stack = p.stack[:len(p.stack)-1]
	if p.item != nil && len(p.stack) == p.itemDepth {
		p.endItem(at)
	}
	if e.is == inPerson {
		p.endPerson()
	}
	if e.bound < len(p.bound) {
		p.release(e.bound)
	}
	p.done = len(p.stack) == 0
}

// attribute returns the text of an attribute, "" when the tag does not have it. Names are compared without
// prefix, unless they are given with one.
func (p *xmlParser) attribute(t *tag, name string) string {
	for _, a := range t.attrs {
		if string(a.name) == name {
			return p.value(a)
		}
	}
	return ""
}

func (p *xmlParser) value(a attribute) string {
	b := trim(p.b[a.value.Start:a.value.End])
	if bytes.IndexByte(b, '&') >= 0 || indexControl(b) >= 0 {
		p.scratch, _ = appendText(p.scratch[:0], b)
		b = p.scratch
	}
	return p.keep(b)
}

// baseOf returns the base of the URLs in an element.
func (p *xmlParser) baseOf(t *tag) string {
	if b := p.attribute(t, "xml:base"); b != "" {
		return resolve(p.base, b)
	}
	return p.base
}

// resolve makes a reference absolute where there is a base to do it with.
func resolve(base, ref string) string {
	if base == "" || ref == "" || strings.Contains(ref, "://") || strings.HasPrefix(ref, "mailto:") {
		return ref
	}
	b, err := url.Parse(base)
	if err != nil {
		return ref
	}
	u, err := b.Parse(ref)
	if err != nil {
		return ref
	}
	return u.String()
}

// href returns the URL in an attribute.
func (p *xmlParser) href(t *tag, name string) string {
	return resolve(p.baseOf(t), p.attribute(t, name))
}

// urlText reads an element whose text is a URL.
func (p *xmlParser) urlText(t *tag) string {
	return resolve(p.baseOf(t), p.text(t))
}

// date reads an element whose text is a date.
func (p *xmlParser) date(t *tag) time.Time {
	s := p.text(t)
	d, ok := parseDate(s)
	if !ok && s != "" {
		p.f.damaged("dates that are none")
	}
	return d
}

// text reads an element to its end tag and returns its text; markup within stays as it is.
func (p *xmlParser) text(t *tag) string { return p.keep(p.inner(t, false)) }

// inner reads the element of a start tag to its end. The text is in p.scratch or the document.
func (p *xmlParser) inner(t *tag, xml bool) []byte {
	if t.empty {
		return nil
	}
	start := p.i
	// Most have one piece of text and nothing else.
	if j := bytes.IndexByte(p.b[start:], '<'); j >= 0 {
		end := start + j
		if rest := p.b[end+1:]; len(rest) > len(t.name)+1 && rest[0] == '/' && rest[len(t.name)+1] == '>' &&
			bytes.Equal(rest[1:len(t.name)+1], t.name) {
			p.i = end + len(t.name) + 3
			if xml {
				return p.innerText(nil, start, end, true, 0)
			}
			return p.simple(p.b[start:end], false)
		}
	}
	if after, ok := bytes.CutPrefix(p.b[start:], cdataStart); ok && !xml {
		// Or one section.
		if n := bytes.Index(after, []byte("]]>")); n >= 0 {
			rest := after[n+3:]
			if k := len(t.name) + 2; len(rest) > k && rest[0] == '<' && rest[1] == '/' && rest[k] == '>' &&
				bytes.Equal(rest[2:k], t.name) {
				p.i = start + len(cdataStart) + n + 3 + k + 1
				return p.simple(after[:n], true)
			}
		}
	}
	text, markup, same := p.scratch[:0], xml, 0
	var all, found flaws
	for {
		j := bytes.IndexByte(p.b[p.i:], '<')
		if j < 0 || p.i+j+1 == len(p.b) {
			p.cutOff = t.start
			return nil
		}
		at := p.i + j
		text, found = appendText(text, p.b[p.i:at])
		all |= found
		p.i = at + 1
		switch c := p.b[at+1]; {
		case c == '!' || c == '?':
			end := skipMarkup(p.b, at)
			if end < 0 {
				p.cutOff = t.start
				return nil
			}
			if bytes.HasPrefix(p.b[at:], cdataStart) {
				text, found = appendVerbatim(text, p.b[at+len(cdataStart):end-3])
				all |= found
				markup = false
			}
			p.i = end
		case c == '/':
			e := &p.inside
			if ok, err := e.read(p.b, at+2, p.o.MaxAttributes); !ok || err != nil {
				p.cutOff = t.start
				return nil
			}
			p.i = e.end
			if closes := bytes.EqualFold(e.name, t.name); closes && same > 0 {
				same--
			} else if closes || p.opened(e.name) >= 0 {
				if !closes {
					p.i = at
					p.f.damaged("elements that are not closed")
				}
				return p.innerText(text, start, at, markup, all)
			}
		case c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_':
			e := &p.inside
			if ok, err := e.read(p.b, at+1, p.o.MaxAttributes); !ok || err != nil {
				p.cutOff = t.start
				return nil
			}
			if !xml && p.endsText(t, e) {
				p.i = at
				p.f.damaged("elements that are not closed")
				return p.innerText(text, start, at, markup, all)
			}
			p.i, markup = e.end, true
			if !e.empty && bytes.EqualFold(e.name, t.name) {
				same++
			}
		default:
			text = append(text, '<')
			p.f.damaged("markup characters that are not escaped")
		}
	}
}

// simple is the text of an element that is one piece, or one CDATA section: a part of the document where it
// can be.
func (p *xmlParser) simple(b []byte, verbatim bool) []byte {
	b = trim(b)
	if (verbatim || bytes.IndexByte(b, '&') < 0) && indexControl(b) < 0 {
		return b
	}
	var found flaws
	if verbatim {
		p.scratch, found = appendVerbatim(p.scratch[:0], b)
	} else {
		p.scratch, found = appendText(p.scratch[:0], b)
	}
	return p.innerText(p.scratch, 0, 0, false, found)
}

// innerText is the text of an element that ended at end: what is between its tags when there is markup in it.
func (p *xmlParser) innerText(text []byte, start, end int, markup bool, found flaws) []byte {
	if markup {
		text, found = appendVerbatim(p.scratch[:0], p.b[start:end])
	}
	p.scratch = text
	if found&bareAmpersand != 0 {
		p.f.damaged("ampersands that are not escaped")
	}
	if found&controlCharacter != 0 {
		p.f.damaged("control characters")
	}
	return trim(text)
}

// endsText is true for the start tag of an element that is none of the text it stands in, which then was
// not closed.
func (p *xmlParser) endsText(text, next *tag) bool {
	_, in := text.split()
	switch string(next.name) {
	case "guid", "pubDate", "enclosure", "comments", "item", "entry", "channel", "published", "updated":
		return true
	case "link", "description", "category", "author", "id", "content", "summary":
		switch string(in) {
		case "title", "link", "guid", "pubDate", "category", "author", "id", "published", "updated":
			return true
		}
	}
	return false
}

// textConstruct reads one of Atom's texts, and whether it is HTML.
func (p *xmlParser) textConstruct(t *tag) (text string, isHTML bool) {
	kind, mode := strings.ToLower(p.attribute(t, "type")), p.attribute(t, "mode")
	inner := p.inner(t, mode == "xml" || kind == "xhtml" || strings.HasSuffix(kind, "xml"))
	inXHTML := kind == "xhtml" || kind == "application/xhtml+xml"
	isHTML = kind == "html" || kind == "xhtml" || kind == "text/html" || strings.HasSuffix(kind, "+xml")
	switch {
	case mode == "base64" || mode == "" && isBinary(kind):
		if plain, ok := decodeBase64(inner); ok && utf8.Valid(plain) {
			inner = plain
		}
	case inXHTML:
		inner = withoutDiv(inner)
	}
	return p.keep(inner), isHTML
}

// isBinary is true for media types whose content is in Base64.
func isBinary(kind string) bool {
	for _, p := range []string{"application/", "image/", "audio/", "video/"} {
		if strings.HasPrefix(kind, p) {
			return !strings.HasSuffix(kind, "xml") && kind != "application/json"
		}
	}
	return false
}

// withoutDiv strips the div that Atom puts around XHTML.
func withoutDiv(b []byte) []byte {
	if len(b) == 0 || b[0] != '<' {
		return b
	}
	var t tag
	ok, err := t.read(b, 1, defaultAttributes)
	if _, local := t.split(); !ok || err != nil || t.empty || !bytes.EqualFold(local, []byte("div")) {
		return b
	}
	if end := bytes.LastIndex(b, append([]byte("</"), t.name...)); end > t.end {
		return bytes.TrimSpace(b[t.end:end])
	}
	return b
}

package syndication

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// attribute returns the text of an attribute, "" when the tag does not have it. Names are compared without
// prefix, unless they are given with one.
func (p *xmlParser) attribute(t *tag, name string) string {
	for _, a := range t.attrs {
		if a.name == name {
			return p.value(a)
		}
	}
	return ""
}

func (p *xmlParser) value(a attribute) string {
	s, _ := p.mended(p.b[a.value.Start:a.value.End], '&')
	return s
}

// mended returns text without white space around it, in which references, if any, begin with a byte: a part of
// the document where it can be.
func (p *xmlParser) mended(s string, reference byte) (_ string, found flaws) {
	s = trim(s)
	n := clean(s, reference)
	if n == len(s) {
		return p.valid(s), 0
	}
	p.scratch, found = appendWords(append(p.scratch[:0], s[:n]...), s[n:], reference)
	return p.keep(trim(p.scratch)), found
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
func (p *xmlParser) text(t *tag) string { return p.inner(t, false) }

// inner reads the element of a start tag to its end and returns its text: with xml, or when there is markup in
// it, what is between its tags.
func (p *xmlParser) inner(t *tag, xml bool) string {
	if t.empty {
		return ""
	}
	start := p.i
	rest := p.b[start:]
	// Most have one piece of text and nothing else.
	if j := strings.IndexByte(rest, '<'); j >= 0 && t.endsAt(rest[j:]) {
		p.i += j + len(t.name) + len("</>")
		if xml {
			return p.noted(p.mended(rest[:j], 0))
		}
		return p.noted(p.mended(rest[:j], '&'))
	}
	if after, ok := strings.CutPrefix(rest, cdataStart); ok && !xml {
		// Or one section.
		if n := strings.Index(after, "]]>"); n >= 0 && t.endsAt(after[n+3:]) {
			p.i += len(cdataStart) + n + 3 + len(t.name) + len("</>")
			return p.noted(p.mended(after[:n], 0))
		}
	}
	text, markup, same := p.scratch[:0], xml, 0
	var all, found flaws
	end := func(at int) string {
		p.scratch = text
		if markup {
			return p.noted(p.mended(p.b[start:at], 0))
		}
		return p.noted(p.keep(trim(text)), all)
	}
	for {
		j := strings.IndexByte(p.b[p.i:], '<')
		if j < 0 || p.i+j+1 == len(p.b) {
			p.cutOff = t.start
			return ""
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
				return ""
			}
			if strings.HasPrefix(p.b[at:], cdataStart) {
				text, found = appendVerbatim(text, p.b[at+len(cdataStart):end-3])
				all |= found
				markup = false
			}
			p.i = end
		case c == '/':
			e := &p.inside
			if ok, err := e.read(p.b, at+2, p.o.MaxAttributes); !ok || err != nil {
				p.cutOff = t.start
				return ""
			}
			p.i = e.end
			if closes := strings.EqualFold(e.name, t.name); closes && same > 0 {
				same--
			} else if closes || p.opened(e.name) >= 0 {
				if !closes {
					p.i = at
					p.f.damaged("elements that are not closed")
				}
				return end(at)
			}
		case c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_':
			e := &p.inside
			if ok, err := e.read(p.b, at+1, p.o.MaxAttributes); !ok || err != nil {
				p.cutOff = t.start
				return ""
			}
			if !xml && endsText(t, e) {
				p.i = at
				p.f.damaged("elements that are not closed")
				return end(at)
			}
			p.i, markup = e.end, true
			if !e.empty && strings.EqualFold(e.name, t.name) {
				same++
			}
		default:
			text = append(text, '<')
			p.f.damaged("markup characters that are not escaped")
		}
	}
}

// noted notes what was wrong with a text.
func (p *xmlParser) noted(s string, found flaws) string {
	if found&bareAmpersand != 0 {
		p.f.damaged("ampersands that are not escaped")
	}
	if found&controlCharacter != 0 {
		p.f.damaged("control characters")
	}
	return s
}

// endsText is true for the start tag of an element that is none of the text it stands in, which then was
// not closed.
func endsText(text, next *tag) bool {
	_, in := text.split()
	switch next.name {
	case "guid", "pubDate", "enclosure", "comments", "item", "entry", "channel", "published", "updated":
		return true
	case "link", "description", "category", "author", "id", "content", "summary":
		switch in {
		case "title", "link", "guid", "pubDate", "category", "author", "id", "published", "updated":
			return true
		}
	}
	return false
}

// textOf reads a text, and whether it is HTML.
func (p *xmlParser) textOf(t *tag, in form) (text string, isHTML bool) {
	if in != atomText {
		return p.text(t), in == htmlText
	}
	kind, mode := strings.ToLower(p.attribute(t, "type")), p.attribute(t, "mode")
	inner := p.inner(t, mode == "xml" || kind == "xhtml" || strings.HasSuffix(kind, "xml"))
	inXHTML := kind == "xhtml" || kind == "application/xhtml+xml"
	isHTML = kind == "html" || kind == "xhtml" || kind == "text/html" || strings.HasSuffix(kind, "+xml")
	switch {
	case mode == "base64" || mode == "" && isBinary(kind):
		if plain, ok := decodeBase64(inner); ok && utf8.Valid(plain) {
			inner = string(plain)
		}
	case inXHTML:
		inner = withoutDiv(inner)
	}
	return inner, isHTML
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
func withoutDiv(s string) string {
	if s == "" || s[0] != '<' {
		return s
	}
	var t tag
	ok, err := t.read(s, 1, defaultAttributes)
	if _, local := t.split(); !ok || err != nil || t.empty || !strings.EqualFold(local, "div") {
		return s
	}
	if end := strings.LastIndex(s, "</"+t.name); end > t.end {
		return strings.TrimSpace(s[t.end:end])
	}
	return s
}

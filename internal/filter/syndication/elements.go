package syndication

import (
	"strconv"
	"strings"
	"time"
)

// lowered is room for an element's name in lower case.
type lowered [24]byte

// lower returns a name in lower case; one that does not fit is none that matters.
func (l *lowered) lower(name []byte) []byte {
	if len(name) > len(l) {
		return nil
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		l[i] = c
	}
	return l[:len(name)]
}

// startTag is what a start tag outside of texts means.
func (p *xmlParser) startTag(t *tag) error {
	bound := len(p.bound)
	if len(t.attrs) > 0 {
		p.declare(p.b, t.attrs, len(p.stack) == 0)
	}
	prefix, local := t.split()
	var room lowered
	v, name := p.of(prefix), room.lower(local)
	if p.f.Format == Atom && v == native {
		v = atom
	}
	is, read := nowhere, false
	switch p.top() {
	case nowhere:
		if len(p.stack) > 0 {
			break
		}
		var err error
		if is, err = p.rootTag(t, v, string(name)); err != nil {
			return err
		}
	case inRoot, inChannel, inFeed:
		if isItem(v, name, p.f.Format) {
			return p.startItem(t, bound)
		}
		if p.top() == inRoot && v == native && string(name) == "channel" {
			is = inChannel
			break
		}
		is, read = p.feedElement(t, v, name)
	case inItem:
		if isItem(v, name, p.f.Format) { // the one before is not closed
			p.f.damaged("elements that are not closed")
			for p.item != nil {
				p.pop(t.start)
			}
			return p.startItem(t, bound)
		}
		is, read = p.itemElement(t, v, name)
	case inPerson:
		read = true
		switch string(name) {
		case "name":
			p.person.Name = p.text(t)
		case "email":
			p.person.Email = p.text(t)
		case "uri", "url", "homepage":
			p.person.URL = p.urlText(t)
		default:
			read = false
		}
	case inImage:
		if read = string(name) == "url"; read {
			setText(&p.f.Image, &p.ofFeed.image, 0, p.urlText(t))
		}
	case inHours:
		if read = string(name) == "hour"; read {
			if h, err := strconv.Atoi(p.text(t)); err == nil && h >= 0 && h <= 24 {
				p.f.SkipHours |= 1 << (h % 24)
			}
		}
	case inDays:
		if read = string(name) == "day"; read {
			text := p.text(t)
			for d := time.Sunday; d <= time.Saturday; d++ {
				if strings.EqualFold(text, d.String()) {
					p.f.SkipDays |= 1 << d
				}
			}
		}
	}
	if read {
		p.release(bound)
		return nil
	}
	return p.push(t, is, bound)
}

func isItem(v vocabulary, name []byte, f Format) bool {
	if f == Atom {
		return v == atom && (string(name) == "entry" || string(name) == "item")
	}
	return v == native && string(name) == "item"
}

// rootTag tells the format.
func (p *xmlParser) rootTag(t *tag, v vocabulary, name string) (place, error) {
	f := p.f
	p.hasRoot = true
	f.bound = p.bound[:len(p.bound):len(p.bound)]
	if t.empty {
		p.done = true
	}
	f.Version = p.attribute(t, "version")
	switch {
	case name == "rss":
		f.Format = RSS
		return inRoot, nil
	case name == "rdf":
		f.Format = RDF
		switch root := string(p.b[t.start:t.end]); {
		case strings.Contains(root, "http://purl.org/rss/1.0/"):
			f.Version = "1.0"
		case strings.Contains(root, "http://purl.org/net/rss1.1#"):
			f.Version = "1.1"
		case strings.Contains(root, "netscape.com/rdf/simple/0.9/"):
			f.Version = "0.9"
		}
		return inRoot, nil
	case name == "channel" && v != foreign:
		f.Format = RSS
		return inChannel, nil
	case name == "feed":
		f.Format = Atom
		switch root := string(p.b[t.start:t.end]); {
		case f.Version != "":
		case strings.Contains(root, "http://www.w3.org/2005/Atom"):
			f.Version = "1.0"
		case strings.Contains(root, "http://purl.org/atom/ns#"):
			f.Version = "0.3"
		}
		f.Language = p.attribute(t, "xml:lang")
		return inFeed, nil
	}
	return nowhere, ErrNoFeed
}

// startItem begins an item.
func (p *xmlParser) startItem(t *tag, bound int) error {
	f := p.f
	if len(f.Items) == p.o.MaxItems {
		return &LimitError{"items", p.o.MaxItems}
	}
	if len(f.Items) == 0 {
		f.bound = p.bound[:bound:bound]
		if len(p.stack) > 0 && p.base != p.o.URL {
			f.base = p.base
		}
	}
	if len(f.Items) == 1 { // the others may be as long as the first
		n := min((len(p.b)-t.start)/(t.start-f.Items[0].in.Start)+2, p.o.MaxItems)
		f.Items = append(make([]Item, 0, min(n, 1000)), f.Items...)
	}
	if n := len(f.Items); n < cap(f.Items) {
		f.Items = f.Items[:n+1] // zero, and not copied
	} else {
		f.Items = append(f.Items, Item{})
	}
	p.read(&f.Items[len(f.Items)-1])
	p.item.in = Range{t.start, t.end}
	p.itemDepth, p.ofItem = len(p.stack), precedence{}
	p.begin(p.item)
	p.item.Language = p.attribute(t, "xml:lang")
	if f.Format == RDF {
		p.item.GUID = p.attribute(t, "rdf:about")
		if p.item.GUID == "" {
			p.item.GUID = p.attribute(t, "about")
		}
	}
	if err := p.push(t, inItem, bound); err != nil {
		return err
	}
	if p.base != p.o.URL {
		p.item.base = p.base
	}
	if t.empty {
		p.endItem(t.end)
	}
	return nil
}

// endItem ends the open item at a byte.
func (p *xmlParser) endItem(end int) {
	it := p.item
	for end > it.in.Start && isSpace(p.b[end-1]) {
		end--
	}
	it.in.End = end
	p.read(nil)
	permanent := p.ofItem.link != permaLinkNot
	if it.URL == "" && p.f.Format == RSS && permanent && strings.Contains(it.GUID, "://") {
		it.URL = it.GUID
	}
	p.end(it)
}

// permaLinkNot is the rank of no link in an item whose GUID is none either.
const permaLinkNot = 255

// itemElement reads an element of an item; read is true when it is read to its end.
func (p *xmlParser) itemElement(t *tag, v vocabulary, name []byte) (is place, read bool) {
	if is, read, known := p.commonElement(t, v, name); known {
		return is, read
	}
	it, c := p.item, &p.common
	switch v {
	case native:
		switch string(name) {
		case "guid":
			s := p.text(t)
			if it.GUID == "" {
				it.GUID = s
			}
			if strings.EqualFold(p.attribute(t, "isPermaLink"), "false") && it.URL == "" {
				p.ofItem.link = permaLinkNot
			}
		case "enclosure":
			p.enclosure(t, "url")
			return nowhere, false
		case "comments":
			if s := p.urlText(t); it.Comments == "" {
				it.Comments = s
			}
		case "encoded", "body", "fullitem":
			p.setContent(1, p.text(t), true)
		default:
			return nowhere, false
		}
		return nowhere, true
	case content:
		if string(name) == "encoded" {
			p.setContent(0, p.text(t), true)
			return nowhere, true
		}
	case xhtml:
		if string(name) == "body" {
			p.setContent(2, p.text(t), true)
			return nowhere, true
		}
	case atom:
		return nowhere, p.atomItemElement(t, name)
	case dublinCore:
		switch string(name) {
		case "date", "created", "issued":
			d := p.date(t)
			setTime(&it.Published, &p.ofItem.published, 1, d)
			if string(name) == "date" {
				setTime(&it.Updated, &p.ofItem.updated, 2, d)
			}
		case "modified":
			setTime(&it.Updated, &p.ofItem.updated, 1, p.date(t))
		case "identifier":
			if s := p.text(t); it.GUID == "" {
				it.GUID = s
			}
		default:
			return nowhere, false
		}
		return nowhere, true
	case itunes:
		if string(name) == "title" {
			c.setTitle(3, p.text(t), false)
			return nowhere, true
		}
	case media:
		switch string(name) {
		case "title":
			c.setTitle(2, p.text(t), false)
		case "description":
			c.setSummary(5, p.text(t), strings.EqualFold(p.attribute(t, "type"), "html"))
		case "category":
			c.addCategory(p.text(t))
		case "content":
			if p.attribute(t, "medium") == "image" || strings.HasPrefix(p.attribute(t, "type"), "image") {
				setText(&it.Image, &p.ofItem.image, 3, p.href(t, "url"))
			}
			return inItem, false
		case "group":
			return inItem, false
		default:
			return nowhere, false
		}
		return nowhere, true
	}
	return nowhere, false
}

// atomItemElement reads an element of Atom that only entries have, also in an RSS item.
func (p *xmlParser) atomItemElement(t *tag, name []byte) (read bool) {
	it, rank := p.item, p.atomRank()
	switch string(name) {
	case "summary":
		s, isHTML := p.textConstruct(t)
		p.common.setSummary(rank, s, isHTML)
	case "content":
		if src := p.href(t, "src"); src != "" {
			setText(&it.URL, &p.ofItem.link, rank+1, src)
		}
		s, isHTML := p.textConstruct(t)
		p.setContent(rank, s, isHTML)
	case "id":
		if s := p.text(t); it.GUID == "" {
			it.GUID = s
		}
	case "issued":
		setTime(&it.Published, &p.ofItem.published, rank, p.date(t))
	case "created":
		setTime(&it.Published, &p.ofItem.published, rank+1, p.date(t))
	case "link":
		switch p.attribute(t, "rel") {
		case "enclosure":
			p.enclosure(t, "href")
		case "replies":
			if it.Comments == "" {
				it.Comments = p.href(t, "href")
			}
		}
		return false
	default:
		return false
	}
	return true
}

func (p *xmlParser) setContent(rank uint8, s string, html bool) {
	setRanked(&p.item.Content, &p.ofItem.content, rank, s, &p.item.html, html, htmlContent)
}

// startPerson begins an author of the item or the feed.
func (p *xmlParser) startPerson(t *tag) (place, bool) {
	if t.empty {
		return nowhere, false
	}
	p.person = &Person{}
	return inPerson, false
}

func (p *xmlParser) endPerson() {
	if p.person != nil {
		*p.authors = addPerson(*p.authors, *p.person)
	}
	p.person = nil
}

func (p *xmlParser) enclosure(t *tag, url string) {
	e := Enclosure{URL: p.href(t, url), Type: p.attribute(t, "type")}
	if n, err := strconv.ParseInt(p.attribute(t, "length"), 10, 64); err == nil && n > 0 {
		e.Length = n
	}
	if e.URL != "" {
		p.item.Enclosures = append(p.item.Enclosures, e)
	}
}

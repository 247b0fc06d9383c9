package syndication

import (
	"strings"
	"sync"
	"time"
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
	name  string
	is    place
	bound int    // bindings before it
	base  string // xml:base outside it
}

// xmlParser reads RSS, RDF and Atom. Elements with text are read at once, and never open.
type xmlParser struct {
	f     *Feed
	o     Options
	b     string
	i     int
	stack []open
	scope
	seen    [64]sense // by a hash of the name
	base    string
	attrs   []attribute // of the tag that is read
	inside  tag         // within its text
	scratch []byte
	builder
	*Said     // of the item, or the feed
	have      *precedence
	item      *Item
	itemDepth int // of its element in stack
	ofItem    precedence
	ofFeed    precedence
	person    Person
	done      bool // the root is closed
	cutOff    int  // where the document ends within an element or tag, -1
	hasRoot   bool
	period    time.Duration // sy:updatePeriod
	often     int           // sy:updateFrequency
}

func (f *Feed) parseXML(text string, o Options) error {
	p := parsers.Get().(*xmlParser)
	defer p.recycle()
	f.text = text
	p.f, p.o, p.b, p.cutOff, p.base = f, o, text, -1, o.URL
	p.read(nil)
	p.invalid = f.invalid
	if err := p.run(); err != nil {
		return err
	}
	if !p.hasRoot {
		return ErrNoFeed
	}
	if f.TTL == 0 {
		f.TTL = p.period / time.Duration(max(1, p.often))
	}
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
		j := strings.IndexByte(b[p.i:], '<')
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
		p.f.closed += "</" + p.stack[k].name + ">"
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
func (p *xmlParser) endTag(name string, start, end int) {
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
func (p *xmlParser) opened(name string) int {
	for k := len(p.stack) - 1; k >= 0; k-- {
		if n := p.stack[k].name; n == name || strings.EqualFold(n, name) {
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
		p.Authors = addPerson(p.Authors, p.person)
	}
	if e.bound < len(p.bound) {
		p.release(e.bound)
	}
	p.done = len(p.stack) == 0
}

// sense is what a name means as long as the bindings stay.
type sense struct {
	senses
	name  string
	epoch int
}

// sensesOf returns what the name of a tag means.
func (p *xmlParser) sensesOf(t *tag) *senses {
	name := t.name
	var s *sense
	for k := range uint(4) {
		s = &p.seen[(uint(len(name))*8+uint(name[0])+uint(name[len(name)-1])*4+k)%uint(len(p.seen))]
		if s.epoch != p.epoch || s.name == "" {
			break
		} else if s.name == name {
			return &s.senses
		}
	}
	prefix, local := t.split()
	q := qualified{p.of(prefix), strings.ToLower(local)}
	if p.f.Format == Atom && q.in == native {
		q.in = atom
	}
	*s = sense{elements[q], name, p.epoch}
	if q.in == atom && p.f.Format != Atom {
		for _, e := range []*element{&s.ofFeed, &s.ofItem} {
			if e.rank += atomLast; e.says == anItem {
				e.says = saysNothing
			}
		}
	}
	return &s.senses
}

// startTag is what a start tag outside of texts means.
func (p *xmlParser) startTag(t *tag) error {
	bound := len(p.bound)
	if len(t.attrs) > 0 {
		p.declare(p.b, t.attrs, len(p.stack) == 0)
	}
	is, read := nowhere, false
	switch place := p.top(); place {
	case nowhere:
		if len(p.stack) == 0 {
			var err error
			if is, err = p.rootTag(t); err != nil {
				return err
			}
		}
	case inRoot, inChannel, inFeed, inItem:
		s := p.sensesOf(t)
		e := s.ofFeed
		if place == inItem {
			e = s.ofItem
		}
		switch {
		case e.says == anItem:
			if p.item != nil { // the one before is not closed
				p.f.damaged("elements that are not closed")
			}
			for p.item != nil {
				p.pop(t.start)
			}
			return p.startItem(t, bound)
		case place == inRoot && e.says == aChannel:
			is = inChannel
		default:
			is, read = p.element(t, e)
		}
	default:
		read = p.part(t, place)
	}
	if read {
		p.release(bound)
		return nil
	}
	return p.push(t, is, bound)
}

// rootTag tells the format.
func (p *xmlParser) rootTag(t *tag) (place, error) {
	f := p.f
	prefix, local := t.split()
	name := strings.ToLower(local)
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
		switch root := p.b[t.start:t.end]; {
		case strings.Contains(root, "http://purl.org/rss/1.0/"):
			f.Version = "1.0"
		case strings.Contains(root, "http://purl.org/net/rss1.1#"):
			f.Version = "1.1"
		case strings.Contains(root, "netscape.com/rdf/simple/0.9/"):
			f.Version = "0.9"
		}
		return inRoot, nil
	case name == "channel" && p.of(prefix) != foreign:
		f.Format = RSS
		return inChannel, nil
	case name == "feed":
		f.Format = Atom
		switch root := p.b[t.start:t.end]; {
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

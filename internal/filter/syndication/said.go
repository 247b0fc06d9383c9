package syndication

import (
	"strconv"
	"strings"
	"time"
)

// precedence holds, for texts that several elements of an item or feed may give, the rank of the one that
// did. The first of a rank counts.
type precedence struct {
	title, summary, content, link, language, published, updated, image, icon, copyright uint8
}

// permaLinkNot is the rank of no link in an item whose GUID is none either.
const permaLinkNot = 255

// read has what comes be read into an item, or into the feed where that is nil.
func (p *xmlParser) read(it *Item) {
	if p.item = it; it == nil {
		p.Said, p.have = &p.f.Said, &p.ofFeed
		return
	}
	p.Said, p.have = &it.Said, &p.ofItem
}

// element reads what an element says; read is true when it is read to its end.
func (p *xmlParser) element(t *tag, e element) (is place, read bool) {
	f, it := p.f, p.item
	switch e.says {
	case aTitle:
		p.setTexts(t, e, &p.Title, &p.have.title, htmlTitle)
	case aSummary:
		p.setTexts(t, e, &p.Summary, &p.have.summary, htmlSummary)
	case aContent:
		if e.form == atomText {
			setText(&it.URL, &p.have.link, e.rank+1, p.href(t, "src"))
		}
		p.setTexts(t, e, &it.Content, &p.have.content, htmlContent)
	case aLink:
		s := p.urlText(t)
		if s == "" {
			s = p.href(t, "href")
		}
		if p.have.link == permaLinkNot {
			p.have.link = 0
		}
		if s != "" { // of several the last counts
			p.URL, p.have.link = s, 0
		}
	case anAtomLink:
		p.atomLink(t, e.rank)
		return nowhere, false
	case anID:
		setFirst(&it.GUID, p.text(t))
		if strings.EqualFold(p.attribute(t, "isPermaLink"), "false") && it.URL == "" {
			p.have.link = permaLinkNot
		}
	case aPublished:
		setTime(&p.Published, &p.have.published, e.rank, p.date(t))
	case anUpdated:
		setTime(&p.Updated, &p.have.updated, e.rank, p.date(t))
	case aDate:
		d := p.date(t)
		setTime(&p.Published, &p.have.published, e.rank, d)
		setTime(&p.Updated, &p.have.updated, e.rank+1, d)
	case anAuthor:
		p.Authors = addPerson(p.Authors, person(p.text(t)))
	case aPerson:
		if !t.empty {
			p.person, is = Person{}, inPerson
		}
		return is, false
	case aCategory:
		p.addCategory(p.text(t))
	case aTerm:
		s := p.attribute(t, "label")
		if s == "" {
			s = p.attribute(t, "term")
		}
		p.addCategory(s)
		return nowhere, false
	case aGenre:
		p.addCategory(p.attribute(t, "text"))
		return p.top(), false // those within are categories too
	case keywords:
		for s := range strings.SplitSeq(p.text(t), ",") {
			p.addCategory(strings.TrimSpace(s))
		}
	case aLanguage:
		setText(&p.Language, &p.have.language, e.rank, p.text(t))
	case anImage:
		s := p.href(t, "href")
		if s == "" {
			s = p.href(t, "url")
		}
		setText(&p.Image, &p.have.image, e.rank, s)
		return nowhere, false
	case aMedium:
		if p.attribute(t, "medium") == "image" || strings.HasPrefix(p.attribute(t, "type"), "image") {
			setText(&p.Image, &p.have.image, e.rank, p.href(t, "url"))
		}
		return p.within(), false
	case mediaGroup:
		return p.within(), false
	case anEnclosure:
		p.enclosure(t, "url")
		return nowhere, false
	case commentsURL:
		setFirst(&it.Comments, p.urlText(t))
	case aCopyright:
		s, _ := p.textOf(t, e.form)
		setText(&f.Copyright, &p.have.copyright, e.rank, s)
	case aGenerator:
		p.generator(t)
	case anIcon:
		setText(&f.Icon, &p.have.icon, e.rank, p.urlText(t))
	case aLogo:
		setText(&f.Image, &p.have.image, e.rank, p.urlText(t))
	case aTTL:
		if n, err := strconv.Atoi(p.text(t)); err == nil && n > 0 && n < 1<<24 {
			f.TTL = time.Duration(n) * time.Minute
		}
	case aPeriod:
		p.period = periods[strings.ToLower(p.text(t))]
	case aFrequency:
		p.often, _ = strconv.Atoi(p.text(t))
	case imageElements:
		return inImage, false
	case skippedHours:
		return inHours, false
	case skippedDays:
		return inDays, false
	default:
		return nowhere, false
	}
	return nowhere, true
}

// periods are those of sy:updatePeriod.
var periods = map[string]time.Duration{"hourly": time.Hour, "daily": 24 * time.Hour, "weekly": 7 * 24 * time.Hour,
	"monthly": 30 * 24 * time.Hour, "yearly": 365 * 24 * time.Hour}

// within is where elements in a container of Media RSS stand.
func (p *xmlParser) within() place {
	if p.item != nil {
		return inItem
	}
	return nowhere
}

// part reads an element of one that is read in parts, and reports whether it did.
func (p *xmlParser) part(t *tag, of place) bool {
	_, local := t.split()
	name := strings.ToLower(local)
	switch {
	case of == inPerson && name == "name":
		p.person.Name = p.text(t)
	case of == inPerson && name == "email":
		p.person.Email = p.text(t)
	case of == inPerson && (name == "uri" || name == "url" || name == "homepage"):
		p.person.URL = p.urlText(t)
	case of == inImage && name == "url":
		setText(&p.f.Image, &p.ofFeed.image, 0, p.urlText(t))
	case of == inHours && name == "hour":
		if h, err := strconv.Atoi(p.text(t)); err == nil && h >= 0 && h <= 24 {
			p.f.SkipHours |= 1 << (h % 24)
		}
	case of == inDays && name == "day":
		text := p.text(t)
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(text, d.String()) {
				p.f.SkipDays |= 1 << d
			}
		}
	default:
		return false
	}
	return true
}

// setTexts reads a text, and sets it and whether it is HTML if none that is preferred is set.
func (p *xmlParser) setTexts(t *tag, e element, dst *string, have *uint8, bit uint8) {
	s, isHTML := p.textOf(t, e.form)
	if setText(dst, have, e.rank, s) {
		if p.html &^= bit; isHTML {
			p.html |= bit
		}
	}
}

func (p *xmlParser) addCategory(s string) { p.Categories = addName(p.Categories, s) }

// atomLink reads a link of Atom, in a feed of any format.
func (p *xmlParser) atomLink(t *tag, rank uint8) {
	f, it, rel := p.f, p.item, p.attribute(t, "rel")
	switch {
	case rel == "" || rel == "alternate":
		setText(&p.URL, &p.have.link, rank, p.href(t, "href"))
	case it != nil && rel == "enclosure":
		p.enclosure(t, "href")
	case it != nil && rel == "replies":
		setFirst(&it.Comments, p.href(t, "href"))
	case it != nil:
	case rel == "self":
		f.FeedURL = p.href(t, "href")
		for _, a := range t.attrs {
			if a.name == "href" {
				f.SelfLinks = append(f.SelfLinks, a.value)
			}
		}
	case rel == "next":
		f.Next = p.href(t, "href")
	case rel == "hub":
		f.Hub = p.href(t, "href")
	}
}

// generator reads the program that made the feed, with version and address where Atom has them.
func (p *xmlParser) generator(t *tag) {
	version, uri := p.attribute(t, "version"), p.href(t, "uri")
	if uri == "" {
		uri = p.href(t, "url")
	}
	s := p.text(t)
	if version != "" {
		s += " v" + version
	}
	if uri != "" {
		s += " " + uri
	}
	setFirst(&p.f.Generator, strings.TrimSpace(s))
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

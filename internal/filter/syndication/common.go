package syndication

import (
	"strings"
	"time"
)

// precedence holds, for texts that several elements of an item or feed may give, the rank of the one that
// did: 0 is the best. The first of a rank counts.
type precedence struct {
	title, summary, content, link, language, published, updated, image, icon, copyright uint8
}

// common is what feeds and items both say, of the one that is being read.
type common struct {
	title, summary, link, language, image *string
	published, updated                    *time.Time
	authors                               *[]Person
	categories                            *[]string
	html                                  *uint8
	have                                  *precedence
}

// read has what comes be read into an item, or into the feed where that is nil.
func (p *xmlParser) read(it *Item) {
	if p.item = it; it == nil {
		f := p.f
		p.common = common{&f.Title, &f.Description, &f.Link, &f.Language, &f.Image, &f.Published, &f.Updated,
			&f.Authors, &f.Categories, &f.html, &p.ofFeed}
		return
	}
	p.common = common{&it.Title, &it.Summary, &it.URL, &it.Language, &it.Image, &it.Published, &it.Updated,
		&it.Authors, &it.Categories, &it.html, &p.ofItem}
}

func (c *common) setTitle(rank uint8, s string, html bool) {
	setRanked(c.title, &c.have.title, rank, s, c.html, html, htmlTitle)
}

func (c *common) setSummary(rank uint8, s string, html bool) {
	setRanked(c.summary, &c.have.summary, rank, s, c.html, html, htmlSummary)
}

// setRanked sets a text that is not set by what is preferred, and whether it is HTML.
func setRanked(dst *string, have *uint8, rank uint8, s string, flags *uint8, html bool, bit uint8) {
	if setText(dst, have, rank, s) {
		if *flags &^= bit; html {
			*flags |= bit
		}
	}
}

func (c *common) addAuthor(s string)   { *c.authors = addPerson(*c.authors, person(s)) }
func (c *common) addCategory(s string) { *c.categories = addName(*c.categories, s) }

// commonElement reads an element that means the same in a feed and in an item; known is false for any other,
// and read is true when it is read to its end.
func (p *xmlParser) commonElement(t *tag, v vocabulary, name []byte) (is place, read, known bool) {
	c := &p.common
	switch v {
	case native:
		switch string(name) {
		case "title":
			c.setTitle(0, p.text(t), true)
		case "link":
			s := p.urlText(t)
			if s == "" {
				s = p.href(t, "href")
			}
			if c.have.link == permaLinkNot {
				c.have.link = 0
			}
			if s != "" { // of several the last counts
				*c.link, c.have.link = s, 0
			}
		case "description":
			c.setSummary(0, p.text(t), true)
		case "pubdate":
			setTime(c.published, &c.have.published, 0, p.date(t))
		case "author":
			c.addAuthor(p.text(t))
		case "category":
			c.addCategory(p.text(t))
		default:
			return nowhere, false, false
		}
	case atom:
		rank := p.atomRank()
		switch string(name) {
		case "title":
			s, isHTML := p.textConstruct(t)
			c.setTitle(rank, s, isHTML)
		case "published":
			setTime(c.published, &c.have.published, rank, p.date(t))
		case "updated", "modified":
			setTime(c.updated, &c.have.updated, rank, p.date(t))
		case "author":
			is, read = p.startPerson(t)
			return is, read, true
		case "category":
			s := p.attribute(t, "label")
			if s == "" {
				s = p.attribute(t, "term")
			}
			c.addCategory(s)
			return nowhere, false, true
		case "link":
			rel := p.attribute(t, "rel")
			if rel != "" && rel != "alternate" {
				return nowhere, false, false
			}
			setText(c.link, &c.have.link, rank, p.href(t, "href"))
			return nowhere, false, true
		default:
			return nowhere, false, false
		}
	case dublinCore:
		switch string(name) {
		case "title":
			c.setTitle(1, p.text(t), true)
		case "description", "abstract":
			c.setSummary(1, p.text(t), true)
		case "language":
			setText(c.language, &c.have.language, 1, p.text(t))
		case "creator", "author":
			c.addAuthor(p.text(t))
		case "subject":
			c.addCategory(p.text(t))
		default:
			return nowhere, false, false
		}
	case itunes:
		switch string(name) {
		case "summary":
			c.setSummary(2, p.text(t), true)
		case "subtitle":
			c.setSummary(4, p.text(t), false)
		case "author":
			c.addAuthor(p.text(t))
		case "keywords":
			for s := range strings.SplitSeq(p.text(t), ",") {
				c.addCategory(strings.TrimSpace(s))
			}
		case "category":
			c.addCategory(p.attribute(t, "text"))
			return p.top(), false, true // categories within are too
		case "image":
			s := p.href(t, "href")
			if s == "" {
				s = p.href(t, "url")
			}
			setText(c.image, &c.have.image, 1, s)
			return nowhere, false, true
		default:
			return nowhere, false, false
		}
	case media:
		if string(name) != "thumbnail" {
			return nowhere, false, false
		}
		setText(c.image, &c.have.image, 2, p.href(t, "url"))
		return nowhere, false, true
	default:
		return nowhere, false, false
	}
	return nowhere, true, true
}

// atomRank is the rank of Atom's elements: in RSS they are the last that is asked.
func (p *xmlParser) atomRank() uint8 {
	if p.f.Format == Atom {
		return 0
	}
	return 3
}

package syndication

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/jsonscan"
)

// jsonParser reads JSON Feed.
type jsonParser struct {
	f *Feed
	o Options
	jsonscan.Scanner
	builder
	good    int // up to where the document is whole
	inItems bool
	isFeed  bool
	limit   error
	item    Item // the one that is being read
}

func (f *Feed) parseJSON(text []byte, start int, o Options) error {
	read := func(text []byte) (*jsonParser, error) {
		p := &jsonParser{f: f, o: o}
		p.B, p.I = text, start
		return p, p.run()
	}
	f.Format = JSON
	p, err := read(text)
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok && syntax.What == jsonscan.TooDeep {
		return &LimitError{"depth", jsonscan.MaxDepth}
	}
	if err != nil && p.limit == nil && p.I < len(p.B) {
		if mended, ok := mendJSON(text); ok {
			*f = Feed{Format: JSON, Charset: f.Charset, Source: f.Source, end: f.end,
				Damage: f.Damage}
			f.damaged("characters that JSON does not allow")
			p, err = read(mended)
		}
	}
	switch {
	case p.limit != nil:
		return p.limit
	case err != nil && (len(f.Items) == 0 || !p.isFeed):
		return fmt.Errorf("the JSON feed cannot be read: %w", err)
	case !p.isFeed:
		return ErrNoFeed
	case err != nil:
		f.damaged("truncated")
		f.end, f.closed = p.good, "}"
		if p.inItems {
			f.closed = "]}"
		}
	}
	return nil
}

// mendJSON replaces what JSON does not allow in texts by as many bytes that it does.
func mendJSON(b []byte) ([]byte, bool) {
	mended, changed := bytes.Clone(b), false
	put := func(i int, s string) { changed = true; copy(mended[i:], s) }
	surrogate := func(i int) uint64 {
		if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
		return u >> 10
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			put(i, "?")
		// A raw line end in a text, or white space.
		case r < ' ' && r != '\n', r == '\n' && i > 0 && b[i-1] != ',':
			put(i, " ")
		case r == '\\' && surrogate(i) == 0xd800>>10 && surrogate(i+6) == 0xdc00>>10:
			size = 12
		case r == '\\' && surrogate(i)>>1 == 0xd800>>11:
			put(i, `\ufffd`)
			size = 6
		case r == '\\' && i+1 < len(b):
			if size = 2; strings.IndexByte(`"\/bfnrtu`, b[i+1]) < 0 {
				put(i, "/")
				size = 1
			}
		}
		i += size
	}
	return mended, changed
}

// text reads a string or what can be taken for one; anything else is "".
func (p *jsonParser) text() (string, error) {
	switch c := p.Space(); {
	case c == '"':
		b, err := p.Text()
		return p.keep(bytes.TrimSpace(b)), err
	case jsonscan.IsNumber(c):
		from := p.I
		_, err := p.Number()
		return p.keep(p.B[from:p.I]), err
	}
	return "", p.Skip()
}

func (p *jsonParser) set(dst *string) error {
	s, err := p.text()
	setFirst(dst, s)
	return err
}

// setURL does so with a URL, which may be relative to that of the feed.
func (p *jsonParser) setURL(dst *string) error {
	s, err := p.text()
	setFirst(dst, resolve(p.o.URL, s))
	return err
}

// each reads the elements of an array; anything else is passed over.
func (p *jsonParser) each(element func() error) error {
	if p.Space() != '[' {
		return p.Skip()
	}
	return p.Array(element)
}

// members reads an object; anything else is passed over.
func (p *jsonParser) members(member func(key []byte) error) error {
	if p.Space() != '{' {
		return p.Skip()
	}
	return p.Object(member)
}

func (p *jsonParser) run() error {
	err := p.Object(func(key []byte) error {
		err := p.feedMember(key)
		if err == nil {
			p.good = p.I
		}
		return err
	})
	if err == nil {
		p.good = p.I
		if p.End() != nil {
			p.f.damaged("something after the feed")
		}
	}
	return err
}

// said reads a member that feeds and items both have.
func (p *jsonParser) said(s *Said, key []byte) error {
	switch string(key) {
	case "title":
		return p.set(&s.Title)
	case "language":
		return p.set(&s.Language)
	case "author":
		return p.author(&s.Authors)
	case "authors":
		return p.each(func() error { return p.author(&s.Authors) })
	}
	return p.Skip()
}

func (p *jsonParser) feedMember(key []byte) error {
	f := p.f
	switch string(key) {
	case "version":
		s, err := p.text()
		p.isFeed = p.isFeed || strings.Contains(s, "jsonfeed.org")
		f.Version = s[strings.LastIndexByte(s, '/')+1:]
		return err
	case "home_page_url":
		return p.setURL(&f.URL)
	case "feed_url":
		from := p.I
		if p.Space() == '"' {
			from = p.I + 1
		}
		err := p.setURL(&f.FeedURL)
		if f.FeedURL != "" && err == nil && p.I > from {
			f.SelfLinks = append(f.SelfLinks, Range{from, p.I - 1})
		}
		return err
	case "next_url":
		return p.setURL(&f.Next)
	case "description":
		return p.set(&f.Summary)
	case "icon":
		return p.setURL(&f.Image)
	case "favicon":
		return p.setURL(&f.Icon)
	case "hubs":
		return p.each(func() error {
			return p.members(func(key []byte) error {
				if string(key) == "url" {
					return p.setURL(&f.Hub)
				}
				return p.Skip()
			})
		})
	case "items":
		if p.Space() == '[' {
			p.isFeed, p.inItems = true, true
			p.good = p.I + 1
			f.insert = p.good
		}
		err := p.each(p.readItem)
		p.inItems = err != nil && p.inItems
		return err
	}
	return p.said(&f.Said, key)
}

// author reads an author, who is an object, or a text in feeds that get it wrong.
func (p *jsonParser) author(to *[]Person) error {
	var who Person
	var err error
	if p.Space() == '"' {
		err = p.set(&who.Name)
	} else {
		err = p.members(func(key []byte) error {
			switch string(key) {
			case "name":
				return p.set(&who.Name)
			case "url":
				return p.setURL(&who.URL)
			case "email":
				return p.set(&who.Email)
			}
			return p.Skip()
		})
	}
	if q := person(who.Name); q.Email != "" && who.Email == "" {
		who.Name, who.Email = q.Name, q.Email
	}
	if address, ok := strings.CutPrefix(who.URL, "mailto:"); ok && who.Email == "" {
		who.Email, who.URL = address, ""
	}
	*to = addPerson(*to, who)
	return err
}

func (p *jsonParser) readItem() error {
	if p.Space() != '{' {
		return p.Skip()
	}
	if len(p.f.Items) == p.o.MaxItems {
		p.limit = &LimitError{"items", p.o.MaxItems}
		return p.limit
	}
	p.item = Item{in: Range{Start: p.I}}
	p.begin(&p.item)
	if err := p.Object(p.itemMember); err != nil {
		return err
	}
	p.item.in.End = p.I
	p.good = p.I
	p.end(&p.item)
	p.f.Items = append(p.f.Items, p.item)
	return nil
}

func (p *jsonParser) itemMember(key []byte) error {
	it := &p.item
	switch string(key) {
	case "id":
		return p.set(&it.GUID)
	case "url":
		s, err := p.text()
		if s != "" {
			it.URL = resolve(p.o.URL, s)
		}
		return err
	case "external_url":
		return p.setURL(&it.URL)
	case "summary":
		return p.set(&it.Summary)
	case "content_html":
		s, err := p.text()
		if s != "" {
			it.Content = s
			it.html |= htmlContent
		}
		return err
	case "content_text":
		return p.set(&it.Content)
	case "image":
		s, err := p.text()
		if s != "" {
			it.Image = resolve(p.o.URL, s)
		}
		return err
	case "banner_image":
		return p.setURL(&it.Image)
	case "date_published", "date_modified":
		s, err := p.text()
		d, ok := parseDate(s)
		if !ok && s != "" {
			p.f.damaged("dates that are none")
		} else if string(key) == "date_published" {
			it.Published = d
		} else {
			it.Updated = d
		}
		return err
	case "tags":
		return p.each(func() error {
			s, err := p.text()
			it.Categories = addName(it.Categories, s)
			return err
		})
	case "attachments":
		return p.each(func() error {
			var e Enclosure
			err := p.members(func(key []byte) error {
				switch string(key) {
				case "url":
					return p.setURL(&e.URL)
				case "mime_type":
					return p.set(&e.Type)
				case "size_in_bytes":
					s, err := p.text()
					e.Length, _ = strconv.ParseInt(s, 10, 64)
					return err
				}
				return p.Skip()
			})
			if e.URL != "" {
				it.Enclosures = append(it.Enclosures, e)
			}
			return err
		})
	}
	return p.said(&it.Said, key)
}

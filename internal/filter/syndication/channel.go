package syndication

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// feedElement reads an element of a channel or feed; read is true when it is read to its end.
func (p *xmlParser) feedElement(t *tag, v vocabulary, name []byte) (is place, read bool) {
	if is, read, known := p.commonElement(t, v, name); known {
		return is, read
	}
	f := p.f
	switch v {
	case native:
		switch string(name) {
		case "language":
			setText(&f.Language, &p.ofFeed.language, 0, p.text(t))
		case "copyright":
			setText(&f.Copyright, &p.ofFeed.copyright, 0, p.text(t))
		case "generator":
			if s := p.text(t); f.Generator == "" {
				f.Generator = s
			}
		case "managingeditor", "webmaster":
			f.Authors = addPerson(f.Authors, person(p.text(t)))
		case "lastbuilddate":
			setTime(&f.Updated, &p.ofFeed.updated, 0, p.date(t))
		case "ttl":
			if n, err := strconv.Atoi(p.text(t)); err == nil && n > 0 && n < 1<<24 {
				f.TTL = time.Duration(n) * time.Minute
			}
		case "image":
			return inImage, false
		case "skiphours":
			return inHours, false
		case "skipdays":
			return inDays, false
		default:
			return nowhere, false
		}
		return nowhere, true
	case atom:
		return nowhere, p.atomFeedElement(t, name)
	case dublinCore:
		switch string(name) {
		case "rights":
			setText(&f.Copyright, &p.ofFeed.copyright, 1, p.text(t))
		case "date", "modified":
			setTime(&f.Updated, &p.ofFeed.updated, 1, p.date(t))
		case "issued", "created":
			setTime(&f.Published, &p.ofFeed.published, 1, p.date(t))
		default:
			return nowhere, false
		}
		return nowhere, true
	case media:
		if p.attribute(t, "medium") == "image" || strings.HasPrefix(p.attribute(t, "type"), "image/") {
			setText(&f.Image, &p.ofFeed.image, 2, p.href(t, "url"))
		}
	case updates:
		switch string(name) {
		case "updateperiod":
			p.period = strings.ToLower(p.text(t))
		case "updatefrequency":
			p.often, _ = strconv.Atoi(p.text(t))
		default:
			return nowhere, false
		}
		return nowhere, true
	}
	return nowhere, false
}

// atomFeedElement reads an element of Atom that only feeds have, also in an RSS channel.
func (p *xmlParser) atomFeedElement(t *tag, name []byte) (read bool) {
	f := p.f
	rank := p.atomRank()
	switch string(name) {
	case "subtitle", "tagline", "info":
		if string(name) == "info" {
			rank++
		}
		s, isHTML := p.textConstruct(t)
		p.common.setSummary(rank, s, isHTML)
	case "rights", "copyright":
		s, _ := p.textConstruct(t)
		setText(&f.Copyright, &p.ofFeed.copyright, rank, s)
	case "generator":
		parts := []string{p.attribute(t, "version"), p.href(t, "uri")}
		if parts[1] == "" {
			parts[1] = p.href(t, "url")
		}
		s := p.text(t)
		if parts[0] != "" {
			s += " v" + parts[0]
		}
		if parts[1] != "" {
			s += " " + parts[1]
		}
		if f.Generator == "" {
			f.Generator = strings.TrimSpace(s)
		}
	case "icon":
		setText(&f.Icon, &p.ofFeed.icon, rank, p.urlText(t))
	case "logo":
		setText(&f.Image, &p.ofFeed.image, rank, p.urlText(t))
	case "link":
		switch p.attribute(t, "rel") {
		case "self":
			f.FeedURL = p.href(t, "href")
			p.selfLink(t)
		case "next":
			f.Next = p.href(t, "href")
		case "hub":
			f.Hub = p.href(t, "href")
		}
		return false
	default:
		return false
	}
	return true
}

// selfLink notes the URL that says where the feed itself is.
func (p *xmlParser) selfLink(t *tag) {
	for _, a := range t.attrs {
		if bytes.Equal(a.name, []byte("href")) {
			p.f.SelfLinks = append(p.f.SelfLinks, a.value)
		}
	}
}

// finish sets what follows from several elements.
func (p *xmlParser) finish() {
	if p.f.TTL != 0 || p.period == "" {
		return
	}
	var period time.Duration
	switch p.period {
	case "hourly":
		period = time.Hour
	case "daily":
		period = 24 * time.Hour
	case "weekly":
		period = 7 * 24 * time.Hour
	case "monthly":
		period = 30 * 24 * time.Hour
	case "yearly":
		period = 365 * 24 * time.Hour
	}
	p.f.TTL = period / time.Duration(max(1, p.often))
}

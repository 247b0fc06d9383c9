package syndication

import (
	"net/url"
	"slices"
	"strings"
)

// Link is a feed or an icon that a page links to.
type Link struct {
	URL, Title string
	Type       string // as the page says; "" for what only looks like a feed
	Icon       bool
}

// feedTypes are the media types by which pages announce feeds.
var feedTypes = []string{"application/rss+xml", "application/atom+xml", "application/rdf+xml",
	"application/feed+json", "application/json",
	"application/xml", "text/xml"}

// maxLinks bounds what Discover returns.
const maxLinks = 100

// Discover returns the feeds that a page of HTML links to, then its icons, each in the order of the page.
// Where it announces no feed, links whose address looks like one are taken instead. URLs are absolute, of
// http and https.
func Discover(page []byte, base *url.URL) []Link {
	var feeds, icons, guesses []Link
	add := func(to *[]Link, l Link) {
		ref, err := base.Parse(strings.TrimSpace(l.URL))
		if err != nil || l.URL == "" || ref.Host == "" || ref.Scheme != "http" && ref.Scheme != "https" ||
			len(*to) == maxLinks {
			return
		}
		ref.Fragment, ref.User = "", nil
		l.URL = ref.String()
		if !slices.ContainsFunc(*to, func(k Link) bool { return k.URL == l.URL }) {
			*to = append(*to, l)
		}
	}
	var t tag
	var room []byte
	for i, page := 0, string(page); i < len(page); {
		j := strings.IndexByte(page[i:], '<')
		if j < 0 || i+j+1 == len(page) {
			break
		}
		if i += j; page[i+1] == '!' {
			if i = skipMarkup(page, i); i < 0 {
				break
			}
			continue
		}
		ok, err := t.read(page, i+1, defaultAttributes)
		if err != nil {
			i++
			continue
		} else if !ok {
			break
		}
		i = t.end
		value := func(name string) string {
			for _, a := range t.attrs {
				if strings.EqualFold(a.name, name) {
					room, _ = appendText(room[:0], page[a.value.Start:a.value.End])
					return strings.TrimSpace(string(room))
				}
			}
			return ""
		}
		switch name := strings.ToLower(t.name[:min(len(t.name), 10)]); name {
		case "script", "style":
			if end := strings.Index(page[i:], "</"+t.name); end >= 0 {
				i += end
			} else {
				i = len(page)
			}
		case "base":
			if b, err := base.Parse(value("href")); err == nil {
				base = b
			}
		case "link":
			rel := strings.Fields(strings.ToLower(value("rel")))
			kind, _, _ := strings.Cut(strings.ToLower(value("type")), ";")
			switch {
			case slices.Contains(rel, "alternate") && slices.Contains(feedTypes, strings.TrimSpace(kind)),
				slices.Contains(rel, "feed"):
				add(&feeds, Link{URL: value("href"), Title: value("title"), Type: kind})
			case slices.Contains(rel, "icon"), slices.Contains(rel, "apple-touch-icon"):
				add(&icons, Link{URL: value("href"), Type: kind, Icon: true})
			}
		case "a":
			if href := value("href"); looksLikeFeed(href) {
				add(&guesses, Link{URL: href, Title: value("title")})
			}
		}
	}
	if len(feeds) == 0 {
		feeds = guesses
	}
	return append(feeds, icons...)
}

// looksLikeFeed goes by the last part of an address.
func looksLikeFeed(href string) bool {
	href, _, _ = strings.Cut(strings.ToLower(href), "#")
	path, query, _ := strings.Cut(href, "?")
	path = strings.TrimSuffix(path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch last {
	case "feed", "rss", "atom", "feed.json", "rss.xml", "atom.xml", "feed.xml", "index.xml", "index.rdf":
		return true
	}
	return strings.HasSuffix(last, ".rss") || strings.HasSuffix(last, ".atom") ||
		strings.HasSuffix(last, ".rdf") || strings.Contains(query, "feed=rss") ||
		strings.Contains(query, "format=rss") || strings.Contains(query, "feed=atom")
}

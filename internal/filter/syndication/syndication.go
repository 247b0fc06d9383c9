// Package syndication reads RSS 0.9x to 2.0, RDF (RSS 0.90, 1.0 and 1.1), Atom 0.3 and 1.0 and JSON Feed
// 1.0 and 1.1 in one pass, and writes feeds out of what it has read.
//
// [Parse] says of each item where its bytes are in the source, so that [Feed.Pieces] makes a feed without
// some of its items out of the source's own bytes: namespaces, CDATA sections, comments, unknown elements
// and the charset stay as they are. [Feed.Arrange] does so with items in another order and of several
// feeds; [Convert] writes another format.
//
// A feed is damaged more often than not. What can be read is read, and [Feed.Damage] tells what was wrong.
// No entity of a document type is expanded and nothing that is outside the document is fetched.
//
// A Feed does not change after Parse and may be used by many goroutines. Its strings share memory of their
// own, a copy of the document; Source is the caller's slice, which must not change while the feed is used.
//
// Sources: the specifications of the formats, RFC 4287 (Atom), RFC 7303 (charsets of XML), RFC 8259 (JSON),
// RFC 5322, RFC 3339 and W3C's note on dates.
package syndication

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/filter/text"
)

// Format is a family of feeds.
type Format uint8

const (
	RSS  Format = iota // RSS 0.91 to 2.0
	RDF                // RSS 0.90, 1.0 and 1.1
	Atom               // Atom 0.3 and 1.0
	JSON               // JSON Feed 1.0 and 1.1
)

func (f Format) String() string { return [...]string{"rss", "rdf", "atom", "json"}[f] }

// ContentType returns the media type of the format's documents.
func (f Format) ContentType() string {
	return [...]string{"application/rss+xml", "application/rdf+xml", "application/atom+xml",
		"application/feed+json"}[f]
}

// Options are what is known of a source, and bounds; a zero is the default.
type Options struct {
	// Where it was fetched: what relative references are relative to.
	URL           string
	ContentType   string // the header field of HTTP, whose charset is preferred to what the document says
	MaxBytes      int    // of the source: 32 MiB
	MaxDepth      int    // of open elements: 256; in JSON values are 64 deep at most
	MaxItems      int    // of a feed: 20,000
	MaxAttributes int    // of an element: 256
}

const (
	defaultBytes      = 32 << 20
	defaultDepth      = 256
	defaultItems      = 20_000
	defaultAttributes = 256
)

func (o Options) withDefaults() Options {
	or := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	or(&o.MaxBytes, defaultBytes)
	or(&o.MaxDepth, defaultDepth)
	or(&o.MaxItems, defaultItems)
	or(&o.MaxAttributes, defaultAttributes)
	return o
}

// ErrNoFeed is what Parse returns for a document that is none of the formats, such as a page of HTML.
var ErrNoFeed = errors.New("the document is no RSS, RDF, Atom or JSON feed")

// LimitError says which bound of Options a document exceeds.
type LimitError struct {
	What string // bytes, depth, items or attributes
	Max  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the feed has more than %d %s", e.Max, map[string]string{"bytes": "bytes",
		"depth": "elements or values in each other", "items": "items",
		"attributes": "attributes in one element"}[e.What])
}

// Range is bytes [Start, End) of a Source.
type Range struct{ Start, End int }

// Feed is what a document says of itself, and its items. Texts are without white space around them.
type Feed struct {
	Format  Format
	Version string // 2.0, 1.0, 0.3, 1.1, ...; empty when the document does not say
	Charset string // the WHATWG's name of the charset of Source, in lower case
	Source  []byte // the bytes as they were fetched

	Said                 // URL is that of its home page, and Summary its description
	Copyright, Generator string
	Icon                 string // a URL
	FeedURL, Next, Hub   string // rel=self, rel=next, rel=hub

	TTL       time.Duration // how long the feed asks not to be fetched again; 0 when it does not
	SkipHours uint32        // bit h: not to be fetched in hour h, UTC
	SkipDays  uint8         // bit d: not to be fetched on time.Weekday(d), UTC

	SelfLinks []Range // the URLs of rel=self and feed_url, without their quotes
	Items     []Item
	Damage    []string // what had to be mended, each kind once

	table   *text.Table
	text    string    // Source in UTF-8, if it is XML
	invalid bool      // it has bytes that are not UTF-8
	bound   []binding // what prefixes stand for outside items
	base    string    // xml:base of the items
	insert  int       // where in text items go when there are none
	end     int       // where Source ends as far as it is used: before an item that was cut off
	closed  string    // what closes the elements that were open there
}

// Item is an item or entry. The bytes of its Range begin with the white space before it.
type Item struct {
	Range
	Said
	GUID, Content string
	Comments      string // a URL
	Enclosures    []Enclosure

	in   Range  // its element or value in Feed.text, without white space
	base string // xml:base
}

// Said is what feeds and items both say of themselves. XML's escapes are undone in texts, and HTML within is as it
// is.
type Said struct {
	Title, Summary, URL, Language string
	Image                         string // a URL
	Authors                       []Person
	Categories                    []string
	// Zero when the document does not say or cannot be understood.
	Published, Updated time.Time

	html uint8 // which texts are HTML
}

const (
	htmlTitle = 1 << iota
	htmlSummary
	htmlContent
)

// Person is who wrote a feed or item. Formats that have one text for a person have it taken apart.
type Person struct{ Name, Email, URL string }

// Enclosure is a file that belongs to an item. Length is in bytes, 0 when it is not known.
type Enclosure struct {
	URL, Type string
	Length    int64
}

// Key identifies the item within its feed: its GUID, or its URL or title where it has none.
func (it *Item) Key() string {
	switch {
	case it.GUID != "":
		return it.GUID
	case it.URL != "":
		return it.URL
	}
	return it.Title
}

// PlainTitle returns the title as a reader sees it, without markup.
func (it *Item) PlainTitle() string {
	form := text.KeepCase | text.KeepAccents
	if it.html&htmlTitle != 0 {
		form |= text.HTML
	}
	return text.Of(it.Title, form)
}

// Date is when the item was published, or else updated; zero when it does not say.
func (it *Item) Date() time.Time {
	if it.Published.IsZero() {
		return it.Updated
	}
	return it.Published
}

// Parse reads a feed. The error is [ErrNoFeed], a [*LimitError] or about a document of which nothing could
// be read.
func Parse(src []byte, o Options) (*Feed, error) {
	o = o.withDefaults()
	if len(src) > o.MaxBytes {
		return nil, &LimitError{"bytes", o.MaxBytes}
	}
	f := &Feed{Source: src, end: len(src)}
	text, m := f.decode(o.ContentType)
	first := 0
	if f.Charset == "utf-8" && bytes.HasPrefix(text, []byte(byteOrderMark)) {
		first = len(byteOrderMark)
	}
	var err error
	if i := skipSpace(text, first); i < len(text) && text[i] == '{' {
		err = f.parseJSON(text, first, o)
	} else {
		err = f.parseXML(string(text), o)
	}
	if err != nil {
		return nil, err
	}
	m.place(f, text)
	f.tabulate()
	return f, nil
}

// damaged notes a kind of damage.
func (f *Feed) damaged(what string) {
	if !slices.Contains(f.Damage, what) {
		f.Damage = append(f.Damage, what)
	}
}

const byteOrderMark = "\xef\xbb\xbf"

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// trim returns what is between white space of XML.
func trim[T string | []byte](b T) T {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func skipSpace[T string | []byte](b T, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

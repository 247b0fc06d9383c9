// Package opml reads and writes lists of feeds as OPML 2.0, with what weir does to them in attributes of
// its own namespace, so that other programs read the list as one of subscriptions.
//
// Outlines with an xmlUrl are feeds, those without are folders. What is read may be OPML 1.0, in any
// charset, and may have bare ampersands and HTML's entities; nothing outside the document is fetched and no
// entity of its own is expanded. Read takes all of a list or nothing. What Write has written, Read reads as
// the same.
package opml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding/htmlindex"

	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
)

// Namespace is that of weir's attributes.
const Namespace = "urn:weir:filter"

// Bounds of a list.
const (
	MaxBytes = 16 << 20
	maxDepth = 32
	maxFeeds = 200_000
)

// Feed is an outline with a feed.
type Feed struct {
	// URL is where readers get the feed. It is that of the source, unless Sources are there.
	URL     string
	Sources []string // what the feed is made of
	Title   string
	Site    string   // the page it belongs to
	Folder  []string // the names of folders, the outermost first
	Tags    []string // without commas and white space around them

	Rules     rules.Set // without Global
	Selection selection.Options
	Format    string // rss, atom, json, or empty for that of the source
}

// Error is what is wrong with a list, and where.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Read reads a list. The error is about reading r, or an *Error.
func Read(r io.Reader) ([]Feed, error) {
	limited := &io.LimitedReader{R: r, N: MaxBytes + 1}
	d := xml.NewDecoder(limited)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		e, err := htmlindex.Get(charset)
		if err != nil {
			return nil, fmt.Errorf("the charset %q is not known", charset)
		}
		return e.NewDecoder().Reader(in), nil
	}
	feeds, err := read(d)
	if limited.N <= 0 {
		err = fmt.Errorf("the list has more than %d bytes", MaxBytes)
	}
	if err == nil {
		return feeds, nil
	}
	line, _ := d.InputPos()
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		line, err = syntax.Line, errors.New(syntax.Msg)
	}
	return nil, &Error{line, err}
}

// read reads the tokens of a list.
func read(d *xml.Decoder) (feeds []Feed, err error) {
	var folders []string
	var open []bool // of each open outline, whether it is a folder
	for begun := false; ; {
		token, err := d.Token()
		if err == io.EOF && begun && len(open) == 0 {
			return feeds, nil
		}
		if err == io.EOF {
			return nil, errors.New("the document ends before its outlines do, or is no OPML")
		}
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			name := strings.ToLower(t.Name.Local)
			if !begun && name != "opml" {
				return nil, fmt.Errorf("the document is no OPML: it begins with <%.40s>", t.Name.Local)
			}
			begun = true
			if name != "outline" {
				continue
			}
			f, folder, err := outline(t.Attr)
			if err != nil {
				return nil, err
			}
			if f != nil {
				f.Folder = append([]string(nil), folders...)
				feeds = append(feeds, *f)
			} else {
				folders = append(folders, folder)
			}
			open = append(open, f == nil)
			if len(open) > maxDepth || len(feeds) > maxFeeds {
				return nil, fmt.Errorf("the list has more than %d outlines in each other, or %d feeds",
					maxDepth, maxFeeds)
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "outline") && len(open) > 0 {
				if open[len(open)-1] {
					folders = folders[:len(folders)-1]
				}
				open = open[:len(open)-1]
			}
		}
	}
}

// outline reads the attributes of an outline, which is a feed, or else a folder.
func outline(attributes []xml.Attr) (f *Feed, folder string, err error) {
	f = &Feed{}
	var text, title string
	for _, a := range attributes {
		if a.Name.Space == Namespace {
			if err := f.attribute(a.Name.Local, a.Value); err != nil {
				return nil, "", fmt.Errorf("%s: %w", a.Name.Local, err)
			}
			continue
		}
		if a.Name.Space != "" {
			continue
		}
		switch strings.ToLower(a.Name.Local) {
		case "text":
			text = a.Value
		case "title":
			title = a.Value
		case "xmlurl":
			f.URL = strings.TrimSpace(a.Value)
		case "htmlurl":
			f.Site = strings.TrimSpace(a.Value)
		case "category":
			for tag := range strings.SplitSeq(a.Value, ",") {
				if tag = strings.Trim(tag, " \t\r\n/"); tag != "" {
					f.Tags = append(f.Tags, tag)
				}
			}
		}
	}
	if text == "" { // which must be there, but is what readers know as the title
		text = title
	}
	if f.URL == "" {
		return nil, text, nil
	}
	f.Title = text
	return f, "", nil
}

// attribute takes one of weir's attributes. Those of a later version are left out.
func (f *Feed) attribute(name, value string) (err error) {
	switch name {
	case "sources":
		f.Sources = strings.Fields(value)
	case "mode":
		err = f.Rules.Mode.UnmarshalText([]byte(value))
	case "rules":
		f.Rules.Rules, err = rules.ParseAll(value)
	case "sort":
		err = f.Selection.Sort.UnmarshalText([]byte(value))
	case "dedup":
		err = f.Selection.Dedup.UnmarshalText([]byte(value))
	case "limit":
		f.Selection.Limit, err = strconv.Atoi(value)
		if err != nil || f.Selection.Limit < 0 {
			err = fmt.Errorf("a number of items is expected, not %.40q", value)
		}
	case "format":
		if f.Format = value; !slices.Contains([]string{"", "rss", "atom", "json"}, value) {
			err = fmt.Errorf("rss, atom or json is expected, not %.40q", value)
		}
	}
	return err
}

// Write writes a list. Feeds of a folder stand together, folders and feeds otherwise in the order in which
// they come.
func Write(w io.Writer, title string, created time.Time, feeds []Feed) error {
	var root folder
	for _, f := range feeds {
		root.at(f.Folder).add(f)
	}
	b := []byte(xml.Header + `<opml version="2.0" xmlns:weir="` + Namespace + `">` +
		"\n  <head>\n    <title>")
	b = appendText(b, title)
	b = append(b, "</title>\n    <dateCreated>"...)
	b = created.UTC().AppendFormat(b, time.RFC1123Z)
	b = append(b, "</dateCreated>\n  </head>\n  <body>\n"...)
	b = root.append(b, "    ")
	b = append(b, "  </body>\n</opml>\n"...)
	_, err := w.Write(b)
	return err
}

// folder is what an outline without a feed has: feeds and other folders, in their order.
type folder struct {
	name    string
	entries []entry
	folders map[string]*folder
}

// entry is a folder, or else a feed.
type entry struct {
	*folder
	Feed
}

// at returns the folder of a path, which it makes if it is not there.
func (d *folder) at(path []string) *folder {
	for _, name := range path {
		next := d.folders[name]
		if next == nil {
			next = &folder{name: name}
			if d.folders == nil {
				d.folders = make(map[string]*folder)
			}
			d.folders[name] = next
			d.entries = append(d.entries, entry{folder: next})
		}
		d = next
	}
	return d
}

func (d *folder) add(f Feed) { d.entries = append(d.entries, entry{Feed: f}) }

// append writes outlines.
func (d *folder) append(b []byte, indent string) []byte {
	for _, e := range d.entries {
		b = append(append(b, indent...), "<outline"...)
		if e.folder != nil {
			b = appendAttribute(b, "text", e.name)
			b = append(b, ">\n"...)
			b = e.folder.append(b, indent+"  ")
			b = append(append(b, indent...), "</outline>\n"...)
			continue
		}
		b = append(e.Feed.append(b), "/>\n"...)
	}
	return b
}

// append writes the attributes of a feed.
func (f *Feed) append(b []byte) []byte {
	optional := func(name, value string) {
		if value != "" {
			b = appendAttribute(b, name, value)
		}
	}
	b = appendAttribute(b, "text", f.Title)
	optional("title", f.Title)
	b = appendAttribute(b, "type", "rss") // of all formats, as the specification says
	b = appendAttribute(b, "xmlUrl", f.URL)
	optional("htmlUrl", f.Site)
	optional("category", strings.Join(f.Tags, ","))
	if sources := strings.Join(f.Sources, " "); sources != f.URL {
		optional("weir:sources", sources)
	}
	if len(f.Rules.Rules) > 0 || f.Rules.Mode != rules.Drop {
		b = appendAttribute(b, "weir:mode", f.Rules.Mode.String())
		optional("weir:rules", f.Rules.Rules.String())
	}
	if f.Selection.Sort != selection.AsFound {
		b = appendAttribute(b, "weir:sort", f.Selection.Sort.String())
	}
	optional("weir:dedup", f.Selection.Dedup.String())
	if f.Selection.Limit > 0 {
		b = appendAttribute(b, "weir:limit", strconv.Itoa(f.Selection.Limit))
	}
	optional("weir:format", f.Format)
	return b
}

func appendAttribute(b []byte, name, value string) []byte {
	b = append(append(append(b, ' '), name...), `="`...)
	return append(appendText(b, value), '"')
}

// appendText writes a text with its special characters, tabs and line ends escaped, and what XML cannot
// hold replaced.
func appendText(b []byte, s string) []byte {
	var escaped strings.Builder
	xml.EscapeText(&escaped, []byte(s)) //nolint:errcheck // a Builder takes all
	return append(b, escaped.String()...)
}

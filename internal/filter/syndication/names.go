package syndication

import "strings"

// vocabulary is a set of element names, however a document calls its namespace.
type vocabulary uint8

const (
	native  vocabulary = iota // of the document's own format
	foreign                   // of none of these
	atom
	rdf
	dublinCore
	content
	itunes
	media
	podcast
	updates // http://purl.org/rss/1.0/modules/syndication/
	xhtml
)

// namespaces are the URIs by which vocabularies are known, in lower case and without a slash at the end.
var namespaces = map[string]vocabulary{
	"http://purl.org/rss/1.0":                                                     native,
	"http://my.netscape.com/rdf/simple/0.9":                                       native,
	"http://channel.netscape.com/rdf/simple/0.9":                                  native,
	"http://purl.org/net/rss1.1#":                                                 native,
	"http://backend.userland.com/rss2":                                            native,
	"http://backend.userland.com/rss":                                             native,
	"http://blogs.law.harvard.edu/tech/rss":                                       native,
	"http://cyber.law.harvard.edu/rss/rss.html":                                   native,
	"http://www.w3.org/2005/Atom":                                                 atom,
	"http://www.w3.org/2005/atom":                                                 atom,
	"http://purl.org/atom/ns#":                                                    atom,
	"http://www.w3.org/1999/02/22-rdf-syntax-ns#":                                 rdf,
	"http://purl.org/dc/elements/1.1":                                             dublinCore,
	"http://purl.org/dc/elements/1.0":                                             dublinCore,
	"http://purl.org/dc/terms":                                                    dublinCore,
	"http://purl.org/rss/1.0/modules/content":                                     content,
	"http://www.itunes.com/dtds/podcast-1.0.dtd":                                  itunes,
	"http://example.com/dtds/podcast-1.0.dtd":                                     itunes,
	"http://search.yahoo.com/mrss":                                                media,
	"https://podcastindex.org/namespace/1.0":                                      podcast,
	"https://github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md": podcast,
	"http://purl.org/rss/1.0/modules/syndication":                                 updates,
	"http://www.w3.org/1999/xhtml":                                                xhtml,
}

// byPrefix are the vocabularies of prefixes that a document does not declare.
var byPrefix = map[string]vocabulary{"atom": atom, "atom10": atom, "atom03": atom, "a10": atom,
	"rdf": rdf, "dc": dublinCore,
	"dcterms": dublinCore, "content": content, "itunes": itunes, "media": media,
	"podcast": podcast, "sy": updates,
	"xhtml": xhtml}

// namespace returns the vocabulary of a URI.
func namespace(uri string) vocabulary {
	if v, ok := namespaces[strings.TrimSuffix(uri, "/")]; ok {
		return v
	}
	if v, ok := namespaces[strings.TrimSuffix(strings.ToLower(strings.TrimSpace(uri)), "/")]; ok {
		return v
	}
	return foreign
}

// binding is what a prefix stands for within an element; no prefix is the default namespace.
type binding struct {
	prefix string
	is     vocabulary
	uri    string // as it stands in the document
}

// scope is the bindings in force.
type scope struct {
	bound []binding
	bare  vocabulary // of names without prefix
	epoch int        // how often bound was changed
}

// maxBindings are in force at a time. Those beyond are as if they were not there.
const maxBindings = 1000

// declare adds the bindings of a tag's attributes. The root's default namespace, if none that is known, is
// the document's own.
func (s *scope) declare(b string, attrs []attribute, root bool) {
	for _, a := range attrs {
		if len(a.name) < 5 || a.name[:5] != "xmlns" || len(s.bound) == maxBindings {
			continue
		}
		s.epoch++
		uri := b[a.value.Start:a.value.End]
		v := namespace(uri)
		switch {
		case len(a.name) == 5:
			if root && v == foreign || len(uri) == 0 {
				v = native
			}
			s.bound = append(s.bound, binding{"", v, uri})
			s.bare = v
		case a.name[5] == ':' && len(a.name) > len("xmlns:"):
			if s.bound == nil {
				s.bound = make([]binding, 0, 8)
			}
			s.bound = append(s.bound, binding{a.name[6:], v, uri})
		}
	}
}

// release forgets all bindings but the first n.
func (s *scope) release(n int) {
	if n == len(s.bound) {
		return
	}
	s.bound = s.bound[:n]
	s.epoch++
	s.setBare()
}

// setBare looks for what names without prefix are.
func (s *scope) setBare() {
	s.bare = native
	for i := len(s.bound) - 1; i >= 0; i-- {
		if s.bound[i].prefix == "" {
			s.bare = s.bound[i].is
			break
		}
	}
}

// of returns a name's vocabulary.
func (s *scope) of(prefix string) vocabulary {
	if prefix == "" {
		return s.bare
	}
	for i := len(s.bound) - 1; i >= 0; i-- {
		if s.bound[i].prefix == prefix {
			return s.bound[i].is
		}
	}
	if v, ok := byPrefix[prefix]; ok {
		return v
	}
	return foreign
}

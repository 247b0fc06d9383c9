package mock

import (
	"bytes"
)

// Damage is what is wrong with an answer.
type Damage uint8

const (
	undamaged Damage = iota
	truncated
	cut
	unclosed
	crossed
	entities
	ampersands
	control
	invalid
	mislabelled
	prefixes
	leading
	dates
	guids
	html
	empty
	mistyped
	miscoded
	bomb
)

// damages are the kinds by number: their names, what they do, and whether JSON feeds have them.
var damages = [...]struct {
	name, what string
	json       bool
}{
	undamaged: {"off", "nothing is wrong", true},
	truncated: {"truncated", "the document ends in its middle; Content-Length agrees", true},
	cut: {"cut", "the connection ends in the middle of the body, before Content-Length is reached",
		true},
	unclosed: {"unclosed", "elements of items, or arrays and objects, are not closed", true},
	crossed:  {"crossed", "end tags are in the wrong order, or brackets of the wrong kind", true},
	entities: {"entities", "references to entities that XML does not have, such as &nbsp;, or escapes " +
		"that JSON does not have", true},
	ampersands:  {"ampersands", "bare & and < in text, or quotes that are not escaped", true},
	control:     {"control", "control characters that XML and JSON forbid", true},
	invalid:     {"invalid", "bytes that are no characters of the charset", true},
	mislabelled: {"mislabelled", "the text is windows-1252 and said to be UTF-8", true},
	prefixes:    {"prefixes", "prefixes of namespaces that are not declared", false},
	leading: {"leading", "blank lines and a comment before the XML declaration, a byte order mark and " +
		"blank lines before JSON", true},
	dates:    {"dates", "dates in words, impossible ones, and none", true},
	guids:    {"guids", "all items have the same id, some have none", true},
	html:     {"html", "an HTML page that says all is well, with status 200", true},
	empty:    {"empty", "nothing at all, with status 200", true},
	mistyped: {"mistyped", "Content-Type says application/octet-stream", true},
	miscoded: {"coding", "Content-Encoding says gzip, and the body is not", true},
	bomb:     {"bomb", "nested entities that would expand to gigabytes", false},
}

func damageNames() []string {
	var names []string
	for i := range damages {
		names = append(names, damages[i].name)
	}
	return names
}

// in is what makes a feed wrong while it is written: it takes the place of sound text here and there.
func (d Damage) title(dst []byte, f Format, i int) []byte {
	if i%3 != 0 {
		return dst
	}
	switch {
	case d == entities && f == JSON:
		return append(dst, ` \x26 caf\e`...)
	case d == entities:
		return append(dst, " &nbsp;&eacute;&bull;"...)
	case d == ampersands && f == JSON:
		return append(dst, ` "so called" news`...)
	case d == ampersands:
		return append(dst, " Q&A: is 3 < 4 & 5 > 4?"...)
	case d == control:
		return append(dst, "\x08\x0b\x1f"...)
	}
	return dst
}

// firstTitle is where the text of the first title or name begins, which every feed has.
func firstTitle(body []byte, f Format) int {
	at := bytes.Index(body, []byte("title"))
	at += bytes.IndexAny(body[at:], ">:") + 1
	if f == JSON {
		at += bytes.IndexByte(body[at:], '"') + 1
	}
	return at
}

// spoil does to a whole document what is done to it after it was written.
func (d Damage) spoil(body []byte, f Format) []byte {
	switch d {
	case truncated:
		return body[:len(body)/2]
	case mislabelled:
		for i := range charsets {
			if charsets[i].name == "windows-1252" {
				return Charset(i).encode(body)
			}
		}
	case leading:
		if f == JSON {
			return append([]byte("\ufeff\n\n"), body...)
		}
		return append([]byte("\n\n<!-- made by hand -->\n"), body...)
	case html:
		return []byte("<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It " +
			"works!</h1><p>We are moving house. " +
			"Please come back <b>later<p>&copy; 2026</body></html>\n")
	case empty:
		return nil
	}
	return body
}

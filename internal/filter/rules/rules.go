// Package rules decides which items of a feed stay.
//
// A [Rule] is a condition on one item, written as text, such as
//
//	title contains "go" and not (author = "bot" or age > 30d)
//
// or as JSON, with the same meaning and the same names; docs/filtering.md has the grammar of both. A rule
// that cannot be understood is a [*SyntaxError], which has the place. One that can, but cannot match, or
// matches whatever there is, says so by [Rule.Problems].
//
// A [Set] is a list of rules and what becomes of the items that one of them matches: it keeps them and
// drops all others, or the other way round. [Set.Decide] looks at all items at once: a comparison searches
// through what all of them say in a field, one after the other in a text.Table, and results are sets of
// items, a bit each.
//
// Case, accents and markup do not count unless a rule asks for them: comparisons are with the texts of the
// table. Where one of them counts, the table says which items are worth a look, and the item's own text
// decides. Dates are compared by the second.
//
// Rules do not change after they were read. They and sets may be used by any number of goroutines.
package rules

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"weir/internal/filter/text"
)

// Bounds of what a rule may be.
const (
	maxText    = 64 << 10 // bytes of a rule, or of a list of them
	maxDepth   = 64       // groups in each other
	maxValue   = 1000     // bytes of a value
	maxPattern = 500      // bytes of a regular expression
)

// field is what a comparison looks at: a column of the table, or one of those below.
type field = text.Field

const (
	anyField    field = text.Fields + iota // what a reader sees: title, summary, content, author, category
	dateField                              // when the item was published, or else updated
	ageField                               // for how long it has been
	lengthField                            // of an enclosure, in bytes
)

// seen are the fields that "any" stands for.
var seen = []field{text.Title, text.Summary, text.Content, text.Author, text.Category}

var fieldNames = [...]string{
	text.Title: "title", text.Summary: "summary", text.Content: "content", text.Author: "author",
	text.Category: "category", text.URL: "url", text.GUID: "guid", text.EnclosureURL: "enclosure.url",
	text.EnclosureType: "enclosure.type", text.Language: "language", anyField: "any", dateField: "date",
	ageField: "age", lengthField: "enclosure.length",
}

// single reports whether an item has at most one value of f.
func single(f field) bool {
	switch f {
	case text.Author, text.Category, text.EnclosureURL, text.EnclosureType, anyField, lengthField:
		return false
	}
	return true
}

// op is how a comparison compares.
type op uint8

const (
	contains op = iota
	equals
	starts
	ends
	matches
	less
	greater
	atMost
	atLeast
	exists
	differs // a way to write not equals
)

var opNames = [...]string{contains: "contains", equals: "=", starts: "starts", ends: "ends",
	matches: "matches", less: "<", greater: ">", atMost: "<=", atLeast: ">=", exists: "exists", differs: "!="}

// textual reports whether o compares with a text.
func (o op) textual() bool { return o <= matches }

type kind uint8

const (
	leaf  kind = iota // a comparison
	allOf             // of two or more
	anyOf             // of two or more
	not               // of one, which is no not
)

// node is a rule or a part of one.
type node struct {
	kind  kind
	parts []*node
	at    Place

	// A comparison.
	field field
	op    op
	words bool      // what it finds has to stand by itself
	form  text.Form // text.KeepCase and text.KeepAccents where these count
	value string    // as it is written, the text or in a canonical form

	needle needle         // of a textual comparison
	re     *regexp.Regexp // of matches
	tree   pattern        // of matches
	needed []needle       // of matches: one of them is in every text that matches, unless there are none
	strict string         // the text in its form, where that is not the table's
	span   span           // of others: which numbers match
}

// span is numbers from first up to, but without, end.
type span struct{ first, end int64 }

func (s span) has(n int64) bool { return s.first <= n && n < s.end }

// Rule is a condition on an item. Its zero value is none: rules come from Parse and from JSON.
type Rule struct{ root *node }

// Place returns where the rule begins in the text it was read from.
func (r *Rule) Place() Place { return r.root.at }

// Place is where in a text something is, both from 1. Columns count characters.
type Place struct{ Line, Column int }

func (p Place) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// SyntaxError says where a rule stops making sense, and what was expected there.
type SyntaxError struct {
	Place
	Text string
}

func (e *SyntaxError) Error() string { return e.Place.String() + ": " + e.Text }

func wrong(at Place, format string, a ...any) error {
	return &SyntaxError{at, fmt.Sprintf(format, a...)}
}

// group returns a group of parts, without groups of the same kind within it and nots of nots.
func group(k kind, at Place, parts ...*node) *node {
	n := &node{kind: k, at: at}
	for _, p := range parts {
		switch {
		case k == not && p.kind == not:
			return p.parts[0]
		case k != not && p.kind == k:
			n.parts = append(n.parts, p.parts...)
		default:
			n.parts = append(n.parts, p)
		}
	}
	if k != not && len(n.parts) == 1 {
		return n.parts[0]
	}
	return n
}

// compare returns a comparison, or the error of what it lacks. The places are those of its field and its
// value.
func compare(n node, valueAt Place) (*node, error) {
	name := fieldNames[n.field]
	textual := n.field <= anyField
	switch {
	case n.op == exists:
		n.words, n.form, n.value = false, 0, ""
		return &n, nil
	case n.op == differs:
		n.op = equals
		same, err := compare(n, valueAt)
		if err != nil {
			return nil, err
		}
		return group(not, n.at, same), nil
	case textual && !n.op.textual():
		return nil, wrong(n.at, "%s is a text: compare it by contains, =, starts, ends, matches or exists, "+
			"not by %s", name, opNames[n.op])
	case !textual && n.op.textual() && n.op != equals:
		return nil, wrong(n.at, "%s is compared by <, <=, =, >=, > or exists, not by %s", name, opNames[n.op])
	case !textual && (n.words || n.form != 0):
		return nil, wrong(n.at, "words, case and accents are for texts, and %s is none", name)
	case n.field == ageField && n.op == equals:
		return nil, wrong(n.at, "an age is compared by <, <=, >= or >")
	case n.op == matches:
		if n.words {
			return nil, wrong(n.at, `a regular expression says by itself where words end: \b`)
		}
		return &n, n.compile(valueAt)
	case textual:
		return &n, n.fold(valueAt)
	}
	var value span
	var err error
	switch n.field {
	case dateField:
		n.value, value, err = readDate(n.value, valueAt)
	case ageField:
		n.value, value, err = readAge(n.value, valueAt)
	case lengthField:
		n.value, value, err = readSize(n.value, valueAt)
	}
	switch n.op {
	case less:
		value = span{math.MinInt64, value.first}
	case atMost:
		value = span{math.MinInt64, value.end}
	case atLeast:
		value = span{value.first, math.MaxInt64}
	case greater:
		value = span{value.end, math.MaxInt64}
	}
	n.span = value
	return &n, err
}

// fold prepares what a textual comparison searches for.
func (n *node) fold(at Place) error {
	if len(n.value) > maxValue {
		return wrong(at, "a text may have %d bytes, and this has %d", maxValue, len(n.value))
	}
	trim := func(s string) string {
		if n.op == equals || n.op == starts {
			s = strings.TrimLeft(s, " ")
		}
		if n.op == equals || n.op == ends {
			s = strings.TrimRight(s, " ")
		}
		return s
	}
	folded := trim(text.Pattern(n.value, 0))
	if strings.Trim(folded, " ") == "" {
		return wrong(at, "the text is empty: write %s exists", fieldNames[n.field])
	}
	if n.form != 0 {
		n.strict = trim(text.Pattern(n.value, n.form))
	}
	n.needle = newNeedle(folded, n.op == equals || n.op == starts, n.op == equals || n.op == ends)
	return nil
}

// compares reports whether a value, in the form of the comparison, is what a textual one looks for, where
// pattern is what that is in this form.
func (n *node) compares(value []byte, pattern string) bool {
	switch n.op {
	case matches:
		return n.re.Match(value)
	case equals:
		return string(value) == pattern
	case starts:
		return len(value) >= len(pattern) && string(value[:len(pattern)]) == pattern &&
			(!n.words || wordEnds(value, len(pattern)))
	case ends:
		at := len(value) - len(pattern)
		return at >= 0 && string(value[at:]) == pattern && (!n.words || wordEnds(value, at))
	}
	for from := 0; ; {
		at := strings.Index(string(value[from:]), pattern)
		if at < 0 {
			return false
		}
		at += from
		if !n.words || wordEnds(value, at) && wordEnds(value, at+len(pattern)) {
			return true
		}
		from = at + 1
	}
}

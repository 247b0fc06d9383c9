package rules

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/filter/syndication"
	"weir/internal/filter/text"
)

// Matches says whether a rule matches an item, one value after the other and without any table: what Decide
// has to agree with.
func (r *Rule) Matches(f *syndication.Feed, item int, now time.Time) bool {
	return plainly(r.root, f, item, now.Unix())
}

func plainly(n *node, f *syndication.Feed, item int, now int64) bool {
	switch n.kind {
	case not:
		return !plainly(n.parts[0], f, item, now)
	case allOf:
		for _, p := range n.parts {
			if !plainly(p, f, item, now) {
				return false
			}
		}
		return true
	case anyOf:
		for _, p := range n.parts {
			if plainly(p, f, item, now) {
				return true
			}
		}
		return false
	}
	it := &f.Items[item]
	switch n.field {
	case anyField:
		for _, field := range seen {
			one := *n
			one.field = field
			if plainly(&one, f, item, now) {
				return true
			}
		}
		return false
	case dateField, ageField:
		date := it.Published
		if date.IsZero() {
			date = it.Updated
		}
		if date.IsZero() || n.op == exists {
			return !date.IsZero()
		}
		if n.field == ageField {
			return n.span.has(now - date.Unix())
		}
		return n.span.has(date.Unix())
	case lengthField:
		for _, e := range it.Enclosures {
			if e.Length > 0 && (n.op == exists || n.span.has(e.Length)) {
				return true
			}
		}
		return false
	}
	for value, form := range f.Values(item, n.field) {
		value = text.Of(value, form|n.form)
		wanted := text.Pattern(n.value, n.form)
		switch {
		case value == "":
		case n.op == exists:
			return true
		case n.op == equals && value == strings.TrimSpace(wanted):
			return true
		case n.op == matches && plainPattern(n).MatchString(value):
			return true
		case n.op == contains || n.op == starts || n.op == ends:
			if n.op == starts {
				wanted = strings.TrimLeft(wanted, " ")
			} else if n.op == ends {
				wanted = strings.TrimRight(wanted, " ")
			}
			for at := 0; at+len(wanted) <= len(value); at++ {
				if value[at:at+len(wanted)] != wanted || n.op == starts && at > 0 || n.op == ends &&
					at+len(wanted) < len(value) {
					continue
				}
				before, _ := utf8.DecodeLastRuneInString(value[:at])
				first, _ := utf8.DecodeRuneInString(wanted)
				last, _ := utf8.DecodeLastRuneInString(wanted)
				after, _ := utf8.DecodeRuneInString(value[at+len(wanted):])
				if !n.words || !(at > 0 && wordRune(before) && wordRune(first)) &&
					!(at+len(wanted) < len(value) && wordRune(last) && wordRune(after)) {
					return true
				}
			}
		}
	}
	return false
}

// plainPattern compiles an expression without looking for what it needs.
func plainPattern(n *node) *regexp.Regexp {
	flags := syntax.Perl
	if n.form&text.KeepCase == 0 {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(n.value, flags)
	if err != nil {
		panic(err)
	}
	return regexp.MustCompile(inForm(tree, n.form).String())
}

package rules

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/filter/text"
)

// Parse reads a rule in its textual form. The error is a *SyntaxError.
func Parse(rule string) (*Rule, error) {
	p, err := newParser(rule)
	if err != nil {
		return nil, err
	}
	root, err := p.either()
	if err == nil && p.token.kind != end {
		err = wrong(p.token.at, "and, or, or the end of the rule is expected, not %s", p.token)
	}
	if err != nil {
		return nil, err
	}
	return &Rule{root}, nil
}

// ParseAll reads any number of rules in their textual form, each of which begins on a line of its own. What
// follows a # is for the reader. The error is a *SyntaxError.
func ParseAll(rules string) (Rules, error) {
	p, err := newParser(rules)
	if err != nil {
		return nil, err
	}
	return p.all()
}

// all reads what is left as rules.
func (p *parser) all() (rules Rules, err error) {
	for p.token.kind != end {
		if len(rules) > 0 && p.token.at.Line == p.last.Line {
			return nil, wrong(p.token.at, "and, or, or a new line for another rule is expected, not %s",
				p.token)
		}
		root, err := p.either()
		if err != nil {
			return nil, err
		}
		rules = append(rules, &Rule{root})
	}
	return rules, nil
}

type tokenKind uint8

const (
	end     tokenKind = iota
	word              // a name, a number, a date
	sign              // a parenthesis or an operator of signs
	quoted            // "a text"
	slashed           // /a regular expression/
)

type token struct {
	kind tokenKind
	text string // of a quoted or slashed one without its quotes
	at   Place
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case quoted:
		return "the text " + shorten(t.text)
	case slashed:
		return "a regular expression"
	}
	return shorten(t.text)
}

// shorten quotes a text for a message.
func shorten(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "..."
	}
	return quote(s)
}

// parser reads tokens one ahead.
type parser struct {
	rest  string
	at    Place // of rest
	token token
	last  Place // where the token before ends
	depth int
	// regular says that a / begins a regular expression.
	regular bool
}

func newParser(s string) (*parser, error) {
	p := &parser{rest: s, at: Place{1, 1}}
	if len(s) > maxText {
		return nil, wrong(p.at, "the rules have %d bytes, and may have %d", len(s), maxText)
	}
	if !utf8.ValidString(s) {
		valid := strings.ToValidUTF8(s, "\x00")
		p.skip(strings.IndexByte(valid, 0))
		return nil, wrong(p.at, "the text is not UTF-8")
	}
	return p, p.next()
}

// skip moves over n bytes.
func (p *parser) skip(n int) {
	for _, r := range p.rest[:n] {
		p.at.Column++
		if r == '\n' {
			p.at = Place{p.at.Line + 1, 1}
		}
	}
	p.rest = p.rest[n:]
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+-"

// next reads the next token.
func (p *parser) next() error {
	p.last = p.at
	for {
		p.skip(len(p.rest) - len(strings.TrimLeft(p.rest, " \t\r\n")))
		if !strings.HasPrefix(p.rest, "#") {
			break
		}
		line, _, _ := strings.Cut(p.rest, "\n")
		p.skip(len(line))
	}
	p.token = token{at: p.at}
	if p.rest == "" {
		return nil
	}
	n := 1
	switch c := p.rest[0]; {
	case c == '"':
		n = closing(p.rest, '"')
		if n < 0 {
			return wrong(p.at, `the text that begins here has no " at its end`)
		}
		if err := json.Unmarshal([]byte(p.rest[:n]), &p.token.text); err != nil {
			return wrong(p.at, `in a text, \ stands only before ", \, /, b, f, n, r, t and uXXXX, and line `+
				`breaks are written \n; in /a regular expression/ it stands for itself`)
		}
		p.token.kind = quoted
	case c == '/' && p.regular:
		n = closing(p.rest, '/')
		if n < 0 {
			return wrong(p.at, "the regular expression that begins here has no / at its end")
		}
		p.token.kind, p.token.text = slashed, p.rest[1:n-1]
	case strings.IndexByte("()=<>!", c) >= 0:
		if len(p.rest) > 1 && p.rest[1] == '=' && strings.IndexByte("<>!", c) >= 0 {
			n = 2
		}
		p.token.kind, p.token.text = sign, p.rest[:n]
	case strings.IndexByte(wordBytes, c) >= 0:
		n = len(p.rest) - len(strings.TrimLeft(p.rest, wordBytes))
		p.token.kind, p.token.text = word, p.rest[:n]
	default:
		r, _ := utf8.DecodeRuneInString(p.rest)
		return wrong(p.at, "%s has no meaning here: texts stand between two \"", quote(string(r)))
	}
	p.skip(n)
	return nil
}

// closing returns where in s, which begins with a quote, its end is, -1 if there is none in its line.
func closing(s string, quote byte) int {
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case quote:
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// is reports whether the token is a name or a sign.
func (p *parser) is(text string) bool {
	return (p.token.kind == word || p.token.kind == sign) && p.token.text == text
}

// list reads parts with a word between them.
func (p *parser) list(k kind, between string, part func() (*node, error)) (*node, error) {
	at := p.token.at
	var parts []*node
	for {
		n, err := part()
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
		if !p.is(between) {
			return group(k, at, parts...), nil
		}
		if err := p.next(); err != nil {
			return nil, err
		}
	}
}

// either = both { "or" both }.
func (p *parser) either() (*node, error) { return p.list(anyOf, "or", p.both) }

// both = one { "and" one }.
func (p *parser) both() (*node, error) { return p.list(allOf, "and", p.one) }

// one = "not" one | "(" either ")" | comparison.
func (p *parser) one() (*node, error) {
	at := p.token.at
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, wrong(at, "there are more than %d groups in each other", maxDepth)
	}
	switch {
	case p.is("not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		n, err := p.one()
		if err != nil {
			return nil, err
		}
		return group(not, at, n), nil
	case p.is("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		n, err := p.either()
		if err != nil {
			return nil, err
		}
		if !p.is(")") {
			return nil, wrong(p.token.at, "and, or, or ) is expected, not %s", p.token)
		}
		return n, p.next()
	}
	return p.comparison()
}

// comparison = field ( "exists" | operator { "words" | "case" | "accents" } value ).
func (p *parser) comparison() (*node, error) {
	f := slices.Index(fieldNames[:], p.token.text)
	if p.token.kind != word || f < 0 {
		return nil, wrong(p.token.at, "a field is expected, not %s: %s", p.token, enumerate(fieldNames[:]))
	}
	n := node{at: p.token.at, field: field(f)}
	if err := p.next(); err != nil {
		return nil, err
	}
	o := slices.Index(opNames[:], p.token.text)
	if p.token.kind != word && p.token.kind != sign || o < 0 {
		return nil, wrong(p.token.at, "how to compare is expected after %s, not %s: %s",
			fieldNames[f], p.token, enumerate(opNames[:]))
	}
	n.op = op(o)
	for {
		p.regular = n.op == matches
		err := p.next()
		p.regular = false
		switch {
		case err != nil:
			return nil, err
		case n.op == exists:
			return compare(n, p.token.at)
		case n.flag(p.token):
			continue
		}
		value := p.token
		n.value = value.text
		isText := value.kind == quoted || value.kind == slashed
		if !isText && (value.kind != word || n.op.textual() && n.field <= anyField) {
			return nil, wrong(value.at, `a value is expected after %s, not %s; texts stand between two "`,
				opNames[n.op], value)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		return compare(n, value.at)
	}
}

// flag takes a word that says what counts, and reports whether it was one.
func (n *node) flag(t token) bool {
	if t.kind != word {
		return false
	}
	switch t.text {
	case "words":
		n.words = true
	case "case":
		n.form |= text.KeepCase
	case "accents":
		n.form |= text.KeepAccents
	default:
		return false
	}
	return true
}

func enumerate(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// String returns the rule in its textual form, in one line.
func (r *Rule) String() string { return string(r.root.append(nil)) }

// append writes n as text.
func (n *node) append(b []byte) []byte {
	switch n.kind {
	case not:
		return n.parts[0].appendWithin(append(b, "not "...), not)
	case allOf, anyOf:
		for i, p := range n.parts {
			if i > 0 {
				b = append(b, map[kind]string{allOf: " and ", anyOf: " or "}[n.kind]...)
			}
			b = p.appendWithin(b, n.kind)
		}
		return b
	}
	b = append(b, fieldNames[n.field]...)
	b = append(b, ' ')
	b = append(b, opNames[n.op]...)
	for _, flag := range n.flags() {
		b = append(b, ' ')
		b = append(b, flag...)
	}
	switch {
	case n.op == exists:
		return b
	case n.op == matches && !strings.ContainsAny(n.value, "/\n\r") && n.value != "":
		b = append(b, " /"...)
		b = append(b, n.value...)
		return append(b, '/')
	case n.field <= anyField:
		return append(append(b, ' '), quote(n.value)...)
	}
	return append(append(b, ' '), n.value...)
}

// appendWithin writes n as a part of a group, in parentheses where these say what belongs together.
func (n *node) appendWithin(b []byte, within kind) []byte {
	if n.kind == anyOf || n.kind == allOf && within == not {
		return append(n.append(append(b, '(')), ')')
	}
	return n.append(b)
}

// flags returns the words that say what counts.
func (n *node) flags() (flags []string) {
	if n.words {
		flags = append(flags, "words")
	}
	if n.form&text.KeepCase != 0 {
		flags = append(flags, "case")
	}
	if n.form&text.KeepAccents != 0 {
		flags = append(flags, "accents")
	}
	return flags
}

// quote writes a text as JSON does.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("BUG: a text is no JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

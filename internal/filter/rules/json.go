package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MarshalJSON writes the rule in its JSON form.
func (r *Rule) MarshalJSON() ([]byte, error) { return r.root.appendJSON(nil), nil }

func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case not:
		return append(n.parts[0].appendJSON(append(b, `{"not":`...)), '}')
	case allOf, anyOf:
		b = append(b, map[kind]string{allOf: `{"all":[`, anyOf: `{"any":[`}[n.kind]...)
		for i, p := range n.parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = p.appendJSON(b)
		}
		return append(b, "]}"...)
	}
	b = append(b, `{"field":`...)
	b = append(b, quote(fieldNames[n.field])...)
	b = append(b, `,"op":`...)
	b = append(b, quote(opNames[n.op])...)
	if n.op != exists {
		b = append(b, `,"value":`...)
		b = append(b, quote(n.value)...)
	}
	for _, flag := range n.flags() {
		b = append(b, `,"`+flag+`":true`...)
	}
	return append(b, '}')
}

// UnmarshalJSON reads the JSON form of a rule, or a JSON text that holds its textual form. The error is a
// *SyntaxError, with the place in the JSON, or in the text.
func (r *Rule) UnmarshalJSON(b []byte) error {
	p := jsonParser{source: b, Decoder: json.NewDecoder(bytes.NewReader(b))}
	p.UseNumber()
	at, err := p.next()
	if err != nil {
		return err
	}
	if s, ok := p.token.(string); ok {
		parsed, err := Parse(s)
		if err == nil {
			*r = *parsed
		}
		return err
	}
	if r.root, err = p.node(at); err != nil {
		return err
	}
	if end := skipBlank(b, int(p.InputOffset())); end < len(b) {
		return wrong(p.place(end), "nothing may follow the rule")
	}
	return nil
}

// jsonParser reads rules in their JSON form.
type jsonParser struct {
	source []byte
	*json.Decoder
	token json.Token
	depth int
}

// place returns the place of a byte.
func (p *jsonParser) place(offset int) Place {
	before := p.source[:min(offset, len(p.source))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return Place{bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[line:]) + 1}
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \t\r\n", b[i]) >= 0 {
		i++
	}
	return i
}

// next reads a token, and returns its place.
func (p *jsonParser) next() (Place, error) {
	start := skipBlank(p.source, int(p.InputOffset()))
	for start < len(p.source) && (p.source[start] == ',' || p.source[start] == ':') {
		start = skipBlank(p.source, start+1)
	}
	at := p.place(start)
	var err error
	if p.token, err = p.Token(); err == nil {
		return at, nil
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return at, wrong(p.place(len(p.source)), "it ends before its JSON does")
	} else if ok {
		at = p.place(int(max(1, syntax.Offset)) - 1)
	}
	return at, wrong(at, "it is not JSON: %s", err)
}

// members are those of a rule. Of the first four there is one.
var members = []string{"all", "any", "not", "field", "op", "value", "words", "case", "accents"}

// node reads a rule whose first token, at a place, has been read.
func (p *jsonParser) node(at Place) (*node, error) {
	if p.token != json.Delim('{') {
		return nil, wrong(at, `an object is expected: {"field": "title", "op": "contains", "value": "go"}, `+
			`or one with all, any or not`)
	}
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, wrong(at, "there are more than %d groups in each other", maxDepth)
	}
	var made *node
	comparison := node{at: at}
	places := make(map[string]Place)
	for p.More() {
		nameAt, err := p.next()
		if err != nil {
			return nil, err
		}
		name := p.token.(string)
		if !slices.Contains(members, name) {
			return nil, wrong(nameAt, "there is no member %s: a rule has %s",
				shorten(name), enumerate(members))
		}
		if _, twice := places[name]; twice {
			return nil, wrong(nameAt, "%s is there twice", name)
		}
		valueAt, err := p.next()
		if err != nil {
			return nil, err
		}
		places[name] = valueAt
		var of string // the type that is expected
		switch name {
		case "all", "any":
			made, err = p.group(map[string]kind{"all": allOf, "any": anyOf}[name], at, valueAt)
		case "not":
			var part *node
			if part, err = p.node(valueAt); err == nil {
				made = group(not, at, part)
			}
		case "words", "case", "accents":
			on, ok := p.token.(bool)
			if on {
				comparison.flag(token{kind: word, text: name})
			} else if !ok {
				of = "true or false"
			}
		default:
			of, err = p.member(&comparison, name, valueAt)
		}
		if of != "" {
			return nil, wrong(valueAt, "%s is %s", name, of)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := p.next(); err != nil { // the }
		return nil, err
	}
	has := func(name string) bool { _, ok := places[name]; return ok }
	switch {
	case made != nil && len(places) > 1:
		return nil, wrong(at, "of all, any, not and field a rule has one, "+
			"and the other members belong to field")
	case made != nil:
		return made, nil
	case !has("field") || !has("op"):
		return nil, wrong(at, "the rule lacks field or op, or has to have all, any or not")
	case has("value") == (comparison.op == exists):
		return nil, wrong(at, "a value belongs to every op but exists")
	}
	comparison.at = places["field"]
	return compare(comparison, places["value"])
}

// member takes the field, op or value of a comparison. It returns what is expected where that is something
// else.
func (p *jsonParser) member(n *node, name string, at Place) (of string, err error) {
	s, ok := p.token.(string)
	switch name {
	case "field":
		f := slices.Index(fieldNames[:], s)
		if !ok || f < 0 {
			return "", wrong(at, "a field is expected: %s", enumerate(fieldNames[:]))
		}
		n.field = field(f)
	case "op":
		o := slices.Index(opNames[:], s)
		if !ok || o < 0 {
			return "", wrong(at, "how to compare is expected: %s", enumerate(opNames[:]))
		}
		n.op = op(o)
	case "value":
		number, isNumber := p.token.(json.Number)
		if !ok && !isNumber {
			return "a text, or a number of bytes", nil
		}
		n.value = s + number.String()
	}
	return "", nil
}

// group reads the list of a group's rules, whose first token, at a place, has been read.
func (p *jsonParser) group(k kind, at, listAt Place) (*node, error) {
	if p.token != json.Delim('[') {
		return nil, wrong(listAt, "a list of rules is expected")
	}
	var parts []*node
	for p.More() {
		partAt, err := p.next()
		if err != nil {
			return nil, err
		}
		part, err := p.node(partAt)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if _, err := p.next(); err != nil { // the ]
		return nil, err
	}
	if len(parts) == 0 {
		return nil, wrong(listAt, "a group of no rules decides nothing")
	}
	return group(k, at, parts...), nil
}

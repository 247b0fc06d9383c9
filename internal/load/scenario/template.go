package scenario

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// piece is text, or a column of the variables' file in the form that its place in a request wants.
type piece struct {
	text   []byte
	values *values
	taken  *taken
}

// taken is a value that a request has taken from an answer, by its slot.
type taken struct {
	slot int
	form form
}

// in returns the value in its form, nothing where it has none: an answer may be anything.
func (t *taken) in(all []string) []byte {
	if t.slot >= len(all) {
		return nil
	}
	text, err := t.form.append(nil, all[t.slot])
	if err != nil {
		return nil
	}
	return text
}

func (p *piece) fixed() bool { return p.values == nil && p.taken == nil }

// appendPieces appends the pieces, with the variables of a row.
func appendPieces(b []byte, pieces []piece, row int, all []string) []byte {
	for i := range pieces {
		switch p := &pieces[i]; {
		case p.values != nil:
			b = append(b, p.values.at(row)...)
		case p.taken != nil:
			b = append(b, p.taken.in(all)...)
		default:
			b = append(b, p.text...)
		}
	}
	return b
}

// sizeOf is how many bytes the pieces have with the variables of a row.
func sizeOf(pieces []piece, row int, all []string) int {
	n := 0
	for i := range pieces {
		if p := &pieces[i]; p.values != nil {
			n += len(p.values.at(row))
		} else if p.taken != nil {
			n += len(p.taken.in(all))
		} else {
			n += len(p.text)
		}
	}
	return n
}

func merge(pieces []piece) []piece {
	var merged []piece
	for _, p := range pieces {
		switch last := len(merged) - 1; {
		case p.fixed() && len(p.text) == 0:
		case p.fixed() && last >= 0 && merged[last].fixed():
			merged[last].text = append(merged[last].text, p.text...)
		case p.fixed():
			merged = append(merged, piece{text: append([]byte(nil), p.text...)})
		default:
			merged = append(merged, p)
		}
	}
	return merged
}

// variable is a {{name}} or {{{name}}} of a template.
type variable struct {
	name string
	raw  bool // three braces
}

// template is text with variables: texts[0], variables[0], texts[1], and so on; there is a text more than
// variables.
type template struct {
	texts     []string
	variables []variable
}

// parseTemplate takes text apart. Two braces that are not closed in their line are text.
func parseTemplate(text string) (template, error) {
	var t template
	from, at := 0, 0
	for {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			break
		}
		open += at
		length := strings.IndexAny(text[open+2:], "}\n\r")
		if strings.HasPrefix(text[open:], "{{{") {
			length = strings.IndexAny(text[open+3:], "}\n\r") + 1
		}
		end := open + 2 + length
		if length < 0 || length == 0 && text[open+2] == '{' || !strings.HasPrefix(text[end:], "}}") {
			at = open + 1
			continue
		}
		v := variable{name: text[open+2 : end]}
		end += 2
		if inner, ok := strings.CutPrefix(v.name, "{"); ok {
			v.name = inner
			if strings.HasPrefix(text[end:], "}") {
				v.raw = true
				end++
			} else {
				open++ // a brace, and then a variable
			}
		}
		if strings.Contains(v.name, "{") {
			at = open + 1
			continue
		}
		if v.name = strings.TrimSpace(v.name); v.name == "" {
			return t, fmt.Errorf(
				"a variable without a name at byte %d: expected {{name}}, with the name of a column", open+1)
		}
		t.texts = append(t.texts, text[from:open])
		t.variables = append(t.variables, v)
		from, at = end, end
	}
	t.texts = append(t.texts, text[from:])
	return t, nil
}

// join writes the template with something in place of its variables.
func (t template) join(with string) string { return strings.Join(t.texts, with) }

// pieces makes the template's pieces, with all variables in one form.
func (t template) pieces(v *vars, form func(variable) form) ([]piece, error) {
	pieces := []piece{{text: []byte(t.texts[0])}}
	for i, name := range t.variables {
		f := form(name)
		if slot := v.slot(name.name); slot >= 0 {
			pieces = append(pieces, piece{taken: &taken{slot, f}}, piece{text: []byte(t.texts[i+1])})
			continue
		}
		values, err := v.column(name.name, f)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece{values: values}, piece{text: []byte(t.texts[i+1])})
	}
	return pieces, nil
}

// parse takes text apart. One URL without --vars is what it says.
func (b *builder) parse(text string) (template, error) {
	if b.spec.URL != "" && b.spec.Vars == "" {
		return template{texts: []string{text}}, nil
	}
	return parseTemplate(text)
}

// urlPieces makes a request line's method and target of a URL with variables: {{name}} is percent-encoded,
// {{{name}}} is taken as it is, and may then be the whole path at --target.
func (b *builder) urlPieces(v *vars, method, text string) (place, []piece, error) {
	t, err := b.parse(text)
	if err != nil {
		return place{}, nil, err
	}
	path := false
	if len(t.variables) > 0 && t.texts[0] == "" {
		if !t.variables[0].raw {
			return place{}, nil,
				fmt.Errorf("the URL begins with {{%s}}, which is percent-encoded: write {{{%[1]s}}} for a "+
					"whole path, or put / before it", t.variables[0].name)
		}
		path = true
		t.texts[0] = "/" // taken away below
	}
	mark := unused(text)
	marked := t.join(mark)
	if path {
		marked = "/" + strings.TrimPrefix(marked, "/"+mark)
	}
	at, target, err := b.locate(marked, mark)
	if err != nil {
		return place{}, nil, err
	}
	if path {
		target = at.prefix + mark + strings.TrimPrefix(target, at.prefix+"/")
	}
	texts := strings.Split(method+" "+target, mark)
	if len(texts) != len(t.texts) {
		return place{}, nil,
			fmt.Errorf("a variable cannot stand behind a #, as that part of a URL is not sent: %q", text)
	}
	t.texts = texts
	pieces, err := t.pieces(v, func(x variable) form {
		if path {
			path = false
			return formPath
		}
		if x.raw {
			return formRawURL
		}
		return formURL
	})
	return at, pieces, err
}

// quotedRaw is a text in JSON that is nothing but {{{name}}}. A quote within a text has a backslash before
// it.
var quotedRaw = regexp.MustCompile(`(^|[^\\])"(\{\{\{[^{}"\\\n\r]+\}\}\})"`)

// bodyPieces makes a body, and says whether it is JSON. In JSON a variable within a text is escaped, and
// one outside of any, or that is "{{{name}}}" with nothing else in the quotes, must be a JSON value itself.
func (b *builder) bodyPieces(v *vars, text string) (pieces []piece, isJSON bool, err error) {
	t, err := b.parse(text)
	if err != nil {
		return nil, false, err
	}
	isJSON = json.Valid([]byte(t.join("0")))
	if len(t.variables) > 0 {
		unquoted, err := b.parse(quotedRaw.ReplaceAllString(text, "$1$2"))
		if err == nil && json.Valid([]byte(unquoted.join("0"))) {
			t, isJSON = unquoted, true
		}
	}
	i, inside := 0, false
	pieces, err = t.pieces(v, func(variable) form {
		inside = inText(t.texts[i], inside)
		i++
		switch {
		case !isJSON:
			return formText
		case inside:
			return formString
		}
		return formJSON
	})
	return pieces, isJSON, err
}

// inText says whether what follows a part of a JSON document is within a text, given whether that part
// began in one.
func inText(part string, inside bool) bool {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '"':
			inside = !inside
		case '\\':
			i++
		}
	}
	return inside
}

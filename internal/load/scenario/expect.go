package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/internal/load/client"
)

// expectation is what the answer to a request of a file has to be.
type expectation struct {
	Status json.RawMessage            `json:"status"` // a code or several
	Header map[string]string          `json:"header"` // values that fields contain
	Body   string                     `json:"body"`   // text that the body contains
	JSON   map[string]json.RawMessage `json:"json"`   // values at paths, as in "items.0.id"

	codes []int
	paths map[string]any
}

// capture says where in an answer a value is that later requests use: "json:items.0.id" or "header:Location".
type capture struct{ name, from string }

func (e *expectation) compile() error {
	if len(e.Status) > 0 {
		var one int
		if json.Unmarshal(e.Status, &one) == nil {
			e.codes = []int{one}
		} else if json.Unmarshal(e.Status, &e.codes) != nil {
			return fmt.Errorf("status: expected a code or an array of them, as in 200 or [200,204], got %s",
				e.Status)
		}
	}
	e.paths = make(map[string]any)
	for path, raw := range e.JSON {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil || path == "" {
			return fmt.Errorf("json: expected values by path, as in {\"items.0.id\":7}")
		}
		e.paths[path] = v
	}
	return nil
}

func (e *expectation) judge(r *http.Response, body []byte) error {
	if len(e.codes) == 0 && r.StatusCode >= 400 || len(e.codes) > 0 &&
		!slices.Contains(e.codes, r.StatusCode) {
		return fmt.Errorf("status %d", r.StatusCode)
	}
	for name, want := range e.Header {
		if got := strings.Join(r.Header.Values(name), ", "); !strings.Contains(got, want) {
			return fmt.Errorf("header %s is %.60q and has no %.60q", name, got, want)
		}
	}
	if !strings.Contains(string(body), e.Body) {
		return fmt.Errorf("the body has no %.60q", e.Body)
	}
	if len(e.paths) == 0 {
		return nil
	}
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return errors.New("the body is no JSON")
	}
	for path, want := range e.paths {
		got, ok := at(tree, path)
		if !ok {
			return fmt.Errorf("the body has no %s", path)
		}
		if x, y := textOf(got), textOf(want); x != y {
			return fmt.Errorf("%s is %.60s, expected %.60s", path, x, y)
		}
	}
	return nil
}

// at follows a path of names and indices by dots.
func at(tree any, path string) (any, bool) {
	for step := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil, false
			}
			tree = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			tree = node[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

// textOf writes a value as a request has it: texts as they are.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: what was JSON is none: " + err.Error())
	}
	return string(text)
}

// parseTakes reads {"token":"json:token"}, in the order of the names.
func parseTakes(raw map[string]string) ([]capture, error) {
	var takes []capture
	for name, from := range raw {
		kind, what, ok := strings.Cut(from, ":")
		if !ok || what == "" || kind != "json" && kind != "header" || strings.ContainsAny(name, "{}\r\n") ||
			strings.TrimSpace(name) != name || name == "" {
			return nil, fmt.Errorf(
				"take: expected names and where their values are, as in "+
					`{"token":"json:token"} or {"next":"header:Location"}, got %q: %q`, name, from)
		}
		takes = append(takes, capture{name, from})
	}
	slices.SortFunc(takes, func(a, b capture) int { return strings.Compare(a.name, b.name) })
	return takes, nil
}

func (t capture) of(r *http.Response, body []byte) (string, error) {
	kind, what, _ := strings.Cut(t.from, ":")
	if kind == "header" {
		if v := r.Header.Get(what); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the answer has no header %s to take %s from", what, t.name)
	}
	var tree any
	if json.Unmarshal(body, &tree) == nil {
		if v, ok := at(tree, what); ok {
			return textOf(v), nil
		}
	}
	return "", fmt.Errorf("the body has no %s to take %s from", what, t.name)
}

// fileMaker makes a thread's requests of a file, with the values that the thread has taken from answers.
type fileMaker struct {
	*requests
	taken []string // by slot
	is    []bool
}

// make implements maker. A request that needs a value which nothing has brought yet gives its turn to the
// one that takes it.
func (m *fileMaker) make(wire []byte, k uint64) (out []byte, r client.Request) {
	i, row := m.choose(k)
	for range m.all { // the taker may need a value itself
		missing := slices.IndexFunc(m.all[i].needs, func(slot int) bool { return !m.is[slot] })
		if missing < 0 {
			break
		}
		i = m.takers[m.all[i].needs[missing]]
	}
	q := &m.all[i]
	return q.append(wire, row, m.taken), client.Request{Target: q.at.index, Part: min(i, maxParts-1)}
}

func (m *fileMaker) judge(line int, r *http.Response, body []byte) error {
	q := &m.all[line]
	if q.expect == nil && len(q.takes) == 0 {
		return nil
	}
	if q.expect != nil {
		if err := q.expect.judge(r, body); err != nil {
			return err
		}
	} else if r.StatusCode >= 400 {
		return nil // counted by its status
	}
	for i, t := range q.takes {
		v, err := t.of(r, body)
		if err != nil {
			return err
		}
		m.taken[q.slots[i]], m.is[q.slots[i]] = v, true
	}
	return nil
}

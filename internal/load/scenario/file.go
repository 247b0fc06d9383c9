package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"weir/internal/strictjson"
)

// request is one to make, with what is filled in.
type request struct {
	at   place
	head []piece // all of it; up to the number of Content-Length if there is a body
	body []piece // with variables; one without is part of head
	hint string

	name   string
	expect *expectation
	takes  []capture
	slots  []int // of takes
	needs  []int // slots that it uses
}

// append appends the request with the variables of a row, and what was taken from answers.
func (r *request) append(wire []byte, row int, taken []string) []byte {
	wire = appendPieces(wire, r.head, row, taken)
	if r.body == nil {
		return wire
	}
	wire = appendLength(wire, sizeOf(r.body, row, taken))
	return appendPieces(wire, r.body, row, taken)
}

type wanted struct {
	method, url string
	fields      []field
	body        string
	hasBody     bool
}

// request checks what is wanted and makes a request of it.
func (b *builder) request(v *vars, w wanted) (request, error) {
	method := cmp.Or(w.method, map[bool]string{false: "GET", true: "POST"}[w.hasBody])
	if err := checkMethod(method); err != nil {
		return request{}, fmt.Errorf("method: %w", err)
	}
	var r request
	var err error
	if r.at, r.head, err = b.urlPieces(v, method, w.url); err != nil {
		return r, fmt.Errorf("url: %w", err)
	}
	body, isJSON, err := b.bodyPieces(v, w.body)
	if err != nil {
		return r, fmt.Errorf("body: %w", err)
	}
	fields := w.fields
	for _, f := range b.fields { // of --header, unless the request has its own
		if !has(w.fields, f.name) {
			fields = append(slices.Clip(fields), f)
		}
	}
	if w.hasBody && isJSON {
		fields = with(fields, field{"Content-Type", "application/json"})
	}
	r.head = append(r.head, piece{text: appendFields(nil, r.at.host, nil)})
	for _, f := range fields {
		t, err := b.parse(f.value)
		if err == nil {
			var value []piece
			if value, err = t.pieces(v, func(variable) form { return formField }); err == nil {
				r.head = append(append(append(r.head, piece{text: []byte(f.name + ": ")}), value...),
					piece{text: []byte("\r\n")})
			}
		}
		if err != nil {
			return r, fmt.Errorf("header %s: %w", f.name, err)
		}
	}
	switch body = merge(body); {
	case len(body) > 1 || len(body) == 1 && !body[0].fixed():
		r.body = body
	case w.hasBody || method == "POST" || method == "PUT" || method == "PATCH":
		var text []byte
		if len(body) == 1 {
			text = body[0].text
		}
		r.head = append(r.head, piece{text: append(appendLength(nil, len(text)), text...)})
	default:
		r.head = append(r.head, piece{text: []byte("\r\n")})
	}
	r.head = merge(r.head)
	for _, p := range append(slices.Clone(r.head), r.body...) {
		if p.taken != nil && !slices.Contains(r.needs, p.taken.slot) {
			r.needs = append(r.needs, p.taken.slot)
		}
	}
	return r, nil
}

// requests are those of a file, or a single one.
type requests struct {
	all     []request
	weights []uint64 // running sums; nil where the requests take turns
	rows    int      // of variables
	random  bool     // which row
	pick    dice     // a request
	row     dice
	text    string
	takers  []int // the request that takes the value of a slot
	judges  bool  // some answers are looked at
}

func (b *builder) url() (kind, error) {
	w := wanted{method: b.spec.Method, url: b.spec.URL, body: b.spec.Body, hasBody: b.spec.Body != ""}
	q, v, err := b.requests()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(w.url, "://") {
		return nil, fmt.Errorf("%q is no URL: expected one as in http://127.0.0.1:8080/feed/1", w.url)
	}
	if err := checkMethod(cmp.Or(w.method, "GET")); err != nil {
		return nil, fmt.Errorf("--method: %w", err)
	}
	r, err := b.request(v, w)
	if err != nil {
		return nil, err
	}
	r.hint = "is the URL right?"
	q.all = []request{r}
	q.text = cmp.Or(w.method, map[bool]string{false: "GET", true: "POST"}[w.hasBody]) + " " + w.url
	return q, q.fill(v)
}

func (b *builder) file() (kind, error) {
	q, v, err := b.requests()
	if err != nil {
		return nil, err
	}
	lines, err := parseLines(b.spec.Requests, b.spec.RequestsText)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, l := range lines {
		for _, t := range l.takes {
			if slices.Contains(names, t.name) {
				return nil, fmt.Errorf("%s:%d: take: %s is taken twice", b.spec.Requests, l.number, t.name)
			}
			if v != nil && slices.Contains(v.columns, t.name) {
				return nil, fmt.Errorf("%s:%d: take: %s is a column of %s, too", b.spec.Requests, l.number,
					t.name, v.name)
			}
			names = append(names, t.name)
			q.takers = append(q.takers, i)
		}
	}
	if names != nil && v == nil {
		v = new(vars)
	}
	if v != nil {
		v.takes = names
	}
	weighted, sum := false, 0.0
	for _, l := range lines {
		r, err := b.request(v, l.wanted)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", b.spec.Requests, l.number, err)
		}
		r.hint = fmt.Sprintf("is line %d of %s right?", l.number, b.spec.Requests)
		r.name, r.expect, r.takes = l.name, l.expect, l.takes
		for _, t := range l.takes {
			r.slots = append(r.slots, slices.Index(names, t.name))
		}
		q.judges = q.judges || l.expect != nil || len(l.takes) > 0
		q.all = append(q.all, r)
		weighted = weighted || l.weight != nil
		sum += l.share()
	}
	if q.judges && len(q.all) > maxParts {
		return nil, fmt.Errorf(
			"%s: expect and take are for files of at most %d requests, and this one has %d", b.spec.Requests,
			maxParts, len(q.all))
	}
	if weighted {
		upTo := 0.0
		for _, l := range lines {
			upTo += l.share()
			q.weights = append(q.weights, uint64(upTo/sum*(1<<53)))
		}
		q.weights[len(q.weights)-1] = 1 << 53
	}
	q.text = fmt.Sprintf("requests: %d of %s, %s", len(q.all), b.spec.Requests,
		map[bool]string{true: "by weight", false: "in turn"}[weighted])
	if v != nil && v.columns != nil {
		q.text += ", with variables of " + b.spec.Vars
	}
	return q, q.fill(v)
}

// requests begins with the variables.
func (b *builder) requests() (*requests, *vars, error) {
	q := &requests{random: b.spec.VarsOrder == random, pick: newDice(b.spec.Seed, "requests"),
		row: newDice(b.spec.Seed, "rows")}
	if b.spec.Vars == "" {
		return q, nil, nil
	}
	v, err := openVars(b.spec.Vars, b.spec.VarsText)
	return q, v, err
}

// fill reads the variables, now that it is known which.
func (q *requests) fill(v *vars) error {
	q.rows = 1
	if v == nil || v.columns == nil {
		return nil
	}
	if len(v.used) == 0 {
		return fmt.Errorf("no request has a variable of %s: write {{%s}} where its values belong, or leave "+
			"--vars out", v.name, v.columns[0])
	}
	err := v.fill()
	q.rows = v.rows
	return err
}

func (q *requests) String() string { return q.text }

func (q *requests) maker(uint64) maker {
	return &fileMaker{requests: q, taken: make([]string, len(q.takers)), is: make([]bool, len(q.takers))}
}

// maxParts is how many requests of a file are counted apart; those beyond count as the last.
const maxParts = 100

func (q *requests) parts() []string {
	if len(q.all) < 2 {
		return []string{"requests"}
	}
	var names []string
	for i := range min(len(q.all), maxParts) {
		names = append(names, q.all[i].name)
	}
	if len(q.all) > maxParts {
		names[maxParts-1] = "all further requests"
	}
	return names
}

func (q *requests) samples() []sample {
	var samples []sample
	for i := range min(len(q.all), maxSamples) {
		r := &q.all[i]
		if len(r.needs) > 0 {
			continue // what it needs is known only during the run
		}
		samples = append(samples, sample{r.append(nil, 0, nil), r.at.index, r.hint})
	}
	return samples
}

// choose returns request number k and its row. Where requests take turns, all of a turn have the same row
// of variables.
func (q *requests) choose(k uint64) (i, row int) {
	turn := k
	switch n := uint64(len(q.all)); {
	case q.weights != nil:
		r := q.pick.at(k) >> 11
		i = sort.Search(len(q.weights)-1, func(i int) bool { return r < q.weights[i] })
	case n > 1:
		i, turn = int(k%n), k/n
	}
	if rows := uint64(q.rows); q.random {
		row = int(below(q.row.at(turn), rows))
	} else if rows > 1 {
		row = int(turn % rows)
	}
	return i, row
}

type line struct {
	wanted
	number int
	weight *float64
	name   string
	expect *expectation
	takes  []capture
}

func (l line) share() float64 {
	if l.weight == nil {
		return 1
	}
	return *l.weight
}

const whatALineIs = "expected one JSON object a line with url, and method, headers, body, weight, name, " +
	`expect and take if need be, as in {"url":"/feed/1"}`

func parseLines(name, text string) ([]line, error) {
	var lines []line
	number := 0
	for row := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		if row = strings.TrimSpace(row); row == "" {
			continue
		}
		l, err := parseLine(row)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		l.number = number
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: the file has no requests: %s", name, whatALineIs)
	}
	return lines, nil
}

func parseLine(text string) (line, error) {
	var raw struct {
		Method  string          `json:"method"`
		URL     string          `json:"url"`
		Headers json.RawMessage `json:"headers"`
		Body    json.RawMessage `json:"body"`
		Weight  *float64        `json:"weight"`

		Name   string            `json:"name"`
		Expect *expectation      `json:"expect"`
		Take   map[string]string `json:"take"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&raw)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("something follows the object at byte %d", d.InputOffset()+1)
		}
	}
	if err != nil {
		return line{}, fmt.Errorf("%w: %s", strictjson.Plain(err), whatALineIs)
	}
	l := line{wanted: wanted{method: raw.Method, url: raw.URL}, weight: raw.Weight}
	if raw.URL == "" {
		return l, fmt.Errorf("url is missing: %s", whatALineIs)
	}
	if w := l.share(); !(w > 0) || math.IsInf(w, 0) {
		return l, fmt.Errorf("weight must be more than 0, got %v", w)
	}
	if l.expect = raw.Expect; l.expect != nil {
		if err := l.expect.compile(); err != nil {
			return l, fmt.Errorf("expect: %w", err)
		}
	}
	if l.takes, err = parseTakes(raw.Take); err != nil {
		return l, err
	}
	l.name = cmp.Or(raw.Name,
		cmp.Or(raw.Method, map[bool]string{false: "GET", true: "POST"}[len(raw.Body) > 0])+" "+raw.URL)
	if l.fields, err = parseHeaders(raw.Headers); err != nil {
		return l, fmt.Errorf("headers: %w", err)
	}
	if len(raw.Body) > 0 && !bytes.Equal(raw.Body, []byte("null")) {
		l.hasBody = true
		if raw.Body[0] != '"' {
			l.body = string(raw.Body)
		} else if err := json.Unmarshal(raw.Body, &l.body); err != nil {
			return l, fmt.Errorf("body: %w", err)
		}
	}
	return l, nil
}

// parseHeaders reads {"Name":"value"}, where a value may be an array of them, in the order of the names.
func parseHeaders(raw json.RawMessage) ([]field, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, errors.New(`expected an object of names and values, as in {"Accept":"text/html"}`)
	}
	var fields []field
	for name, raw := range values {
		var one string
		var several []string
		if json.Unmarshal(raw, &one) == nil {
			several = []string{one}
		} else if json.Unmarshal(raw, &several) != nil {
			return nil, fmt.Errorf(
				"%s must be a text, or an array of texts for a header that is there several times", name)
		}
		for _, value := range several {
			f := field{name, strings.Trim(value, " \t")}
			if err := f.check(); err != nil {
				return nil, err
			}
			fields = append(fields, f)
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields, nil
}

package bandit

import (
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/internal/bandit/arms"
)

// splitInference cuts a body into its JSON and what follows that by the header's value, nil for none.
func splitInference(length, body []byte) (head, raw []byte, err error) {
	if length == nil {
		return body, nil, nil
	}
	n, err := strconv.ParseUint(string(length), 10, 63)
	if err != nil || n > uint64(len(body)) {
		return nil, nil, &badRequest{http.StatusBadRequest, headerLength +
			" must be the number of bytes of JSON that the body begins with, at most its " +
			strconv.Itoa(len(body))}
	}
	return body[:n], body[n:], nil
}

// parseInference reads a request into sc.query and sc.inference. With texts it keeps the ids too, which a
// feature store is asked for. When there are more than most items it reads none of them and returns
// errMany.
func (b *Bandit) parseInference(sc *scratch, head, raw []byte, texts bool, most int) error {
	s, in, q := &sc.scanner, &sc.inference, &sc.query
	s.reset(head)
	q.reset()
	*in = inference{}
	if err := s.inference(in, q); err != nil {
		return err
	}
	if err := s.End(); err != nil {
		return err
	}
	for _, t := range in.order[:in.tensors] { // binary data are in the order of the inputs
		if !t.hasRaw {
			continue
		}
		if t.rawSize > uint64(len(raw)) {
			return &badRequest{422, "the binary data end before those that binary_data_size says"}
		}
		t.raw, raw = raw[:t.rawSize], raw[t.rawSize:]
	}
	if len(raw) > 0 {
		return &badRequest{422, strconv.Itoa(len(raw)) +
			" bytes of binary data are no input's: binary_data_size says less"}
	}
	if !in.has[0] {
		return &badRequest{422, `inputs must have a tensor "items"`}
	}
	var err error
	for i, one := range []struct {
		name string
		t    *tensor
		to   *[]byte
	}{{"user", &in.user, &q.user}, {"segment", &in.segment, &q.segment}} {
		if !in.has[i+1] {
			continue
		}
		s.list, s.listed, s.field, s.element = "", -1, one.name, -1
		if one.t.size != 1 {
			return s.wrong("a tensor of one element")
		}
		q.items, q.keys = q.items[:0], q.keys[:0]
		if err = s.elements(one.t, q, true); err != nil {
			return err
		}
		*one.to = q.items[0].text
	}
	q.items, q.keys = q.items[:0], q.keys[:0]
	s.field = "items"
	if limit := b.live.Load().MaxItems; in.items.size == 0 || in.items.size > uint64(limit) {
		return s.wrong("a tensor of 1 to " + strconv.Itoa(limit) + " elements (--bandit-max-items)")
	}
	if in.items.size > uint64(most) {
		return errMany
	}
	return s.elements(&in.items, q, texts || in.naming(q))
}

// naming reports whether the answer has items.
func (in *inference) naming(q *query) bool {
	return q.top > 0 || in.outputs[itemsOutput].asked || in.outputs[scoresOutput].classes > 0
}

// inference reads the JSON of a request.
func (s *scanner) inference(in *inference, q *query) error {
	return s.presentMembers(func(key []byte) error {
		switch string(key) {
		case "id":
			s.field = "id"
			if s.Space() != '"' {
				return s.wrongValue("a text")
			}
			from := s.I
			_, err := s.Text()
			in.id = s.B[from:s.I]
			return err
		case "parameters":
			return s.inferenceParameters(in, q)
		case "inputs":
			return s.eachObject("inputs", func() error { return s.input(in) })
		case "outputs":
			return s.eachObject("outputs", func() error { return s.output(in) })
		}
		return s.Skip()
	})
}

// presentMembers calls do for every member of an object that is not null: clients write null for what they
// leave out.
func (s *scanner) presentMembers(do func(key []byte) error) error {
	return s.object(func(key []byte) error {
		if null, err := s.Null(); null || err != nil {
			return err
		}
		return do(key)
	})
}

// eachObject calls do for every element of an array, with the scanner before it.
func (s *scanner) eachObject(name string, do func() error) error {
	s.field = name
	if s.Space() != '[' {
		return s.wrongValue("an array of tensors")
	}
	s.I++
	s.list, s.listed, s.field = name, 0, ""
	for more := s.First(']'); more; s.listed++ {
		if err := do(); err != nil {
			return err
		}
		var err error
		if more, err = s.Next(']'); err != nil {
			return err
		}
		s.field = ""
	}
	s.list, s.listed = "", -1
	return nil
}

func (s *scanner) inferenceParameters(in *inference, q *query) error {
	s.field = "parameters"
	return s.presentMembers(func(key []byte) (err error) {
		switch string(key) {
		case "seed":
			s.field, q.seeded = "parameters.seed", true
			q.seed, err = s.uint(0, math.MaxUint64, "a whole number from 0 to 18446744073709551615")
		case "top":
			s.field, q.top = "parameters.top", 0
			var n uint64
			n, err = s.uint(1, math.MaxInt32, "a whole number from 1 on")
			q.top = int(n)
		case "binary_data_output":
			s.field = "parameters.binary_data_output"
			in.binary, err = s.bool()
		default:
			err = s.Skip()
		}
		return err
	})
}

// input reads one input; its data are left where they are.
func (s *scanner) input(in *inference) error {
	t := tensor{data: -1, size: 1}
	var name []byte
	err := s.presentMembers(func(key []byte) (err error) {
		switch string(key) {
		case "name":
			s.field = "name"
			if s.Space() != '"' {
				return s.wrongValue("a text")
			}
			name, err = s.Text()
		case "datatype":
			s.field = "datatype"
			var text []byte
			if s.Space() != '"' {
				return s.wrongValue("a text")
			}
			if text, err = s.Text(); err == nil {
				t.datatype = datatypeOf(text)
			}
		case "shape":
			s.field = "shape"
			err = s.shape(&t)
		case "parameters":
			s.field = "parameters"
			err = s.presentMembers(func(key []byte) (err error) {
				if string(key) != "binary_data_size" {
					return s.Skip()
				}
				s.field, t.hasRaw = "parameters.binary_data_size", true
				t.rawSize, err = s.uint(0, math.MaxInt64, "a number of bytes")
				return err
			})
		case "data":
			s.Space()
			t.data = s.I
			err = s.Skip()
		default:
			err = s.Skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	s.field = "name"
	var to *tensor
	var at int
	switch string(name) {
	case "items":
		to, at = &in.items, 0
	case "user":
		to, at = &in.user, 1
	case "segment":
		to, at = &in.segment, 2
	default:
		return s.wrong("items, user or segment")
	}
	if in.has[at] {
		return s.wrong("there once")
	}
	s.field = "datatype"
	if t.datatype == nil {
		return s.wrong("BYTES, INT64, UINT64, INT32 or UINT32")
	}
	s.field = "shape"
	if t.dims == 0 {
		return s.wrong("there: an array of sizes")
	}
	s.field = "data"
	if t.hasRaw == (t.data >= 0) {
		return s.wrong("there, or binary_data_size among the parameters, and not both")
	}
	in.has[at], *to = true, t
	in.order[in.tensors] = to
	in.tensors++
	return nil
}

// datatype is what the elements of a tensor are: texts, or whole numbers from -low to high.
type datatype struct {
	name, wanted string
	width        int // of a binary number, in bytes; 0 for texts
	low, high    uint64
}

var datatypes = [...]datatype{
	{"BYTES", "a text of 1 to 255 bytes, as its datatype says", 0, 0, 0},
	{"INT64", "a whole number from -9223372036854775808 to 9223372036854775807, as its datatype says", 8,
		1 << 63, math.MaxInt64},
	{"UINT64", "a whole number from 0 to 18446744073709551615, as its datatype says", 8, 0, math.MaxUint64},
	{"INT32", "a whole number from -2147483648 to 2147483647, as its datatype says", 4,
		1 << 31, math.MaxInt32},
	{"UINT32", "a whole number from 0 to 4294967295, as its datatype says", 4, 0, math.MaxUint32},
}

// datatypeOf returns nil if there is none of that name.
func datatypeOf(name []byte) *datatype {
	for i := range datatypes {
		if string(name) == datatypes[i].name {
			return &datatypes[i]
		}
	}
	return nil
}

// takes reports whether an id, as it was sent, is of the datatype.
func (d *datatype) takes(token []byte) bool {
	if quoted := token[0] == '"'; quoted || d.width == 0 {
		return quoted && d.width == 0
	}
	digits, most := token, d.high
	if token[0] == '-' {
		digits, most = token[1:], d.low
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	return err == nil && n <= most
}

func (s *scanner) shape(t *tensor) error {
	if s.Space() != '[' {
		return s.wrongValue("an array of sizes")
	}
	s.I++
	for more := s.First(']'); more; t.dims++ {
		n, err := s.uint(0, math.MaxInt32, "an array of sizes")
		if err != nil {
			return err
		}
		if t.size *= n; t.size > math.MaxInt32 {
			return s.wrong("of at most 2147483647 elements")
		}
		if more, err = s.Next(']'); err != nil {
			return err
		}
	}
	return nil
}

// output reads what is asked for.
func (s *scanner) output(in *inference) error {
	var o output
	to := -1
	err := s.presentMembers(func(key []byte) error {
		switch string(key) {
		case "name":
			s.field = "name"
			if s.Space() != '"' {
				return s.wrongValue("a text")
			}
			name, err := s.Text()
			if err == nil {
				if to = slices.Index(outputNames[:], string(name)); to < 0 {
					err = s.wrong("scores or items")
				}
			}
			return err
		case "parameters":
			s.field = "parameters"
			return s.presentMembers(func(key []byte) (err error) {
				switch string(key) {
				case "binary_data":
					s.field, o.said = "parameters.binary_data", true
					o.binary, err = s.bool()
				case "classification":
					s.field = "parameters.classification"
					var n uint64
					n, err = s.uint(0, math.MaxInt32, "a whole number")
					o.classes = int(n)
				default:
					err = s.Skip()
				}
				return err
			})
		}
		return s.Skip()
	})
	if err != nil {
		return err
	}
	if to < 0 {
		s.field = "name"
		return s.wrong("there: scores or items")
	}
	if to == itemsOutput && o.classes > 0 {
		s.field = "parameters.classification"
		return s.wrong("of scores")
	}
	o.asked = true
	in.outputs[to] = o
	return nil
}

// elements appends the ids of a tensor to q.keys, and with texts to q.items.
func (s *scanner) elements(t *tensor, q *query, texts bool) error {
	want := int(t.size)
	var err error
	if t.hasRaw {
		err = s.rawElements(t, q, texts, want)
	} else {
		s.I = t.data
		err = s.jsonElements(t, q, want, 0)
	}
	if err != nil {
		return err
	}
	s.element = -1
	if len(q.keys) != want {
		return s.wrong("a tensor of as many elements as its shape says, " + strconv.Itoa(want))
	}
	return nil
}

// jsonElements reads an array of ids, or one of such arrays.
func (s *scanner) jsonElements(t *tensor, q *query, want, depth int) error {
	s.Space()
	if s.B[s.I] != '[' || depth > 8 {
		return s.wrongValue("an array of ids")
	}
	s.I++
	for more := s.First(']'); more; {
		var err error
		if s.Space() == '[' {
			err = s.jsonElements(t, q, want, depth+1)
		} else {
			s.element = len(q.keys)
			var token, text []byte
			if s.element == want {
				s.element = -1
				return s.wrong("a tensor of as many elements as its shape says, " + strconv.Itoa(want))
			}
			if token, text, err = s.id(t.datatype.wanted); err == nil && !t.datatype.takes(token) {
				err = s.wrong(t.datatype.wanted)
			}
			q.items = append(q.items, item{token, text})
			q.keys = append(q.keys, arms.KeyOf(text))
		}
		if err != nil {
			return err
		}
		if more, err = s.Next(']'); err != nil {
			return err
		}
	}
	return nil
}

// rawElements reads binary elements.
func (s *scanner) rawElements(t *tensor, q *query, texts bool, want int) error {
	raw := t.raw
	width, signed := t.datatype.width, t.datatype.low > 0
	if width == 0 {
		for len(raw) > 0 {
			s.element = len(q.keys)
			if s.element == want {
				break // there are more than the shape says
			}
			if len(raw) < 4 || uint64(le.Uint32(raw)) > uint64(len(raw)-4) {
				return s.wrong("a length of 4 bytes and as many bytes")
			}
			text := raw[4 : 4+le.Uint32(raw)]
			if raw = raw[4+len(text):]; len(text) == 0 || len(text) > MaxID {
				return s.wrong(t.datatype.wanted)
			}
			if !utf8.Valid(text) {
				return s.wrong("text in UTF-8")
			}
			q.keys = append(q.keys, arms.KeyOf(text))
			if texts {
				q.items = append(q.items, item{text: text})
			}
		}
		if s.element = -1; len(raw) > 0 {
			return s.wrong("a tensor of as many elements as its shape says, " + strconv.Itoa(want))
		}
		return nil
	}
	if len(raw) != want*width {
		return s.wrong("of " + strconv.Itoa(want*width) +
			" bytes (binary_data_size), as its shape and datatype say")
	}
	if width == 8 && !texts {
		raw = q.wholeNumbers(raw, signed)
	}
	for ; len(raw) > 0; raw = raw[width:] {
		var v uint64
		switch {
		case width == 8:
			v = le.Uint64(raw)
		case signed:
			v = uint64(int64(int32(le.Uint32(raw))))
		default:
			v = uint64(le.Uint32(raw))
		}
		negative := signed && int64(v) < 0
		if !negative && !texts {
			q.keys = append(q.keys, arms.NumberKey(v))
			continue
		}
		text := strconv.AppendUint(nil, v, 10)
		if negative {
			text = strconv.AppendInt(nil, int64(v), 10)
		}
		q.keys = append(q.keys, arms.KeyOf(text))
		if texts {
			q.items = append(q.items, item{text: text})
		}
	}
	return nil
}

// wholeNumbers appends the keys of numbers of 8 bytes, up to the first that is below 0, and returns what is
// left.
func (q *query) wholeNumbers(raw []byte, signed bool) (left []byte) {
	at := len(q.keys)
	q.keys = slices.Grow(q.keys, len(raw)/8)[:at+len(raw)/8]
	for i := range q.keys[at:] {
		v := binary.LittleEndian.Uint64(raw[8*i:])
		if signed && int64(v) < 0 {
			q.keys = q.keys[:at+i]
			return raw[8*i:]
		}
		q.keys[at+i] = arms.NumberKey(v)
	}
	return nil
}

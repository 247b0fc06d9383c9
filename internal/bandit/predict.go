package bandit

import (
	"bytes"
	"math"
	"strconv"

	"weir/internal/bandit/arms"
)

// MaxID is the longest id of a user, an item or a segment, in bytes.
const MaxID = 255

const idWanted = "a text of 1 to 255 bytes or a whole number"

// query is what a request asks predictions for. Its slices point into the body it was read from.
type query struct {
	user    []byte // text, nil when absent
	segment []byte // text, nil when the user's own is to be looked up
	items   []item
	keys    []arms.Key // of the items
	top     int        // 0 is all, in their order
	seed    uint64
	seeded  bool
	explain bool
}

// item is an item as it was sent.
type item struct {
	token []byte // as in the body
	text  []byte
}

// reset empties a query.
func (q *query) reset() {
	*q = query{items: q.items[:0], keys: q.keys[:0]}
}

// queryMembers are what a query may have, numbered for scanner.member.
var queryMembers = []string{"user", "segment", "items", "top", "seed", "explain"}

const sawItems = 1 << 2

// parseQuery reads a whole body.
func parseQuery(s *scanner, q *query, maxItems int) error {
	if err := s.something(`{"user":...,"items":[...]}`); err != nil {
		return err
	}
	if err := s.query(q, maxItems); err != nil {
		return err
	}
	return s.End()
}

// query reads {"user":...,"items":[...]}.
func (s *scanner) query(q *query, maxItems int) error {
	q.reset()
	var seen uint
	err := s.object(func(key []byte) error {
		if err := s.member(key, queryMembers, &seen); err != nil {
			return err
		}
		return s.queryMember(q, maxItems)
	})
	if err != nil {
		return err
	}
	if seen&sawItems == 0 {
		s.field = "items"
		return s.wrong("there: an array of ids")
	}
	s.field = ""
	return nil
}

func (s *scanner) queryMember(q *query, maxItems int) (err error) {
	switch s.field {
	case "user":
		_, q.user, err = s.optionalID()
	case "segment":
		_, q.segment, err = s.optionalID()
	case "items":
		err = s.items(q, maxItems)
	case "top":
		var n uint64
		n, err = s.uint(1, math.MaxInt32, "a whole number from 1 on")
		q.top = int(n)
	case "seed":
		q.seeded = true
		q.seed, err = s.uint(0, math.MaxUint64, "a whole number from 0 to 18446744073709551615")
	case "explain":
		q.explain, err = s.bool()
	}
	return err
}

// optionalID reads an id or null.
func (s *scanner) optionalID() (token, text []byte, err error) {
	if is, err := s.Null(); is || err != nil {
		return nil, nil, err
	}
	return s.id(idWanted)
}

// items reads the array of items.
func (s *scanner) items(q *query, maxItems int) error {
	if s.Space() != '[' {
		return s.wrongValue("an array of ids")
	}
	s.I++
	more := s.First(']')
	if !more {
		return s.wrong("an array with at least one id")
	}
	var err error
	for more {
		s.Space()
		if s.element = len(q.items); s.element == maxItems {
			s.element = -1
			return s.wrong("at most " + strconv.Itoa(maxItems) + " ids (--bandit-max-items)")
		}
		var token, text []byte
		var key arms.Key
		if from := s.I; s.shortNumber(&key) {
			token = s.B[from:s.I]
			if text = token; token[0] == '"' {
				text = token[1 : len(token)-1]
			}
		} else if token, text, err = s.id(idWanted); err == nil {
			key = arms.KeyOf(text)
		} else {
			return err
		}
		q.items = append(q.items, item{token, text})
		q.keys = append(q.keys, key)
		if more, err = s.Next(']'); err != nil {
			return err
		}
	}
	s.element = -1
	return nil
}

// shortNumber reads an id that is a whole number of up to 19 digits, in quotes or not, in one go, and its
// key. Of any other it reads nothing and returns false.
func (s *scanner) shortNumber(key *arms.Key) bool {
	b, i := s.B, s.I
	quoted := i < len(b) && b[i] == '"'
	if quoted {
		i++
	}
	from, n := i, uint64(0)
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		n = 10*n + uint64(b[i]-'0')
	}
	if i == from || i-from > 19 || b[from] == '0' && i-from > 1 || i == len(b) {
		return false
	}
	switch c := b[i]; {
	case quoted && c == '"':
		i++
	case quoted || c != ',' && c != ']':
		return false
	}
	s.I = i
	*key = arms.NumberKey(n)
	return true
}

// few reports whether a body surely asks for no more predictions than are made inline. A comma in an id
// counts too, which sends a request to a worker that need not have gone there.
func few(body []byte, inline int) bool {
	return len(body) <= inline*(MaxID+3) && bytes.Count(body, comma) < inline+membersBesides
}

var comma = []byte{','}

// membersBesides is how many members of a query there may be besides the items.
const membersBesides = 5

package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/internal/filter/syndication"
	"weir/internal/strictjson"
)

// Mode is what becomes of the items that a rule matches.
type Mode uint8

const (
	Drop Mode = iota
	Keep
)

func (m Mode) String() string { return [...]string{"drop", "keep"}[m] }

// MarshalText writes drop or keep.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads drop or keep.
func (m *Mode) UnmarshalText(b []byte) error {
	switch string(b) {
	case "drop":
		*m = Drop
	case "keep":
		*m = Keep
	default:
		return fmt.Errorf("the mode is drop or keep, not %.40q", b)
	}
	return nil
}

// Rules are read from JSON as a list of rules, each in one of its forms, or as one text that holds all of
// them. Their text is a line a rule.
type Rules []*Rule

func (r Rules) String() string {
	var b strings.Builder
	for _, rule := range r {
		b.WriteString(rule.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// UnmarshalJSON reads rules. The error says which of them it is about.
func (r *Rules) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		var s string
		err := json.Unmarshal(b, &s)
		if err == nil {
			*r, err = ParseAll(s)
		}
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*r = make(Rules, len(list))
	for i, one := range list {
		(*r)[i] = new(Rule)
		if err := (*r)[i].UnmarshalJSON(one); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return nil
}

// Set is what decides which items of a feed stay. The first rule that matches an item decides about it.
type Set struct {
	Mode  Mode  `json:"mode"`
	Rules Rules `json:"rules"`
	// Global comes before Rules. An item that none of its rules matches is left to Rules.
	Global *Set `json:"-"`
}

// ParseSet reads a set as a file holds it: as JSON, which is an object or the list of its rules, or as the
// text of the rules, before which keep or drop may stand. Without either the set drops.
func ParseSet(b []byte) (*Set, error) {
	s := new(Set)
	switch first := bytes.TrimSpace(b); {
	case bytes.HasPrefix(first, []byte{'{'}):
		return s, strictjson.Read(bytes.NewReader(b), s)
	case bytes.HasPrefix(first, []byte{'['}):
		return s, s.Rules.UnmarshalJSON(b)
	}
	p, err := newParser(string(b))
	if err != nil {
		return nil, err
	}
	if p.is("keep") || p.is("drop") {
		err = s.Mode.UnmarshalText([]byte(p.token.text))
		if err == nil {
			err = p.next()
		}
	}
	if err == nil {
		s.Rules, err = p.all()
	}
	return s, err
}

// String returns the set as text, without Global.
func (s *Set) String() string { return s.Mode.String() + "\n" + s.Rules.String() }

// Decision says which items of a feed stay, and why.
type Decision struct {
	Keep syndication.Bits
	// By is the rule that decided about an item, nil where none matched.
	By []*Rule
	// Matched counts the items each rule matches, whether it decided about them or not: the rules of Global
	// and of its Global come first.
	Matched []int
	// Until is when ages change the decision; zero when nothing but another feed or set does.
	Until time.Time
}

// Decide decides about the items of a feed.
func (s *Set) Decide(f *syndication.Feed, now time.Time) Decision {
	n := len(f.Items)
	e := evaluations.Get().(*evaluation)
	defer evaluations.Put(e)
	words := (n + 63) / 64
	if words != e.words {
		e.free = nil
	}
	e.feed, e.table, e.now, e.until, e.words = f, f.Text(), now.Unix(), math.MaxInt64, words
	all, open := e.set(), e.set()
	for i := range n {
		all.add(i)
	}
	copy(open, all)
	d := Decision{Keep: syndication.NewBits(n), By: make([]*Rule, n), Matched: make([]int, 0, s.Len())}
	s.decide(e, &d, all, open)
	if s.Mode == Drop {
		items(d.Keep).union(open)
	}
	e.release(all)
	e.release(open)
	e.feed, e.table = nil, nil
	if e.until != math.MaxInt64 {
		d.Until = time.Unix(e.until, 0)
	}
	return d
}

// Len returns how many rules there are, those of Global included.
func (s *Set) Len() int {
	n := len(s.Rules)
	if s.Global != nil {
		n += s.Global.Len()
	}
	return n
}

// decide asks each rule about all items, and takes those it decides about out of open.
func (s *Set) decide(e *evaluation, d *Decision, all, open items) {
	if s.Global != nil {
		s.Global.decide(e, d, all, open)
	}
	for _, r := range s.Rules {
		matched := e.set()
		e.match(r.root, all, matched)
		count := 0
		matched.each(func(i int) {
			count++
			if open.has(i) {
				d.By[i] = r
				if s.Mode == Keep {
					items(d.Keep).add(i)
				}
			}
		})
		open.less(matched)
		d.Matched = append(d.Matched, count)
		e.release(matched)
	}
}

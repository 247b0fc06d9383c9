package rules

import (
	"math"
	"sync"

	"weir/internal/filter/syndication"
	"weir/internal/filter/text"
)

// evaluation is what decides about the items of one feed at one moment.
type evaluation struct {
	feed  *syndication.Feed
	table *text.Table
	now   int64
	until int64 // the next second at which an age changes what was decided
	words int   // of a set of items
	free  []items
	value []byte // an item's own text, in some form
}

var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

// set returns an empty set of items.
func (e *evaluation) set() items {
	n := len(e.free)
	if n == 0 {
		return make(items, e.words)
	}
	s := e.free[n-1]
	e.free = e.free[:n-1]
	clear(s)
	return s
}

func (e *evaluation) release(s items) { e.free = append(e.free, s) }

// match adds those items of in that n matches to out, which is neither in nor has items that are in it.
func (e *evaluation) match(n *node, in, out items) {
	switch n.kind {
	case allOf:
		left := e.set()
		copy(left, in)
		for _, p := range n.parts {
			matched := e.set()
			e.match(p, left, matched)
			copy(left, matched)
			e.release(matched)
			if left.empty() {
				break
			}
		}
		out.union(left)
		e.release(left)
	case anyOf:
		left := e.set()
		copy(left, in)
		for _, p := range n.parts {
			e.match(p, left, out)
			left.less(out)
			if left.empty() {
				break
			}
		}
		e.release(left)
	case not:
		matched := e.set()
		e.match(n.parts[0], in, matched)
		for i, w := range in {
			out[i] |= w &^ matched[i]
		}
		e.release(matched)
	default:
		e.compare(n, in, out)
	}
}

// compare is match for a comparison.
func (e *evaluation) compare(n *node, in, out items) {
	switch n.field {
	case dateField, ageField:
		in.each(func(i int) {
			when := e.feed.Items[i].Date()
			if when.IsZero() {
				return
			}
			date := when.Unix()
			if n.field == ageField && n.op != exists {
				e.changes(date, n.span)
				date = e.now - date
			}
			if n.op == exists || n.span.has(date) {
				out.add(i)
			}
		})
	case lengthField:
		in.each(func(i int) {
			for _, enclosure := range e.feed.Items[i].Enclosures {
				if enclosure.Length > 0 && (n.op == exists || n.span.has(enclosure.Length)) {
					out.add(i)
				}
			}
		})
	case anyField:
		left := e.set()
		copy(left, in)
		for _, f := range seen {
			e.column(n, f, left, out)
			left.less(out)
		}
		e.release(left)
	default:
		e.column(n, n.field, in, out)
	}
}

// column is compare for a column of the table.
func (e *evaluation) column(n *node, f field, in, out items) {
	_, cells := e.table.Column(f)
	switch {
	case n.op == exists:
		in.each(func(i int) {
			if cells[i+1] > cells[i] {
				out.add(i)
			}
		})
		return
	case n.op != matches && n.form == 0:
		n.needle.find(e.table, f, n.words, in, out)
		return
	}
	// The table says which items are worth a look.
	likely := in
	if needles := n.needles(); len(needles) > 0 {
		likely = e.set()
		defer e.release(likely)
		for _, needle := range needles {
			needle.find(e.table, f, false, in, likely)
		}
	}
	likely.each(func(i int) {
		if n.form == 0 {
			for value := range e.table.Values(f, i) {
				if n.compares(value, "") {
					out.add(i)
					return
				}
			}
			return
		}
		for value, form := range e.feed.Values(i, f) {
			e.value = text.Append(e.value[:0], value, form|n.form)
			if len(e.value) > 0 && n.compares(e.value, n.strict) {
				out.add(i)
				return
			}
		}
	})
}

// needles returns texts one of which is in every value that n matches, where any are known.
func (n *node) needles() []needle {
	if n.op == matches {
		return n.needed
	}
	return []needle{n.needle}
}

// changes notes when the age of what was published at a date gets into or out of a span.
func (e *evaluation) changes(date int64, ages span) {
	for _, age := range [2]int64{ages.first, ages.end} {
		if age != math.MinInt64 && age != math.MaxInt64 && date+age > e.now {
			e.until = min(e.until, date+age)
		}
	}
}

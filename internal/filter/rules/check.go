package rules

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/filter/text"
)

// Problem is what may be wrong with a rule that can be understood.
type Problem struct {
	Place        // in the rule, or in the list it was read from
	Rule  int    // index of the rule in its set
	Text  string // what it is, and what to write instead
}

func (p Problem) String() string { return p.Place.String() + ": " + p.Text }

// Problems returns what cannot match, or matches whatever there is, in the order of places.
func (r *Rule) Problems() []Problem {
	var found []Problem
	report := func(n *node, format string, a ...any) {
		found = append(found, Problem{Place: n.at, Text: fmt.Sprintf(format, a...)})
	}
	switch {
	case impossible(r.root, false, nil):
		report(r.root, "the rule can never match")
	case impossible(r.root, true, nil):
		report(r.root, "the rule matches every item")
	}
	r.root.walk(func(n *node) {
		if n.kind == anyOf && !impossible(n, false, nil) {
			for _, p := range n.parts {
				if impossible(p, false, nil) {
					report(p, "%s can never match", p.append(nil))
				}
			}
		}
		if n.kind != leaf || n.op != matches {
			return
		}
		optional := ""
		if strings.Contains(n.value, "(i?)") {
			optional = "; (i?) is an i that may be there or not, and case does not count " +
				"unless the rule says case"
		}
		name := fieldNames[n.field]
		switch {
		case matchesAll(n.tree):
			report(n, "the regular expression matches every %s: write %s exists if that is meant%s",
				name, name, optional)
		case matchesNothing(n.tree):
			report(n, "the regular expression matches no text")
		case optional != "":
			report(n, "%s", optional[len("; "):])
		case n.form&text.KeepCase == 0 && strings.Contains(n.value, "(?-i"):
			report(n, "(?-i changes nothing: write matches case")
		}
	})
	slices.SortStableFunc(found, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return found
}

// Problems returns what may be wrong with the set's rules, those of Global left out. A set without rules
// has none.
func (s *Set) Problems() []Problem {
	var found []Problem
	seen := make(map[string]int)
	for i, r := range s.Rules {
		for _, p := range r.Problems() {
			p.Rule = i
			found = append(found, p)
		}
		if first, ok := seen[r.String()]; ok {
			same := fmt.Sprintf("the rule is the same as rule %d", first+1)
			found = append(found, Problem{Place: r.root.at, Rule: i, Text: same})
		} else {
			seen[r.String()] = i
		}
	}
	possible := func(r *Rule) bool { return !impossible(r.root, false, nil) }
	if s.Mode == Keep && !slices.ContainsFunc(s.Rules, possible) {
		found = append(found, Problem{Place: Place{1, 1}, Text: "no rule can match, so nothing is kept"})
	}
	return found
}

// walk calls f for n and all of its parts.
func (n *node) walk(f func(*node)) {
	f(n)
	for _, p := range n.parts {
		p.walk(f)
	}
}

// fact is a comparison that holds, or does not.
type fact struct {
	*node
	negated bool
}

// impossible reports whether no item matches n, or its negation, where some facts hold. It may miss that,
// and is never wrong about it.
func impossible(n *node, negated bool, known []fact) bool {
	switch {
	case n.kind == leaf:
		return contradicts(fact{n, negated}, known)
	case n.kind == not:
		return impossible(n.parts[0], !negated, known)
	case (n.kind == anyOf) != negated: // one of the parts has to hold
		return !slices.ContainsFunc(n.parts, func(p *node) bool { return !impossible(p, negated, known) })
	}
	// All parts have to hold: first what is a fact, and then the groups, which have to agree with the
	// facts.
	known = slices.Clip(known)
	var groups []fact
	for _, p := range n.parts {
		f := fact{p, negated}
		if p.kind == not {
			f = fact{p.parts[0], !negated}
		}
		if f.kind != leaf {
			groups = append(groups, f)
			continue
		}
		if contradicts(f, known) {
			return true
		}
		known = append(known, f)
	}
	return slices.ContainsFunc(groups, func(g fact) bool { return impossible(g.node, g.negated, known) })
}

// contradicts reports whether f cannot hold by itself, or not together with what is known.
func contradicts(f fact, known []fact) bool {
	if !f.negated && f.never() {
		return true
	}
	return slices.ContainsFunc(known, func(k fact) bool {
		switch {
		case f.negated && k.negated:
			return false
		case f.negated:
			return implies(k.node, f.node)
		case k.negated:
			return implies(f.node, k.node)
		}
		return disjoint(f.node, k.node) || disjoint(k.node, f.node)
	})
}

// never reports whether a comparison matches nothing.
func (n *node) never() bool {
	switch {
	case n.op == exists:
		return false
	case n.op == matches:
		return matchesNothing(n.tree)
	case n.field == lengthField:
		return n.span.end <= 1 // lengths that are known are at least 1
	}
	return false
}

// comparable reports whether b looks for what a text has that a looks for, so that both compare with the same
// text.
func comparable(a, b *node) bool { return b.form == 0 || a.form == b.form }

// patternFor returns what n looks for, in the form in which b compares.
func (n *node) patternFor(b *node) string {
	if b.form == 0 {
		return n.needle.string()
	}
	return n.strict
}

// implies reports whether an item that matches a also matches b, both of them comparisons.
func implies(a, b *node) bool {
	if a.field != b.field && !(b.field == anyField && slices.Contains(seen, a.field)) {
		return false
	}
	switch {
	case b.op == exists:
		return true
	case a.op == exists:
		return false
	case a.field > anyField:
		return b.span.first <= a.span.first && a.span.end <= b.span.end
	case a.op == matches || b.op == matches || !comparable(a, b):
		same := a.op == b.op && a.value == b.value && a.form == b.form
		return same || a.op == equals && b.op == matches && comparable(a, b) &&
			b.re.MatchString(a.patternFor(b))
	case b.words && (a.op != equals && !a.words):
		return false
	}
	has, wants := a.patternFor(b), b.patternFor(b)
	switch {
	case a.op == equals:
		return b.compares([]byte(has), wants)
	case b.words: // both do, and only the same is sure to end where words do
		return a.op == b.op && has == wants || b.op == contains && has == wants
	case b.op == contains:
		return strings.Contains(has, wants)
	case b.op == starts:
		return a.op == starts && strings.HasPrefix(has, wants)
	case b.op == ends:
		return a.op == ends && strings.HasSuffix(has, wants)
	}
	return false
}

// disjoint reports whether no item matches both a and b, which are comparisons, looking from a.
func disjoint(a, b *node) bool {
	switch {
	case a.field != b.field || !single(a.field) || a.op == exists || b.op == exists:
		return false
	case a.field > anyField:
		return a.span.end <= b.span.first
	case !comparable(a, b) || a.op == matches:
		return false
	case a.op == equals:
		return !b.compares([]byte(a.patternFor(b)), b.patternFor(b))
	case a.op != b.op || a.op == contains:
		return false
	}
	has, wants := a.patternFor(b), b.patternFor(b)
	if a.op == starts {
		return !strings.HasPrefix(has, wants) && !strings.HasPrefix(wants, has)
	}
	return !strings.HasSuffix(has, wants) && !strings.HasSuffix(wants, has)
}

package rules

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/filter/text"
)

// pattern is a regular expression as a tree.
type pattern = *syntax.Regexp

// compile prepares matching by a regular expression: its letters take the form of the texts it is compared
// with, and texts that an item must contain to match are found, so that most items are never matched
// against it.
func (n *node) compile(at Place) error {
	if len(n.value) > maxPattern {
		return wrong(at, "a regular expression may have %d bytes, and this has %d", maxPattern, len(n.value))
	}
	flags := syntax.Perl
	if n.form&text.KeepCase == 0 {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(n.value, flags)
	if err == nil {
		tree = inForm(tree, n.form)
		n.re, err = regexp.Compile(tree.String())
	}
	if err != nil {
		return wrong(at, "in the regular expression: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	n.tree = tree.Simplify()
	for _, s := range needed(n.tree) {
		n.needed = append(n.needed, newNeedle(s, false, false))
	}
	return nil
}

// inForm returns a tree that matches the texts of a form where re matches texts as they are.
func inForm(re pattern, form text.Form) pattern {
	switch re.Op {
	case syntax.OpLiteral:
		folded := []rune(text.Pattern(string(re.Rune), form))
		if len(folded) == 0 {
			return &syntax.Regexp{Op: syntax.OpEmptyMatch}
		}
		flags := re.Flags
		if form&text.KeepCase == 0 {
			flags &^= syntax.FoldCase
		}
		return &syntax.Regexp{Op: syntax.OpLiteral, Flags: flags, Rune: folded}
	case syntax.OpCharClass:
		return classInForm(re, form)
	}
	for i, sub := range re.Sub {
		re.Sub[i] = inForm(sub, form)
	}
	return re
}

// classInForm adds to a class of characters what becomes of them in a form. Of large ranges, such as all
// but a few characters, it takes only what is in them.
func classInForm(re pattern, form text.Form) pattern {
	const large = 512
	class := &syntax.Regexp{Op: syntax.OpCharClass, Rune: slices.Clone(re.Rune)}
	either := &syntax.Regexp{Op: syntax.OpAlternate, Sub: []pattern{class}}
	for i := 0; i < len(re.Rune); i += 2 {
		if re.Rune[i+1]-re.Rune[i] > large {
			continue
		}
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			switch folded := []rune(text.Pattern(string(r), form)); {
			case len(folded) == 1 && folded[0] != r:
				class.Rune = append(class.Rune, folded[0], folded[0])
			case len(folded) > 1 && len(either.Sub) < large:
				either.Sub = append(either.Sub, &syntax.Regexp{Op: syntax.OpLiteral, Rune: folded})
			}
		}
	}
	if len(either.Sub) == 1 {
		return class
	}
	return either
}

// needed returns folded texts of which every text that re matches contains one. None are known if it
// returns none.
func needed(re pattern) []string {
	const most = 16
	switch re.Op {
	case syntax.OpLiteral:
		if s := strings.Trim(text.Pattern(string(re.Rune), 0), " "); len(s) >= 2 {
			return []string{s}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if s := needed(sub); shortest(s) > shortest(best) {
				best = s
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			s := needed(sub)
			if s == nil || len(all)+len(s) > most {
				return nil
			}
			all = append(all, s...)
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest of some texts, 0 if there are none.
func shortest(texts []string) int {
	least := 0
	for i, s := range texts {
		if i == 0 || len(s) < least {
			least = len(s)
		}
	}
	return least
}

// concat returns what has to match one after the other.
func concat(re pattern) []pattern {
	switch re.Op {
	case syntax.OpCapture:
		return concat(re.Sub[0])
	case syntax.OpConcat:
		var all []pattern
		for _, sub := range re.Sub {
			all = append(all, concat(sub)...)
		}
		return all
	}
	return []pattern{re}
}

// matchesNothing reports whether no text matches re: it asks for a character that there is none of, or for
// one before the beginning or behind the end.
func matchesNothing(re pattern) bool {
	switch re.Op {
	case syntax.OpNoMatch:
		return true
	case syntax.OpCharClass:
		return len(re.Rune) == 0
	case syntax.OpCapture, syntax.OpPlus:
		return matchesNothing(re.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub pattern) bool { return !matchesNothing(sub) })
	case syntax.OpConcat:
		parts := concat(re)
		begun, ended := false, false
		for _, p := range parts {
			switch {
			case matchesNothing(p), p.Op == syntax.OpBeginText && begun, ended && minLength(p) > 0:
				return true
			case minLength(p) > 0:
				begun = true
			case p.Op == syntax.OpEndText:
				ended = true
			}
		}
	}
	return false
}

// minLength returns how many characters a match of re has at least.
func minLength(re pattern) int {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return minLength(re.Sub[0])
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n += minLength(sub)
		}
		return n
	case syntax.OpAlternate:
		n := minLength(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			n = min(n, minLength(sub))
		}
		return n
	}
	return 0
}

// matchesAll reports whether every text that is not empty matches re.
func matchesAll(re pattern) bool {
	parts := concat(re)
	from, to := 0, len(parts)
	if parts[0].Op == syntax.OpBeginText {
		from = 1
	}
	if to > from && parts[to-1].Op == syntax.OpEndText {
		to--
	}
	all := func(p pattern) bool { // one that takes whatever there is
		return (p.Op == syntax.OpStar || p.Op == syntax.OpPlus) && anyCharacter(p.Sub[0])
	}
	if from == 1 && to == len(parts)-1 { // bound to both ends
		return to == from+1 && all(parts[from])
	}
	if to == from+1 && (all(parts[from]) || anyCharacter(parts[from])) {
		return true
	}
	return !slices.ContainsFunc(parts[from:to], func(p pattern) bool { return !canBeEmpty(p) })
}

func anyCharacter(re pattern) bool {
	return re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

// canBeEmpty reports whether re matches anywhere, without a character.
func canBeEmpty(re pattern) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return canBeEmpty(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(sub pattern) bool { return !canBeEmpty(sub) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, canBeEmpty)
	}
	return false
}

// wordRune reports whether r is part of a word. Scripts that put no blanks between words have none.
func wordRune(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_'
	case !unicode.In(r, unicode.L, unicode.N, unicode.M):
		return false
	}
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// wordEnds reports whether no word goes on from before s[at] to it.
func wordEnds(s []byte, at int) bool {
	if at == 0 || at == len(s) {
		return true
	}
	before, _ := utf8.DecodeLastRune(s[:at])
	after, _ := utf8.DecodeRune(s[at:])
	return !wordRune(before) || !wordRune(after)
}

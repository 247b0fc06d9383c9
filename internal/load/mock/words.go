package mock

import (
	_ "embed"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Languages that items are in.
const (
	english = iota
	german
	french
	spanish
	polish
	russian
	greek
	japanese_
	chinese
	korean_
	languages
)

// language is what text is made of: words without meaning in their row, but with the lengths, letters and
// punctuation of the language, since that is what parsers, filters and compressors see.
type language struct {
	Tag              string // BCP 47
	Words            words
	Names            []string // of authors
	Topics           words    // categories
	Space, Stop, Ask string
}

// words are read from one text.
type words []string

func (w *words) UnmarshalText(text []byte) error {
	*w = strings.Fields(string(text))
	return nil
}

//go:embed words.json
var wordsFile []byte

// vocabulary is by language, in the order of the constants.
var vocabulary = func() (all [languages]language) {
	if err := json.Unmarshal(wordsFile, &all); err != nil {
		panic("BUG: words.json: " + err.Error())
	}
	return all
}()

// extras are at the end of some titles: what a title may hold and trips those who forget to escape, to
// normalise, or that a character may take four bytes.
var extras = [...]string{" – R&D", " <3", ` “quoted”`, ` "live"`, " 🚲🌧️", " it's",
	" — 50 % off", " a\u0301", " C++ & Go"}

// phrase appends n words, the first one capitalised.
func (l *language) phrase(dst []byte, d *dice, n int) []byte {
	dst = capital(dst, l.Words[d.below(len(l.Words))])
	for range n - 1 {
		dst = append(dst, l.Space...)
		dst = append(dst, l.Words[d.below(len(l.Words))]...)
	}
	return dst
}

// capital appends a word with its first letter in upper case, if there is such a thing.
func capital(dst []byte, word string) []byte {
	r, size := utf8.DecodeRuneInString(word)
	return append(utf8.AppendRune(dst, unicode.ToUpper(r)), word[size:]...)
}

// sentences appends text of about n characters: whole sentences, the last one cut short at a word.
func (l *language) sentences(dst []byte, d *dice, n int) []byte {
	start, left, words := len(dst), n, 0
	for {
		word := l.Words[d.below(len(l.Words))]
		long := runes(word) + len(l.Space)
		if left < long+1 {
			break
		}
		if words == 0 {
			dst = capital(dst, word)
		} else {
			dst = append(dst, word...)
		}
		left -= long
		if words++; words >= 6 && d.below(6) == 0 {
			end := l.Stop
			if d.below(8) == 0 {
				end = l.Ask
			}
			dst = append(dst, end...)
			left -= runes(end)
			words = 0
			continue
		}
		dst = append(dst, l.Space...)
	}
	switch {
	case words > 0:
		dst = append(dst[:len(dst)-len(l.Space)], strings.TrimRight(l.Stop, " ")...)
	case len(dst) > start: // after a whole sentence
		dst = dst[:len(dst)-len(l.Space)]
	}
	return dst
}

// runes counts characters; most words are ASCII or of one script, so this is not worth a table.
func runes(s string) (n int) {
	for i := range len(s) {
		if s[i]&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

package text

import (
	"math/rand/v2"
	"testing"
)

// appendBytes is what appendWords has to be: it takes a byte at a time.
func appendBytes(dst []byte, start int, s string, form Form) []byte {
	for i := 0; i < len(s); {
		if c := s[i]; c > ' ' && c < 0x7f && (form&HTML == 0 || c != '<' && c != '&') {
			dst = append(dst, lower(c, form))
			i++
			continue
		}
		dst, i = appendOther(dst, start, s, i, form)
	}
	return dst
}

func TestEightBytesAtATimeAreWhatOneAtATimeIs(t *testing.T) {
	const alphabet = "aZ @[`{~\x7f\x00\n\t<&;>é\x80\u00a0İ漢09-/"
	letters := []rune(alphabet)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var s string
		for range r.IntN(40) {
			if r.IntN(3) > 0 {
				s += string(rune('A' + r.IntN(58)))
			} else {
				s += string(letters[r.IntN(len(letters))])
			}
		}
		for form := range KeepCase | KeepAccents | HTML + 1 {
			got, want := appendWords([]byte(" "), 1, s, form), appendBytes([]byte(" "), 1, s, form)
			if string(got) != string(want) {
				t.Fatalf("form %d of %q is %q, want %q", form, s, got, want)
			}
		}
	}
}

func FuzzEightBytesAtATime(f *testing.F) {
	f.Add("Größe <b>of</b>  R&amp;D\x00\u00a0", uint8(4))
	f.Fuzz(func(t *testing.T, s string, form uint8) {
		got, want := appendWords(nil, 0, s, Form(form&7)), appendBytes(nil, 0, s, Form(form&7))
		if string(got) != string(want) {
			t.Fatalf("form %d of %q is %q, want %q", form&7, s, got, want)
		}
	})
}

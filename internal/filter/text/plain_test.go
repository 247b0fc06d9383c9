package text

import (
	"math/rand/v2"
	"testing"
)

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
			got, want := appendForm([]byte(" "), s, form, true), appendForm([]byte(" "), s, form, false)
			if string(got) != string(want) {
				t.Fatalf("form %d of %q is %q, want %q", form, s, got, want)
			}
		}
	}
}

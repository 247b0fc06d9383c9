package syndication

import (
	"strings"
	"testing"
)

// slowText is what appendText has to be, and slowVerbatim appendVerbatim.
func slowText(dst []byte, s string) ([]byte, flaws) {
	var all, found flaws
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			dst, found = slowVerbatim(dst, s)
			return dst, all | found
		}
		dst, found = slowVerbatim(dst, s[:i])
		all |= found
		var n int
		if dst, n = appendEntity(dst, s[i:]); n == 0 {
			dst = append(dst, '&')
			n = 1
			all |= bareAmpersand
		}
		s = s[i+n:]
	}
}

func slowVerbatim(dst []byte, s string) ([]byte, flaws) {
	var found flaws
	for i, c := range []byte(s) {
		switch {
		case c >= ' ' || c == '\n' || c == '\t':
			dst = append(dst, c)
		case c != '\r':
			found = controlCharacter
		case i+1 == len(s) || s[i+1] != '\n':
			dst = append(dst, '\n')
		}
	}
	return dst, found
}

func FuzzText(f *testing.F) {
	f.Add("one &lt;b&gt; two &amp; three &eacute;\r\nfour & five\r six\x01\tseven &#65; &#x1F600;")
	f.Add("12345678\x1f&12345\r678")
	f.Fuzz(func(t *testing.T, s string) {
		for reference, of := range map[byte][2]func(dst []byte, s string) ([]byte, flaws){
			'&': {appendText, slowText}, 0: {appendVerbatim, slowVerbatim},
		} {
			got, found := of[0]([]byte("x"), s)
			want, wanted := of[1]([]byte("x"), s)
			if string(got) != string(want) || found != wanted {
				t.Fatalf("%q is %q with flaws %b, want %q with %b", s, got, found, want, wanted)
			}
			n := clean(s, reference)
			if strings.ContainsFunc(s[:n], func(r rune) bool {
				return r < ' ' && r != '\n' && r != '\t' || r == '&' && reference == '&'
			}) {
				t.Fatalf("%q is not clean", s[:n])
			}
			if n < len(s) && (s[n] >= ' ' && s[n] != reference || s[n] == '\n' || s[n] == '\t') {
				t.Fatalf("%q ends before what is clean in %q", s[:n], s)
			}
		}
	})
}

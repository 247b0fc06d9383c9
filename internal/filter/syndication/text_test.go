package syndication

import (
	"bytes"
	"testing"
)

// plainText is what appendText has to be, and plainVerbatim appendVerbatim.
func plainText(dst, s []byte) ([]byte, flaws) {
	var all, found flaws
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			dst, found = plainVerbatim(dst, s)
			return dst, all | found
		}
		dst, found = plainVerbatim(dst, s[:i])
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

func plainVerbatim(dst, s []byte) ([]byte, flaws) {
	var found flaws
	for {
		i := indexControl(s)
		if i < 0 {
			return append(dst, s...), found
		}
		dst = append(dst, s[:i]...)
		if s[i] != '\r' {
			found = controlCharacter
		} else if i+1 == len(s) || s[i+1] != '\n' {
			dst = append(dst, '\n')
		}
		s = s[i+1:]
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("one &lt;b&gt; two &amp; three &eacute;\r\nfour & five\r six\x01\tseven &#65; &#x1F600;"))
	f.Add([]byte("12345678\x1f&12345\r678"))
	f.Fuzz(func(t *testing.T, s []byte) {
		for name, of := range map[string][2]func(dst, s []byte) ([]byte, flaws){
			"text": {appendText, plainText}, "section": {appendVerbatim, plainVerbatim},
		} {
			got, found := of[0]([]byte("x"), s)
			want, wanted := of[1]([]byte("x"), s)
			if !bytes.Equal(got, want) || found != wanted {
				t.Fatalf("%s %q is %q with flaws %b, want %q with %b", name, s, got, found, want, wanted)
			}
		}
	})
}

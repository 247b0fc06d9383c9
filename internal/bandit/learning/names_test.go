package learning

import (
	"bytes"
	"testing"

	"weir/internal/bandit/arms"
)

// FuzzNames reads a frame of names: whatever it holds is refused, or comes back as it was.
func FuzzNames(f *testing.F) {
	entry := func(level byte, k arms.Key, texts ...string) []byte {
		b := appendKey([]byte{level}, k)
		for _, text := range texts {
			b = append(append(b, byte(len(text))), text...)
		}
		return b
	}
	k := arms.Key{Lo: 1, Hi: 2 << 32}
	f.Add(append(entry(0, k, "a", ""), entry(2, k, "b", "ada")...))
	f.Add(entry(3, k, "a", ""))
	f.Add(entry(1, k, "a"))
	f.Add(entry(1, k, "a", "b")[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		err := eachName(b, func(a Named, e []byte) bool {
			if want := entry(byte(a.Level), a.Key, a.Item, a.Of); !bytes.Equal(e, want) {
				t.Errorf("%x is read as %x", e, want)
			}
			again = append(again, e...)
			return true
		})
		if err == nil && !bytes.Equal(again, b) || !bytes.HasPrefix(b, again) {
			t.Errorf("of %x there came %x, %v", b, again, err)
		}
	})
}

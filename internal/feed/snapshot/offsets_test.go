package snapshot

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestOffsetsComeBackWhateverTheLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	for name, length := range map[string]func(i int) uint32{
		"equal":     func(int) uint32 { return 596 },
		"zero":      func(int) uint32 { return 0 },
		"random":    func(int) uint32 { return r.Uint32N(1000) },
		"growing":   func(i int) uint32 { return uint32(i) },
		"shrinking": func(i int) uint32 { return uint32(70_000 - i*10) },
		"one large": func(i int) uint32 { return [2]uint32{8, 524_545}[max(0, 1-abs(i-3000))] },
		"runs":      func(i int) uint32 { return uint32(i / 500 * 8) },
	} {
		for _, n := range []int{0, 1, 2, 6789} {
			b := lineBuilder{runs: spool{dir: t.TempDir()}}
			var offsets []uint64
			var at uint64
			for i := range n {
				offsets = append(offsets, at)
				l := length(i)
				if err := b.add(l); err != nil {
					t.Fatal(err)
				}
				at += uint64(l)
			}
			var out bytes.Buffer
			if err := b.writeTo(&out); err != nil {
				t.Fatal(err)
			}
			b.runs.close()
			l, err := decodeLine("offsets", append(out.Bytes(), make([]byte, loadSlack)...), uint64(n))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range offsets {
				if got := l.at(uint64(i)); got != want {
					t.Fatalf("%s: piece %d of %d is at %d, want %d", name, i, n, got, want)
				}
			}
			if (name == "equal" || name == "zero") && out.Len() != lineHeader {
				t.Errorf("%s: %d pieces of one length take %d bytes, want none but the header's %d", name, n,
					out.Len(), lineHeader)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

package beta

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"
)

// goldenShapes goes through all that the reference does: shapes below one, at one, great ones and such as
// are clamped.
var goldenShapes = []float64{1e-3, 0.02, 0.5, 0.999, 1, 1.5, 3, 25, 400, 1e5, 1e9, 0, -1, math.NaN(),
	math.Inf(1), math.Inf(-1)}

// pairs returns all pairs of shapes.
func pairs(shapes []float64) (alpha, beta []float64) {
	for _, a := range shapes {
		for _, b := range shapes {
			alpha, beta = append(alpha, a), append(beta, b)
		}
	}
	return alpha, beta
}

func TestSeededIsTheSameOnEveryProcessor(t *testing.T) {
	golden := []uint64{
		0x3ff0000000000000, 0x3f438268c6724b72, 0x3e033355e370073f, 0x3fd17031203cd9fa, 0x3ff0000000000000,
		0x3fefe806f172029c,
		0x3e9c493cab50049c, 0x3fefffffff34881b, 0x141c8185f0c4a101, 0x3ff0000000000000, 0x3feffffffe247b82,
		0x192899380838048c,
	}
	alpha, beta := pairs(goldenShapes)
	dst := make([]float64, len(alpha))
	all := fnv.New64a()
	for seed := range uint64(100) {
		Seeded(seed, dst, alpha, beta)
		for i, x := range dst {
			bits := math.Float64bits(x)
			all.Write(binary.LittleEndian.AppendUint64(nil, bits))
			if seed == 1 && i%23 == 0 {
				if k := i / 23; k >= len(golden) || bits != golden[k] {
					t.Errorf("sample %d of Beta(%v, %v) has the bits %#x", i, alpha[i], beta[i], bits)
				}
			}
		}
	}
	if got := all.Sum64(); got != 0xbb2d00b1e96b8cd3 {
		t.Errorf("the hash of all samples is %#x", got)
	}
}

func TestSeededDependsOnlyOnSeedPlaceAndShapes(t *testing.T) {
	alpha, beta := pairs(goldenShapes)
	want, got := make([]float64, len(alpha)), make([]float64, len(alpha))
	Seeded(7, want, alpha, beta)
	for i := range alpha {
		if i%3 != 0 {
			alpha[i], beta[i] = 5, 6
		}
	}
	Seeded(7, got, alpha, beta)
	different := 0
	for i := range got {
		if i%3 == 0 && got[i] != want[i] {
			t.Errorf("sample %d is %v, and was %v before other shapes were changed", i, got[i], want[i])
		}
		if got[i] != want[i] {
			different++
		}
	}
	if different == 0 {
		t.Error("shapes have no effect")
	}
	before := got[1]
	Seeded(8, got, alpha, beta)
	if got[1] == before {
		t.Error("the seed has no effect")
	}
}

func TestSlicesOfDifferentLengthsPanic(t *testing.T) {
	for _, lengths := range [][3]int{{1, 2, 2}, {2, 1, 2}, {2, 2, 1}, {0, 1, 1}} {
		for name, sample := range map[string]func(dst, alpha, beta []float64){
			"Sample": New(1).Sample,
			"Seeded": func(dst, alpha, beta []float64) { Seeded(1, dst, alpha, beta) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s takes slices of lengths %v", name, lengths)
					}
				}()
				sample(make([]float64, lengths[0]), make([]float64, lengths[1]), make([]float64, lengths[2]))
			}()
		}
	}
}

func TestSeedZeroIsAnotherEveryTime(t *testing.T) {
	var a, b [1]float64
	New(0).Sample(a[:], []float64{1}, []float64{1})
	New(0).Sample(b[:], []float64{1}, []float64{1})
	if a == b {
		t.Errorf("two samplers drew %v", a)
	}
	New(5).Sample(a[:], []float64{1}, []float64{1})
	New(5).Sample(b[:], []float64{1}, []float64{1})
	if a != b {
		t.Errorf("two samplers of one seed drew %v and %v", a, b)
	}
}

package beta

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// mixes are pairs of shapes as they may vary within a request.
var mixes = []struct {
	name string
	draw func(r *rand.Rand) (alpha, beta float64)
}{
	// Arms that nothing is known of.
	{"prior", func(*rand.Rand) (alpha, beta float64) { return 1, 1 }},
	{"1to100", func(r *rand.Rand) (alpha, beta float64) { return 1 + 99*r.Float64(), 1 + 99*r.Float64() }},
	// Uniform logarithms from 0.1 to a million: one in seven is below one.
	{"log", func(r *rand.Rand) (alpha, beta float64) {
		return math.Pow(10, 7*r.Float64()-1), math.Pow(10, 7*r.Float64()-1)
	}},
	// What a recommender has: of three arms in ten nothing is known, the others were shown 1 to 10,000
	// times, most of them seldom, and two to ten in a hundred were clicked.
	{"arms", func(r *rand.Rand) (alpha, beta float64) {
		if r.Float64() < 0.3 {
			return 1, 1
		}
		shown := math.Floor(math.Pow(10, 4*r.Float64()))
		clicked := math.Round(shown * (0.02 + 0.08*r.Float64()))
		return 1 + clicked, 1 + shown - clicked
	}},
}

// request is 400 pairs of a mix.
func request(draw func(r *rand.Rand) (alpha, beta float64)) (alpha, beta []float64) {
	r := rand.New(rand.NewPCG(1, 2))
	alpha, beta = make([]float64, 400), make([]float64, 400)
	for i := range alpha {
		alpha[i], beta[i] = draw(r)
	}
	return alpha, beta
}

func perSample(b *testing.B, samples int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
}

func BenchmarkSample(b *testing.B) {
	for _, w := range ways() {
		for _, mix := range mixes {
			b.Run(w.name+"/"+mix.name, func(b *testing.B) {
				sample := w.new(1)
				alpha, beta := request(mix.draw)
				dst := make([]float64, len(alpha))
				b.ReportAllocs()
				for b.Loop() {
					sample(dst, alpha, beta)
				}
				perSample(b, len(dst))
			})
		}
	}
}

// The same by gonum, which is what speed is compared with.
func BenchmarkGonum(b *testing.B) {
	for _, mix := range mixes {
		b.Run(mix.name, func(b *testing.B) {
			source := rand.NewPCG(1, 2)
			alpha, beta := request(mix.draw)
			dst := make([]float64, len(alpha))
			for b.Loop() {
				for i := range dst {
					dst[i] = distuv.Beta{Alpha: alpha[i], Beta: beta[i], Src: source}.Rand()
				}
			}
			perSample(b, len(dst))
		})
	}
}

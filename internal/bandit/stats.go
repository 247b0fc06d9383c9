package bandit

import (
	"weir/internal/bandit/arms"
	"weir/internal/metrics"
)

// stage is a part of answering.
type stage int

const (
	stageFeatures stage = iota // from the body to the posteriors
	stageSampling
	stageEncoding
	stages
)

// sizes are the upper ends of the classes that requests are counted in, by their items.
var sizes = [...]struct {
	most int
	name string
}{{1, "1"}, {8, "2-8"}, {inlineItems, "9-64"}, {512, "65-512"}, {4096, "513-4096"}, {1 << 62, "4097-"}}

func sizeClass(n int) int {
	for i, s := range sizes {
		if n <= s.most {
			return i
		}
	}
	panic("BUG: no class for a request")
}

// stats counts what happens.
type stats struct {
	predictions                    *metrics.Counter
	batches                        [len(sizes)]*metrics.Counter
	stages                         [stages]*metrics.Histogram
	accepted, duplicates, rejected *metrics.Counter
	reloaded, refused              *metrics.Counter
}

func (b *Bandit) register(r *metrics.Registry) {
	s := &b.stats
	s.predictions = r.Counter("weir_bandit_predictions_total", "Scores given.")
	for i, class := range sizes {
		s.batches[i] = r.Counter("weir_bandit_requests_total",
			"Requests for scores, by how many items each was for.", "items", class.name)
	}
	for i, name := range [stages]string{"features", "sampling", "encoding"} {
		s.stages[i] = r.Histogram("weir_bandit_stage_seconds",
			"Time in the stages of answering a request for scores.", "stage", name)
	}
	s.accepted = r.Counter("weir_bandit_events_total", "Events, by what became of them.",
		"result", "accepted")
	s.duplicates = r.Counter("weir_bandit_events_total", "Events, by what became of them.",
		"result", "duplicate")
	s.rejected = r.Counter("weir_bandit_events_total", "Events, by what became of them.",
		"result", "rejected")
	s.reloaded = r.Counter("weir_bandit_reloads_total", "Files of arms taken up while serving, or refused.",
		"result", "ok")
	s.refused = r.Counter("weir_bandit_reloads_total", "Files of arms taken up while serving, or refused.",
		"result", "refused")
	imported := func(of func(arms.Stats) uint64) func() float64 {
		return func() float64 {
			if m := b.model.Load(); m != nil && m.file != nil {
				return float64(of(m.file.Stats()))
			}
			return 0
		}
	}
	r.Gauge("weir_bandit_imported_arms", "Arms of the file that serves.",
		imported(func(s arms.Stats) uint64 { return s.Arms }))
	r.Gauge("weir_bandit_generation", "How many files of arms have served, this one included; 0 is none.",
		func() float64 {
			if m := b.model.Load(); m != nil {
				return float64(m.generation)
			}
			return 0
		})
}

package measure

import (
	"slices"
	"strconv"
	"time"
)

// Statuses is how many status codes are told apart; what is beyond counts as 0.
const Statuses = 600

// Detail is what windows are not steered by: which answers came, to which requests, and examples of what
// went wrong.
type Detail struct {
	Statuses [Statuses]uint64
	Parts    []Part // of the scenario, by number; as many as were asked for
	Samples  []Sample
}

// Part counts the requests of one part of a scenario.
type Part struct {
	Served  uint64        `json:"served"`
	Shed    uint64        `json:"shed"`
	Errors  uint64        `json:"errors"`
	Latency time.Duration `json:"latency_ns"` // the sum, of what was served or failed by its status
	Max     time.Duration `json:"max_ns"`
}

// Sample is a request without a usable answer.
type Sample struct {
	Kind    string `json:"kind"`             // a failure, or a status code
	Request string `json:"request"`          // its first line
	Detail  string `json:"detail,omitempty"` // what was wrong with the answer
}

// samplesPerKind bounds the samples.
const samplesPerKind = 3

// AddSample keeps s unless there are enough of its kind.
func (d *Detail) AddSample(s Sample) {
	if d.Wants(s.Kind) {
		d.Samples = append(d.Samples, s)
	}
}

// Wants says whether there are too few samples of a kind.
func (d *Detail) Wants(kind string) bool {
	n := 0
	for i := range d.Samples {
		if d.Samples[i].Kind == kind {
			n++
		}
	}
	return n < samplesPerKind
}

// Part returns the counts of a part.
func (d *Detail) Part(i int) *Part {
	if i >= len(d.Parts) {
		d.Parts = append(d.Parts, make([]Part, i+1-len(d.Parts))...)
	}
	return &d.Parts[i]
}

// Count counts an answer.
func (d *Detail) Count(status, part int, took time.Duration) {
	if status >= Statuses {
		status = 0
	}
	d.Statuses[status]++
	p := d.Part(part)
	switch {
	case status == 503:
		p.Shed++
		return
	case status >= 400 || status == 0:
		p.Errors++
	default:
		p.Served++
	}
	p.Latency += took
	p.Max = max(p.Max, took)
}

// Add adds o.
func (d *Detail) Add(o *Detail) {
	for i, n := range o.Statuses {
		d.Statuses[i] += n
	}
	for i, p := range o.Parts {
		sum := d.Part(i)
		sum.Served += p.Served
		sum.Shed += p.Shed
		sum.Errors += p.Errors
		sum.Latency += p.Latency
		sum.Max = max(sum.Max, p.Max)
	}
	for _, s := range o.Samples {
		d.AddSample(s)
	}
}

// Reset empties d and keeps its memory.
func (d *Detail) Reset() {
	clear(d.Parts)
	*d = Detail{Parts: d.Parts, Samples: slices.Delete(d.Samples, 0, len(d.Samples))}
}

// ByStatus are the counts by code, as JSON spells them.
func (d *Detail) ByStatus() map[string]uint64 {
	out := make(map[string]uint64)
	for code, n := range d.Statuses {
		if n > 0 {
			out[strconv.Itoa(code)] = n
		}
	}
	return out
}

// Redirects counts the answers 3xx that name another place: they are served, but not what was asked for.
func (d *Detail) Redirects() uint64 {
	var n uint64
	for _, code := range []int{301, 302, 303, 307, 308} {
		n += d.Statuses[code]
	}
	return n
}

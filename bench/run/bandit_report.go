//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
)

// banditReport is everything that was found about predictions.
type banditReport struct {
	Parameters    banditParameters `json:"parameters"`
	Bars          []*bar           `json:"bars"`
	Samples       []*banditSample  `json:"samples"`
	Sampled       []sampled        `json:"sampler,omitempty"`
	NoSampler     string           `json:"no_sampler,omitempty"` // why
	Store         []stored         `json:"store,omitempty"`
	NoStore       string           `json:"no_store,omitempty"` // why
	Allocations   *allocations     `json:"allocations,omitempty"`
	ImportSeconds float64          `json:"import_seconds,omitempty"`
}

type banditParameters struct {
	Items       int     `json:"items"`
	Users       int     `json:"users"`
	Predictions int     `json:"predictions"` // a request
	Connections int     `json:"connections"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"seconds"`
	Wrk         bool    `json:"wrk"` // asked by wrk, else by closedloop
}

// banditLane is the package whose tests say what a prediction allocates.
const banditLane = "weir/internal/bandit"

// barArms is how many items the bars are about.
const barArms = 1_000_000

// million returns a load's predictions a second.
func million(name string) func(*banditSample) (float64, bool) {
	return ofBandit(name, func(l *load) float64 { return l.PerSecond * predictItems / 1e6 })
}

func ofBandit(name string, get func(*load) float64) func(*banditSample) (float64, bool) {
	return func(s *banditSample) (float64, bool) {
		if l := s.Loads[name]; l != nil {
			return get(l), true
		}
		return 0, false
	}
}

// p99Millis returns the p99 of an open loop in milliseconds.
func p99Millis(get func(*banditSample) *summary) func(*banditSample) (float64, bool) {
	return func(s *banditSample) (float64, bool) {
		if sum := get(s); sum != nil {
			return float64(sum.P99) / 1000, true
		}
		return 0, false
	}
}

func feedAlone(s *banditSample) *summary {
	if s.Beside == nil {
		return nil
	}
	return s.Beside.Alone
}

func feedBeside(s *banditSample) *summary {
	if s.Beside == nil {
		return nil
	}
	return s.Beside.Predictions
}

func (r *banditReport) of(server string, get func(*banditSample) (float64, bool)) []float64 {
	return figuresOf(r.Samples, server, get)
}

// judge fills in the bars.
func (r *banditReport) judge() {
	add := func(figure, format string, atMost bool, limit, aim float64, values []float64) {
		r.Bars = append(r.Bars, newBar(figure, format, atMost, limit, aim, values))
	}
	none := math.NaN()
	add("a Beta sample, gonum / weir", "%.1f", false, 8, 15, samplerRatios(r.Sampled, samplerMix))
	add("predictions over JSON", "%.1f million/s", false, 8, 18, r.of(nameWeir, million(loadJSON)))
	add("predictions over JSON, weir / baseline", "%.1f", false, 12, 30, ratiosOf(r.Samples, nameWeir, nameBaseline, million(loadJSON)))
	add("predictions over binary tensors", "%.1f million/s", false, 16, 40, r.of(nameWeir, million(loadTensors)))
	add("p99 at half of the ceiling, open loop, JSON", "%.3f ms", true, 2, 1, r.of(nameWeir, p99Millis(func(s *banditSample) *summary { return s.Open })))
	add("allocations a request on the table store", "%.0f", true, 0, 0, r.Allocations.perRequest(banditLane))
	var store []float64
	for _, s := range r.Store {
		store = append(store, s.Weir.PerSecond/s.Feast.PerSecond)
	}
	add("Feast's Redis store, cold cache, requests/s, weir / Feast's server", "%.1f", false, 10, 30, store)
	add("the feed's p99 beside predictions back to back, open loop", "%.3f ms", true, none, none, r.of(nameWeir, p99Millis(feedBeside)))
}

func (r *banditReport) write(b *strings.Builder) {
	p := r.Parameters
	fmt.Fprintf(b, "\n### Bandit\n\n%d items, %d a request, %d connections, medians of %d rounds of %.0f s.\n\n", p.Items, p.Predictions, p.Connections, p.Rounds, p.Seconds)
	if p.Items != barArms {
		fmt.Fprintf(b, "The bars are set for %d items: this was a quick look.\n\n", barArms)
	}
	writeBars(b, r.Bars)

	fmt.Fprint(b, "\n| server | requests | requests/s | predictions/s | CPU a request | p50 | p99 | memory |\n|---|---|---|---|---|---|---|---|\n")
	for _, server := range []string{nameBaseline, nameWeir} {
		for _, l := range banditLoads {
			get := func(of func(*load) float64) float64 {
				v, _ := median(r.of(server, ofBandit(l.name, of)))
				return v
			}
			if len(r.of(server, million(l.name))) == 0 {
				continue
			}
			memory, _ := median(r.of(server, func(s *banditSample) (float64, bool) { return float64(s.Memory), true }))
			rate := get(func(l *load) float64 { return l.PerSecond })
			fmt.Fprintf(b, "| %s | %s: %s | %.0f | %.2f million | %.2f us | %.0f us | %.0f us | %s |\n", server, l.name, l.is, rate, rate*float64(p.Predictions)/1e6,
				get(func(l *load) float64 { return l.CPU }), get(func(l *load) float64 { return float64(l.P50) }),
				get(func(l *load) float64 { return float64(l.P99) }), mib(int64(memory)))
		}
	}
	r.writeSampler(b)
	for _, n := range r.notes() {
		fmt.Fprintf(b, "\n- %s", n)
	}
	fmt.Fprintln(b)
}

// writeSampler writes a table of paths by mixes.
func (r *banditReport) writeSampler(b *strings.Builder) {
	if len(r.Sampled) == 0 {
		return
	}
	mixes := unique(r.Sampled, func(s sampled) string { return s.Mix })
	fmt.Fprintf(b, "\n| ns a sample | %s |\n|---|%s\n", strings.Join(mixes, " | "), strings.Repeat("---|", len(mixes)))
	for _, path := range unique(r.Sampled, func(s sampled) string { return s.Path }) {
		fmt.Fprintf(b, "| %s |", path)
		for _, mix := range mixes {
			if v, ok := median(samplerTimes(r.Sampled, path, mix)); ok {
				fmt.Fprintf(b, " %.2f |", v)
			} else {
				fmt.Fprint(b, " - |")
			}
		}
		fmt.Fprintln(b)
	}
}

// notes are the figures without a bar that help to read those with one.
func (r *banditReport) notes() []string {
	var notes []string
	note := func(format string, values ...[]float64) {
		var args []any
		for _, v := range values {
			m, ok := median(v)
			if !ok {
				return
			}
			args = append(args, m)
		}
		notes = append(notes, fmt.Sprintf(format, args...))
	}
	asker := "closedloop"
	if r.Parameters.Wrk {
		asker = "wrk"
	}
	for _, name := range []string{loadJSON, loadTensors} {
		note(asker+"'s core was %.0f %% busy asking weir for "+name+", weir's %.0f %%.",
			r.of(nameWeir, ofBandit(name, func(l *load) float64 { return 100 * l.Asking })),
			r.of(nameWeir, ofBandit(name, func(l *load) float64 { return 100 * l.Busy })))
	}
	open := func(get func(*summary) float64, of func(*banditSample) *summary) func(*banditSample) (float64, bool) {
		return func(s *banditSample) (float64, bool) {
			if sum := of(s); sum != nil {
				return get(sum), true
			}
			return 0, false
		}
	}
	ofJSON := func(s *banditSample) *summary { return s.Open }
	ofTensors := func(s *banditSample) *summary { return s.OpenTensors }
	rate := func(s *summary) float64 { return s.Rate }
	lag := func(s *summary) float64 { return float64(s.Lag) / 1000 }
	note("The open loop sent %.0f requests a second over JSON and noticed 99 %% of them within %.3f ms of when they were due.",
		r.of(nameWeir, open(rate, ofJSON)), r.of(nameWeir, open(lag, ofJSON)))
	windowed := func(s *summary) float64 { return float64(s.Window) / 1000 }
	note("In the median of its windows of 100 ms, where a stall of the machine does not count, the p99 was %.3f ms over JSON and %.3f ms with binary tensors.",
		r.of(nameWeir, open(windowed, ofJSON)), r.of(nameWeir, open(windowed, ofTensors)))
	note("With binary tensors at half of their ceiling, %.0f requests a second, the p99 was %.3f ms.",
		r.of(nameWeir, open(rate, ofTensors)), r.of(nameWeir, p99Millis(ofTensors)))
	note(fmt.Sprintf("The feed's p99 at %d requests a second was %%.3f ms beside predictions back to back on one connection, %%.0f requests of %d items a second, and %%.3f ms without.",
		besideRate, r.Parameters.Predictions), r.of(nameWeir, p99Millis(feedBeside)),
		r.of(nameWeir, open(func(s *summary) float64 { return float64(s.Also.Requests) / r.Parameters.Seconds }, feedBeside)),
		r.of(nameWeir, p99Millis(feedAlone)))
	if r.ImportSeconds > 0 {
		notes = append(notes, fmt.Sprintf("weir import-arms took %.1f s.", r.ImportSeconds))
	}
	if r.NoSampler != "" {
		notes = append(notes, "The sampler was not measured: "+r.NoSampler+".")
	}
	if r.NoStore != "" {
		notes = append(notes, "Feast's store was not measured: "+r.NoStore+".")
	}
	var weir, feast []float64
	for _, s := range r.Store {
		weir, feast = append(weir, s.Weir.PerSecond), append(feast, s.Feast.PerSecond)
	}
	note("On Feast's Redis store weir answered %.0f requests a second, Feast's server %.1f.", weir, feast)
	if n, worst := r.disturbed(); n > 0 {
		notes = append(notes, fmt.Sprintf("Loads in which others had more than a tenth of one of the cores, also when they were repeated: %d, up to %.0f %%. Their figures are the others', too.", n, 100*worst))
	}
	return notes
}

// disturbed returns how many loads were, and the largest share that others had of a core.
func (r *banditReport) disturbed() (n int, worst float64) {
	for _, s := range r.Samples {
		for _, l := range s.Loads {
			if l.disturbed() {
				n++
				worst = max(worst, l.Others, l.OthersAsking)
			}
		}
	}
	return n, worst
}

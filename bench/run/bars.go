//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// What the bars are about. Smaller runs compare with them for a first impression only.
const (
	barUsers = 5_000_000
	barItems = 200
)

// bar is a figure that weir has promised to reach, and what became of it. Bars are not moved to
// where the measurements are: a missed one is reported as missed.
type bar struct {
	Figure string    `json:"figure"`
	Format string    `json:"-"`                  // of one value, with its unit
	Bar    *float64  `json:"bar,omitempty"`      // nil when the figure is only reported
	Aim    *float64  `json:"aim,omitempty"`      // beyond the bar, what would be good
	AtMost bool      `json:"at_most"`            // else at least
	Values []float64 `json:"values,omitempty"`   // one a round
	Median *float64  `json:"measured,omitempty"` // nil when it was not measured
	Result string    `json:"result"`             // aim met, bar met, missed, reported, not measured
}

func (b *bar) limit(v *float64) string {
	if v == nil {
		return "-"
	}
	sign := ">= "
	if b.AtMost {
		sign = "<= "
	}
	return sign + fmt.Sprintf(b.Format, *v)
}

func (b *bar) value() string {
	if b.Median == nil {
		return "-"
	}
	return fmt.Sprintf(b.Format, *b.Median)
}

func (b *bar) spread() string {
	if len(b.Values) < 2 {
		return "-"
	}
	return fmt.Sprintf(b.Format+".."+b.Format, slices.Min(b.Values), slices.Max(b.Values))
}

func (b *bar) verdict() string {
	if b.Result == missed {
		return "**" + missed + "**"
	}
	return b.Result
}

const (
	aimMet      = "aim met"
	barMet      = "bar met"
	missed      = "missed"
	reported    = "reported"
	notMeasured = "not measured"
)

// newBar returns a bar that is decided. A limit or an aim that is not a number is none.
func newBar(figure, format string, atMost bool, limit, aim float64, values []float64) *bar {
	b := &bar{Figure: figure, Format: format, AtMost: atMost, Values: values}
	if !math.IsNaN(aim) {
		b.Aim = &aim
	}
	if !math.IsNaN(limit) {
		b.Bar = &limit
	}
	b.decide()
	return b
}

// writeBars writes the table of bars.
func writeBars(w *strings.Builder, bars []*bar) {
	fmt.Fprint(w, "| figure | bar | aim | measured | lowest..highest | |\n|---|---|---|---|---|---|\n")
	for _, b := range bars {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n",
			b.Figure, b.limit(b.Bar), b.limit(b.Aim), b.value(), b.spread(), b.verdict())
	}
}

// decide fills in Median and Result from Values.
func (b *bar) decide() {
	v, ok := median(b.Values)
	if !ok {
		b.Result = notMeasured
		return
	}
	b.Median = &v
	reaches := func(limit *float64) bool {
		return limit != nil && (b.AtMost && v <= *limit || !b.AtMost && v >= *limit)
	}
	switch {
	case reaches(b.Aim):
		b.Result = aimMet
	case b.Bar == nil:
		b.Result = reported
	case reaches(b.Bar):
		b.Result = barMet
	default:
		b.Result = missed
	}
}

// judge fills in the feed's bars from what was measured.
func (r *report) judge() {
	add := func(figure, format string, atMost bool, limit, aim float64, values []float64) {
		r.Bars = append(r.Bars, newBar(figure, format, atMost, limit, aim, values))
	}
	none := math.NaN()

	add("CPU a request, weir / C floor", "%.2f", true, 1.20, 1.10, r.ratios(nameWeir, nameFloor, plainCPU))
	add("CPU a request, baseline / weir", "%.2f", false, 2.4, 2.8, r.ratios(nameBaseline, nameWeir, plainCPU))
	add("pipelined by 16, requests/s, weir / baseline", "%.1f", false, 7, 12, r.ratios(nameWeir, nameBaseline, pipelinedRate))
	add("memory after the run, weir / baseline", "%.2f", true, 0.5, 0.46, r.ratios(nameWeir, nameBaseline, memoryOf))

	var hot, first, warming []float64
	if r.Starts != nil {
		for _, ms := range r.Starts.Hot {
			hot = append(hot, ms/1000)
		}
		for _, c := range r.Starts.Cold {
			first = append(first, c.First/1000)
			warming = append(warming, float64(c.Warming.P99)/1000)
		}
	}
	add("exec to first answer, warm page cache", "%.2f s", true, 1, 0.2, hot)
	add("exec to first answer, cold page cache", "%.2f s", true, 1, 0.3, first)
	add("p99 while it warms after a cold start", "%.1f ms", true, none, 10, warming)

	add("a request lent to net/http, CPU", "%.1f us", true, 20, 10, r.of(nameWeir, func(s *sample) (float64, bool) {
		if s.Lent == nil {
			return 0, false
		}
		return s.Lent.CPU, true
	}))
	var open []float64
	for _, us := range r.of(nameWeir, p99Of(func(s *sample) *summary { return s.Open })) {
		open = append(open, us/1000)
	}
	add("p99 at half of the ceiling, open loop, beside lent requests back to back", "%.3f ms", true, 1, 0.3, open)

	add("allocations a request on the fast lane", "%.0f", true, 0, 0, r.Allocations.perRequest(fastLane))

	for _, i := range []struct {
		figure, input string
		bar, aim      float64
	}{
		{"import from Parquet lists", inputLists, 180, 60},
		{"import of the same as exploded rows", inputExploded, 600, 300},
	} {
		var seconds []float64
		for _, m := range r.Imports {
			if m.Input == i.input {
				seconds = append(seconds, m.Seconds)
			}
		}
		add(i.figure, "%.0f s", true, i.bar, i.aim, seconds)
	}
}

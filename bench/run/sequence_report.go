//go:build linux

package main

import (
	"fmt"
	"strings"
)

// sequenceReport is everything that was found about the sequence.
type sequenceReport struct {
	Parameters sequenceParameters `json:"parameters"`
	Bars       []*bar             `json:"bars"`
	Samples    []*sequenceSample  `json:"samples"`
	Computed   []*computed        `json:"computed"`
}

type sequenceParameters struct {
	Connections int     `json:"connections"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"seconds"`
	Wrk         bool    `json:"wrk"` // asked by wrk, else by closedloop
}

// rateOf and cpuOf return a load's figures.
func rateOf(name string) func(*sequenceSample) (float64, bool) {
	return ofLoad(name, func(l *load) float64 { return l.PerSecond })
}

func cpuOf(name string) func(*sequenceSample) (float64, bool) {
	return ofLoad(name, func(l *load) float64 { return l.CPU })
}

func ofLoad(name string, get func(*load) float64) func(*sequenceSample) (float64, bool) {
	return func(s *sequenceSample) (float64, bool) {
		if l := s.Loads[name]; l != nil {
			return get(l), true
		}
		return 0, false
	}
}

func ofWalk(get func(*walked) int64) func(*sequenceSample) (float64, bool) {
	return func(s *sequenceSample) (float64, bool) {
		if s.Walked != nil {
			return float64(get(s.Walked)) / (1 << 20), true
		}
		return 0, false
	}
}

func (r *sequenceReport) of(server string, get func(*sequenceSample) (float64, bool)) []float64 {
	return figuresOf(r.Samples, server, get)
}

func (r *sequenceReport) ratios(a, b string, get func(*sequenceSample) (float64, bool)) []float64 {
	return ratiosOf(r.Samples, a, b, get)
}

// times returns get of each round's computation where it is known, which is where it is not 0.
func (r *sequenceReport) times(name string, get func(*computed) float64) []float64 {
	var values []float64
	for _, c := range r.Computed {
		if v := get(c); c.Name == name && v > 0 {
			values = append(values, v)
		}
	}
	return values
}

func weirTime(c *computed) float64     { return c.Weir }
func gmpTime(c *computed) float64      { return c.GMP }
func gmpValueTime(c *computed) float64 { return c.GMPValue }

// toGMP is weir's time over GMP's, or 0 when one of them was not measured.
func toGMP(c *computed) float64 {
	if c.GMP == 0 {
		return 0
	}
	return c.Weir / c.GMP
}

// judge fills in the sequence's bars.
func (r *sequenceReport) judge() {
	add := func(figure, format string, atMost bool, limit, aim float64, values []float64) {
		r.Bars = append(r.Bars, newBar(figure, format, atMost, limit, aim, values))
	}
	for _, f := range []struct {
		load     string
		bar, aim float64
	}{
		{loadLow, 20, 45},
		{loadHigh, 20, 45},
		{loadCurrent, 25, 50},
	} {
		add(f.load+", requests/s, weir / baseline", "%.1f", false, f.bar, f.aim, r.ratios(nameWeir, nameBaseline, rateOf(f.load)))
	}
	add(loadAll+", CPU a request, weir / C floor", "%.2f", true, 1.6, 1.2, r.ratios(nameWeir, nameFloor, cpuOf(loadAll)))
	add(computeStep+", in process", "%.2f us", true, 3, 0.5,
		r.times(computeStep, func(c *computed) float64 { return c.Weir / 1e3 }))
	add(computeMillion+", weir / GMP", "%.2f", true, 2, 1, r.times(computeMillion, toGMP))
	add(computeTenMillion+", weir / GMP", "%.2f", true, 3, 1, r.times(computeTenMillion, toGMP))
	add("resident memory after /next from 0 to 100,000", "%.0f MiB", true, 64, 32,
		r.of(nameWeir, ofWalk(func(w *walked) int64 { return w.Resident })))
}

func (r *sequenceReport) write(b *strings.Builder) {
	p := r.Parameters
	fmt.Fprintf(b, "\n### Sequence\n\n%d connections, medians of %d rounds of %.0f s.\n\n", p.Connections, p.Rounds, p.Seconds)
	writeBars(b, r.Bars)

	fmt.Fprint(b, "\n| server |")
	for _, l := range sequenceLoads {
		fmt.Fprintf(b, " %s, requests/s | CPU a request |", l.name)
	}
	fmt.Fprint(b, "\n|---|", strings.Repeat("---|", 2*len(sequenceLoads)), "\n")
	for _, server := range []string{nameFloor, nameBaseline, nameWeir} {
		if len(r.of(server, rateOf(loadAll))) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", server)
		for _, l := range sequenceLoads {
			rate, _ := median(r.of(server, rateOf(l.name)))
			cpu, _ := median(r.of(server, cpuOf(l.name)))
			fmt.Fprintf(b, " %.0f | %.2f us |", rate, cpu)
		}
		fmt.Fprintln(b)
	}

	fmt.Fprint(b, "\n| computed | weir | GMP | of that the value |\n|---|---|---|---|\n")
	for _, c := range computations {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", c.name,
			duration(r.times(c.name, weirTime)), duration(r.times(c.name, gmpTime)), duration(r.times(c.name, gmpValueTime)))
	}
	for _, n := range r.notes() {
		fmt.Fprintf(b, "\n- %s", n)
	}
	fmt.Fprintln(b)
}

// duration writes the median of times in nanoseconds.
func duration(ns []float64) string {
	v, ok := median(ns)
	switch {
	case !ok:
		return "-"
	case v < 1e6:
		return fmt.Sprintf("%.2f us", v/1e3)
	}
	return fmt.Sprintf("%.2f ms", v/1e6)
}

// disturbed returns how many loads were, and the largest share that others had of a core.
func (r *sequenceReport) disturbed() (n int, worst float64) {
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

// notes are the figures without a bar that help to read those with one.
func (r *sequenceReport) notes() []string {
	var notes []string
	asker := "closedloop"
	if r.Parameters.Wrk {
		asker = "wrk"
	}
	for _, server := range []string{nameFloor, nameWeir} {
		asking, ok := median(r.of(server, ofLoad(loadCurrent, func(l *load) float64 { return 100 * l.Asking })))
		rate, known := median(r.of(server, rateOf(loadCurrent)))
		if ok && known {
			notes = append(notes, fmt.Sprintf("%s's core was %.0f %% busy asking %s for /current, %.0f times a second.", asker, asking, server, rate))
		}
	}
	busy := ofLoad(loadAll, func(l *load) float64 { return 100 * l.Busy })
	floor, ok1 := median(r.of(nameFloor, busy))
	weir, ok2 := median(r.of(nameWeir, busy))
	if ok1 && ok2 {
		notes = append(notes, fmt.Sprintf("Asked for the three, the floor was busy %.0f %% of the time and weir %.0f %%: a server that waits is woken more often, for fewer requests each time, and each costs it more.", floor, weir))
	}
	for _, l := range sequenceLoads[:3] {
		if v, ok := median(r.ratios(nameFloor, nameBaseline, rateOf(l.name))); ok {
			notes = append(notes, fmt.Sprintf("%s: the C floor is at %.0f times the baseline, which is as far as system calls go.", l.name, v))
		}
	}
	if n, worst := r.disturbed(); n > 0 {
		notes = append(notes, fmt.Sprintf("Loads in which others had more than a tenth of one of the cores, also when they were repeated: %d, up to %.0f %%. Their figures are the others', too.", n, 100*worst))
	}
	own, ok1 := median(r.of(nameWeir, ofWalk(func(w *walked) int64 { return w.Own })))
	peak, ok2 := median(r.of(nameWeir, ofWalk(func(w *walked) int64 { return w.Peak })))
	if ok1 && ok2 {
		notes = append(notes, fmt.Sprintf("Of the resident memory %.0f MiB were weir's own, not program text and not mapped files; at most %.0f MiB were resident during the walk.", own, peak))
	}
	version := ""
	for _, c := range r.Computed {
		if c.Version != "" {
			version = c.Version
		}
	}
	if version == "" {
		return append(notes, "GMP was not measured: it was not there to build with (Debian has it as libgmp-dev).")
	}
	return append(notes, "GMP is version "+version+", as the system has it.")
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/load/control"
)

// section is a part of what a result says in words and tables. Pages and terminals show the same ones. Its
// texts may come from anywhere: who shows them makes them safe.
type section struct {
	title   string
	columns []string // of a table of figures; nil where rows are a label and a text
	rows    [][]string
}

// sections lists what there is to say of a result, the plots and marks aside.
func sections(r *Result) []section {
	run, more, verdicts := section{title: "Requests"}, section{title: "Generator"},
		section{title: "Conditions"}
	latency := section{"Latency", []string{"", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"},
		[][]string{latencyRow("latency", r.Latency)}}
	parts := section{title: "Parts", columns: []string{"part", "served", "shed", "errors", "mean", "max"}}
	line := func(s *section, label, text string) {
		if text != "" {
			s.rows = append(s.rows, []string{label, text})
		}
	}
	line(&run, "ended", r.Reason)
	line(&run, "requests", Count(r.Requests)+" in "+Seconds(r.Seconds)+": "+outcomes(r))
	line(&run, "errors", failures(r.Failures))
	line(&run, "answers", codes(r.Statuses))
	line(&run, "rate", fmt.Sprintf("intended %s, achieved %s, served %s", PerSecond(r.Rate.Intended),
		PerSecond(r.Rate.Achieved), PerSecond(r.Rate.Served)))
	if c := r.Ceiling; c != nil {
		line(&run, "ceiling", ceilingText(c))
	}
	line(&run, "users", naturally(r))
	if r.Shed > 0 {
		latency.rows = append(latency.rows, latencyRow("shed in", r.ShedIn))
	}
	for _, p := range r.Parts {
		parts.rows = append(parts.rows, []string{p.Name, Count(p.Served), Count(p.Shed), Count(p.Errors),
			Micros(p.Mean), Micros(p.Max)})
	}
	for _, s := range r.Samples {
		line(&more, "example", sampleText(s))
	}
	line(&more, "traffic", Size(float64(r.Bytes.In))+" in, "+Size(float64(r.Bytes.Out))+" out")
	g := &r.Generator
	line(&more, "generator",
		fmt.Sprintf("%s CPU a request, busiest thread %s, lag %s at p99 and %s at most%s",
			Micros(g.CPUMicros), Share(g.Busy), Micros(g.LagP99), Micros(g.LagMax), runners(g.Runners)))
	for _, v := range r.Verdicts {
		word, got := "ok", v.Got
		if v.Failed {
			word = failedWord
		}
		if got == "" {
			got = digits3(max(v.Value, 0))
		}
		line(&verdicts, word, v.Condition+": it was "+got)
	}
	return slices.DeleteFunc([]section{run, latency, parts, more, verdicts}, func(s section) bool {
		return len(s.rows) == 0
	})
}

// failedWord is the label of a condition that failed the run.
const failedWord = "FAILED"

// Summary writes what a terminal shows at the end of a run.
func Summary(w io.Writer, r *Result) error {
	var b strings.Builder
	if r.Name != "" {
		fmt.Fprintf(&b, "%s\n", Plain(r.Name))
	}
	for _, s := range sections(r) {
		for _, row := range s.rows {
			for i := range row {
				row[i] = Plain(row[i])
			}
			if s.columns == nil {
				fmt.Fprintf(&b, "  %-11s%s\n", row[0], row[1])
			}
		}
		if s.columns != nil {
			b.WriteByte('\n')
			columns(&b, "  ", append([][]string{s.columns}, s.rows...))
			b.WriteByte('\n')
		}
	}
	for _, m := range r.Marks {
		fmt.Fprintf(&b, "  ! %s\n", Plain(m))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func runners(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", on %d machines", n)
}

func outcomes(r *Result) string {
	share := func(n uint64) string {
		if n == 0 || n == r.Requests {
			return ""
		}
		return " (" + Share(float64(n)/float64(max(r.Requests, 1))) + ")"
	}
	return fmt.Sprintf("%s served%s, %s shed%s, %s errors%s",
		Count(r.Served), share(r.Served), Count(r.Shed), share(r.Shed), Count(r.Errors), share(r.Errors))
}

// codes lists answers by their status, if there are others than 200.
func codes(statuses map[string]uint64) string {
	if len(statuses) == 0 || len(statuses) == 1 && statuses["200"] > 0 {
		return ""
	}
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		parts = append(parts, Count(statuses[code])+" with "+code)
	}
	return strings.Join(parts, ", ")
}

func sampleText(s Sample) string {
	text := s.Request + ": " + strings.ReplaceAll(s.Kind, "_", " ")
	if s.Detail != "" {
		text += ", " + s.Detail
	}
	return text
}

// failures lists errors by kind, the most frequent first.
func failures(kinds map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = Count(kinds[name]) + " " + strings.ReplaceAll(name, "_", " ")
	}
	return strings.Join(names, ", ")
}

// naturally compares what was served, or could be, with what the users make by themselves.
func naturally(r *Result) string {
	switch {
	case r.Natural == 0:
		return ""
	case r.Ceiling != nil:
		return fmt.Sprintf("make %s by themselves; the ceiling is %s times that", PerSecond(r.Natural),
			digits3(r.Ceiling.Rate/r.Natural))
	}
	return fmt.Sprintf("make %s by themselves; served were %s times that", PerSecond(r.Natural),
		digits3(r.Rate.Served/r.Natural))
}

func ceilingText(c *control.Ceiling) string {
	text := PerSecond(c.Rate) + sureText(c)
	if c.Converged {
		text += ", found in " + Seconds(c.Seconds)
	} else {
		text += ", not converged"
	}
	if c.Limit != "" {
		text += ", limited by " + c.Limit
	}
	return text
}

// sureText says how sure a ceiling is. Where a load was held, or a condition stopped the run, one load or
// two are known, and no interval. Where no load was too much, there is no upper end.
func sureText(c *control.Ceiling) string {
	switch {
	case c.High == 0:
		return " at least"
	case c.Low == c.High:
		return ""
	case c.Rate == c.Low:
		return ", and not " + PerSecond(c.High)
	}
	return fmt.Sprintf(", 95 %% sure of %s to %s", PerSecond(c.Low), PerSecond(c.High))
}

func latencyRow(label string, l Latency) []string {
	row := []string{label}
	for _, v := range []float64{l.Mean, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max} {
		if l.Max == 0 {
			row = append(row, "-") // nothing was counted
			continue
		}
		row = append(row, Micros(v))
	}
	return row
}

// columns writes rows of cells, the first column flush left and the others flush right.
func columns(b *strings.Builder, indent string, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				text.WriteString(indent + cell + pad)
			} else {
				text.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

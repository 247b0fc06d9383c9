package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Summary writes what a terminal shows at the end of a run.
func Summary(w io.Writer, r *Result) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s%s\n", label, fmt.Sprintf(format, args...))
	}
	if r.Name != "" {
		fmt.Fprintf(&b, "%s\n", Plain(r.Name))
	}
	if r.Reason != "" {
		line("ended", "%s", Plain(r.Reason))
	}
	line("requests", "%s in %s: %s", Count(r.Requests), Seconds(r.Seconds), outcomes(r))
	if len(r.Failures) > 0 {
		line("errors", "%s", failures(r.Failures))
	}
	if text := codes(r.Statuses); text != "" {
		line("answers", "%s", text)
	}
	line("rate", "intended %s, achieved %s, served %s",
		PerSecond(r.Rate.Intended), PerSecond(r.Rate.Achieved), PerSecond(r.Rate.Served))
	if c := r.Ceiling; c != nil {
		line("ceiling", "%s", ceilingText(c.Rate, c.Low, c.High, c.Seconds, c.Converged, Plain(c.Limit)))
	}
	b.WriteByte('\n')
	rows := [][]string{{"", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"}}
	rows = append(rows, latencyRow("latency", r.Latency))
	if r.Shed > 0 {
		rows = append(rows, latencyRow("shed in", r.ShedIn))
	}
	columns(&b, "  ", rows)
	b.WriteByte('\n')

	if len(r.Parts) > 0 {
		rows := [][]string{{"part", "served", "shed", "errors", "mean", "max"}}
		for _, p := range r.Parts {
			rows = append(rows, []string{Plain(p.Name), Count(p.Served), Count(p.Shed), Count(p.Errors), Micros(p.Mean), Micros(p.Max)})
		}
		columns(&b, "  ", rows)
		b.WriteByte('\n')
	}
	for _, s := range r.Samples {
		line("for example", "%s", sampleText(s))
	}
	line("traffic", "%s in, %s out", Size(float64(r.Bytes.In)), Size(float64(r.Bytes.Out)))
	g := &r.Generator
	line("generator", "%s CPU a request, busiest thread %s, lag %s at p99 and %s at most%s",
		Micros(g.CPUMicros), Share(g.Busy), Micros(g.LagP99), Micros(g.LagMax), runners(g.Runners))
	for _, v := range r.Verdicts {
		line(verdictWord(v), "%s: %s", Plain(v.Condition), verdictValue(v))
	}
	for _, m := range r.Marks {
		fmt.Fprintf(&b, "  ! %s\n", Plain(m))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdictWord(v Verdict) string {
	if v.Failed {
		return "FAILED"
	}
	return "ok"
}

// verdictValue writes what a condition's value was.
func verdictValue(v Verdict) string {
	if v.Got != "" {
		return "it was " + Plain(v.Got)
	}
	return "it was " + digits3(max(v.Value, 0))
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
		parts = append(parts, Count(statuses[code])+" with "+Plain(code))
	}
	return strings.Join(parts, ", ")
}

// sampleText says what became of a request.
func sampleText(s Sample) string {
	text := Plain(s.Request) + ": " + Plain(strings.ReplaceAll(s.Kind, "_", " "))
	if s.Detail != "" {
		text += ", " + Plain(s.Detail)
	}
	return text
}

// failures lists errors by kind, the most frequent first.
func failures(kinds map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		switch {
		case kinds[a] > kinds[b]:
			return -1
		case kinds[a] < kinds[b]:
			return 1
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = Count(kinds[name]) + " " + Plain(strings.ReplaceAll(name, "_", " "))
	}
	return strings.Join(names, ", ")
}

func ceilingText(rate, low, high, seconds float64, converged bool, limit string) string {
	text := PerSecond(rate) + sureText(rate, low, high)
	if converged {
		text += ", found in " + Seconds(seconds)
	} else {
		text += ", not converged"
	}
	if limit != "" {
		text += ", limited by " + limit
	}
	return text
}

// sureText says how sure a ceiling is. Where a load was held, or a condition stopped the run, one load or
// two are known, and no interval. Where no load was too much, there is no upper end.
func sureText(rate, low, high float64) string {
	switch {
	case high == 0:
		return " at least"
	case low == high:
		return ""
	case rate == low:
		return ", and not " + PerSecond(high)
	}
	return fmt.Sprintf(", 95 %% sure of %s to %s", PerSecond(low), PerSecond(high))
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

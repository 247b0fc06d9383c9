package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/report/uplot"
)

// A page is put together by hand: the packages of templates would keep every method of every type in the
// binary, which is 28 MB. So whatever is not constant goes through page.text or json.Marshal, which leaves
// no < in; and if something slips through all the same, the page's policy lets no script run but its own
// two.

//go:embed page
var pageFiles embed.FS

// page is HTML that is being written.
type page struct{ strings.Builder }

// raw writes HTML.
func (p *page) raw(html string) { p.WriteString(html) }

// text writes text.
func (p *page) text(s string) { p.WriteString(html.EscapeString(s)) }

// element writes <tag>text</tag>; the tag may have constant attributes.
func (p *page) element(tag, text string) {
	name, _, _ := strings.Cut(tag, " ")
	p.raw("<" + tag + ">")
	p.text(text)
	p.raw("</" + name + ">")
}

// table writes a table; the first row are the columns' names, or empty.
func (p *page) table(class string, rows [][]string) {
	p.raw(`<div class="wide"><table class="` + class + `">`)
	for i, row := range rows {
		switch {
		case i > 0:
			p.raw("<tr>")
			for _, cell := range row {
				p.element("td", cell)
			}
			p.raw("</tr>\n")
		case strings.Join(row, "") == "":
			p.raw("<tbody>\n")
		default:
			p.raw("<thead><tr>")
			for _, cell := range row {
				p.element(`th scope="col"`, cell)
			}
			p.raw("</tr></thead><tbody>\n")
		}
	}
	p.raw("</tbody></table></div>\n")
}

// WriteHTML writes r as one page that needs no other file and no network: figures, plots and the plan.
func WriteHTML(w io.Writer, r *Result) error {
	data, err := pageData(r)
	if err != nil {
		return err
	}
	script, style := []string{asset(uplot.Files, uplot.Script), asset(pageFiles, "page/report.js")}, asset(uplot.Files, uplot.Style)+asset(pageFiles, "page/report.css")

	title := "weir load"
	if r.Name != "" {
		title = r.Name + " - weir load"
	}
	var p page
	p.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	p.raw(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src ` +
		source(style) + `; script-src ` + source(script[0]) + ` ` + source(script[1]) + `">` + "\n")
	p.raw(`<meta name="viewport" content="width=device-width, initial-scale=1">` + "\n" + `<meta name="color-scheme" content="light dark">` + "\n")
	p.element("title", title)
	p.raw("\n<style>" + style + "</style>\n</head>\n<body>\n")
	p.head(r)
	p.tiles(r)
	p.plots(r)
	p.tables(r)
	p.raw("<footer><p>Made by weir load. Plots by uPlot.</p>\n<details><summary>Licence of uPlot</summary>")
	p.element("pre", asset(uplot.Files, uplot.License))
	p.raw("</details></footer>\n")
	p.raw(`<script type="application/json" id="data">` + data + "</script>\n")
	for _, s := range script {
		p.raw("<script>" + s + "</script>\n")
	}
	p.raw("</body>\n</html>\n")
	_, err = io.WriteString(w, p.String())
	return err
}

func asset(files embed.FS, name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("BUG: an embedded file is missing: " + err.Error())
	}
	return string(text)
}

// source is how a policy names a script or style that stands in the page.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p *page) head(r *Result) {
	name := r.Name
	if name == "" {
		name = "weir load"
	}
	p.raw("<header>\n")
	p.element("h1", name)
	fields := planFields(r.Plan)
	what := fields["url"]
	if what == "" {
		what = strings.TrimSpace(fields["scenario"] + " " + fields["target"])
	}
	if what != "" {
		p.element("p", what)
	}
	about := Seconds(r.Seconds) + " measured"
	if !r.Started.IsZero() {
		about = r.Started.Format("2006-01-02 15:04:05 MST") + ", " + about
	}
	if r.Reason != "" {
		about += "; ended: " + r.Reason
	}
	p.element(`p class="soft"`, about)
	p.raw("</header>\n")
	if len(r.Marks) > 0 {
		p.raw(`<section class="marks" role="alert"><strong>These figures are not to be trusted as they stand</strong><ul>` + "\n")
		for _, m := range r.Marks {
			p.element("li", m)
		}
		p.raw("</ul></section>\n")
	}
}

func (p *page) tiles(r *Result) {
	tile := func(value, label string) {
		p.raw(`<div class="tile">`)
		p.element("b", value)
		p.element("span", label)
		p.raw("</div>\n")
	}
	p.raw(`<section class="tiles" aria-label="Key figures">` + "\n")
	if c := r.Ceiling; c != nil {
		tile(PerSecond(c.Rate), "ceiling"+sureText(c.Rate, c.Low, c.High))
	}
	tile(PerSecond(r.Rate.Served), "served, of "+PerSecond(r.Rate.Intended)+" intended")
	l := latencyRow("", r.Latency)
	tile(l[2], "latency, half of all (p50)")
	tile(l[5], "latency, 99 of 100 (p99)")
	tile(l[6], "latency, 999 of 1000 (p99.9)")
	of := func(n uint64) string { return Share(float64(n) / float64(max(r.Requests, 1))) }
	tile(of(r.Errors), "errors, "+Count(r.Errors)+" requests")
	tile(of(r.Shed), "shed, "+Count(r.Shed)+" requests")
	tile(Micros(r.Generator.CPUMicros), "generator's CPU a request")
	p.raw("</section>\n")
}

func (p *page) plots(r *Result) {
	plot := func(id, title, about string) {
		p.element("h2", title)
		p.raw("<div class=\"plot\" id=\"" + id + "\" aria-label=\"")
		p.text(about)
		p.raw("\"></div>\n")
	}
	plot("rate", "Rate", "Requests a second over time: intended, achieved, served, shed, errors and the ceiling")
	plot("latency", "Latency over time", "Latency over time, a logarithmic axis: p50, p90, p99 and the largest")
	plot("percentiles", "Latency by percentile", "Latency by percentile")
	plot("use", "Generator", "How busy the generator was, its connections and the requests in flight over time")
	if slices.ContainsFunc(r.Trace, func(p Point) bool { return p.TargetCPU != nil || p.TargetMemory != nil }) {
		plot("target", "Target", "The processors and the memory that the target used, by its own metrics, over time")
	}
	p.raw("<noscript><p>The plots need JavaScript. All figures are in the tables.</p></noscript>\n")
	p.raw(`<p class="soft">Grey time was not measured. Select a stretch of time to look closer; a double click shows all.</p>` + "\n")
}

func (p *page) tables(r *Result) {
	p.element("h2", "Latency")
	rows := [][]string{{"", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"}, latencyRow("answered", r.Latency)}
	if r.Shed > 0 {
		rows = append(rows, latencyRow("shed", r.ShedIn))
	}
	p.table("data", rows)

	p.element("h2", "Requests")
	rows = [][]string{{"", ""}, {"requests", Count(r.Requests) + ": " + outcomes(r)}}
	if len(r.Failures) > 0 {
		rows = append(rows, []string{"errors by kind", failures(r.Failures)})
	}
	rows = append(rows, [][]string{
		{"rate", "intended " + PerSecond(r.Rate.Intended) + ", achieved " + PerSecond(r.Rate.Achieved) + ", served " + PerSecond(r.Rate.Served)},
		{"traffic", Size(float64(r.Bytes.In)) + " in, " + Size(float64(r.Bytes.Out)) + " out"},
		{"generator", "busiest thread " + Share(r.Generator.Busy) + ", lag " + Micros(r.Generator.LagP99) + " at p99 and " + Micros(r.Generator.LagMax) +
			" at most" + runners(r.Generator.Runners)},
	}...)
	p.table("data words", rows)
	if c := r.Ceiling; c != nil {
		p.element("h2", "Ceiling")
		p.element("p", ceilingText(c.Rate, c.Low, c.High, c.Seconds, c.Converged, c.Limit))
	}
	if len(r.Verdicts) > 0 {
		p.element("h2", "Conditions")
		p.raw("<ul>\n")
		for _, v := range r.Verdicts {
			class := `span class="ok"`
			if v.Failed {
				class = `span class="failed"`
			}
			p.raw("<li>")
			p.element(class, verdictWord(v))
			p.text(" " + v.Condition + ": " + verdictValue(v))
			p.raw("</li>\n")
		}
		p.raw("</ul>\n")
	}
	if plan := planRows(r.Plan); len(plan) > 0 {
		p.element("h2", "Plan")
		rows := [][]string{{"", ""}}
		for _, row := range plan {
			rows = append(rows, row[:])
		}
		p.table("data words", rows)
	}
}

// column is a series of a plot, in five digits: more cannot be seen, and would double the page.
type column []*float64

func (c column) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		if v == nil || *v-*v != 0 {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, *v, 'g', 5, 64)
	}
	return append(out, ']'), nil
}

// pageData is what the page's script plots, safe to stand in a script element.
func pageData(r *Result) (string, error) {
	cols := make(map[string]column)
	put := func(name string, v *float64) { cols[name] = append(cols[name], v) }
	for _, name := range []string{"t", "intended", "achieved", "served", "shed", "errors", "p50", "p90", "p99", "max", "busy",
		"connections", "in_flight", "target_cpu", "target_memory", "ceiling"} {
		cols[name] = column{}
	}
	unmeasured := [][2]float64{}
	for i := range r.Trace {
		p := &r.Trace[i]
		if !p.Measured {
			from := p.At - p.Seconds
			if n := len(unmeasured); n > 0 && math.Abs(unmeasured[n-1][1]-from) < 1e-3 {
				unmeasured[n-1][1] = p.At
			} else {
				unmeasured = append(unmeasured, [2]float64{from, p.At})
			}
		}
		put("t", pointer(p.At))
		put("intended", &p.Intended)
		put("achieved", &p.Achieved)
		put("served", &p.Served)
		put("shed", &p.Shed)
		put("errors", &p.Errors)
		put("p50", above0(p.P50))
		put("p90", above0(p.P90))
		put("p99", above0(p.P99))
		put("max", above0(p.Max))
		put("busy", &p.Busy)
		put("connections", pointer(float64(p.Connections)))
		put("in_flight", pointer(float64(p.InFlight)))
		put("target_cpu", p.TargetCPU)
		put("target_memory", p.TargetMemory)
		put("ceiling", p.Ceiling)
	}
	percentiles := struct {
		X column `json:"x"`
		Y column `json:"y"`
	}{column{}, column{}}
	if r.Histogram != "" {
		h, err := DecodeHistogram(r.Histogram)
		if err != nil {
			return "", err
		}
		for _, q := range byPercentile(h) {
			percentiles.X, percentiles.Y = append(percentiles.X, pointer(q[0])), append(percentiles.Y, pointer(q[1]))
		}
	}
	text, err := json.Marshal(map[string]any{"trace": cols, "unmeasured": unmeasured, "percentiles": percentiles})
	if err != nil {
		return "", fmt.Errorf("writing a report's data: %w", err)
	}
	return string(text), nil
}

// above0 returns nil for what a logarithmic axis has no place for.
func above0(v *float64) *float64 {
	if v == nil || !(*v > 0) {
		return nil
	}
	return v
}

// byPercentile returns points of the distribution, evenly spaced as people look at tails: 1/(1-q), and the
// latency in microseconds that a share q did not exceed. The last is the largest, at the number of
// requests.
func byPercentile(h *hdr.Histogram) [][2]float64 {
	n := float64(h.TotalCount())
	if n == 0 {
		return nil
	}
	var out [][2]float64
	for _, b := range h.CumulativeDistributionWithTicks(8) {
		x := min(1/(1-min(b.Quantile/100, 1)), n)
		if i := len(out); i > 0 && x <= out[i-1][0] {
			out[i-1][1] = micros(b.ValueAt)
			continue
		}
		out = append(out, [2]float64{x, micros(b.ValueAt)})
	}
	return out
}

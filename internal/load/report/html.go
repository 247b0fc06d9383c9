package report

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/measure"
	"weir/internal/webui/uplot"
)

// A page is put together by hand: the packages of templates would keep every method of every type in the
// binary, which is 28 MB. So whatever is not constant goes through page.element or json.Marshal, which leaves
// no < in; and if something slips through all the same, the page's policy lets no script run but its own
// two.

//go:embed page
var pageFiles embed.FS

type page struct{ strings.Builder }

func (p *page) raw(html string) { p.WriteString(html) }

// element writes <tag>text</tag>; the tag may have constant attributes.
func (p *page) element(tag, text string) {
	name, _, _ := strings.Cut(tag, " ")
	p.raw("<" + tag + ">" + html.EscapeString(text) + "</" + name + ">")
}

func (p *page) section(s section) {
	p.element("h2", s.title)
	class := "data"
	if s.columns == nil {
		class = "data words"
	}
	p.raw(`<div class="wide"><table class="` + class + `">`)
	if s.columns != nil {
		p.raw("<thead><tr>")
		for _, cell := range s.columns {
			p.element(`th scope="col"`, cell)
		}
		p.raw("</tr></thead>")
	}
	p.raw("<tbody>\n")
	for _, row := range s.rows {
		p.raw("<tr>")
		for i, cell := range row {
			tag := "td"
			if i == 0 && cell == failedWord {
				tag = `td class="failed"`
			}
			p.element(tag, cell)
		}
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table></div>\n")
}

// targetPlot is there when the target's metrics were read.
const targetPlot = `<h2>Target</h2>
<div class="plot" id="target" aria-label="The processors and the memory that the target used, ` +
	"by its own metrics, over time\"></div>\n"

// WriteHTML writes r as one page that needs no other file and no network: figures, plots and the plan.
func WriteHTML(w io.Writer, r *Result) error {
	data, err := pageData(r)
	if err != nil {
		return err
	}
	plot, script := asset(uplot.Files, uplot.Script), asset(pageFiles, "page/report.js")
	style := asset(uplot.Files, uplot.Style) + asset(pageFiles, "page/report.css")
	title, target := "weir load", ""
	if r.Name != "" {
		title = r.Name + " - weir load"
	}
	known := func(p Point) bool { return p.TargetCPU != nil || p.TargetMemory != nil }
	if slices.ContainsFunc(r.Trace, known) {
		target = targetPlot
	}
	var tables page
	for _, s := range append(sections(r), section{title: "Plan", rows: planRows(r.Plan)}) {
		if len(s.rows) > 0 {
			tables.section(s)
		}
	}
	_, err = strings.NewReplacer("{{title}}", html.EscapeString(title), "{{style}}", style, "{{plot}}", plot,
		"{{script}}", script, "{{style-hash}}", source(style), "{{plot-hash}}", source(plot),
		"{{script-hash}}", source(script), "{{head}}", head(r), "{{marks}}", marks(r), "{{tiles}}", tiles(r),
		"{{target}}", target, "{{tables}}", tables.String(), "{{data}}", data,
		"{{licence}}", html.EscapeString(asset(uplot.Files, uplot.License)),
	).WriteString(w, asset(pageFiles, "page/report.html"))
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

func head(r *Result) string {
	var p page
	p.element("h1", cmp.Or(r.Name, "weir load"))
	fields := planFields(r.Plan)
	what := cmp.Or(fields["url"], strings.TrimSpace(fields["scenario"]+" "+fields["target"]))
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
	return p.String()
}

func marks(r *Result) string {
	var p page
	if len(r.Marks) > 0 {
		p.raw(`<section class="marks" role="alert">`)
		p.element("strong", "These figures are not to be trusted as they stand")
		p.raw("<ul>\n")
		for _, m := range r.Marks {
			p.element("li", m)
		}
		p.raw("</ul></section>\n")
	}
	return p.String()
}

func tiles(r *Result) string {
	var p page
	tile := func(value, label string) {
		p.raw(`<div class="tile">`)
		p.element("b", value)
		p.element("span", label)
		p.raw("</div>\n")
	}
	if c := r.Ceiling; c != nil {
		tile(PerSecond(c.Rate), "ceiling"+sureText(c))
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
	return p.String()
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
	trace := make(map[string]column, len(curves)+1)
	times := column{}
	for i := range r.Trace {
		times = append(times, &r.Trace[i].At)
	}
	trace["t"] = times
	for name, of := range curves {
		c := column{}
		for i := range r.Trace {
			c = append(c, of(&r.Trace[i]))
		}
		trace[name] = c
	}
	percentiles := struct {
		X column `json:"x"`
		Y column `json:"y"`
	}{column{}, column{}}
	if r.Histogram != "" {
		h, err := measure.Decode(r.Histogram)
		if err != nil {
			return "", err
		}
		for _, q := range byPercentile(h) {
			percentiles.X, percentiles.Y = append(percentiles.X, pointer(q[0])),
				append(percentiles.Y, pointer(q[1]))
		}
	}
	text, err := json.Marshal(map[string]any{"trace": trace, "unmeasured": unmeasured(r.Trace),
		"percentiles": percentiles})
	if err != nil {
		return "", fmt.Errorf("writing a report's data: %w", err)
	}
	return string(text), nil
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

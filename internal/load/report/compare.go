package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// CompareOptions say what a difference is worth.
type CompareOptions struct {
	// Tolerance is the relative change up to which two figures are the same, however sure they are; 0 is 1 %.
	Tolerance float64
	// Worse fails a figure that is worse by more than this relative change: 0.1 for --fail-over 10%. 0 fails none.
	Worse float64
}

// Judgement of b against a.
const (
	Better  = "better"
	Worse   = "worse"
	Same    = "same"    // the intervals meet, or the change is within the tolerance
	Unknown = "unknown" // too little was measured
	NotSaid = ""        // the figure is there to be looked at
)

// Comparison is how two results differ.
type Comparison struct {
	A    Side  `json:"a"`
	B    Side  `json:"b"`
	Rows []Row `json:"rows"`
	// Warnings say why the comparison may not mean what it seems to.
	Warnings []string `json:"warnings"`
	// Failed says that a row has.
	Failed bool `json:"failed"`
}

// Side is one of the results.
type Side struct {
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
}

// Row is one figure in both results.
type Row struct {
	Name string   `json:"name"`
	Unit string   `json:"unit"` // "1/s", "us", "share"
	A    Interval `json:"a"`
	B    Interval `json:"b"`
	// Change is b/a - 1; null where a is 0.
	Change    *float64 `json:"change"`
	Judgement string   `json:"judgement"`
	Failed    bool     `json:"failed"`
}

// Compare says how b differs from a. The results may come from anywhere; an error says which of them cannot be read.
func Compare(a, b *Result, o CompareOptions) (*Comparison, error) {
	if o.Tolerance <= 0 {
		o.Tolerance = 0.01
	}
	ha, err := DecodeHistogram(a.Histogram)
	if err != nil {
		return nil, fmt.Errorf("the first result: %w", err)
	}
	hb, err := DecodeHistogram(b.Histogram)
	if err != nil {
		return nil, fmt.Errorf("the second result: %w", err)
	}
	c := &Comparison{A: side(a), B: side(b), Warnings: warnings(a, b)}

	const up, down, none = 1, -1, 0 // which way is better
	add := func(better int, name, unit string, x, y Interval) {
		row := Row{Name: name, Unit: unit, A: x, B: y}
		if x.Value != 0 {
			row.Change = known(y.Value/x.Value - 1)
		}
		row.judge(better, o)
		c.Failed = c.Failed || row.Failed
		c.Rows = append(c.Rows, row)
	}
	search := a.Ceiling != nil || b.Ceiling != nil
	if a.Ceiling != nil && b.Ceiling != nil {
		ceiling := func(r *Result) Interval {
			k := r.Ceiling
			return Interval{k.Rate, k.Low, k.High, k.Converged}
		}
		add(up, "ceiling", "1/s", ceiling(a), ceiling(b))
	}
	if search {
		c.Warnings = append(c.Warnings, "A search for the ceiling tries many rates: its rates and latencies are of all of them and are not judged.")
	}
	// In a search, rates and latencies are what the search happened to try.
	way := func(better int) int {
		if search {
			return none
		}
		return better
	}
	served, achieved := func(p *Point) *float64 { return &p.Served }, func(p *Point) *float64 { return &p.Achieved }
	add(none, "intended", "1/s", Interval{Value: a.Rate.Intended}, Interval{Value: b.Rate.Intended})
	add(way(up), "achieved", "1/s", rateInterval(a, a.Rate.Achieved, achieved), rateInterval(b, b.Rate.Achieved, achieved))
	add(way(up), "served", "1/s", rateInterval(a, a.Rate.Served, served), rateInterval(b, b.Rate.Served, served))

	p50, p90, p99 := func(p *Point) *float64 { return p.P50 }, func(p *Point) *float64 { return p.P90 }, func(p *Point) *float64 { return p.P99 }
	add(way(down), "mean", "us", meanInterval(a, ha, a.Latency.Mean, p50, p90), meanInterval(b, hb, b.Latency.Mean, p50, p90))
	for _, q := range []struct {
		name    string
		q       float64
		of      func(l *Latency) float64
		columns []func(p *Point) *float64
	}{
		{"p50", 0.5, func(l *Latency) float64 { return l.P50 }, []func(p *Point) *float64{p50}},
		{"p90", 0.9, func(l *Latency) float64 { return l.P90 }, []func(p *Point) *float64{p90}},
		{"p95", 0.95, func(l *Latency) float64 { return l.P95 }, []func(p *Point) *float64{p90, p99}},
		{"p99", 0.99, func(l *Latency) float64 { return l.P99 }, []func(p *Point) *float64{p99}},
		{"p99.9", 0.999, func(l *Latency) float64 { return l.P999 }, []func(p *Point) *float64{p99}},
	} {
		add(way(down), q.name, "us", quantileInterval(a, ha, q.q, q.of(&a.Latency), q.columns...), quantileInterval(b, hb, q.q, q.of(&b.Latency), q.columns...))
	}
	add(none, "max", "us", Interval{Value: a.Latency.Max}, Interval{Value: b.Latency.Max})

	errors, shed := func(p *Point) float64 { return p.Errors }, func(p *Point) float64 { return p.Shed }
	add(way(down), "errors", "share", shareInterval(a, a.Errors, errors), shareInterval(b, b.Errors, errors))
	add(way(down), "shed", "share", shareInterval(a, a.Shed, shed), shareInterval(b, b.Shed, shed))
	add(none, "generator's CPU", "us", Interval{Value: a.Generator.CPUMicros}, Interval{Value: b.Generator.CPUMicros})
	c.finite()
	return c, nil
}

func side(r *Result) Side { return Side{r.Name, r.Started, r.Seconds} }

// judge fills in the judgement; better is 1 where more is better, -1 where less is, and 0 where nothing is said.
func (r *Row) judge(better int, o CompareOptions) {
	switch {
	case better == 0:
		r.Judgement = NotSaid
		return
	case !r.A.Known || !r.B.Known:
		r.Judgement = Unknown
		return
	case r.A.Low <= r.B.High && r.B.Low <= r.A.High, r.Change != nil && *r.Change <= o.Tolerance && *r.Change >= -o.Tolerance:
		r.Judgement = Same
		return
	case (r.B.Value > r.A.Value) == (better > 0):
		r.Judgement = Better
		return
	}
	r.Judgement = Worse
	if o.Worse > 0 {
		r.Failed = r.Change == nil || *r.Change > o.Worse || *r.Change < -o.Worse
	}
}

// Fields of a plan that may differ without making results incomparable.
var sameDespite = []string{"name", "fail_when", "i_own_this_target", "target_metrics", "seed", "target", "own"}

// warnings says what makes two results hard to compare.
func warnings(a, b *Result) []string {
	var out []string
	for i, r := range []*Result{a, b} {
		which := []string{"first", "second"}[i]
		if r.Generator.Saturated && len(r.Marks) == 0 { // else a mark says so
			out = append(out, fmt.Sprintf("In the %s result the generator was the limit: its figures are the generator's as much as the target's.", which))
		}
		for _, m := range r.Marks {
			out = append(out, fmt.Sprintf("The %s result is marked: %s", which, m))
		}
	}
	fa, fb := planFields(a.Plan), planFields(b.Plan)
	names := slices.Sorted(maps.Keys(fa))
	for name := range fb {
		if _, is := fa[name]; !is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, y := fa[name], fb[name]
		if name == "url" { // another server may be what is compared, another path is another question
			x, y = pathOf(x), pathOf(y)
		}
		if x != y && !slices.Contains(sameDespite, name) {
			out = append(out, fmt.Sprintf("The plans differ in %s: %s and %s.", name, orNothing(x), orNothing(y)))
		}
	}
	return out
}

func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.RequestURI()
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return fmt.Sprintf("%.60q", s)
}

// finite makes 0 of what JSON has no word for.
func (c *Comparison) finite() {
	for i := range c.Rows {
		for _, iv := range []*Interval{&c.Rows[i].A, &c.Rows[i].B} {
			finite(&iv.Value, &iv.Low, &iv.High)
		}
	}
}

// WriteJSON writes the comparison, indented.
func (c *Comparison) WriteJSON(w io.Writer) error {
	d := *c
	if d.Warnings == nil {
		d.Warnings = []string{}
	}
	d.Rows = slices.Clone(c.Rows)
	d.finite()
	text, err := json.MarshalIndent(&d, "", "  ")
	if err != nil {
		return fmt.Errorf("writing a comparison as JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// WriteText writes the comparison as a table for people.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	rows := [][]string{{"", "first", "±", "second", "±", "change", ""}}
	for i := range c.Rows {
		r := &c.Rows[i]
		word := r.Judgement
		if r.Failed {
			word += ", FAILED"
		}
		change := "-"
		if r.Change != nil {
			if change = fmt.Sprintf("%+.1f %%", *r.Change*100); change == "-0.0 %" {
				change = "+0.0 %"
			}
		}
		rows = append(rows, []string{r.Name, unitText(r.Unit, r.A.Value), spread(r.A), unitText(r.Unit, r.B.Value), spread(r.B), change, word})
	}
	fmt.Fprintf(&b, "first:  %s\nsecond: %s\n\n", sideText(c.A), sideText(c.B))
	columns(&b, "  ", rows)
	for _, m := range c.Warnings {
		fmt.Fprintf(&b, "  ! %s\n", Plain(m))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sideText(s Side) string {
	name := s.Name
	if name == "" {
		name = "a run"
	}
	text := Plain(name) + ", " + Seconds(s.Seconds)
	if !s.Started.IsZero() {
		text += " from " + s.Started.Format("2006-01-02 15:04:05 MST")
	}
	return text
}

func unitText(unit string, v float64) string {
	switch unit {
	case "1/s":
		return PerSecond(v)
	case "us":
		return Micros(v)
	}
	return Share(v)
}

// spread writes how far a value may be off, relative to it.
func spread(iv Interval) string {
	if !iv.Known || iv.Value == 0 {
		return ""
	}
	return Share(max(iv.High-iv.Value, iv.Value-iv.Low) / iv.Value)
}

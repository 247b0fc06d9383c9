package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/measure"
)

// CompareOptions say what a difference is worth.
type CompareOptions struct {
	// Tolerance is the relative change up to which two figures are the same, however sure they are; 0 is 1 %.
	Tolerance float64
	// Worse fails a figure that is worse by more than this relative change: 0.1 for --fail-over 10%. 0
	// fails none.
	Worse float64
}

// Judgement of b against a.
const (
	Better    = "better"
	Worse     = "worse"
	Same      = "same"      // surely within the tolerance
	Undecided = "undecided" // a change below Row.Decides cannot be told from chance
	Unknown   = "unknown"   // too little was measured
	NotSaid   = ""          // the figure is there to be looked at
)

// Of runs of the same thing falseAlarms are judged to differ in any figure. The mean latency tells most of
// a given number of requests, so it has most of that; what a figure that differs had goes over to the
// others (Holm's method, weighted).
const (
	falseAlarms = 0.05
	meanWeight  = 0.8
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

// Side is one of the results; of several, the first one's name and time, and their number.
type Side struct {
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Runs    int       `json:"runs"`
}

// Row is one figure in both.
type Row struct {
	Name string   `json:"name"`
	Unit string   `json:"unit"` // "1/s", "us", "share"
	A    Interval `json:"a"`
	B    Interval `json:"b"`
	// Change is b/a - 1; null where a is 0.
	Change    *float64 `json:"change"`
	Judgement string   `json:"judgement"`
	// Decides is the least change that these runs can tell from chance, relative, or of a share.
	Decides float64 `json:"decides,omitempty"`
	Failed  bool    `json:"failed"`

	better int // 1 where more is better, -1 where less is, 0 where nothing is judged
	d      estimate
}

type figure struct {
	name, unit string
	better     int
	of         func(r *Result, h *hdr.Histogram) estimate
}

func figures() []figure {
	const up, down, none = 1, -1, 0
	all := []figure{
		{"intended", "1/s", none, func(r *Result, _ *hdr.Histogram) estimate {
			return estimate{value: r.Rate.Intended}
		}},
		{"achieved", "1/s", none, func(r *Result, _ *hdr.Histogram) estimate {
			return of(r, r.Rate.Achieved, 0, "achieved")
		}},
		{"served", "1/s", up, func(r *Result, _ *hdr.Histogram) estimate {
			return of(r, r.Rate.Served, 0, "served")
		}},
		{"mean", "us", down, ofMean},
	}
	for _, q := range []struct {
		name   string
		q      float64
		of     func(l *Latency) float64
		curves []string
	}{
		{"p50", 0.5, func(l *Latency) float64 { return l.P50 }, []string{"p50"}},
		{"p90", 0.9, func(l *Latency) float64 { return l.P90 }, []string{"p90"}},
		{"p95", 0.95, func(l *Latency) float64 { return l.P95 }, []string{"p90", "p99"}},
		{"p99", 0.99, func(l *Latency) float64 { return l.P99 }, []string{"p99"}},
		{"p99.9", 0.999, func(l *Latency) float64 { return l.P999 }, []string{"p99"}},
	} {
		all = append(all, figure{q.name, "us", down, func(r *Result, h *hdr.Histogram) estimate {
			return ofQuantile(r, h, q.q, q.of(&r.Latency), q.curves...)
		}})
	}
	return append(all,
		figure{"max", "us", none, func(r *Result, _ *hdr.Histogram) estimate {
			return estimate{value: r.Latency.Max}
		}},
		figure{"errors", "share", down, func(r *Result, _ *hdr.Histogram) estimate {
			return ofShare(r, r.Errors, "errors")
		}},
		figure{"shed", "share", down, func(r *Result, _ *hdr.Histogram) estimate {
			return ofShare(r, r.Shed, "shed")
		}},
		figure{"generator's CPU", "us", none, func(r *Result, _ *hdr.Histogram) estimate {
			return estimate{value: r.Generator.CPUMicros}
		}})
}

func ofCeiling(r *Result, _ *hdr.Histogram) estimate {
	c := r.Ceiling
	e := estimate{value: c.Rate, df: math.Inf(1), known: c.Converged && c.Low > 0 && c.High > 0}
	if e.known {
		e.error = math.Log(c.High/c.Low) / 2 / 1.96
	}
	return e
}

// Compare says how the runs b differ from the runs a. The results may come from anywhere; an error says
// which of them cannot be read.
func Compare(a, b []*Result, o CompareOptions) (*Comparison, error) {
	if o.Tolerance <= 0 {
		o.Tolerance = 0.01
	}
	if len(a) == 0 || len(b) == 0 {
		return nil, errors.New("a comparison needs a result on either side")
	}
	histograms := make(map[*Result]*hdr.Histogram)
	search, both := false, true
	for i, runs := range [][]*Result{a, b} {
		for j, r := range runs {
			h, err := measure.Decode(r.Histogram)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", which(i, j, len(runs)), err)
			}
			histograms[r] = h
			search, both = search || r.Ceiling != nil, both && r.Ceiling != nil
		}
	}
	c := &Comparison{A: side(a), B: side(b), Warnings: warnings(a, b)}
	all := figures()
	if search {
		c.Warnings = append(c.Warnings, "A search for the ceiling tries many rates: its rates and "+
			"latencies are of all of them and are not judged.")
		for i := range all {
			all[i].better = 0
		}
	}
	if both {
		all = slices.Insert(all, 0, figure{"ceiling", "1/s", 1, ofCeiling})
	}
	for _, f := range all {
		pooled := func(runs []*Result) estimate {
			each := make([]estimate, len(runs))
			for i, r := range runs {
				each[i] = f.of(r, histograms[r])
			}
			return pool(each)
		}
		x, y := pooled(a), pooled(b)
		row := Row{Name: f.name, Unit: f.unit, A: x.interval(), B: y.interval(), better: f.better,
			d: difference(x, y)}
		if x.value != 0 {
			row.Change = known(y.value/x.value - 1)
		}
		c.Rows = append(c.Rows, row)
	}
	c.judge(o)
	c.finite()
	return c, nil
}

func which(side, run, runs int) string {
	name := []string{"first", "second"}[side]
	if runs > 1 {
		return fmt.Sprintf("run %d of the %s results", run+1, name)
	}
	return "the " + name + " result"
}

func side(runs []*Result) Side {
	s := Side{runs[0].Name, runs[0].Started, 0, len(runs)}
	for _, r := range runs {
		s.Seconds += r.Seconds
	}
	return s
}

// judge fills in the judgements of all rows together.
func (c *Comparison) judge(o CompareOptions) {
	var open []*Row // those that no difference was found of
	var weights float64
	weight := func(r *Row) float64 {
		if r.Name == "mean" {
			return meanWeight
		}
		return (1 - meanWeight) / 8
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		switch {
		case r.better == 0:
			r.Judgement = NotSaid
		case !r.d.known:
			r.Judgement = Unknown
		default:
			open = append(open, r)
			weights += weight(r)
		}
	}
	for found := true; found; {
		found = false
		open = slices.DeleteFunc(open, func(r *Row) bool {
			if found || r.d.chance() > falseAlarms*weight(r)/weights {
				return false
			}
			found = true
			weights -= weight(r)
			r.differs(o)
			c.Failed = c.Failed || r.Failed
			return true
		})
	}
	for _, r := range open {
		r.Judgement = Undecided
		half := quantileT(1-falseAlarms*weight(r)/weights/2, r.d.df) * r.d.error
		if r.Decides = half; !r.d.share {
			r.Decides = math.Expm1(half)
		}
		if math.Abs(r.d.value)+half <= o.Tolerance {
			r.Judgement = Same
		}
	}
}

// differs judges a row that differs by more than chance.
func (r *Row) differs(o CompareOptions) {
	switch {
	case r.Change != nil && math.Abs(*r.Change) <= o.Tolerance:
		r.Judgement = Same
		return
	case (r.d.value > 0) == (r.better > 0):
		r.Judgement = Better
		return
	}
	r.Judgement = Worse
	if o.Worse > 0 {
		r.Failed = r.Change == nil || math.Abs(*r.Change) > o.Worse
	}
}

// Fields of a plan that may differ without making results incomparable.
var sameDespite = []string{"name", "fail_when", "i_own_this_target", "target_metrics",
	"seed", "target", "own"}

func warnings(a, b []*Result) []string {
	var out []string
	for i, runs := range [][]*Result{a, b} {
		for j, r := range runs {
			if r.Generator.Saturated && len(r.Marks) == 0 { // else a mark says so
				out = append(out, fmt.Sprintf("In %s the generator was the limit: its figures are the "+
					"generator's as much as the target's.", which(i, j, len(runs))))
			}
			for _, m := range r.Marks {
				out = append(out, fmt.Sprintf("A mark of %s: %s", which(i, j, len(runs)), m))
			}
			if j > 0 {
				out = append(out, planDifferences(runs[0], r)...)
			}
		}
	}
	return append(out, planDifferences(a[0], b[0])...)
}

// planDifferences says in what the plans of two results differ that matters.
func planDifferences(a, b *Result) []string {
	var out []string
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
			out = append(out, fmt.Sprintf("The plans differ in %s: %s and %s.", name, orNothing(x),
				orNothing(y)))
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
	return writeJSON(w, &d)
}

// WriteText writes the comparison as a table for people.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	rows := [][]string{{"", "first", "±", "second", "±", "change", ""}}
	for i := range c.Rows {
		r := &c.Rows[i]
		word := r.Judgement
		if word == Undecided {
			word += " below " + Share(r.Decides)
		}
		if r.Failed {
			word += ", FAILED"
		}
		change := "-"
		if r.Change != nil {
			if change = fmt.Sprintf("%+.1f %%", *r.Change*100); change == "-0.0 %" {
				change = "+0.0 %"
			}
		}
		rows = append(rows, []string{r.Name, unitText(r.Unit, r.A.Value), spread(r.A),
			unitText(r.Unit, r.B.Value), spread(r.B), change, word})
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
	if s.Runs > 1 {
		text += fmt.Sprintf(" of %d runs", s.Runs)
	}
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

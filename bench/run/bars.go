//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// bar is a figure that weir has promised to reach. Bars do not move to where the measurements are: one that
// is missed is reported as missed.
type bar struct {
	service, figure string
	of              key    // without its service
	over            key    // what the figure is divided by, within a round; no subject is nothing
	format          string // of one value
	sense           string // at most or at least
	bar, aim        float64
	how             string // how it is taken
}

const (
	atMost  = "<="
	atLeast = ">="
)

// none is the bar, or the aim, of a figure that has none.
var none = math.NaN()

//go:embed bars.tsv
var barTable string

// bars is every bar there is, in the order of the report: a line each of bars.tsv.
var bars = func() (all []bar) {
	for line := range strings.Lines(barTable) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		limit := func(text string) float64 {
			if text == "-" {
				return none
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic("BUG: bars.tsv: " + err.Error())
			}
			return v
		}
		all = append(all, bar{f[0], f[1], key{"", f[2], f[3]}, key{"", f[4], f[5]}, f[6], f[7], limit(f[8]),
			limit(f[9]), f[10]})
	}
	return all
}()

// decided is a bar and what became of it; a limit that is nil is none.
type decided struct {
	Service string    `json:"service"`
	Figure  string    `json:"figure"`
	How     string    `json:"how"`
	Sense   string    `json:"sense"`
	Bar     *float64  `json:"bar,omitempty"`
	Aim     *float64  `json:"aim,omitempty"`
	Values  []float64 `json:"values,omitempty"`   // one a round
	Median  *float64  `json:"measured,omitempty"` // nil when it was not measured
	Result  string    `json:"result"`
	format  string
}

// Results of a bar.
const (
	aimMet      = "aim met"
	barMet      = "bar met"
	missed      = "missed"
	reported    = "reported"
	notMeasured = "not measured"
)

// decide decides a bar by the median of its values.
func (f *figures) decide(b bar) decided {
	b.of.service, b.over.service = b.service, b.service
	j := decided{Service: b.service, Figure: b.figure, How: b.how, Sense: b.sense, format: b.format,
		Result: notMeasured}
	limit := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	j.Bar, j.Aim = limit(b.bar), limit(b.aim)
	if j.Values = f.of(b.of); b.over.subject != "" {
		j.Values = f.ratios(b.of, b.over)
	}
	v, ok := median(j.Values)
	if !ok {
		return j
	}
	j.Median = &v
	reaches := func(limit *float64) bool {
		return limit != nil && (b.sense == atMost && v <= *limit || b.sense == atLeast && v >= *limit)
	}
	switch {
	case reaches(j.Aim):
		j.Result = aimMet
	case j.Bar == nil:
		j.Result = reported
	case reaches(j.Bar):
		j.Result = barMet
	default:
		j.Result = missed
	}
	return j
}

// row writes a bar as a row of Markdown.
func (j *decided) row() string {
	limit := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return j.Sense + " " + fmt.Sprintf(j.format, *v)
	}
	measured, spread, result := "-", "-", j.Result
	if j.Median != nil {
		measured = fmt.Sprintf(j.format, *j.Median)
	}
	if len(j.Values) > 1 {
		spread = fmt.Sprintf(j.format+".."+j.format, slices.Min(j.Values), slices.Max(j.Values))
	}
	if result == missed {
		result = "**" + missed + "**"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n",
		j.Figure, limit(j.Bar), limit(j.Aim), measured, spread, result, j.How)
}

//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
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

func fig(subject, name string) key { return key{"", subject, name} }

// bars is every bar there is, in the order of the report.
var bars = []bar{
	{"feed", "CPU a request, weir / C floor", fig(weir, cpu), fig(floor, cpu), "%.2f", atMost, 1.18, 1.10,
		"closed loop, users at random"},
	{"feed", "CPU a request, baseline / weir", fig(baseline, cpu), fig(weir, cpu), "%.2f", atLeast, 2.4, 2.8,
		"closed loop, users at random"},
	{"feed", "pipelined, requests/s, weir / baseline", fig(weir, pipelinedRate), fig(baseline, pipelinedRate),
		"%.1f", atLeast, 7, 12, "16 requests at a time"},
	{"feed", "memory after the run, weir / baseline", fig(weir, memory), fig(baseline, memory),
		"%.2f", atMost, 0.5,
		0.46, "anonymous and shared pages, and the data in the page cache"},
	{"feed", "a request offloaded to a worker, CPU, us", fig(weir, offloadedCPU), key{},
		"%.1f", atMost, 20, 10,
		"closed loop of GET " + offloadedPath},
	{"feed", "p99 at half of the ceiling beside offloaded requests, ms", fig(weir, besideP99), key{},
		"%.3f", atMost, 1,
		0.3, "open loop; one more connection asks without a pause"},

	{"starts", "exec to first answer, warm page cache, s", fig(weir, firstWarm), key{},
		"%.2f", atMost, 1, 0.2,
		"from before the fork, with positions of an earlier run"},
	{"starts", "exec to first answer, cold page cache, s", fig(weir, firstCold), key{},
		"%.2f", atMost, 1, 0.3,
		"the page cache emptied, program included"},
	{"starts", "p99 while it warms after a cold start, ms", fig(weir, warmingP99), key{}, "%.1f",
		atMost, none, 10,
		"10,000 requests/s until the lists are in memory"},

	{"imports", "import from Parquet lists, s", fig(weir, "lists, s"), key{}, "%.0f", atMost, 180,
		60, "both cores"},
	{"imports", "import of the same as exploded rows, s", fig(weir, "exploded, s"), key{}, "%.0f",
		atMost, 600, 300,
		"both cores"},

	{"sequence", lowStep + ", requests/s, weir / baseline", fig(weir, lowStep+rate),
		fig(baseline, lowStep+rate),
		"%.1f", atLeast, 20, 45, "closed loop"},
	{"sequence", highStep + ", requests/s, weir / baseline", fig(weir, highStep+rate),
		fig(baseline, highStep+rate),
		"%.1f", atLeast, 20, 45, "closed loop"},
	{"sequence", current + ", requests/s, weir / baseline", fig(weir, current+rate),
		fig(baseline, current+rate),
		"%.1f", atLeast, 25, 50, "closed loop"},
	{"sequence", allThree + ", CPU a request, weir / C floor", fig(weir, allThree+cpuOf),
		fig(floor, allThree+cpuOf),
		"%.2f", atMost, 1.6, 1.2, "closed loop; the floor's body is as long"},
	{"sequence", "resident memory after /next from 0 to 100,000, MiB", fig(weir, residentAfter), key{},
		"%.0f", atMost, 64,
		32, "VmRSS, program text and mapped files included"},

	{"arithmetic", "a step and its digits at 100,000, us", fig(weir, step), key{}, "%.2f", atMost, 3, 0.5,
		"Go benchmark, in process"},
	{"arithmetic", "F(1,000,000) and its digits, weir / GMP", fig(weir, million), fig(gmp, million),
		"%.2f", atMost, 2,
		1, "Go benchmark; mpz_fib_ui and mpz_get_str"},
	{"arithmetic", "F(10,000,000) and its digits, weir / GMP", fig(weir, tenMillion),
		fig(gmp, tenMillion), "%.2f",
		atMost, 3, 1, "Go benchmark; mpz_fib_ui and mpz_get_str"},

	{"bandit", "predictions over JSON, million/s", fig(weir, asJSON+predictions), key{},
		"%.1f", atLeast, 8, 18,
		"closed loop, 400 items a request"},
	{"bandit", "predictions over JSON, weir / baseline", fig(weir, asJSON+predictions),
		fig(baseline, asJSON+predictions), "%.1f", atLeast, 12, 30, "closed loop, 400 items a request"},
	{"bandit", "predictions over binary tensors, million/s", fig(weir, asTensors+predictions), key{},
		"%.1f", atLeast,
		16, 40, "closed loop, 400 items a request"},
	{"bandit", "p99 at half of the ceiling, JSON, ms", fig(weir, asJSON+halfP99), key{}, "%.3f", atMost, 2, 1,
		"open loop"},
	{"bandit", "the feed's p99 beside predictions back to back, ms", fig(weir, feedBeside),
		key{}, "%.3f", atMost,
		none, none, "open loop of 10,000 feed requests/s"},

	{"sampler", "a Beta sample, gonum / weir", fig("gonum", arms), fig(fastest, arms), "%.1f", atLeast, 8, 15,
		"Go benchmarks over the same shapes"},
	{"store", "requests/s from Feast's Redis store, weir / Feast's server", fig(weir, storeRate),
		fig(feast, storeRate), "%.1f", atLeast, 10, 30, "closed loop, 400 items, no cache"},

	{"load", "CPU a request, weir load / wrk", fig(weirLoad, cpu), fig(wrk, cpu), "%.2f", atMost, 1, 0.8,
		"closed loop of 64 connections to the floor"},
	{"load", "what weir load adds to latencies, p99, us", fig(weirLoad, lag), key{}, "%.0f", atMost, 200, 100,
		"open loop at half of its own ceiling"},

	{"filter", "hit, 24 KB: CPU a request, weir / nginx", fig(weir, hit), fig(nginx, hit), "%.2f", atMost,
		1.2, 0.9,
		"closed loop of 64 connections; nginx sends a file"},
	{"filter", "the same gzipped, weir / nginx", fig(weir, hitGzip), fig(nginx, hitGzip), "%.2f", atMost,
		1.5, 1,
		"nginx with gzip_static"},
	{"filter", "304, weir / nginx", fig(weir, notModified), fig(nginx, notModified), "%.2f", atMost, 1, 0.85,
		"If-None-Match"},
	{"filter", "parse of 25 items in 24 KB, gofeed / weir", fig("gofeed", parsing), fig(weir, parsing),
		"%.0f",
		atLeast, 30, 80, "Go benchmarks; weir's with normalised text"},
	{"filter", "allocations a parse", fig(weir, parseAllocs), key{}, "%.0f", atMost, 40, 8, "the same"},
	{"filter", "20 rules over 25 items, us", fig(weir, deciding), key{}, "%.1f", atMost, 20, 5,
		"Go benchmark"},
	{"filter", "125,000 filters polled every 5 minutes: multiple of that rate", fig(weir, fleetMultiple),
		key{},
		"%.0f", atLeast, 60, 150,
		"20 rules each, 20,000 sources; under 5 % shed, conditional, gzip, 768 MiB"},
	{"filter", "memory of that cgroup, page cache included, MiB", fig(weir, fleetMemory), key{}, "%.0f",
		atMost, 700, 400,
		"peak"},
	{"filter", "p99 of hits while 200 sources hang and 200 are new, ms", fig(weir, besideHangs), key{},
		"%.2f",
		atMost, 5, 1, "open loop of 5,000/s"},

	{"shed", "goodput at 3x overload / ceiling", fig(weir, "served at 3x, /s"), fig(weir, ceiling),
		"%.2f", atLeast,
		0.85, 0.95, "2,000 connections that ignore Retry-After"},
	{"shed", "p99 of admitted at 3x / at 0.5x", fig(weir, "p99 of admitted at 3x, ms"),
		fig(weir, "p99 of admitted at 0.5x, ms"), "%.1f", atMost, 20, 5,
		"counted from when a request was due"},
	{"shed", "from the end of the overload until nothing is refused, s", fig(weir, recovers),
		key{}, "%.2f", atMost,
		10, 3, "reject probability, looked at every 50 ms"},

	{"storm", "p99 of admitted at 1.6x / at 0.5x", fig(weir, "p99 of admitted at 1.6x, ms"),
		fig(weir, "p99 of admitted at 0.5x, ms"), "%.1f", atMost, 20, 5,
		"10,000 connections, opened meanwhile"},
	{"storm", "p99 of admitted at 3x / at 0.5x", fig(weir, "p99 of admitted at 3x, ms"),
		fig(weir, "p99 of admitted at 0.5x, ms"), "%.1f", atMost, 20, 5,
		"10,000 connections, opened meanwhile"},
	{"storm", "p99 of admitted at 6x / at 0.5x", fig(weir, "p99 of admitted at 6x, ms"),
		fig(weir, "p99 of admitted at 0.5x, ms"), "%.1f", atMost, 20, 5,
		"10,000 connections, opened meanwhile"},
	{"storm", "goodput at 1.6x / ceiling", fig(weir, "served at 1.6x, /s"), fig(weir, ceiling),
		"%.2f", atLeast, 0.85,
		0.95, "the ceiling is of 256 connections"},
	{"storm", "goodput at 3x / ceiling", fig(weir, "served at 3x, /s"), fig(weir, ceiling),
		"%.2f", atLeast, 0.85,
		0.95, "the ceiling is of 256 connections"},
	{"storm", "goodput at 6x / ceiling", fig(weir, "served at 6x, /s"), fig(weir, ceiling),
		"%.2f", atLeast, 0.85,
		0.95, "the ceiling is of 256 connections"},
	{"storm", "refused at 1.6x are answered within, p99, ms", fig(weir, "p99 of refused at 1.6x, ms"), key{},
		"%.1f",
		atMost, 100, 20, "counted from when a request was due"},
	{"storm", "refused at 3x are answered within, p99, ms", fig(weir, "p99 of refused at 3x, ms"), key{},
		"%.1f",
		atMost, 100, 20, "counted from when a request was due"},
	{"storm", "refused at 6x are answered within, p99, ms", fig(weir, "p99 of refused at 6x, ms"), key{},
		"%.1f",
		atMost, 100, 20, "counted from when a request was due"},

	{"search", "2000/s, more wait: off by, %", fig("2000/s, wait", offBy), key{}, "%.1f", atMost,
		5, 2, adaptive},
	{"search", "2000/s, more wait: found after, s", fig("2000/s, wait", found), key{}, "%.0f", atMost,
		60, 30, adaptive},
	{"search", "20000/s, more wait: off by, %", fig("20000/s, wait", offBy), key{}, "%.1f", atMost,
		5, 2, adaptive},
	{"search", "20000/s, more wait: found after, s", fig("20000/s, wait", found), key{},
		"%.0f", atMost, 60, 30,
		adaptive},
	{"search", "2000/s, more get 503: off by, %", fig("2000/s, refuse", offBy), key{}, "%.1f", atMost,
		5, 2, adaptive},
	{"search", "2000/s, more get 503: found after, s", fig("2000/s, refuse", found), key{},
		"%.0f", atMost, 60, 30,
		adaptive},
	{"search", "2000/s, more are cut off: off by, %", fig("2000/s, cut", offBy), key{}, "%.1f", atMost,
		5, 2, adaptive},
	{"search", "2000/s, more are cut off: found after, s", fig("2000/s, cut", found), key{},
		"%.0f", atMost, 60, 30,
		adaptive},
	{"search", "5000/s that become 2500/s, more wait: followed within, s",
		fig("5000/s to 2500/s, wait", followed),
		key{}, "%.1f", atMost, 10, 5, adaptive},
	{"search", "5000/s that become 2500/s, more get 503: followed within, s",
		fig("5000/s to 2500/s, refuse", followed), key{}, "%.1f", atMost, 10, 5, adaptive},

	{"size", "allocations a feed request", fig("allocations", "weir/internal/server"), key{},
		"%.0f", atMost, 0, 0,
		"tests; 1 stands for more than none"},
	{"size", "allocations a request for predictions", fig("allocations", "weir/internal/bandit"), key{},
		"%.0f",
		atMost, 0, 0, "tests; 1 stands for more than none"},
	{"size", "lines of Go in cmd and internal", fig("lines", "cmd and internal"), key{}, "%.0f",
		atMost, 46_000, 42_000,
		"without tests"},
	{"size", "lines of Go in bench", fig("lines", "bench"), key{}, "%.0f", atMost, 4500, 3500,
		"without tests"},
	{"size", "make test, minutes", fig("minutes", "make test"), key{}, "%.1f", atMost, 15, 10,
		"its last run here"},
	{"size", "make check, minutes", fig("minutes", "make check"), key{}, "%.1f", atMost, 3, 1,
		"its last run here"},
	{"size", "binary, MB", fig("MB", "bin/weir"), key{}, "%.1f", atMost, 32, 25, "as make build leaves it"},
}

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

package report

import (
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// The picture's measures, in pixels.
const (
	svgWidth  = 860
	svgHeight = 500
	svgLeft   = 64
	svgRight  = 24
	svgPanel  = 160 // height of each of the two plots
	svgTop    = 84  // of the first
	svgSecond = 300 // of the second
	svgPoints = 400 // more than that cannot be told apart
)

// The picture follows the reader's light or dark, also where a page shows it as an image.
const svgStyle = "page/picture.css"

type picture struct {
	strings.Builder
	end float64 // seconds at the right edge
}

func (s *picture) put(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// words writes text, which may come from anywhere.
func (s *picture) words(class string, x, y float64, text string) {
	s.put(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(Plain(text)))
}

func (s *picture) x(seconds float64) float64 {
	return svgLeft + (svgWidth-svgLeft-svgRight)*min(max(seconds/s.end, 0), 1)
}

// WriteSVG draws r's rates and latencies over time as one static picture.
func WriteSVG(w io.Writer, r *Result) error {
	points := thin(r.Trace, svgPoints)
	s := picture{end: 1}
	if n := len(points); n > 0 {
		s.end = max(points[n-1].At, 1e-3)
	}
	title := r.Name
	if title == "" {
		title = "weir load"
	}
	about := "rate and latency over " + Seconds(s.end)
	if c := r.Ceiling; c != nil {
		about = "ceiling " + ceilingText(c)
	}
	s.put(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
			`aria-labelledby="title about">`,
		svgWidth, svgHeight, svgWidth, svgHeight)
	s.put(`<title id="title">%s</title><desc id="about">%s</desc>`, html.EscapeString(Plain(title)),
		html.EscapeString(Plain(about)))
	s.put(`<style>%s</style>`, "\n"+asset(pageFiles, svgStyle))
	s.put(`<rect class="back" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`, svgWidth-1, svgHeight-1)
	s.words("title", 20, 26, cut(title, 60))
	s.words("", 20, 44, cut(about, 120))
	s.rates(points, r)
	s.latencies(points)
	s.put(`</svg>`)
	_, err := io.WriteString(w, s.String())
	return err
}

func thin(trace []Point, n int) []Point {
	t := trace
	for len(t) > n {
		half := make([]Point, 0, len(t)/2+1)
		for i := 0; i < len(t); i += 2 {
			if i+1 < len(t) {
				half = append(half, merge(t[i], t[i+1]))
			} else {
				half = append(half, t[i])
			}
		}
		t = half
	}
	return t
}

func (s *picture) rates(points []Point, r *Result) {
	var names []string
	most := 0.0
	for _, name := range []string{"intended", "served", "shed", "errors"} {
		_, highest := extent(points, name)
		if most = max(most, highest); highest > 0 || name == "intended" || name == "served" {
			names = append(names, name)
		}
	}
	c := r.Ceiling
	if c != nil {
		most = max(most, clean(c.Rate))
	}
	step := niceStep(most, 4)
	upper := max(math.Ceil(most/step-1e-9)*step, step)
	y := func(v float64) float64 { return svgTop + svgPanel*(1-min(max(v/upper, 0), 1)) }
	ticks := map[float64]string{}
	for i := 0; float64(i)*step <= upper*(1+1e-9); i++ {
		ticks[float64(i)*step] = compact(float64(i)*step) + "/s"
	}
	s.frame("rate", points, svgTop, ticks, y)
	var ceiling []string
	if c != nil && clean(c.Rate) > 0 {
		low, high := y(clean(c.High)), y(clean(c.Low))
		if c.High == 0 {
			low = high
		}
		s.put(`<rect class="band" x="%d" width="%d" y="%.1f" height="%.1f"/>`, svgLeft,
			svgWidth-svgLeft-svgRight, min(low, high), math.Abs(high-low))
		s.put(`<line class="ceiling" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, svgLeft, svgWidth-svgRight,
			y(c.Rate), y(c.Rate))
		ceiling = []string{"ceiling"}
	}
	s.lines(points, names, y)
	s.legend(svgTop-10, append(ceiling, names...))
}

// latencies draws the lower plot, on a logarithmic axis, and the time below it.
func (s *picture) latencies(points []Point) {
	names := []string{"p50", "p99"}
	least, most := math.Inf(1), 0.0
	for _, name := range names {
		lowest, highest := extent(points, name)
		least, most = min(least, lowest), max(most, highest)
	}
	if most == 0 {
		least, most = 100, 1000
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	to = max(to, from+1)
	y := func(us float64) float64 {
		return svgSecond + svgPanel*(1-min(max((math.Log10(us)-from)/(to-from), 0), 1))
	}
	ticks := map[float64]string{}
	for d := from; d <= to; d++ {
		ticks[math.Pow(10, d)] = Micros(math.Pow(10, d))
	}
	s.frame("latency", points, svgSecond, ticks, y)
	s.lines(points, names, y)
	s.legend(svgSecond-10, names)
	step := niceStep(s.end, 8)
	for i := 0; float64(i)*step <= s.end*(1+1e-9); i++ {
		s.words("mid", s.x(float64(i)*step), svgSecond+svgPanel+20, Seconds(float64(i)*step))
	}
}

// extent returns the least value above 0 of a curve, and the most.
func extent(points []Point, curve string) (least, most float64) {
	least = math.Inf(1)
	for i := range points {
		if v := curves[curve](&points[i]); v != nil && clean(*v) > 0 {
			least, most = min(least, clean(*v)), max(most, clean(*v))
		}
	}
	return least, most
}

// frame draws what is behind a plot's lines: its name, its axis, and in grey what was not measured.
func (s *picture) frame(name string, points []Point, top float64, ticks map[float64]string,
	y func(float64) float64) {
	for _, t := range unmeasured(points) {
		from, to := s.x(clean(t[0])), s.x(clean(t[1]))
		s.put(`<rect class="warm" x="%.1f" y="%.1f" width="%.1f" height="%d"/>`, from, top,
			max(to-from, 0), svgPanel)
	}
	for _, v := range slices.Sorted(maps.Keys(ticks)) {
		s.put(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, svgLeft,
			svgWidth-svgRight, y(v), y(v))
		s.words("end", svgLeft-8, y(v)+4, ticks[v])
	}
	s.words("", 20, top-10, name)
}

// lines draws curves, broken where they are not known.
func (s *picture) lines(points []Point, names []string, y func(float64) float64) {
	for _, name := range names {
		var piece []string
		for i := range points {
			v := curves[name](&points[i])
			if v != nil {
				piece = append(piece, fmt.Sprintf("%.1f,%.1f", s.x(clean(points[i].At)), y(clean(*v))))
			}
			if len(piece) > 0 && (v == nil || i == len(points)-1) {
				s.put(`<polyline class="%s" points="%s"/>`, name, strings.Join(piece, " "))
				piece = nil
			}
		}
	}
}

func (s *picture) legend(y float64, names []string) {
	x := float64(svgWidth - svgRight)
	for i := len(names) - 1; i >= 0; i-- {
		x -= float64(7 * len(names[i]))
		s.words("", x, y, names[i])
		s.put(`<polyline class="%s" points="%.1f,%.1f %.1f,%.1f"/>`, names[i], x-24, y-4, x-6, y-4)
		x -= 40
	}
}

// clean makes 0 of what is no number or negative: a result may come from anywhere.
func clean(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	return min(v, 1e15)
}

// niceStep is 1, 2 or 5 times a power of ten, so that about n of it are most.
func niceStep(most float64, n int) float64 {
	if most <= 0 {
		return 1
	}
	raw := most / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// compact writes 42000 as 42k, for axes, whose steps have few digits.
func compact(v float64) string {
	switch {
	case v >= 1e6:
		return digits3(v/1e6) + "M"
	case v >= 1e3:
		return digits3(v/1e3) + "k"
	}
	return digits3(v)
}

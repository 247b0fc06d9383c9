package report

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
)

// LiveOptions say where and how a run is shown while it lasts.
type LiveOptions struct {
	Out io.Writer
	// Title is what the run does, for people.
	Title string
	// Seconds is how long the run lasts; 0 is unknown.
	Seconds float64
	// Redraw shows one block, drawn anew in its place. Else there is one plain line a second.
	Redraw bool
	// Color highlights what went wrong; only where Redraw is.
	Color bool
	// Unicode draws with block characters, else with ASCII.
	Unicode bool
	// Width returns the terminal's columns; nil is 80.
	Width func() int
}

// LiveOn returns options that suit a file, stderr as a rule: a block on a terminal, plain lines elsewhere,
// and what the environment asks for by TERM=dumb, NO_COLOR and the locale.
func LiveOn(f *os.File, getenv func(string) string) LiveOptions {
	o := LiveOptions{Out: f}
	terminal := term.IsTerminal(int(f.Fd()))
	// The old console of Windows shows escape sequences as they are.
	o.Redraw = terminal && getenv("TERM") != "dumb" &&
		(runtime.GOOS != "windows" || getenv("WT_SESSION") != "")
	o.Color = o.Redraw && getenv("NO_COLOR") == ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			o.Unicode = strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
			break
		}
	}
	o.Width = func() int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
		return 80
	}
	return o
}

// Live shows a run while it lasts. It is told of every point, and knows time only from them. It is safe for
// concurrent use. What it cannot write it leaves out: a closed terminal does not end a run.
type Live struct {
	o LiveOptions

	mu      sync.Mutex
	recent  []Point   // of the last second
	shown   bool      // the last of them was
	next    float64   // when a plain line is due
	redrawn float64   // when the block was drawn last
	rates   []float64 // a second each, for the sparklines
	p99s    []float64
	lines   int // of the block on the screen
}

// history is how many seconds sparklines have at most.
const history = 120

// redrawEvery is how often a block is drawn: four times a second is as fast as people read.
const redrawEvery = 0.25

// NewLive returns a view that has shown nothing.
func NewLive(o LiveOptions) *Live {
	if o.Width == nil {
		o.Width = func() int { return 80 }
	}
	return &Live{o: o, next: 1}
}

// Add shows one more point.
func (l *Live) Add(p Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = slices.DeleteFunc(l.recent, func(q Point) bool { return q.At <= p.At-1+1e-6 })
	l.recent, l.shown = append(l.recent, p), false
	whole := p.At >= l.next-1e-6
	if whole {
		sum := l.now()
		l.rates = keep(l.rates, sum.Served)
		p99 := 0.0
		if sum.P99 != nil {
			p99 = *sum.P99
		}
		l.p99s = keep(l.p99s, p99)
		for l.next <= p.At+1e-6 {
			l.next++
		}
	}
	switch {
	case l.o.Redraw && (whole || p.At >= l.redrawn+redrawEvery-1e-6):
		l.draw()
		l.redrawn = p.At
	case whole && !l.o.Redraw:
		l.line()
	}
}

// Close ends the view, so that what is written next begins on a line of its own.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.recent) > 0 && !l.shown {
		if l.o.Redraw {
			l.draw()
		} else {
			l.line()
		}
	}
	if l.lines > 0 {
		io.WriteString(l.o.Out, "\n") // apart from the summary
	}
	l.recent, l.lines = nil, 0
}

func keep(s []float64, v float64) []float64 {
	if len(s) == history {
		copy(s, s[1:])
		s = s[:history-1]
	}
	return append(s, v)
}

func (l *Live) now() Point {
	sum := l.recent[0]
	for _, p := range l.recent[1:] {
		sum = merge(sum, p)
	}
	return sum
}

// line writes a second as one plain line: words and figures, the same in each.
func (l *Live) line() {
	l.shown = true
	p := l.now()
	text := fmt.Sprintf("%8s %-8s rate %s, served %s", Seconds(round1(p.At)), Plain(p.Phase),
		PerSecond(p.Intended), PerSecond(p.Served))
	if p.Shed > 0 {
		text += ", shed " + PerSecond(p.Shed)
	}
	if p.Errors > 0 {
		text += ", errors " + PerSecond(p.Errors)
	}
	if p.Silent > 0 {
		text += ", nothing is answered"
	}
	text += fmt.Sprintf(", p50 %s, p99 %s", micro(p.P50), micro(p.P99))
	if p.Ceiling != nil {
		text += ", ceiling " + PerSecond(*p.Ceiling)
	}
	if p.Busy > tooBusy {
		text += ", generator " + Share(p.Busy) + " busy"
	}
	fmt.Fprintln(l.o.Out, text)
}

func round1(s float64) float64 { return float64(int(s*10+0.5)) / 10 }

func micro(us *float64) string {
	if us == nil {
		return "-"
	}
	return Micros(*us)
}

// draw writes the block over the last one.
func (l *Live) draw() {
	l.shown = true
	p := l.now()
	width := max(l.o.Width()-1, 20) // a character in the last column wraps on some terminals
	var rows []string
	add := func(format string, args ...any) {
		rows = append(rows, cut(fmt.Sprintf(format, args...), width))
	}
	if l.o.Title != "" {
		add("%s", Plain(l.o.Title))
	}
	left := ""
	if l.o.Seconds > 0 {
		left = ", " + Seconds(round1(max(l.o.Seconds-p.At, 0))) + " left"
	}
	add("%-9s %s%s", Plain(p.Phase), Seconds(round1(p.At)), left)
	add("rate      %s intended, %s achieved, %s served", PerSecond(p.Intended), PerSecond(p.Achieved),
		PerSecond(p.Served))
	wrong := len(rows)
	silent := ""
	if p.Silent > 0 {
		silent = ": nothing is answered"
	}
	add("refused   %s shed, %s errors%s", PerSecond(p.Shed), PerSecond(p.Errors), silent)
	add("latency   p50 %s  p90 %s  p99 %s  max %s", micro(p.P50), micro(p.P90), micro(p.P99), micro(p.Max))
	extra := fmt.Sprintf("open      %d connections, %d in flight", p.Connections, p.InFlight)
	if p.TargetCPU != nil {
		extra += fmt.Sprintf("; target %s processors", digits3(*p.TargetCPU))
	}
	if p.TargetMemory != nil {
		extra += ", " + Size(*p.TargetMemory)
	}
	add("%s", extra)
	if p.Ceiling != nil {
		add("ceiling   %s", PerSecond(*p.Ceiling))
	}
	busy := -1
	if p.Busy > tooBusy {
		busy = len(rows)
		add("generator %s busy: it may be the limit", Share(p.Busy))
	}
	room := max(width-30, 10)
	add("served    %s %s", spark(l.rates, room, l.o.Unicode), top(l.rates, room, PerSecond))
	add("p99       %s %s", spark(l.p99s, room, l.o.Unicode), top(l.p99s, room, Micros))

	var b strings.Builder
	if l.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.lines)
	}
	for i, row := range rows {
		if l.o.Color && (i == wrong && p.Shed+p.Errors > 0 || i == busy) {
			row = "\x1b[31m" + row + "\x1b[0m"
		}
		b.WriteString("\r" + row + "\x1b[K\n")
	}
	if l.lines > len(rows) {
		b.WriteString("\x1b[J") // what a longer block left below
	}
	l.lines = len(rows)
	io.WriteString(l.o.Out, b.String())
}

func cut(s string, width int) string {
	r := []rune(s)
	if len(r) > width {
		r = r[:width]
	}
	return string(r)
}

// spark draws the last of values as one line, the largest of them the highest.
func spark(values []float64, room int, unicode bool) string {
	levels := []rune(" .:-=+*#")
	if unicode {
		levels = []rune("▁▂▃▄▅▆▇█")
	}
	values = tail(values, room)
	most := largest(values)
	out := make([]rune, len(values))
	for i, v := range values {
		level := 0
		if most > 0 {
			level = min(int(v/most*float64(len(levels)-1)+0.5), len(levels)-1)
		}
		out[i] = levels[level]
	}
	return string(out)
}

// top says how high the highest is.
func top(values []float64, room int, write func(float64) string) string {
	if len(values) == 0 {
		return ""
	}
	return "up to " + write(largest(tail(values, room)))
}

func tail(values []float64, n int) []float64 { return values[max(len(values)-n, 0):] }

func largest(values []float64) float64 {
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

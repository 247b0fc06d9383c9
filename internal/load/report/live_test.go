package report

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/internal/load/control"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(0), "0"}, {Count(999), "999"}, {Count(1234567), "1,234,567"},
		{PerSecond(0), "0/s"}, {PerSecond(7.25), "7.25/s"}, {PerSecond(99.4), "99.4/s"},
		{PerSecond(99.7), "100/s"}, {PerSecond(12345.6), "12,346/s"},
		{Micros(0), "0"}, {Micros(0.25), "250 ns"}, {Micros(0.9999), "1 µs"}, {Micros(812.4), "812 µs"},
		{Micros(999.7), "1 ms"},
		{Micros(1234), "1.23 ms"}, {Micros(12345), "12.3 ms"}, {Micros(999999), "1 s"},
		{Micros(2.5e6), "2.5 s"},
		{Seconds(0.25), "0.25 s"}, {Seconds(30), "30 s"}, {Seconds(119.9), "2m00s"}, {Seconds(725), "12m05s"},
		{Seconds(7200), "2h00m"},
		{Share(0), "0 %"}, {Share(1), "100 %"}, {Share(0.99999), "99.9 %"}, {Share(0.05), "5 %"},
		{Share(1e-6), "under 0.01 %"},
		{Size(512), "512 B"}, {Size(1536), "1.5 KiB"}, {Size(3.2 * (1 << 30)), "3.2 GiB"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, expected %q", c.got, c.want)
		}
	}
}

// A run that a condition has stopped knows two loads, which is no interval of confidence.
func TestCeilingsAreAsSureAsTheyAre(t *testing.T) {
	for want, c := range map[string]control.Ceiling{
		"500/s, and not 600/s, found in 4 s, limited by p99": {Rate: 500, Low: 500, High: 600,
			Seconds: 4, Converged: true, Limit: "p99"},
		"500/s, found in 4 s, limited by p99": {Rate: 500, Low: 500, High: 500,
			Seconds: 4, Converged: true, Limit: "p99"},
		"550/s, 95 % sure of 500/s to 600/s, not converged, limited by p99": {Rate: 550, Low: 500, High: 600,
			Limit: "p99"},
	} {
		if got := ceilingText(&c); got != want {
			t.Errorf("%+v is %q, expected %q", c, got, want)
		}
	}
}

func TestSummarySaysItAll(t *testing.T) {
	r := sample(t)
	r.Natural = 1500
	r.Name, r.Marks = "a run", append(r.Marks, "Evil \x1b[2J\u202eclear.")
	var b bytes.Buffer
	if err := Summary(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"a run", "ended", "the ceiling is known", "24,215 in 9 s: 23,715 served (97.9 %), 450 shed",
		"intended 2,635/s, achieved 2,635/s, served 2,635/s",
		"ceiling    3,000/s, 95 % sure of 2,900/s to 3,050/s, found in 3.2 s, limited by p99",
		"users      make 1,500/s by themselves; the ceiling is 2 times that",
		"ok         p99>50ms: it was 12.5 ms", "FAILED     errors > 1%: it was 3 %", "! A mark", "cut",
		"p99.9", "CPU a request",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("the summary sends control characters on: %q", text)
	}
	var head, row string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, "p99.9") {
			head = line
		}
		if strings.HasPrefix(line, "  latency") {
			row = line
		}
	}
	if utf8.RuneCountInString(head) != utf8.RuneCountInString(row) {
		t.Errorf("columns are not aligned:\n%s\n%s", head, row)
	}
}

func TestSummaryOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := Summary(&b, result(t, NewRecorder(RecorderOptions{}))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "Nothing was measured") || strings.Contains(b.String(), "NaN") {
		t.Errorf("the summary is\n%s", b.String())
	}
}

// feed gives a view n windows.
func feed(l *Live, n int, change func(i int, p *Point)) {
	r := NewRecorder(RecorderOptions{})
	for i := range n {
		p := r.Add(window(i, 100, time.Millisecond), steady, nil)
		if change != nil {
			change(i, &p)
		}
		l.Add(p)
	}
	l.Close()
}

func TestPlainLinesComeEverySecond(t *testing.T) {
	var b bytes.Buffer
	feed(NewLive(LiveOptions{Out: &b, Title: "t"}), 35, func(i int, p *Point) {
		if i == 25 {
			p.Errors, p.Shed, p.Busy, p.Ceiling = 10, 20, 0.95, pointer(5000)
		}
		if i == 3 {
			p.Phase = "a\nb\x1b"
		}
	})
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 4 { // three whole seconds, and what was left at the end
		t.Fatalf("there are %d lines:\n%s", len(lines), b.String())
	}
	if want := "     1 s steady   rate 1,000/s, served 1,000/s, p50 1 ms, p99 1 ms"; lines[0] != want {
		t.Errorf("the line is %q, expected %q", lines[0], want)
	}
	for _, want := range []string{"shed 2/s", "errors 1/s", "generator 95 % busy"} {
		if !strings.Contains(lines[2], want) {
			t.Errorf("the line %q lacks %q", lines[2], want)
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("plain lines have escape sequences")
	}
}

// screen does what a terminal does with what a view writes, as far as a view goes.
func screen(t *testing.T, text string) []string {
	t.Helper()
	var rows []string
	y, x := 0, 0
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' }) + 2
			arg, op := text[2:end], text[end]
			text = text[end+1:]
			switch op {
			case 'A':
				for _, c := range arg {
					y -= int(c - '0')
				}
				if len(arg) > 1 {
					y += int(arg[0]-'0') + int(arg[1]-'0') - int(arg[0]-'0')*10 - int(arg[1]-'0')
				}
			case 'K':
				rows[y] = string([]rune(rows[y])[:x])
			case 'J':
				rows = rows[:y]
			case 'm':
			default:
				t.Fatalf("a terminal is sent %q", op)
			}
			continue
		case text[0] == '\r':
			x, text = 0, text[1:]
			continue
		case text[0] == '\n':
			y, x, text = y+1, 0, text[1:]
			continue
		}
		for y >= len(rows) {
			rows = append(rows, "")
		}
		r, size := utf8.DecodeRuneInString(text)
		row := []rune(rows[y])
		for len(row) <= x {
			row = append(row, ' ')
		}
		row[x] = r
		rows[y], x, text = string(row), x+1, text[size:]
	}
	return rows
}

func TestBlockIsDrawnInItsPlace(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(LiveOptions{Out: &b, Title: "weir load \x1b[2J", Seconds: 10, Redraw: true, Unicode: true,
		Width: func() int { return 60 }})
	feed(l, 50, func(i int, p *Point) {
		if i > 20 && i < 30 {
			p.Ceiling = pointer(2000) // a row more, and later one less
		}
	})
	rows := screen(t, b.String())
	text := strings.Join(rows, "\n")
	if len(rows) != 8 {
		t.Errorf("the block has %d rows:\n%s", len(rows), text)
	}
	for _, want := range []string{"weir load ?[2J", "steady    5 s, 5 s left",
		"1,000/s intended, 1,000/s achieved", "p99 1 ms", "█████ up to 1,000/s", "█████ up to 1 ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("the block lacks %q:\n%s", want, text)
		}
	}
	for _, row := range rows {
		if utf8.RuneCountInString(row) > 59 {
			t.Errorf("the row %q wraps", row)
		}
	}
	if n := strings.Count(b.String(), "latency"); n > 25 {
		t.Errorf("five seconds are drawn %d times", n)
	}
}

func TestColorMarksOnlyWhatWentWrong(t *testing.T) {
	for _, errors := range []float64{0, 5} {
		var b bytes.Buffer
		feed(NewLive(LiveOptions{Out: &b, Redraw: true, Color: true}), 10, func(_ int, p *Point) {
			p.Errors = errors
		})
		if got := strings.Contains(b.String(), "\x1b[31m"); got != (errors > 0) {
			t.Errorf("with %v errors a second there is colour: %v", errors, got)
		}
	}
}

func TestFilesGetPlainLines(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := LiveOn(f, func(name string) string {
		return map[string]string{"LANG": "C.UTF-8", "TERM": "xterm"}[name]
	})
	if o.Redraw || o.Color || !o.Unicode || o.Width() != 80 {
		t.Errorf("a file gets %+v", o)
	}
	if o = LiveOn(f, func(name string) string {
		return map[string]string{"LC_ALL": "C", "LANG": "C.UTF-8"}[name]
	}); o.Unicode {
		t.Error("LC_ALL=C gets block characters")
	}
}

func TestTheLiveViewSaysThatNothingIsAnswered(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		var b bytes.Buffer
		l := NewLive(LiveOptions{Out: &b, Redraw: redraw})
		for i := range 10 {
			l.Add(Point{At: float64(i+1) / 10, Seconds: 0.1, Phase: "climb", Intended: 50, Errors: 50,
				Silent: float64(i/3*3) / 10})
		}
		l.Close()
		if !strings.Contains(b.String(), "nothing is answered") {
			t.Errorf("redrawn %t: of a target that answers nothing it says %q", redraw, b.String())
		}
		b.Reset()
		l = NewLive(LiveOptions{Out: &b, Redraw: redraw})
		for i := range 10 {
			l.Add(Point{At: float64(i+1) / 10, Seconds: 0.1, Phase: "climb", Intended: 50, Errors: 49,
				Served: float64((10 - i) / 10)})
		}
		l.Close()
		if strings.Contains(b.String(), "nothing is answered") {
			t.Errorf("redrawn %t: of a target that answers something it says %q", redraw, b.String())
		}
	}
}

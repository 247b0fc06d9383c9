package control

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseConditions reads conditions, each of texts one or several by comma:
//
//	figure (> | >= | < | <=) limit [for duration]
//
// as in "p95>50ms for 5s", "errors > 1%", "rate<1000/s", "cpu>90%" and "memory>500MB". Spaces are free,
// upper case is lower case. 100 % of cpu is one processor. An error says where it is and what is known
// there.
func ParseConditions(texts []string) ([]Condition, error) {
	var all []Condition
	for _, text := range texts {
		p := parser{text: text, kind: "condition"}
		for {
			c, err := p.condition()
			if err != nil {
				return nil, err
			}
			all = append(all, c)
			p.space()
			if p.at == len(p.text) {
				break
			}
			if !p.take(",") {
				return nil, p.fail(p.at,
					`expected "for" and a duration, a comma and another condition, or the end`)
			}
		}
	}
	return all, nil
}

const knownFigures = "p50, p99.9 or another quantile, mean, max, errors, shed, success, achieved, rate, " +
	"cpu, memory"

// CompleteCondition returns conditions that begin like what was typed, for shells; each has a tab and a
// description.
func CompleteCondition(typed string) []string {
	var fitting []string
	for _, s := range []string{
		"p50>20ms for 5s\tmedian latency", "p95>50ms for 5s\tlatency quantile; any: p75, p99.9",
		"p99>50ms for 5s\tlatency quantile",
		"p999>100ms for 5s\tlatency quantile 99.9", "mean>20ms for 5s\tmean latency",
		"max>1s\tlongest latency",
		"errors>1%\tshare of requests without a usable answer", "shed>5%\tshare of requests answered 503",
		"success<99%\tshare of requests answered below 400",
		"achieved<95%\tshare of the intended requests that were sent",
		"rate<1000/s\tanswers below 400 a second", "cpu>90%\tof the target; 100% is one processor",
		"memory>500MB\tof the target",
	} {
		if strings.HasPrefix(s, strings.ToLower(typed)) {
			fitting = append(fitting, s)
		}
	}
	return fitting
}

// parser reads one text from left to right.
type parser struct {
	text string
	kind string // what the text is, for errors
	at   int
	// natural is what multiples of rates are of.
	natural float64
}

// ParseError says what is wrong in a text that a person wrote, and where.
type ParseError struct {
	Kind, Text string
	Position   int // in bytes, from 0
	Problem    string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s %q, at character %d: %s", e.Kind, e.Text, len([]rune(e.Text[:e.Position]))+1,
		e.Problem)
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &ParseError{Kind: p.kind, Text: p.text, Position: at, Problem: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// take skips spaces and s, if that is what comes.
func (p *parser) take(s string) bool {
	p.space()
	if !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// run returns what comes as long as its bytes are of set, in lower case.
func (p *parser) run(set func(c byte) bool) string {
	from := p.at
	for p.at < len(p.text) && set(p.text[p.at]) {
		p.at++
	}
	return strings.ToLower(p.text[from:p.at])
}

func digit(c byte) bool  { return c >= '0' && c <= '9' || c == '.' }
func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func (p *parser) condition() (Condition, error) {
	var c Condition
	p.space()
	start := p.at
	name := p.run(func(c byte) bool { return letter(c) || digit(c) })
	if err := c.name(name); err != "" {
		return c, p.fail(start, "%s", err)
	}
	p.space()
	at := p.at
	switch op := p.run(func(c byte) bool { return strings.IndexByte("<>=!", c) >= 0 }); op {
	case ">", ">=", "<", "<=":
		c.above, c.equal = op[0] == '>', len(op) == 2
	default:
		return c, p.fail(at, "expected >, >=, < or <= after %s", name)
	}
	if err := p.limit(&c); err != nil {
		return c, err
	}
	p.space()
	at = p.at
	if word := p.run(letter); word == "" {
		return c, nil
	} else if word != "for" {
		return c, p.fail(at, `expected "for" and a duration, a comma and another condition, or the end`)
	}
	p.space()
	at = p.at
	d, err := p.duration()
	if err != nil || d < 0 {
		return c, p.fail(at, `expected a duration after "for", like 5s or 1m30s`)
	}
	c.For = d
	return c, nil
}

// name sets what the condition is about, or says what is wrong.
func (c *Condition) name(name string) string {
	for f, n := range figureNames {
		if n == name {
			c.figure = f
			return ""
		}
	}
	if name == "max" {
		c.quantile = 100
		return ""
	}
	digits, ok := strings.CutPrefix(name, "p")
	if !ok || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		if name == "" {
			return "expected one of " + knownFigures
		}
		return fmt.Sprintf("%q is not known; expected one of %s", name, knownFigures)
	}
	// p999 is 99.9, p9999 is 99.99. From p90 on alone: nobody who writes p101 means 10.1.
	if len(digits) > 2 && digits[0] == '9' && !strings.Contains(digits, ".") {
		digits = digits[:2] + "." + digits[2:]
	}
	q, err := strconv.ParseFloat(digits, 64)
	if err != nil || q <= 0 || q > 100 {
		return fmt.Sprintf("%q is not a quantile; they are above p0, up to p100, like p50, p99 and p99.9, "+
			"which is p999 too", name)
	}
	c.quantile = q
	return ""
}

var (
	latencyUnits = map[string]float64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
	shareUnits   = map[string]float64{"%": 0.01}
	rateUnits    = map[string]float64{"": 1, "/s": 1, "/m": 1. / 60, "/h": 1. / 3600}
	byteUnits    = map[string]float64{"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10,
		"mib": 1 << 20, "gib": 1 << 30}
	byteNames = map[string]string{"b": "B", "kb": "KB", "mb": "MB", "gb": "GB", "kib": "KiB",
		"mib": "MiB", "gib": "GiB"}
)

// limit reads the number and unit that a figure is compared with.
func (p *parser) limit(c *Condition) error {
	p.space()
	start := p.at
	units, like := latencyUnits, "a duration, like 50ms or 1.5s"
	switch c.figure {
	case figureErrors, figureShed, figureSuccess, figureAchieved, figureCPU:
		units, like = shareUnits, "per cent, like 5% or 99.5%"
	case figureRate:
		units, like = rateUnits, "a rate, like 1000/s or 300/m"
	case figureMemory:
		units, like = byteUnits, "bytes, like 500MB or 1.5GiB"
	}
	n, err := strconv.ParseFloat(p.run(digit), 64)
	if err != nil || math.IsInf(n, 0) {
		return p.fail(start, "%s is compared with %s", c.Signal(), like)
	}
	if c.figure != figureRate {
		p.space()
	}
	name := "%"
	if !p.take("%") {
		name = p.run(func(c byte) bool { return letter(c) || c == '/' || c >= 0x80 })
	}
	scale, ok := units[name]
	if !ok || n*scale > math.MaxFloat64/1e9 {
		return p.fail(start, "%s is compared with %s", c.Signal(), like)
	}
	if written, ok := byteNames[name]; ok && c.figure == figureMemory {
		name = written
	}
	if c.figure == figureRate && name == "" {
		name = "/s"
	}
	c.limit, c.unit = n, unit{name, scale}
	if share := n * scale; c.figure != figureCPU && units["%"] != 0 && share > 1 {
		return p.fail(start, "%s is a share and never above 100%%", c.Signal())
	}
	return nil
}

func (p *parser) duration() (time.Duration, error) {
	return time.ParseDuration(p.run(func(c byte) bool { return letter(c) || digit(c) || c >= 0x80 }))
}

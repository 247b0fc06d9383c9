package control

import (
	"fmt"
	"strconv"
	"time"
)

// What generators take at most; see client.Engine. More is a slip of the pen.
const (
	MaxRate        = 10_000_000.0 // requests a second
	MaxConnections = 1_000_000
)

// ParseRate reads how many requests a time: "5000/s", "300/m", "3600/h", "12k/s", "1.5M/s"; without a time
// it is a second. "60x" is 60 times natural, the rate that users make by themselves, 0 where there is none.
func ParseRate(text string, natural float64) (perSecond float64, err error) {
	p := parser{text: text, kind: "rate", natural: natural}
	perSecond, err = p.rate()
	if err != nil {
		return 0, err
	}
	if p.space(); p.at < len(text) {
		return 0, p.fail(p.at, "expected nothing after the rate")
	}
	return perSecond, nil
}

func (p *parser) rate() (float64, error) {
	p.space()
	start := p.at
	const like = "expected requests a time, like 5000/s, 12k/s or 300/m, or a multiple like 60x"
	n, err := strconv.ParseFloat(p.run(digit), 64)
	if err != nil {
		return 0, p.fail(start, like)
	}
	switch {
	case p.take("k"), p.take("K"):
		n *= 1e3
	case p.take("M"):
		n *= 1e6
	}
	if p.take("x") {
		if p.natural == 0 {
			return 0, p.fail(start, "a multiple is one of what --users and --every mean, and there is no "+
				"--every: give both, or a rate like 5000/s")
		}
		n *= p.natural
	} else if p.take("/") {
		p.space()
		at := p.at
		switch word := p.run(letter); word {
		case "s", "sec", "second":
		case "m", "min", "minute":
			n /= 60
		case "h", "hour":
			n /= 3600
		default:
			return 0, p.fail(at, "expected s, m or h: a second, minute or hour")
		}
	}
	if n <= 0 || n > MaxRate {
		return 0, p.fail(start, "a rate is above 0 and at most %s/s", number(MaxRate))
	}
	return n, nil
}

// Stage is a part of a classic run: a load that stays, or goes evenly from one to another.
type Stage struct {
	// From and To are requests a second, or connections.
	From, To    float64
	Connections bool
	For         time.Duration
}

// ParseStages reads stages by comma, each a load, a colon and how long it lasts:
//
//	1000/s:30s,5000/s:1m    two steps
//	1000/s->5000/s:1m       evenly from the one to the other
//	->5000/s:1m             the same from where the last stage ended; from 0, if it is the first
//	64c:30s                 connections instead of requests a second
//
// All are of one kind. Multiples are of natural, as in ParseRate.
func ParseStages(text string, natural float64) ([]Stage, error) {
	p := parser{text: text, kind: "stages", natural: natural}
	var stages []Stage
	for {
		p.space()
		start := p.at
		var s Stage
		if len(stages) > 0 {
			s.From = stages[len(stages)-1].To
		}
		ramp := p.take("->")
		kinds := []bool{}
		if !ramp {
			from, connections, err := p.load()
			if err != nil {
				return nil, err
			}
			s.From, s.To, kinds = from, from, append(kinds, connections)
			ramp = p.take("->")
		}
		if ramp {
			to, connections, err := p.load()
			if err != nil {
				return nil, err
			}
			s.To, kinds = to, append(kinds, connections)
		}
		s.Connections = kinds[0]
		if s.Connections != kinds[len(kinds)-1] {
			return nil, p.fail(start, "a stage goes from requests a second to requests a second, or from "+
				"connections to connections")
		}
		if len(stages) > 0 && s.Connections != stages[0].Connections {
			return nil, p.fail(start, "stages are all of requests a second, or all of connections")
		}
		if !p.take(":") {
			return nil, p.fail(p.at, "expected a colon and how long the stage lasts, like 1000/s:30s")
		}
		p.space()
		at := p.at
		d, err := p.duration()
		if err != nil || d <= 0 {
			return nil, p.fail(at, "expected how long the stage lasts, like 30s or 1m30s")
		}
		s.For = d
		stages = append(stages, s)
		if p.space(); p.at == len(text) {
			return stages, nil
		}
		if !p.take(",") {
			return nil, p.fail(p.at, "expected a comma and another stage, or the end")
		}
	}
}

// load reads a rate, or a number of connections.
func (p *parser) load() (n float64, connections bool, err error) {
	p.space()
	start := p.at
	digits := p.run(digit)
	if digits == "" {
		return 0, false, p.fail(start, "expected a load, like 1000/s or 64c")
	}
	p.space()
	if p.at < len(p.text) && p.text[p.at]|0x20 == 'c' {
		p.run(letter) // c, conn, connections
		count, err := strconv.Atoi(digits)
		if err != nil || count < 1 || count > 1e6 {
			return 0, false, p.fail(start, "connections are a whole number from 1 to 1000000, like 64c")
		}
		return float64(count), true, nil
	}
	p.at = start
	n, err = p.rate()
	return n, false, err
}

// String writes the stage so that ParseStages reads the same from it.
func (s Stage) String() string {
	unit := "/s"
	if s.Connections {
		unit = "c"
	}
	if s.From == s.To {
		return fmt.Sprintf("%s%s:%v", number(s.From), unit, s.For)
	}
	if s.From == 0 {
		return fmt.Sprintf("->%s%s:%v", number(s.To), unit, s.For)
	}
	return fmt.Sprintf("%s%s->%s%s:%v", number(s.From), unit, number(s.To), unit, s.For)
}

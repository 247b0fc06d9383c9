//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// The adaptive mode of weir load is measured against a server whose ceiling is known (bench/rated), which serves exactly
// so many requests a second and lets the others wait or refuses them. Found / true is said as how far off it is at the end
// of a search. The last server's ceiling halves while it is tracked, and then how long it takes until the run says so
// and stays with it.

const serviceAdaptive = "adaptive"

const (
	nameRated = "rated"
	// A search is given the time that the bar allows for it.
	searchTime = 60 * time.Second
	// The ceiling halves after movesAfter; what is followed within the rest of movedTime counts.
	movesAfter, movedTime = 30 * time.Second, 50 * time.Second
	// A ceiling counts as followed when what is said of it is so close to it for as long as stays.
	followedWithin = 0.05
	followedStays  = 3.0
)

// adaptiveCases are the servers that are searched, one after another.
var adaptiveCases = []adaptiveCase{
	{kind: "queue", rate: 2000},
	{kind: "queue", rate: 20000},
	{kind: "shed", rate: 2000},
	{kind: "cut", rate: 2000},
	{kind: "queue", rate: 5000, to: 2500},
	{kind: "shed", rate: 5000, to: 2500},
}

// adaptiveCase is a server's ceiling and what it does beyond it.
type adaptiveCase struct {
	kind string
	rate float64
	to   float64 // what the ceiling becomes, 0 for it stays
}

func (c adaptiveCase) String() string {
	does := map[string]string{"queue": "lets more wait", "shed": "answers 503 to more", "cut": "cuts more off"}[c.kind]
	if c.to > 0 {
		return fmt.Sprintf("%.0f/s that become %.0f/s, %s", c.rate, c.to, does)
	}
	return fmt.Sprintf("%.0f/s, %s", c.rate, does)
}

// adaptiveSample is what one search found.
type adaptiveSample struct {
	Case    string   `json:"case"`
	Round   int      `json:"round"`
	Found   float64  `json:"found"` // requests a second, at the end
	Low     float64  `json:"low"`
	High    float64  `json:"high"`
	Off     float64  `json:"off_percent"`
	Seconds float64  `json:"seconds"` // until it was found first
	Follow  *float64 `json:"follow_seconds,omitempty"`
	Limit   string   `json:"limit"`
	CPU     float64  `json:"generator_cpu_us_per_request"`
}

// turn makes it a figure of the server that was searched.
func (s *adaptiveSample) turn() (server string, round int) { return s.Case, s.Round }

// adaptiveReport is everything that was found about searches.
type adaptiveReport struct {
	Rounds  int               `json:"rounds"`
	Bars    []*bar            `json:"bars"`
	Samples []*adaptiveSample `json:"samples"`
}

func (b *bench) measureAdaptive(ctx context.Context) (*adaptiveReport, error) {
	r := &adaptiveReport{Rounds: b.rounds}
	for round := range b.rounds {
		for _, c := range adaptiveCases {
			s, err := b.searchOnce(ctx, c, round+1)
			if err != nil {
				return nil, fmt.Errorf("round %d, %v: %w", round+1, c, err)
			}
			r.Samples = append(r.Samples, s)
		}
	}
	r.judge()
	return r, nil
}

// searched is what this needs of a result of weir load; docs/load.md describes it.
type searched struct {
	Started time.Time `json:"started"`
	Ceiling *struct {
		Rate      float64 `json:"rate"`
		Low       float64 `json:"low"`
		High      float64 `json:"high"`
		Seconds   float64 `json:"seconds"`
		Converged bool    `json:"converged"`
		Limit     string  `json:"limit"`
	} `json:"ceiling"`
	Generator struct {
		CPU float64 `json:"cpu_us_per_request"`
	} `json:"generator"`
	Trace []saidAt `json:"trace"`
}

// saidAt is what a run said of the ceiling at a moment.
type saidAt struct {
	At      float64  `json:"t"`
	Ceiling *float64 `json:"ceiling"`
}

// searchOnce starts a server and lets weir load look for its ceiling.
func (b *bench) searchOnce(ctx context.Context, c adaptiveCase, round int) (s *adaptiveSample, err error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	argv := []string{"build/bin/rated", "--listen", addr, "--admin", admin, "--kind", c.kind, "--rate", fmt.Sprint(c.rate)}
	p, err := launch(ctx, nameRated, argv, addr, "/", filepath.Join(b.dir, "logs", nameRated+".log"), 10*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	length, truth := searchTime, c.rate
	if c.to > 0 {
		length, truth = movedTime, c.to
	}
	moved := make(chan time.Time, 1)
	moving, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.to > 0 {
		go func() {
			if pause(moving, movesAfter) == nil && putRate(moving, admin, c.to) == nil {
				moved <- time.Now()
			}
		}()
	}
	found, err := b.adaptive(ctx, "http://"+addr+"/", length)
	if err != nil {
		return nil, err
	}
	if found.Ceiling == nil || !found.Ceiling.Converged {
		return nil, fmt.Errorf("no ceiling was found in %v", length)
	}
	at := found.Ceiling
	s = &adaptiveSample{
		Case: c.String(), Round: round, Found: at.Rate, Low: at.Low, High: at.High, Off: 100 * math.Abs(at.Rate/truth-1),
		Seconds: at.Seconds, Limit: at.Limit, CPU: found.Generator.CPU,
	}
	if c.to > 0 {
		select {
		case when := <-moved:
			s.Follow = new(followed(found.Trace, when.Sub(found.Started).Seconds(), truth))
		default:
			return nil, fmt.Errorf("the ceiling could not be moved to %v/s at http://%s/rate", c.to, admin)
		}
	}
	return s, nil
}

// adaptive runs weir load and reads its result.
func (b *bench) adaptive(ctx context.Context, url string, length time.Duration) (*searched, error) {
	text, err := b.runLoad(ctx, url, "--mode", "adaptive", "--duration", length.String())
	if err != nil {
		return nil, err
	}
	var found searched
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("a result of weir load: %w", err)
	}
	return &found, nil
}

// putRate moves the ceiling.
func putRate(ctx context.Context, admin string, rate float64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+admin+"/rate", strings.NewReader(fmt.Sprint(rate)))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("PUT %s: %s", r.URL, answer.Status)
	}
	return nil
}

// followed returns how long after a move at a time of the run the ceiling that it said was right, and stayed so; the rest
// of the run when it never was.
func followed(trace []saidAt, moved, truth float64) float64 {
	if len(trace) == 0 {
		return math.Inf(1)
	}
	since := math.Inf(1)
	for _, p := range trace {
		switch {
		case p.At < moved:
		case p.Ceiling == nil || math.Abs(*p.Ceiling/truth-1) > followedWithin:
			since = math.Inf(1)
		case math.IsInf(since, 1):
			since = p.At
		case p.At >= since+followedStays:
			return since - moved
		}
	}
	return trace[len(trace)-1].At - moved
}

// judge fills in the bars.
func (r *adaptiveReport) judge() {
	for _, c := range adaptiveCases {
		of := func(get func(*adaptiveSample) (float64, bool)) []float64 {
			return figuresOf(r.Samples, c.String(), get)
		}
		if c.to > 0 {
			follow := of(func(s *adaptiveSample) (float64, bool) {
				if s.Follow == nil {
					return 0, false
				}
				return *s.Follow, true
			})
			r.Bars = append(r.Bars, newBar(c.String()+": followed within", "%.1f s", true, 10, 5, follow))
			continue
		}
		off := of(func(s *adaptiveSample) (float64, bool) { return s.Off, true })
		seconds := of(func(s *adaptiveSample) (float64, bool) { return s.Seconds, true })
		r.Bars = append(r.Bars,
			newBar(c.String()+": found is off by", "%.1f %%", true, 5, 2, off),
			newBar(c.String()+": time to find it", "%.0f s", true, 60, 30, seconds))
	}
}

func (r *adaptiveReport) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### Searches\n\n`weir load --mode adaptive` against a server that serves exactly so many requests a second; medians of %d rounds.\n\n", r.Rounds)
	writeBars(b, r.Bars)
	fmt.Fprint(b, "\n| ceiling | found | 95 % sure of | limited by | generator's CPU a request |\n|---|---|---|---|---|\n")
	for _, s := range r.Samples {
		fmt.Fprintf(b, "| %s | %.0f/s | %.0f/s to %.0f/s | %s | %.1f us |\n", s.Case, s.Found, s.Low, s.High, s.Limit, s.CPU)
	}
}

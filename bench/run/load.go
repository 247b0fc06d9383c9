//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// What weir load itself costs, against the C floor, which costs next to nothing. In a round wrk and weir load ask the same
// floor in turn, in another order each time: a closed loop of 64 connections, and how much processor time the asking
// took for a request. wrk's is that of its process; weir load's is of its process, too, over the measured time, as its
// result says.
//
// Then weir load sends at half of the rate that it reached in that closed loop, its own ceiling. What it adds to latencies by itself
// is its result's lag: for every request how late it was sent, plus the time from the last look that did not yet
// show its answer until it was counted, which is the most that the answer can have waited for the program. To compare with, the same
// core does nothing but look at the clock: how late that sees the moments of such a schedule is the machine's doing.

const serviceLoad = "load"

const (
	loadConnections = 64
	nameWrk         = "wrk"
	nameWeirLoad    = "weir load"
)

// loadSample is what one asker of a round found.
type loadSample struct {
	Asker     string    `json:"asker"`
	Round     int       `json:"round"`
	CPU       float64   `json:"cpu_us_per_request"` // the asker's
	PerSecond float64   `json:"requests_per_second"`
	P50       float64   `json:"p50_us"`
	P99       float64   `json:"p99_us"`
	Open      *loadOpen `json:"open_loop,omitempty"` // of weir load
}

func (s *loadSample) turn() (server string, round int) { return s.Asker, s.Round }

// loadOpen is an open loop at half of the asker's ceiling. Times are in microseconds.
type loadOpen struct {
	Rate   float64 `json:"rate"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	LagP99 float64 `json:"lag_p99_us"`
	Busy   float64 `json:"busy"`
	CPU    float64 `json:"cpu_us_per_request"`
	Idle   float64 `json:"clock_lag_p99_us"` // of a loop that only looks at the clock
}

// loadReport is everything that was found about weir load.
type loadReport struct {
	Rounds  int           `json:"rounds"`
	Seconds float64       `json:"seconds"`
	Bars    []*bar        `json:"bars"`
	Samples []*loadSample `json:"samples"`
}

func (b *bench) measureLoad(ctx context.Context) (*loadReport, error) {
	r := &loadReport{Rounds: b.rounds, Seconds: b.duration.Seconds()}
	for round := range b.rounds {
		samples, err := b.loadRound(ctx, round+1)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		r.Samples = append(r.Samples, samples...)
	}
	r.judge()
	return r, nil
}

// loadRound starts a floor and lets both ask it.
func (b *bench) loadRound(ctx context.Context, round int) (samples []*loadSample, err error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, nameFloor, []string{"build/bin/floor", "--port", port}, addr, "/", filepath.Join(b.dir, "logs", "load-floor.log"), 10*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	if _, err := b.wrkOver(ctx, loadConnections, p, time.Second, "summary.lua", "/"); err != nil {
		return nil, err
	}
	askers := []string{nameWrk, nameWeirLoad}
	if round%2 == 0 {
		slices.Reverse(askers)
	}
	for _, asker := range askers {
		s := &loadSample{Asker: asker, Round: round}
		if asker == nameWrk {
			err = b.askByWrk(ctx, p, s)
		} else {
			err = b.askByWeir(ctx, p, s)
		}
		if err != nil {
			return nil, err
		}
		log.Printf("round %d/%d %-9s  %5.2f us CPU a request, %7.0f/s", round, b.rounds, asker, s.CPU, s.PerSecond)
		if o := s.Open; o != nil {
			log.Printf("round %d/%d %-9s  at %.0f/s it adds %.0f us at p99, where looking at the clock is late by %.0f us", round, b.rounds, asker, o.Rate, o.LagP99, o.Idle)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func (b *bench) askByWrk(ctx context.Context, p *process, s *loadSample) error {
	found, err := client(ctx, nil, "wrk", "-t1", fmt.Sprint("-c", loadConnections), fmt.Sprintf("-d%.0fs", b.duration.Seconds()),
		"-s", b.source("wrk", "summary.lua"), "http://"+p.addr+"/")
	if err != nil {
		return err
	}
	s.CPU = float64(found.cpu.Microseconds()) / float64(found.Requests)
	s.PerSecond = float64(found.Requests) / (float64(found.Micros) / 1e6)
	s.P50, s.P99 = float64(found.P50), float64(found.P99)
	return nil
}

func (b *bench) askByWeir(ctx context.Context, p *process, s *loadSample) error {
	closed, err := b.weirLoad(ctx, p, "--connections", fmt.Sprint(loadConnections))
	if err != nil {
		return err
	}
	s.CPU, s.PerSecond = closed.Generator.CPU, closed.Rate.Served
	s.P50, s.P99 = closed.Latency.P50, closed.Latency.P99
	o := &loadOpen{Rate: math.Round(s.PerSecond / 2)}
	s.Open = o
	o.Idle = clockLag(o.Rate, b.duration)
	// As many connections from the beginning as a stall of the machine can take: opening them in it would be part of the figure.
	open, err := b.weirLoad(ctx, p, "--rate", fmt.Sprintf("%.0f/s", o.Rate), "--warm", "1000")
	if err != nil {
		return err
	}
	o.P50, o.P99, o.LagP99 = open.Latency.P50, open.Latency.P99, open.Generator.LagP99
	o.Busy, o.CPU = open.Generator.Busy, open.Generator.CPU
	return nil
}

// loadResult is what this needs of a result of weir load; docs/load.md describes it.
type loadResult struct {
	Requests uint64            `json:"requests"`
	Served   uint64            `json:"served"`
	Failures map[string]uint64 `json:"failures"`
	Rate     struct {
		Served float64 `json:"served"`
	} `json:"rate"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_us"`
	Generator struct {
		CPU    float64 `json:"cpu_us_per_request"`
		Busy   float64 `json:"busy"`
		LagP99 float64 `json:"lag_p99_us"`
	} `json:"generator"`
}

// runLoad runs weir load on the client core and returns the text of its result.
func (b *bench) runLoad(ctx context.Context, args ...string) ([]byte, error) {
	path := filepath.Join(b.dir, "load.json")
	cmd := exec.CommandContext(ctx, "bin/weir", append([]string{"load", "--quiet", "--json", path}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := startPinned(cmd, clientCore)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it said:\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return os.ReadFile(path)
}

// weirLoad runs weir load on the client core and reads its result. As with wrk, a failed request ends it all.
func (b *bench) weirLoad(ctx context.Context, p *process, args ...string) (*loadResult, error) {
	text, err := b.runLoad(ctx, append([]string{"http://" + p.addr + "/", "--duration", b.duration.String(), "--warmup", "1s"}, args...)...)
	if err != nil {
		return nil, err
	}
	found, err := parseLoad(text)
	if err != nil {
		return nil, fmt.Errorf("weir load %s: %w", strings.Join(args, " "), err)
	}
	return found, nil
}

func parseLoad(text []byte) (*loadResult, error) {
	var r loadResult
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	switch {
	case r.Requests == 0:
		return nil, fmt.Errorf("nothing was answered")
	case r.Served != r.Requests:
		return nil, fmt.Errorf("%d of %d requests were served, failures %v", r.Served, r.Requests, r.Failures)
	case r.Generator.CPU == 0:
		return nil, fmt.Errorf("the result does not say what the requests cost")
	}
	return &r, nil
}

// clockLag looks at the clock for d and returns how late, in microseconds at the 99th percentile, it saw the moments of a
// schedule of so many a second. This process is on the client core.
func clockLag(rate float64, d time.Duration) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	late := make([]time.Duration, 0, int(rate*d.Seconds())+1)
	interval := float64(time.Second) / rate
	for start := time.Now(); ; {
		now := time.Since(start)
		if now >= d {
			break
		}
		for due := time.Duration(float64(len(late)) * interval); due <= now; due = time.Duration(float64(len(late)) * interval) {
			late = append(late, now-due)
		}
	}
	slices.Sort(late)
	return float64(late[len(late)*99/100].Nanoseconds()) / 1000
}

// judge fills in the bars.
func (r *loadReport) judge() {
	cpu := func(s *loadSample) (float64, bool) { return s.CPU, true }
	r.Bars = append(r.Bars,
		newBar(fmt.Sprintf("CPU a request, closed loop of %d connections, weir load / wrk", loadConnections), "%.2f", true, 1.0, 0.8,
			ratiosOf(r.Samples, nameWeirLoad, nameWrk, cpu)),
		newBar("what it adds to latencies at half of its ceiling, p99", "%.0f us", true, 200, 100, r.open(func(o *loadOpen) float64 { return o.LagP99 })))
}

// open returns get of every round's open loop.
func (r *loadReport) open(get func(*loadOpen) float64) []float64 {
	return figuresOf(r.Samples, nameWeirLoad, func(s *loadSample) (float64, bool) {
		if s.Open == nil {
			return 0, false
		}
		return get(s.Open), true
	})
}

func (r *loadReport) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### Load\n\nWhat asking the C floor costs whoever asks; %d connections, medians of %d rounds of %.0f s.\n\n", loadConnections, r.Rounds, r.Seconds)
	writeBars(b, r.Bars)
	fmt.Fprint(b, "\n| asker | CPU a request | requests/s | p50 | p99 |\n|---|---|---|---|---|\n")
	for _, asker := range []string{nameWrk, nameWeirLoad} {
		of := func(get func(*loadSample) float64) float64 {
			v, _ := median(figuresOf(r.Samples, asker, func(s *loadSample) (float64, bool) { return get(s), true }))
			return v
		}
		fmt.Fprintf(b, "| %s | %.2f us | %.0f | %.0f us | %.0f us |\n", asker, of(func(s *loadSample) float64 { return s.CPU }),
			of(func(s *loadSample) float64 { return s.PerSecond }), of(func(s *loadSample) float64 { return s.P50 }), of(func(s *loadSample) float64 { return s.P99 }))
	}
	for _, n := range r.notes() {
		fmt.Fprintf(b, "\n- %s", n)
	}
	fmt.Fprintln(b)
}

// notes are the figures without a bar that help to read those with one.
func (r *loadReport) notes() []string {
	var notes []string
	note := func(format string, get func(*loadOpen) float64) {
		if v, ok := median(r.open(get)); ok {
			notes = append(notes, fmt.Sprintf(format, v))
		}
	}
	note("Half of its ceiling was %.0f requests a second.", func(o *loadOpen) float64 { return o.Rate })
	note("The whole latency there, the floor's part included: p50 %.0f us.", func(o *loadOpen) float64 { return o.P50 })
	note("And at p99 %.0f us.", func(o *loadOpen) float64 { return o.P99 })
	note("A loop on the same core that does nothing but look at the clock sees such a schedule's moments %.0f us late at p99: that is the machine's part.",
		func(o *loadOpen) float64 { return o.Idle })
	note("Its thread worked %.0f %% of that time, and looked for events in vain for the rest.", func(o *loadOpen) float64 { return 100 * o.Busy })
	return notes
}

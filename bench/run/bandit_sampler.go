//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a Beta sample costs without a server around it: weir's sampler in each of its ways and gonum's, by
// the Go benchmarks of internal/bandit/beta, alone on the server's core and in one process, over the same shapes.

const (
	samplerBenchmarks = "build/bin/beta.test" // go test -c of weir's sampler
	samplerPattern    = "^Benchmark(Sample|Gonum)$"
	// samplerMix is the mix of shapes that the bar is about.
	samplerMix = "arms"
	pathGonum  = "gonum"
)

// sampled is what a sample took in one round, in nanoseconds.
type sampled struct {
	Round int     `json:"round"`
	Path  string  `json:"path"` // gonum, or one of weir's ways
	Mix   string  `json:"mix"`
	NS    float64 `json:"ns_per_sample"`
}

// measureSampler takes all rounds. What cannot be measured is a reason, and no error.
func (b *bench) measureSampler(ctx context.Context) (all []sampled, reason string, err error) {
	if len(b.only) > 0 && !slices.Contains(b.only, nameWeir) {
		return nil, "weir was not asked for", nil
	}
	if _, err := os.Stat(samplerBenchmarks); err != nil {
		return nil, fmt.Sprintf("%v; make bench builds it", err), nil
	}
	for round := range b.rounds {
		out, err := runPinned(ctx, samplerBenchmarks, "-test.run=^$", "-test.bench="+samplerPattern, "-test.benchtime=100ms")
		if err != nil {
			return nil, "", err
		}
		found, err := parseSampled(out, round+1)
		if err != nil {
			return nil, "", fmt.Errorf("%w:\n%s", err, out)
		}
		if len(found) == 0 {
			return nil, samplerBenchmarks + " has no benchmarks that match " + samplerPattern, nil
		}
		all = append(all, found...)
	}
	for _, s := range all {
		if s.Round == 1 {
			log.Printf("sampler %-10s %-12s %6.2f ns a sample", s.Path, s.Mix, s.NS)
		}
	}
	return all, "", nil
}

// sampledLine is one like "BenchmarkSample/avx512/mix-2  1000  800 ns/op  2.1 ns/sample", or of BenchmarkGonum/mix.
var sampledLine = regexp.MustCompile(`^Benchmark(?:Sample/([^/\s]+)|Gonum)/([^/\s]+?)(?:-\d+)?\s+\d+\s(.*)$`)

func parseSampled(out string, round int) ([]sampled, error) {
	var all []sampled
	for line := range strings.Lines(out) {
		m := sampledLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		s := sampled{Round: round, Path: m[1], Mix: m[2]}
		if s.Path == "" {
			s.Path = pathGonum
		}
		fields := strings.Fields(m[3])
		at := slices.Index(fields, "ns/sample")
		if at < 1 {
			return nil, fmt.Errorf("no ns/sample in %q", line)
		}
		var err error
		if s.NS, err = strconv.ParseFloat(fields[at-1], 64); err != nil || s.NS <= 0 {
			return nil, fmt.Errorf("not a time: %q", line)
		}
		all = append(all, s)
	}
	return all, nil
}

// samplerTimes returns what a path took over a mix in each round.
func samplerTimes(all []sampled, path, mix string) []float64 {
	var ns []float64
	for _, s := range all {
		if s.Path == path && s.Mix == mix {
			ns = append(ns, s.NS)
		}
	}
	return ns
}

// samplerRatios returns, for each round, gonum's time over that of weir's fastest way, which is the one that
// weir picks where the processor has it.
func samplerRatios(all []sampled, mix string) []float64 {
	gonum, ours := map[int]float64{}, map[int]float64{}
	last := 0
	for _, s := range all {
		if s.Mix != mix {
			continue
		}
		last = max(last, s.Round)
		if s.Path == pathGonum {
			gonum[s.Round] = s.NS
		} else if ours[s.Round] == 0 || s.NS < ours[s.Round] {
			ours[s.Round] = s.NS
		}
	}
	var ratios []float64
	for round := 1; round <= last; round++ {
		if gonum[round] > 0 && ours[round] > 0 {
			ratios = append(ratios, gonum[round]/ours[round])
		}
	}
	return ratios
}

// unique returns the values of all in the order in which they come first.
func unique(all []sampled, of func(sampled) string) []string {
	var names []string
	for _, s := range all {
		if name := of(s); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

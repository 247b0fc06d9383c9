//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is computed without a server around it: Go benchmarks of weir and a small C program around GMP, each
// alone on the server's core.

const aboutArithmetic = "Go benchmarks of internal/sequence/decimal and GMP called from C, in turns on " +
	"the server's core. They end in ASCII digits."

const (
	step       = "a step and its digits at 100,000, us"
	million    = "F(1,000,000) and its digits, us"
	tenMillion = "F(10,000,000) and its digits, us"
)

// computations are what is computed, in this order.
var computations = []struct {
	name, benchmark, benchtime, times string
	index, digits, runs               int // of GMP; no index is no comparison
}{
	{step, "BenchmarkAdd100000", "100ms", "5", 0, 0, 0},
	{million, "BenchmarkFibonacci1e6", "20x", "5", 1_000_000, 208_988, 50},
	{tenMillion, "BenchmarkFibonacci1e7", "1x", "7", 10_000_000, 2_089_877, 7},
}

func (b *bench) measureArithmetic(ctx context.Context) error {
	subjects := []string{weir, gmp}
	if _, err := os.Stat("build/bin/gmp"); err != nil {
		b.note("GMP was not measured: it was not there to build with (Debian has it as libgmp-dev).")
		subjects = subjects[:1]
	}
	return b.inTurns(subjects, func(name string, round int) error {
		for _, c := range computations {
			if name == weir {
				times, err := benchmarks(ctx, "build/bin/decimal.test", "^"+c.benchmark+"$", "ns/op",
					c.benchtime, c.times)
				if err != nil {
					return err
				}
				ns, ok := median(times[c.benchmark])
				if !ok {
					return fmt.Errorf("weir's arithmetic has no benchmark called %s", c.benchmark)
				}
				b.put("arithmetic", weir, c.name, round, ns/1000)
				continue
			}
			if c.index == 0 {
				continue
			}
			out, _, err := runOn(ctx, serverCore, "build/bin/gmp", strconv.Itoa(c.index),
				strconv.Itoa(c.runs))
			if err != nil {
				return err
			}
			both, value, err := parseGMP(out, c.digits)
			if err != nil {
				return fmt.Errorf("GMP's F(%d): %w in %.200s", c.index, err, out)
			}
			b.put("arithmetic", gmp, c.name, round, both/1000)
			b.put("arithmetic", gmp, "of that the value", round, value/1000)
		}
		return nil
	})
}

// parseGMP returns the medians of a value with its digits and of the value alone, in nanoseconds.
func parseGMP(out string, digits int) (both, value float64, err error) {
	var g struct {
		Digits int
		Value  []float64 `json:"value_ns"`
		Text   []float64 `json:"text_ns"`
	}
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		return 0, 0, err
	}
	if g.Digits != digits {
		return 0, 0, fmt.Errorf("%d digits, want %d", g.Digits, digits)
	}
	if len(g.Value) == 0 || len(g.Value) != len(g.Text) {
		return 0, 0, errors.New("not a time for each run")
	}
	sums := make([]float64, len(g.Value))
	for i := range sums {
		sums[i] = g.Value[i] + g.Text[i]
	}
	both, _ = median(sums)
	value, _ = median(g.Value)
	return both, value, nil
}

// benchmarkLine is one of a Go benchmark. On more than one core the name ends in their number:
// BenchmarkAdd-2.
var benchmarkLine = regexp.MustCompile(`(?m)^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// benchmarks runs Go benchmarks of a test binary on the server's core and returns all values of a unit by
// name.
func benchmarks(ctx context.Context, binary, pattern, unit, benchtime, count string) (map[string][]float64,
	error) {
	out, _, err := runOn(ctx, serverCore, binary, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+
		benchtime, "-test.count="+count)
	if err != nil {
		return nil, err
	}
	return parseBenchmarks(out, unit)
}

func parseBenchmarks(out, unit string) (map[string][]float64, error) {
	all := map[string][]float64{}
	for _, m := range benchmarkLine.FindAllStringSubmatch(out, -1) {
		fields := strings.Fields(m[2])
		for i := 1; i < len(fields); i += 2 {
			if fields[i] != unit {
				continue
			}
			v, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil || v <= 0 {
				return nil, fmt.Errorf("not a time: %q", m[0])
			}
			all[m[1]] = append(all[m[1]], v)
		}
	}
	return all, nil
}

const aboutSampler = "Go benchmarks of internal/bandit/beta: each of weir's ways and gonum's distuv.Beta " +
	"over the same shapes, in one process on the server's core. Times are nanoseconds a sample."

// arms is the mix of shapes that the bar is about.
const arms = "arms, ns"

func (b *bench) measureSampler(ctx context.Context) error {
	for round := range b.rounds {
		times, err := benchmarks(ctx, "build/bin/beta.test", "^Benchmark(Sample|Gonum)$", "ns/sample",
			"100ms", "1")
		if err != nil {
			return err
		}
		if len(times) == 0 {
			return errors.New("build/bin/beta.test has no benchmarks of samples")
		}
		least := math.Inf(1) // weir picks its fastest way
		for _, name := range slices.Sorted(maps.Keys(times)) {
			way, ns := samplerWay(name), times[name][0]
			b.put("sampler", way, name[strings.LastIndexByte(name, '/')+1:]+", ns", round+1, ns)
			if way != "gonum" && strings.HasSuffix(name, "/arms") {
				least = min(least, ns)
			}
		}
		b.put("sampler", fastest, arms, round+1, least)
	}
	return nil
}

// samplerWay is the second part of BenchmarkSample/avx512/arms, and gonum for BenchmarkGonum/arms.
func samplerWay(name string) string {
	if parts := strings.Split(name, "/"); len(parts) == 3 {
		return parts[1]
	}
	return "gonum"
}

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// What the arithmetic costs without a server around it: weir's by its Go benchmarks, GMP's by a
// small C program, both alone on the server's core, in turns.

const (
	decimalBenchmarks = "build/bin/decimal.test" // go test -c of weir's arithmetic
	gmpProgram        = "build/bin/gmp"
)

// computations are what is computed, in this order.
var computations = []struct {
	name      string
	benchmark string // of weir's
	benchtime string // of one of its times
	times     int
	index     int // for GMP; 0 when it is not compared
	digits    int // that F(index) has
	runs      int // of GMP
}{
	{computeStep, "BenchmarkAdd100000", "100ms", 5, 0, 0, 0},
	{computeMillion, "BenchmarkFibonacci1e6", "20x", 5, 1_000_000, 208_988, 50},
	{computeTenMillion, "BenchmarkFibonacci1e7", "1x", 7, 10_000_000, 2_089_877, 7},
}

const (
	computeStep       = "a step and its digits at 100,000"
	computeMillion    = "F(1,000,000) and its digits"
	computeTenMillion = "F(10,000,000) and its digits"
)

// computed is what one computation took in one round: medians in nanoseconds, 0 where it was not
// measured.
type computed struct {
	Name     string  `json:"name"`
	Round    int     `json:"round"`
	Weir     float64 `json:"weir_ns,omitempty"`
	GMP      float64 `json:"gmp_ns,omitempty"`
	GMPValue float64 `json:"gmp_value_ns,omitempty"` // of GMP, without the digits
	Version  string  `json:"gmp_version,omitempty"`
}

// compute takes one round of computations. Who is not built is not measured.
func (b *bench) compute(ctx context.Context, r *sequenceReport, round int) error {
	missing := func(path string) bool {
		_, err := os.Stat(path)
		if err != nil && round == 1 {
			log.Printf("not measured: %v; make bench builds it where it can", err)
		}
		return err != nil
	}
	noWeir := missing(decimalBenchmarks) || len(b.only) > 0 && !slices.Contains(b.only, nameWeir)
	noGMP := missing(gmpProgram)
	for _, c := range computations {
		found := &computed{Name: c.name, Round: round}
		takes := []func() error{
			func() (err error) {
				if noWeir {
					return nil
				}
				found.Weir, err = benchmark(ctx, c.benchmark, c.benchtime, c.times)
				return err
			},
			func() (err error) {
				if noGMP || c.index == 0 {
					return nil
				}
				return found.gmp(ctx, c.index, c.runs, c.digits)
			},
		}
		for i := range takes {
			if err := takes[(i+round)%len(takes)](); err != nil {
				return err
			}
		}
		log.Printf("round %d/%d %s: %.4f ms, GMP %.4f ms", round, b.rounds, c.name, found.Weir/1e6, found.GMP/1e6)
		r.Computed = append(r.Computed, found)
	}
	return nil
}

// checkBenchmarks returns an error if weir's benchmarks are built and one of them is not called what it is
// called here: better now than after the servers.
func checkBenchmarks(ctx context.Context) error {
	if _, err := os.Stat(decimalBenchmarks); err != nil {
		return nil
	}
	out, err := runPinned(ctx, decimalBenchmarks, "-test.list=^Benchmark")
	if err != nil {
		return err
	}
	for _, c := range computations {
		if !slices.Contains(strings.Fields(out), c.benchmark) {
			return fmt.Errorf("weir's arithmetic has no benchmark called %s, only %s", c.benchmark, strings.Join(strings.Fields(out), ", "))
		}
	}
	return nil
}

// benchmark runs one of weir's Go benchmarks and returns the median of its times.
func benchmark(ctx context.Context, name, benchtime string, times int) (float64, error) {
	out, err := runPinned(ctx, decimalBenchmarks, "-test.run=^$", "-test.bench=^"+name+"$",
		"-test.benchtime="+benchtime, "-test.count="+strconv.Itoa(times))
	if err != nil {
		return 0, err
	}
	ns, err := parseBenchmark(out, name)
	if err != nil {
		return 0, fmt.Errorf("%w:\n%s", err, out)
	}
	v, _ := median(ns)
	return v, nil
}

// parseBenchmark returns the nanoseconds of each line of a benchmark. On more than one core a line's name ends in
// their number: BenchmarkAdd-2.
func parseBenchmark(out, name string) ([]float64, error) {
	var all []float64
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != name && !strings.HasPrefix(fields[0], name+"-") || fields[3] != "ns/op" {
			continue
		}
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil || ns <= 0 {
			return nil, fmt.Errorf("not a time: %q", strings.TrimSpace(line))
		}
		all = append(all, ns)
	}
	if all == nil {
		return nil, fmt.Errorf("there is no benchmark called %s", name)
	}
	return all, nil
}

// gmp has GMP compute F(index) and its digits.
func (c *computed) gmp(ctx context.Context, index, runs, digits int) error {
	out, err := runPinned(ctx, gmpProgram, strconv.Itoa(index), strconv.Itoa(runs))
	if err != nil {
		return err
	}
	if err := c.parseGMP(out, digits); err != nil {
		return fmt.Errorf("GMP's F(%d): %w in %.200s", index, err, out)
	}
	return nil
}

func (c *computed) parseGMP(out string, digits int) error {
	var g struct {
		Version string
		Digits  int
		Value   []float64 `json:"value_ns"`
		Text    []float64 `json:"text_ns"`
	}
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		return err
	}
	if g.Digits != digits {
		return fmt.Errorf("%d digits, want %d", g.Digits, digits)
	}
	if len(g.Value) == 0 || len(g.Value) != len(g.Text) {
		return errors.New("not a time for each run")
	}
	both := make([]float64, len(g.Value))
	for i := range both {
		both[i] = g.Value[i] + g.Text[i]
	}
	c.Version = g.Version
	c.GMP, _ = median(both)
	c.GMPValue, _ = median(g.Value)
	return nil
}

// runPinned runs a program on the server's core and returns what it prints.
func runPinned(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := startPinned(cmd, serverCore)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out.String(), errOut.String())
	}
	return out.String(), nil
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// warmingPatience is how long a cold server may take to bring its feeds into memory.
const warmingPatience = 2 * time.Minute

// starts is how long weir takes from exec to its first answer, in milliseconds.
type starts struct {
	Hot  []float64 `json:"hot_ms"` // feeds in the page cache, positions of the last run there
	Cold []cold    `json:"cold,omitempty"`
	// NotCold says why there are no cold starts.
	NotCold string `json:"not_cold,omitempty"`
}

// cold is a start with an empty page cache and the time until the feeds were in it.
type cold struct {
	First   float64  `json:"first_answer_ms"`
	Warm    float64  `json:"warm_ms"` // from exec until 99.9 % of the feeds were in memory
	Warming *summary `json:"warming"` // the open loop in the meantime
}

// measureStarts starts s again and again on the positions that its last turn left.
func (b *bench) measureStarts(ctx context.Context, s *server) (*starts, error) {
	r := &starts{}
	for range b.rounds {
		p, err := b.start(ctx, s, false)
		if err != nil {
			return nil, err
		}
		r.Hot = append(r.Hot, millis(p.firstAnswer))
		if err := p.stop(); err != nil {
			return nil, err
		}
	}
	for i := range b.colds {
		if err := dropCaches(); err != nil {
			r.NotCold = err.Error()
			log.Print("no cold starts: ", err)
			break
		}
		c, err := b.coldStart(ctx, s, i)
		if err != nil {
			return nil, fmt.Errorf("cold start: %w", err)
		}
		log.Printf("cold start: first answer after %.0f ms, warm after %.1f s, p99 meanwhile %.1f ms",
			c.First, c.Warm/1000, float64(c.Warming.P99)/1000)
		r.Cold = append(r.Cold, *c)
	}
	return r, nil
}

func (b *bench) coldStart(ctx context.Context, s *server, i int) (*cold, error) {
	began := time.Now()
	p, err := b.start(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	c := &cold{First: millis(p.firstAnswer)}
	warm := make(chan struct{})
	watched := make(chan error, 1)
	go func() {
		defer close(warm)
		watched <- awaitResident(ctx, s.feeds)
		c.Warm = millis(time.Since(began))
	}()
	c.Warming, err = b.openLoop(ctx, p, b.warmingRate, warmingPatience, warm, 1000+i)
	if err != nil {
		return nil, err
	}
	<-warm
	return c, <-watched
}

// awaitResident waits until a file is in the page cache as good as whole.
func awaitResident(ctx context.Context, path string) error {
	for end := time.Now().Add(warmingPatience); time.Now().Before(end); {
		// The first look comes late enough for the load to have begun.
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		cached, size, err := resident(path)
		if err != nil {
			return err
		}
		if cached >= size-size/1000 {
			return nil
		}
	}
	return fmt.Errorf("%s was not in memory after %v", path, warmingPatience)
}

// imported is one run of weir import, on all cores.
type imported struct {
	Input   string  `json:"input"`
	Seconds float64 `json:"seconds"`
	Peak    int64   `json:"peak_bytes"` // of its resident memory, mapped files included
}

// The inputs that make bench-inputs writes.
const (
	inputLists    = "lists"
	inputExploded = "exploded"
)

func (b *bench) measureImports(ctx context.Context) ([]imported, error) {
	var all []imported
	for _, input := range []string{inputLists, inputExploded} {
		source := filepath.Join(b.inputs, input)
		if _, err := os.Stat(source); err != nil {
			log.Printf("no import of %s: %v; make bench-inputs writes it", input, err)
			continue
		}
		out := filepath.Join(b.dir, "imported.weir")
		cmd := exec.CommandContext(ctx, "bin/weir", "import", source, "-o", out)
		cmd.Stderr = os.Stderr
		start := time.Now()
		if err := startPinned(cmd, serverCore, clientCore); err != nil {
			return nil, err
		}
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
		took := time.Since(start)
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		all = append(all, imported{input, took.Seconds(), usage.Maxrss << 10})
		log.Printf("imported %s in %.1f s", input, took.Seconds())
		if err := os.Remove(out); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// allocations is what the allocation tests said, as package.Test. They fail above zero a request.
type allocations struct {
	Passed []string `json:"passed"`
	Failed []string `json:"failed,omitempty"`
}

// fastLane is the package whose tests say what a request for a feed allocates.
const fastLane = "weir/internal/server"

var testLine = regexp.MustCompile(`(?m)^(?:--- (PASS|FAIL|SKIP): (\S+)|(ok|FAIL)[ \t]+(\S+)[ \t])`)

// readAllocations reads the output of go test -v: each package's tests, then its closing line.
func readAllocations(path string) (*allocations, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &allocations{}
	var passed, failed []string // of the package whose closing line is to come
	for _, m := range testLine.FindAllStringSubmatch(string(b), -1) {
		switch {
		case m[1] == "PASS":
			passed = append(passed, m[2])
		case m[1] != "":
			failed = append(failed, m[2])
		default:
			for _, test := range passed {
				r.Passed = append(r.Passed, m[4]+"."+test)
			}
			for _, test := range failed {
				r.Failed = append(r.Failed, m[4]+"."+test)
			}
			passed, failed = nil, nil
		}
	}
	return r, nil
}

// perRequest is 0 if the tests of a package passed, 1 (or more, nobody counted) if one did not,
// and nothing if there are none.
func (a *allocations) perRequest(pkg string) []float64 {
	of := func(tests []string) bool {
		return slices.ContainsFunc(tests, func(t string) bool { return strings.HasPrefix(t, pkg+".") })
	}
	switch {
	case a == nil:
		return nil
	case of(a.Failed):
		return []float64{1}
	case of(a.Passed):
		return []float64{0}
	}
	return nil
}

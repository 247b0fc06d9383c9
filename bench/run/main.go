//go:build linux

// Command run measures weir against the floor (the least that an HTTP answer costs on this machine),
// baselines (the same service as it is usually written) and well-known servers, and compares what it finds
// with weir's bars.
//
// A server is pinned to core 0 and the load generator to core 1. `weir load` generates the load; wrk repeats
// some of it as an independent second. Servers take turns, in another order each round, because whatever
// else the machine does moves all of them together: a ratio compares two turns of one round, and the median
// over the rounds counts. Only the server whose turn it is runs. Those that are slow to start sleep
// (SIGSTOP) between their turns.
//
// CPU a request is the user and system time of all threads of a server over the requests answered. A failed
// request ends the run, except where refusals are the subject.
//
// figures.go keeps what was measured, bars.go has all bars in one table, and each service has a file that
// measures it. The command runs in the root of the repository, where make bench has built everything it
// starts. It writes Markdown to standard output and the same as JSON to --json.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one run. Paths are relative to the root of the repository.
type bench struct {
	users, items, maxItem int
	connections           int
	rounds                int
	duration              time.Duration // of one measurement
	services              []string
	dir                   string // for inputs, data directories and logs
	inputs                string // directory with the inputs of the imports
	arms                  int    // items that the bandit knows

	figures
	service string              // that is being measured
	notes   map[string][]string // by service
}

// service is something that is measured by itself.
type service struct {
	name, title string
	about       string // what a reader has to know about the figures
	measure     func(*bench, context.Context) error
}

func services() []service {
	return []service{
		{"feed", "Feeds", aboutFeed, (*bench).measureFeed},
		{"starts", "Starts", aboutStarts, (*bench).measureStarts},
		{"imports", "Imports", aboutImports, (*bench).measureImports},
		{"sequence", "Sequence", aboutSequence, (*bench).measureSequence},
		{"arithmetic", "Arithmetic of the sequence", aboutArithmetic, (*bench).measureArithmetic},
		{"bandit", "Predictions", aboutBandit, (*bench).measureBandit},
		{"sampler", "Sampler", aboutSampler, (*bench).measureSampler},
		{"store", "Feature store", aboutStore, (*bench).measureStore},
		{"load", "Load generator", aboutLoad, (*bench).measureLoad},
		{"shed", "Overload", aboutShed, (*bench).measureShed},
		{"storm", "Storm of connections", aboutStorm, (*bench).measureStorm},
		{"search", "Searches", aboutSearch, (*bench).measureSearch},
		{"filter", "Filtered feeds", aboutFilter, (*bench).measureFilter},
		{"cluster", "Many nodes", aboutCluster, (*bench).measureCluster},
		{"size", "Size", aboutSize, (*bench).measureSize},
	}
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("bench: ")
	var names []string
	for _, s := range services() {
		names = append(names, s.name)
	}
	b := bench{notes: map[string][]string{}}
	flag.IntVar(&b.users, "users", 200_000, "users, whose ids are 0 to users-1")
	flag.IntVar(&b.items, "items", 200, "items in a user's list")
	flag.IntVar(&b.maxItem, "max-item", 10_000_000, "largest item id")
	flag.IntVar(&b.arms, "arms", 1_000_000, "items that predictions are made for, 400 or more")
	flag.IntVar(&b.connections, "connections", 200, "connections that feeds are asked for on")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds in which the servers take turns")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "length of one measurement, in whole seconds")
	chosen := flag.String("services", strings.Join(names, ","), "what to measure, separated by commas")
	flag.StringVar(&b.dir, "dir", "build/bench", "directory for inputs, data and logs")
	flag.StringVar(&b.inputs, "inputs", "build/bench/inputs", "directory with the inputs of imports")
	soak := flag.Duration("soak", 0, "load weir for so long and watch what it uses, instead of measuring")
	limited := flag.Duration("limited", 0,
		"overload weir for so long in 768 MiB, as root, instead of measuring")
	holds := flag.Bool("hold", false,
		"take a part of this core's time, which the overload needs, and nothing else")
	jsonPath := flag.String("json", "build/bench/results.json", "file for the results")
	flag.Parse()
	if *holds {
		log.Fatal(holdCore())
	}
	b.services = strings.Split(*chosen, ",")
	for _, s := range b.services {
		if !slices.Contains(names, s) {
			log.Fatalf("--services takes %s, got %q", strings.Join(names, ", "), s)
		}
	}
	if b.rounds < 1 || b.users < 1 || b.arms < predictItems || b.duration < time.Second {
		log.Fatalf("--rounds and --users take 1 or more, --arms %d or more, --duration 1s or more",
			predictItems)
	}

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel() // every child has ended by then, or ends with this process
	err := errors.Join(os.MkdirAll(filepath.Join(b.dir, "logs"), 0o755), moveTo(clientCore))
	switch {
	case err != nil:
	case *soak > 0:
		err = b.soak(ctx, *soak)
	case *limited > 0:
		err = b.limited(ctx, *limited)
	default:
		err = b.run(ctx, *jsonPath)
	}
	switch {
	case ctx.Err() != nil:
		log.Fatal("interrupted")
	case err != nil:
		log.Fatal(err)
	}
}

func (b *bench) run(ctx context.Context, jsonPath string) error {
	m, restore := describe()
	defer restore()
	var failed []error
	for _, s := range services() {
		if !slices.Contains(b.services, s.name) || ctx.Err() != nil {
			continue
		}
		b.service = s.name
		start := time.Now()
		if err := s.measure(b, ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			b.note("It ended early: %v", err)
		}
		log.Printf("%s took %v", s.name, time.Since(start).Round(time.Second))
	}
	r := b.report(m)
	return errors.Join(append(failed, r.writeJSON(jsonPath), r.writeMarkdown(os.Stdout))...)
}

// note adds a sentence to the section of the service that is being measured.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	log.Printf("%s: %s", b.service, text)
	b.notes[b.service] = append(b.notes[b.service], text)
}

// inTurns calls turn for each name in each round, in another order each round. Rounds count from 1.
func (b *bench) inTurns(names []string, turn func(name string, round int) error) error {
	for round := range b.rounds {
		for i := range names {
			name := names[(i+round)%len(names)]
			if err := turn(name, round+1); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, name, err)
			}
		}
	}
	return nil
}

// path returns a path in the directory of the run.
func (b *bench) path(elem ...string) string {
	return filepath.Join(append([]string{b.dir}, elem...)...)
}

//go:build linux

// Command run measures weir against the floor (the least an HTTP answer costs here), baselines (the
// same service as it is usually written) and two well-known servers, and compares what it finds with
// weir's bars. This is about the feed; sequence.go and bandit.go have what is other for those.
//
// Each server is pinned to core 0 and whoever asks to core 1. The servers take turns, in another
// order each round, because whatever else the machine does moves all of them together: a ratio is
// that of two turns of one round, and the figure reported is the median over the rounds. Only the
// server whose turn it is runs; those that are slow to start sleep (SIGSTOP) in between, the others
// start afresh. A turn: wait until the server is idle, one second of load that is not counted, a
// closed loop of wrk with random users, the same with 16 requests pipelined, what is special to
// weir (lent requests, an open loop at half of the rate just measured), and its memory.
//
// CPU a request is user and system time of all of a server's threads in /proc/PID/stat over the
// requests that wrk saw answered. A failed request ends the whole run: a figure with errors in it
// is a figure of something else.
//
// It runs in the root of the repository, where make bench has built everything it starts, and
// writes Markdown to standard output and the same as JSON to --json.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The services that are measured.
const (
	serviceFeed     = "feed"
	serviceSequence = "sequence"
	serviceBandit   = "bandit"
)

var allServices = []string{serviceFeed, serviceSequence, serviceBandit, serviceLoad, serviceAdaptive, serviceShed}

// bench is one run's configuration. Paths are relative to the root of the repository.
type bench struct {
	users       int
	items       int
	maxItem     int
	connections int
	rounds      int
	duration    time.Duration // of one measurement
	colds       int           // starts with an empty page cache
	warmingRate float64       // requests a second while a cold server warms
	services    []string      // what is measured
	only        []string      // names of servers, all when empty
	dir         string        // for feeds, data directories and logs
	allocs      string        // file with the output of go test -v for the allocation tests
	inputs      string        // directory with the inputs of the import figures
	k6          string        // path of the k6 binary
	sequenceWrk bool          // ask for the sequence by wrk
	banditItems int           // that there is something known of
	banditWrk   bool          // ask for predictions by wrk
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("bench: ")
	var b bench
	flag.IntVar(&b.users, "users", 200_000, "users, whose ids are 0 to users-1")
	flag.IntVar(&b.items, "items", 200, "items in a user's list")
	flag.IntVar(&b.maxItem, "max-item", 10_000_000, "largest item id")
	flag.IntVar(&b.connections, "connections", 200, "connections of a load generator")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds in which the servers take turns")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "length of one measurement, in whole seconds")
	flag.IntVar(&b.colds, "colds", 3, "starts with an empty page cache, as root")
	flag.Float64Var(&b.warmingRate, "warming-rate", 10_000, "requests a second to a server that warms after a cold start")
	services := flag.String("services", strings.Join(allServices, ","), "what to measure, by comma")
	only := flag.String("only", "", "servers to run, by comma, of "+strings.Join(names(), ","))
	flag.StringVar(&b.dir, "dir", "build/bench", "directory for feeds, data and logs")
	flag.StringVar(&b.allocs, "allocs", "", "output of go test -v for the allocation tests")
	flag.StringVar(&b.inputs, "import", "", "measure importing lists and exploded of this directory")
	flag.StringVar(&b.k6, "k6", "", "k6, for a second opinion on the open loop")
	flag.BoolVar(&b.sequenceWrk, "sequence-wrk", false, "ask for the sequence by wrk, which then sets the rate, instead of closedloop")
	flag.IntVar(&b.banditItems, "bandit-items", 1_000_000, "items that predictions are made for")
	flag.BoolVar(&b.banditWrk, "bandit-wrk", false, "ask for predictions by wrk instead of closedloop")
	soak := flag.Duration("soak", 0, "instead of measuring, load weir for so long and watch what it uses")
	limited := flag.Duration("limited", 0, "instead of measuring, overload weir for so long in a cgroup of 768 MiB, as root")
	holds := flag.Bool("hold", false, "instead of all that, take this core for a part of the time, as the overload wants it")
	jsonPath := flag.String("json", "build/bench/results.json", "where the results go")
	flag.Parse()
	if *holds {
		log.Fatal(holdCore())
	}
	b.services = strings.Split(*services, ",")
	if *only != "" {
		b.only = strings.Split(*only, ",")
	}

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel() // every child has ended by then, or ends with this process
	err := b.prepare()
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

// prepare checks the flags, makes the directories and leaves the server's core.
func (b *bench) prepare() error {
	if b.banditItems < predictItems {
		return fmt.Errorf("--bandit-items must be %d or more, as many as a request has", predictItems)
	}
	if b.rounds < 1 || b.users < 1 || b.duration < time.Second {
		return errors.New("--rounds and --users must be 1 or more, --duration 1s or more")
	}
	for _, s := range b.services {
		if !slices.Contains(allServices, s) {
			return fmt.Errorf("--services takes %s, got %q", strings.Join(allServices, ", "), s)
		}
	}
	if err := os.MkdirAll(filepath.Join(b.dir, "logs"), 0o755); err != nil {
		return err
	}
	return stayOn(clientCore)
}

func (b *bench) run(ctx context.Context, jsonPath string) error {
	r := &report{Machine: describe(), Parameters: b.parameters()}
	if load1, err := strconv.ParseFloat(r.Machine.Load1, 64); err == nil && load1 > 0.5 {
		log.Printf("the load average is %.2f: somebody else is at work here, and latencies will tell of them", load1)
	}
	r.Machine.Asleep = probe()
	if awake, err := stayAwake(); err != nil {
		log.Print(err)
	} else {
		defer awake.Close()
		r.Machine.Awake = probe()
	}
	if err := mayBeNice(measuredNice); err != nil {
		log.Printf("whatever else runs takes its turns: %v", err)
	} else {
		nice := measuredNice
		r.Machine.Nice = &nice
	}
	if slices.Contains(b.services, serviceFeed) {
		if err := b.measureFeed(ctx, r); err != nil {
			return err
		}
	}
	if slices.Contains(b.services, serviceSequence) {
		var err error
		if r.Sequence, err = b.measureSequence(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceSequence, err)
		}
	}
	if slices.Contains(b.services, serviceBandit) {
		var err error
		if r.Bandit, err = b.measureBandit(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceBandit, err)
		}
	}
	if slices.Contains(b.services, serviceLoad) {
		var err error
		if r.Load, err = b.measureLoad(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceLoad, err)
		}
	}
	if slices.Contains(b.services, serviceShed) {
		var err error
		if r.Shed, err = b.measureShed(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceShed, err)
		}
	}
	if slices.Contains(b.services, serviceAdaptive) {
		var err error
		if r.Adaptive, err = b.measureAdaptive(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceAdaptive, err)
		}
	}
	if err := r.writeJSON(jsonPath); err != nil {
		return err
	}
	return r.writeMarkdown(os.Stdout)
}

func (b *bench) measureFeed(ctx context.Context, r *report) error {
	servers, err := b.servers()
	if err != nil {
		return err
	}
	for _, s := range servers {
		if s.feeds == "" {
			continue
		}
		// Requests during an earlier cold start may have left it in small pages. Without them weir reads it by huge ones.
		if err := forget(s.feeds); err != nil {
			return err
		}
	}
	if r.Samples, err = b.takeTurns(ctx, servers); err != nil {
		return err
	}
	for _, s := range servers {
		if s.feeds == "" {
			continue
		}
		if r.Starts, err = b.measureStarts(ctx, s); err != nil {
			return err
		}
	}
	if b.inputs != "" {
		if r.Imports, err = b.measureImports(ctx); err != nil {
			return err
		}
	}
	if b.allocs != "" {
		if r.Allocations, err = readAllocations(b.allocs); err != nil {
			return err
		}
	}
	r.judge()
	return nil
}

// source returns the path of a file of this module.
func (b *bench) source(elem ...string) string {
	return filepath.Join(append([]string{"bench"}, elem...)...)
}

// stayOn moves all threads of this process to one core, and with them the later ones.
func stayOn(core int) error {
	var set unix.CPUSet
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		var tid int
		if _, err := fmt.Sscan(t.Name(), &tid); err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move to core %d (a run needs cores 0 and 1): %w", core, err)
		}
	}
	return nil
}

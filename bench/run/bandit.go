//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Predictions are measured like the feed: the same cores, rounds and turns. What differs: closedloop asks, out
// of pools of requests of 400 items made beforehand, on 64 connections; the baseline is bandit, which
// stays and sleeps between its turns; and some of the scores are looked at. A load during which others were at
// work on one of the cores is repeated.

const (
	banditConnections = 64
	banditAgain       = 3      // times that a disturbed load is repeated
	besideUsers       = 50_000 // of the feed that is asked for beside predictions
	besideRate        = 10_000 // feed requests a second
	banditPatience    = 2 * time.Minute
	// The baseline's heap grows to twice its features before its collector first runs, and growing costs a fifth
	// of its time.
	baselineGrows = 12 * time.Second
)

const (
	loadJSON    = "JSON"
	loadNumbers = "JSON, numbers"
	loadTensors = "binary tensors"
	loadTexts   = "binary tensors, BYTES"
)

// banditLoads are the loads of a turn, in order. The baseline has the first alone.
var banditLoads = []struct {
	name, is string
	form     func(asked) []byte
}{
	{loadJSON, "ids as text", predictJSON},
	{loadNumbers, "ids as numbers", predictNumbers},
	{loadTensors, "INT64 there, FP64 back", inferNumbers},
	{loadTexts, "BYTES there, FP64 back", inferTexts},
}

// banditSample is what one turn of one server found.
type banditSample struct {
	Server string           `json:"server"`
	Round  int              `json:"round"`
	Loads  map[string]*load `json:"loads"`
	Memory int64            `json:"memory_bytes"`
	// Open is at half of the rate of JSON, OpenTensors at half of that of binary tensors.
	Open        *summary `json:"open_loop,omitempty"`
	OpenTensors *summary `json:"open_loop_tensors,omitempty"`
	Beside      *beside  `json:"beside,omitempty"`
}

func (s *banditSample) turn() (server string, round int) { return s.Server, s.Round }

// beside is the feed of a server that predicts as well, at besideRate requests a second.
type beside struct {
	Alone       *summary `json:"alone"`       // nobody asks for predictions
	Predictions *summary `json:"predictions"` // one connection asks for predictions, back to back
}

func (b *bench) measureBandit(ctx context.Context) (*banditReport, error) {
	r := &banditReport{Parameters: banditParameters{
		Items: b.banditItems, Users: banditUsers, Predictions: predictItems, Connections: banditConnections,
		Rounds: b.rounds, Seconds: b.duration.Seconds(), Wrk: b.banditWrk,
	}}
	in, err := writeInputs(filepath.Join(b.dir, "bandit"), b.banditItems)
	if err != nil {
		return nil, err
	}
	servers := []string{nameBaseline, nameWeir}
	if len(b.only) > 0 {
		servers = slices.DeleteFunc(servers, func(s string) bool { return !slices.Contains(b.only, s) })
	}
	if slices.Contains(servers, nameWeir) {
		if err := importArms(ctx, in); err != nil {
			return nil, err
		}
		r.ImportSeconds = in.importTime
	}
	if r.Samples, err = b.banditTurns(ctx, in, servers); err != nil {
		return nil, err
	}
	if r.Sampled, r.NoSampler, err = b.measureSampler(ctx); err != nil {
		return nil, err
	}
	if r.Store, r.NoStore, err = b.measureStore(ctx, in); err != nil {
		return nil, err
	}
	if b.allocs != "" {
		if r.Allocations, err = readAllocations(b.allocs); err != nil {
			return nil, err
		}
	}
	r.judge()
	return r, nil
}

// importArms has weir make its file of arms.
func importArms(ctx context.Context, in *banditInputs) error {
	cmd := exec.CommandContext(ctx, "bin/weir", "import-arms", in.arms, in.users, "-o", in.armsFile)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	in.importTime = time.Since(start).Seconds()
	return nil
}

// banditTurns runs every round and returns the samples in the order they were taken.
func (b *bench) banditTurns(ctx context.Context, in *banditInputs, servers []string) (samples []*banditSample, err error) {
	var baseline *process // asleep
	defer func() {
		if baseline != nil {
			err = errors.Join(err, baseline.stop())
		}
	}()
	for round := range b.rounds {
		for i := range servers {
			s := &banditSample{Server: servers[(i+round)%len(servers)], Round: round + 1, Loads: map[string]*load{}}
			if s.Server == nameBaseline {
				err = b.banditBaseline(ctx, in, s, &baseline)
			} else {
				err = b.banditWeir(ctx, in, s)
			}
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, s.Server, err)
			}
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// banditBaseline measures the baseline, which starts once and sleeps between its turns.
func (b *bench) banditBaseline(ctx context.Context, in *banditInputs, s *banditSample, kept **process) error {
	if *kept == nil {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		argv := []string{"build/bin/bandit", "--listen", addr, "--features", in.arms}
		*kept, err = launch(ctx, s.Server, argv, addr, "/health", filepath.Join(b.dir, "logs", "bandit-baseline.log"), banditPatience)
		if err != nil {
			return err
		}
		if _, err := b.sendPool(ctx, *kept, baselineGrows, in.pools[loadJSON], banditConnections); err != nil {
			return err
		}
	} else if err := (*kept).wake(); err != nil {
		return err
	}
	p := *kept
	if err := b.banditClosed(ctx, in, p, s, []string{loadJSON}); err != nil {
		return err
	}
	var err error
	if s.Memory, err = p.memory(nil); err != nil {
		return err
	}
	return p.sleep()
}

// banditWeir starts weir and measures it, and then another one that has a feed as well.
func (b *bench) banditWeir(ctx context.Context, in *banditInputs, s *banditSample) (err error) {
	p, err := b.startBandit(ctx, "bandit-weir", "--bandit-arms", in.armsFile)
	if err != nil {
		return err
	}
	defer func() {
		if p != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	var names []string
	for _, l := range banditLoads {
		names = append(names, l.name)
	}
	if err := b.banditClosed(ctx, in, p, s, names); err != nil {
		return err
	}
	if s.Memory, err = p.memory([]string{in.armsFile}); err != nil {
		return err
	}
	if s.Open, err = b.openPool(ctx, p, in.pools[loadJSON], s.Loads[loadJSON].PerSecond/2, s.Round); err != nil {
		return err
	}
	if s.OpenTensors, err = b.openPool(ctx, p, in.pools[loadTensors], s.Loads[loadTensors].PerSecond/2, s.Round); err != nil {
		return err
	}
	log.Printf("round %d/%d %-8s  at half of the ceiling: p99 %.3f ms, tensors %.3f ms", s.Round, b.rounds, s.Server,
		float64(s.Open.P99)/1000, float64(s.OpenTensors.P99)/1000)
	stopped := p
	p = nil
	if err := stopped.stop(); err != nil {
		return err
	}
	s.Beside, err = b.besidePredictions(ctx, in, s.Round)
	return err
}

// startBandit starts weir with a bandit on an empty data directory.
func (b *bench) startBandit(ctx context.Context, name string, flags ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(b.dir, "bandit", "data")
	if err := os.RemoveAll(data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	argv := append([]string{"bin/weir", "serve", "--data", data, "--listen", addr, "--admin", admin, "--loops", "1"}, flags...)
	return launch(ctx, name, argv, addr, "/health", filepath.Join(b.dir, "logs", name+".log"), banditPatience)
}

// banditClosed takes the loads of the given names, after a second of the first that does not count.
func (b *bench) banditClosed(ctx context.Context, in *banditInputs, p *process, s *banditSample, names []string) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	for _, name := range names {
		// Each kind of request is warmed by itself.
		if _, err := b.sendPool(ctx, p, time.Second, in.pools[name], banditConnections); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for again := 0; ; again++ {
			found, err := b.sendPool(ctx, p, b.duration, in.pools[name], banditConnections)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if found.disturbed() && again < banditAgain {
				log.Printf("others had %.0f %% of the server's core and %.0f %% of the other: once more", 100*found.Others, 100*found.OthersAsking)
				continue
			}
			s.Loads[name] = found
			log.Printf("round %d/%d %-8s  %-21s %6.2f us CPU a request, %7.0f/s: %5.2f million predictions/s; asking took %.0f %%", s.Round, b.rounds,
				s.Server, name, found.CPU, found.PerSecond, found.PerSecond*predictItems/1e6, 100*found.Asking)
			break
		}
	}
	return nil
}

// sendPool sends the requests of a pool as fast as they are answered.
func (b *bench) sendPool(ctx context.Context, p *process, d time.Duration, path string, connections int) (*load, error) {
	if b.banditWrk {
		return b.wrkOver(ctx, connections, p, d, "pool.lua", "/", path)
	}
	return loaded(ctx, p, []string{
		"build/bin/closedloop", "--address", p.addr, "--connections", fmt.Sprint(connections), "--duration", d.String(), "--pool", path,
	})
}

// openPool sends requests out of a pool on a schedule.
func (b *bench) openPool(ctx context.Context, p *process, path string, rate float64, seed int) (*summary, error) {
	return client(ctx, nil, "build/bin/openloop", "--address", p.addr, "--pool", path, "--seed", fmt.Sprint(seed),
		"--rate", fmt.Sprintf("%.0f", rate), "--duration", b.duration.String(), "--connections", fmt.Sprint(banditConnections))
}

// besidePredictions asks a weir that has both for feeds, without predictions and beside them.
func (b *bench) besidePredictions(ctx context.Context, in *banditInputs, round int) (found *beside, err error) {
	feeds := filepath.Join(b.dir, fmt.Sprintf("feeds-%dx%d.weir", besideUsers, b.items))
	if err := b.generate(ctx, feeds, besideUsers); err != nil {
		return nil, err
	}
	p, err := b.startBandit(ctx, "bandit-feed-weir", "--bandit-arms", in.armsFile, "--feeds", feeds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.settle(ctx); err != nil {
		return nil, err
	}
	ask := func(more ...string) (*summary, error) {
		argv := []string{
			"build/bin/openloop", "--address", p.addr, "--users", fmt.Sprint(besideUsers), "--seed", fmt.Sprint(round),
			"--rate", fmt.Sprint(besideRate), "--duration", b.duration.String(), "--connections", fmt.Sprint(banditConnections),
		}
		return client(ctx, nil, append(argv, more...)...)
	}
	found = &beside{}
	if found.Alone, err = ask(); err != nil {
		return nil, err
	}
	found.Predictions, err = ask("--also-pool", in.pools[loadJSON])
	if err == nil {
		log.Printf("round %d/%d weir  the feed's p99: %.3f ms, beside predictions back to back %.3f ms", round, b.rounds,
			float64(found.Alone.P99)/1000, float64(found.Predictions.P99)/1000)
	}
	return found, err
}

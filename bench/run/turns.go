//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"time"
)

const (
	pipelineDepth = 16
	lentPath      = "/version" // a route of weir's that is lent to net/http
	k6Rate        = 8000       // requests a second: what k6 sends with room to spare
)

// sample is what one turn of one server found. The parts that only weir has are nil for others.
type sample struct {
	Server    string   `json:"server"`
	Round     int      `json:"round"`
	Plain     *load    `json:"plain"`
	Pipelined *load    `json:"pipelined"`
	Memory    int64    `json:"memory_bytes"`
	Lent      *load    `json:"lent,omitempty"`
	Open      *summary `json:"open_loop,omitempty"`       // at half of Plain's rate, beside a closed loop of lent requests
	OpenPaced *summary `json:"open_loop_paced,omitempty"` // the same beside 1,000 lent requests a second
	OpenAlone *summary `json:"open_loop_alone,omitempty"` // the same with nothing beside it
	K6        *summary `json:"open_loop_by_k6,omitempty"` // k6 at its own, lower rate
	First     float64  `json:"first_answer_ms,omitempty"` // from exec, when this turn began with a start
}

func (s *sample) turn() (server string, round int) { return s.Server, s.Round }

// takeTurns runs every round and returns the samples in the order they were taken.
func (b *bench) takeTurns(ctx context.Context, servers []*server) ([]*sample, error) {
	asleep := map[string]*process{}
	defer func() {
		for _, p := range asleep {
			p.stop()
		}
	}()
	var samples []*sample
	for round := range b.rounds {
		for i := range servers {
			s := servers[(i+round)%len(servers)]
			p := asleep[s.name]
			result, err := b.turn(ctx, s, &p, round)
			if p != nil {
				asleep[s.name] = p
			}
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, s.name, err)
			}
			log.Printf("round %d/%d %-8s  %6.2f us CPU a request, %7.0f/s; pipelined %5.2f us, %8.0f/s; %s",
				round+1, b.rounds, s.name, result.Plain.CPU, result.Plain.PerSecond,
				result.Pipelined.CPU, result.Pipelined.PerSecond, mib(result.Memory))
			samples = append(samples, result)
		}
	}
	return samples, nil
}

// turn measures s once. It starts the server if *kept is nil and otherwise wakes that one; on
// return *kept is the sleeping server, or nil if it was ended.
func (b *bench) turn(ctx context.Context, s *server, kept **process, round int) (*sample, error) {
	r := &sample{Server: s.name, Round: round + 1}
	p := *kept
	*kept = nil
	var err error
	if p == nil {
		if p, err = b.start(ctx, s, true); err != nil {
			return nil, err
		}
		r.First = millis(p.firstAnswer)
	} else if err = p.wake(); err != nil {
		return nil, err
	}
	if err = b.measure(ctx, s, p, r); err == nil && s.kept {
		*kept = p
		return r, p.sleep()
	}
	if stopErr := p.stop(); err == nil {
		err = stopErr
	}
	return r, err
}

// measure takes r's figures of p. Each load draws other users than the ones before.
func (b *bench) measure(ctx context.Context, s *server, p *process, r *sample) (err error) {
	seed := 10 * r.Round
	if err = p.settle(ctx); err != nil {
		return err
	}
	if s.feeds != "" {
		// Other measurements may have emptied the page cache, and a server that still reads its lists is another one.
		if err = awaitResident(ctx, s.feeds); err != nil {
			return err
		}
	}
	if _, err = b.wrk(ctx, p, time.Second, "feed.lua", "/", b.users, seed); err != nil {
		return err
	}
	if r.Plain, err = b.wrk(ctx, p, b.duration, "feed.lua", "/", b.users, seed+1); err != nil {
		return err
	}
	if r.Pipelined, err = b.wrk(ctx, p, b.duration, "pipeline.lua", "/", b.users, seed+2, pipelineDepth); err != nil {
		return err
	}
	half := r.Plain.PerSecond / 2
	if s.feeds == "" {
		if r.Memory, err = p.memory(nil); err == nil && s.name == nameFloor {
			// What the machine alone makes of a p99.
			r.OpenAlone, err = b.openLoop(ctx, p, half, b.duration, nil, seed+5)
		}
		return err
	}
	if r.Memory, err = p.memory([]string{s.feeds, s.data}); err != nil {
		return err
	}
	if r.Lent, err = b.wrk(ctx, p, b.duration, "summary.lua", lentPath); err != nil {
		return err
	}
	if r.Open, err = b.openLoop(ctx, p, half, b.duration, nil, seed+3, "--also", lentPath); err != nil {
		return err
	}
	if r.OpenPaced, err = b.openLoop(ctx, p, half, b.duration, nil, seed+4, "--also", lentPath, "--also-rate", "1000"); err != nil {
		return err
	}
	if r.OpenAlone, err = b.openLoop(ctx, p, half, b.duration, nil, seed+5); err != nil {
		return err
	}
	if b.k6 != "" {
		r.K6, err = client(ctx, nil, b.k6, "run", "--quiet", "--no-usage-report",
			"-e", "URL=http://"+p.addr, "-e", fmt.Sprint("USERS=", b.users), "-e", fmt.Sprint("RATE=", k6Rate),
			"-e", fmt.Sprint("DURATION=", b.duration), b.source("k6", "feed.js"))
	}
	return err
}

// openLoop sends rate requests a second to p for d, or until until is closed.
func (b *bench) openLoop(ctx context.Context, p *process, rate float64, d time.Duration, until <-chan struct{}, seed int, more ...string) (*summary, error) {
	argv := []string{
		"build/bin/openloop", "--address", p.addr, "--users", fmt.Sprint(b.users), "--seed", fmt.Sprint(seed),
		"--rate", fmt.Sprintf("%.0f", rate), "--duration", d.String(), "--connections", fmt.Sprint(b.connections),
	}
	return client(ctx, until, append(argv, more...)...)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func mib(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What weir does with more than it can do. It serves feeds from one core with the flags it has by default, and is asked for three
// times its ceiling by clients that do not heed Retry-After: an open loop with so many connections, all of which it needs.
//
// A core that answers 100,000 feeds a second cannot be overloaded by the one other core there is, which must
// send three times as much. So another process holds the server's core for a part of the time, 0.2 ms in every 0.3, ahead
// of everybody: what is left is a core of a third of the speed. That is the same for the ceiling, the half and
// the triple. A quota of a cgroup would stop the server for milliseconds, at half of its ceiling less than at three times,
// and so make the ratio of latencies look better than it is.

const serviceShed = "shed"

const (
	shedConnections = 2000
	// shedCeiling is the number of connections of the closed loop that finds the ceiling: as many as a loop always answers. With
	// fewer a request costs less, since more of their sockets are in the processor's caches; with all of them more.
	shedCeiling = 256
	holdPeriod  = 300 * time.Microsecond
	holdBusy    = 200 * time.Microsecond
)

// shedSample is what a round found. Rates are a second, times microseconds.
type shedSample struct {
	Round      int     `json:"round"`
	Ceiling    float64 `json:"ceiling"`
	HalfP99    float64 `json:"p99_at_half_us"`
	Asked      float64 `json:"asked_at_triple"`
	Sent       float64 `json:"sent_at_triple"`
	Served     float64 `json:"served_at_triple"`
	TripleP50  float64 `json:"p50_at_triple_us"`
	TripleP99  float64 `json:"p99_at_triple_us"`
	LagP99     float64 `json:"generator_lag_p99_us"`
	Refused    float64 `json:"refused_at_triple"`
	Recovery   float64 `json:"recovery_seconds"`
	Unshed     float64 `json:"served_at_triple_without"`
	UnshedP99  float64 `json:"p99_at_triple_without_us"`
	AfterLoad  float64 `json:"served_afterwards"` // at half of the ceiling, at once after the triple
	LostByThen uint64  `json:"refused_afterwards"`
}

// shedReport is everything that was found about the shedder.
type shedReport struct {
	Rounds  int           `json:"rounds"`
	Seconds float64       `json:"seconds"`
	Bars    []*bar        `json:"bars"`
	Samples []*shedSample `json:"samples"`
}

func (b *bench) measureShed(ctx context.Context) (*shedReport, error) {
	r := &shedReport{Rounds: b.rounds, Seconds: b.duration.Seconds()}
	for round := range b.rounds {
		s, err := b.shedRound(ctx, round+1)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		log.Printf("round %d/%d shedder  ceiling %.0f/s; at three times that %.0f/s served, p99 %.1f ms (at half of it %.2f ms), refusals end after %.2f s; without shedder %.0f/s, p99 %.1f ms",
			round+1, b.rounds, s.Ceiling, s.Served, s.TripleP99/1000, s.HalfP99/1000, s.Recovery, s.Unshed, s.UnshedP99/1000)
		r.Samples = append(r.Samples, s)
	}
	r.judge()
	return r, nil
}

// shedServer is weir under load, by itself or in a cgroup.
type shedServer struct {
	*process
	admin string
}

// startShed starts a weir with fresh positions on the server's core, by a command in front if there is one.
func (b *bench) startShed(ctx context.Context, before []string, flags ...string) (*shedServer, error) {
	b.only = []string{nameWeir}
	servers, err := b.servers()
	if err != nil {
		return nil, err
	}
	s := servers[0]
	if err := os.RemoveAll(s.data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.data, 0o755); err != nil {
		return nil, err
	}
	if err := b.generate(ctx, s.feeds, b.users); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	argv, err := s.argv(addr, admin)
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, s.name, append(append(before, argv...), flags...), addr, "/feed/0", filepath.Join(b.dir, "logs", "shed.log"), time.Minute)
	if err != nil {
		return nil, err
	}
	return &shedServer{p, admin}, nil
}

func (b *bench) shedRound(ctx context.Context, round int) (*shedSample, error) {
	release, err := hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r := &shedSample{Round: round}
	for _, flags := range [][]string{{"--shed=false"}, nil} {
		p, err := b.startShed(ctx, nil, flags...)
		if err != nil {
			return nil, err
		}
		err = b.shedTurn(ctx, p, r, flags == nil)
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (b *bench) shedTurn(ctx context.Context, p *shedServer, r *shedSample, sheds bool) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	closed, err := b.overload(ctx, p, b.duration, "--connections", strconv.Itoa(shedCeiling))
	if err != nil {
		return err
	}
	ceiling := closed.Rate.Served
	at := func(times float64) []string {
		return []string{"--rate", fmt.Sprintf("%.0f/s", ceiling*times), "--max-connections", strconv.Itoa(shedConnections)}
	}
	if !sheds {
		triple, err := b.overload(ctx, p, b.duration, at(3)...)
		if err != nil {
			return err
		}
		r.Unshed, r.UnshedP99 = triple.Rate.Served, triple.Latency.P99
		return nil
	}
	r.Ceiling, r.Asked = ceiling, 3*ceiling
	half, err := b.overload(ctx, p, b.duration, at(0.5)...)
	if err != nil {
		return err
	}
	r.HalfP99 = half.Latency.P99
	triple, err := b.overload(ctx, p, b.duration, at(3)...)
	if err != nil {
		return err
	}
	over := time.Now()
	r.Sent, r.Served, r.TripleP50, r.TripleP99 = triple.Rate.Achieved, triple.Rate.Served, triple.Latency.P50, triple.Latency.P99
	r.LagP99, r.Refused = triple.Generator.LagP99, float64(triple.Shed)/b.duration.Seconds()
	after := make(chan error, 1)
	go func() {
		found, err := b.overload(ctx, p, b.duration, at(0.5)...)
		if err == nil {
			r.AfterLoad, r.LostByThen = found.Rate.Served, found.Shed
		}
		after <- err
	}()
	// Looked at until the load afterwards is over.
	var looks []shedLook
	for {
		select {
		case err := <-after:
			r.Recovery = recovery(looks).Seconds()
			return err
		case <-time.After(50 * time.Millisecond):
		}
		probability, err := p.probability(ctx)
		if err != nil {
			return err
		}
		looks = append(looks, shedLook{time.Since(over), probability})
	}
}

// shedLook is the probability of refusal some time after the overload.
type shedLook struct {
	after       time.Duration
	probability float64
}

// recovery returns when something was refused last, 0 if nothing was.
func recovery(looks []shedLook) time.Duration {
	for _, l := range slices.Backward(looks) {
		if l.probability > 0 {
			return l.after
		}
	}
	return 0
}

// probability returns that with which the server refuses requests of the class low, which are the first.
func (p *shedServer) probability(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/admin/shed", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return parseProbability(resp.Body)
}

func parseProbability(answer io.Reader) (float64, error) {
	var status struct {
		Probability struct{ Low *float64 }
	}
	if err := json.NewDecoder(answer).Decode(&status); err != nil {
		return 0, fmt.Errorf("/admin/shed does not say the probability of refusal: %w", err)
	}
	if status.Probability.Low == nil {
		return 0, errors.New("/admin/shed does not say the probability of refusal of the class low")
	}
	return *status.Probability.Low, nil
}

// overloadResult is what this needs of a result of weir load.
type overloadResult struct {
	Requests uint64 `json:"requests"`
	Shed     uint64 `json:"shed"`
	Rate     struct {
		Achieved float64 `json:"achieved"`
		Served   float64 `json:"served"`
	} `json:"rate"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_us"` // of those that were served
	Generator struct {
		LagP99 float64 `json:"lag_p99_us"`
	} `json:"generator"`
}

// overload runs weir load with the scenario feed on the client core. What is refused or dropped is what this is about, and no error.
func (b *bench) overload(ctx context.Context, p *shedServer, d time.Duration, args ...string) (*overloadResult, error) {
	text, err := b.runLoad(ctx, append([]string{
		"--scenario", "feed", "--target", "http://" + p.addr, "--users", strconv.Itoa(b.users), "--items", "10",
		"--duration", d.String(), "--warmup", "2s", "--threads", "1", "--no-check",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	r, err := parseOverload(text)
	if err != nil {
		return nil, fmt.Errorf("weir load %s: %w", strings.Join(args, " "), err)
	}
	return r, nil
}

func parseOverload(text []byte) (*overloadResult, error) {
	var r overloadResult
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("what it wrote is not a result: %w", err)
	}
	if r.Requests == 0 || r.Rate.Served == 0 {
		return nil, errors.New("nothing was served")
	}
	return &r, nil
}

// judge fills in the bars.
func (r *shedReport) judge() {
	of := func(get func(*shedSample) float64) (values []float64) {
		for _, s := range r.Samples {
			values = append(values, get(s))
		}
		return values
	}
	r.Bars = []*bar{
		newBar("goodput at 3x overload / ceiling", "%.2f", false, 0.85, 0.95, of(func(s *shedSample) float64 { return s.Served / s.Ceiling })),
		newBar("p99 of admitted at 3x / at 0.5x", "%.1f", true, 20, 5, of(func(s *shedSample) float64 { return s.TripleP99 / s.HalfP99 })),
		newBar("from the end of the overload until nothing is refused", "%.2f s", true, 10, 3, of(func(s *shedSample) float64 { return s.Recovery })),
		newBar("p99 of admitted at 3x", "%.1f ms", true, math.NaN(), math.NaN(), of(func(s *shedSample) float64 { return s.TripleP99 / 1000 })),
		newBar("p99 at 3x without shedder", "%.1f ms", true, math.NaN(), math.NaN(), of(func(s *shedSample) float64 { return s.UnshedP99 / 1000 })),
	}
}

func (r *shedReport) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### Overload\n\nFeeds from one core, held by another process for %v in every %v; medians of %d rounds of %.0f s. Clients do not heed Retry-After and have %d connections.\n\n",
		holdBusy, holdPeriod, r.Rounds, r.Seconds, shedConnections)
	writeBars(w, r.Bars)
	fmt.Fprint(w, "\n| round | ceiling | asked | sent | served | refused | p50 | p99 | generator's lag, p99 | p99 at half | refused afterwards |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.Samples {
		fmt.Fprintf(w, "| %d | %.0f/s | %.0f/s | %.0f/s | %.0f/s | %.0f/s | %.1f ms | %.1f ms | %.1f ms | %.2f ms | %d |\n", s.Round, s.Ceiling, s.Asked, s.Sent, s.Served, s.Refused,
			s.TripleP50/1000, s.TripleP99/1000, s.LagP99/1000, s.HalfP99/1000, s.LostByThen)
	}
}

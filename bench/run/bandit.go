//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const aboutBandit = "400 items a request, drawn out of all that have arms, for one of 100,000 users: 500 " +
	"requests made beforehand, in turn on 64 connections. An item in ten has arms for four segments too," +
	" and every other user is of one. The baseline (bandit) is fiber, encoding/json, features in maps, " +
	"and samples from C++; it has no segments. One answer of each form is read before it is loaded."

const (
	banditConnections = "64"
	// The baseline's heap grows to twice its features before its collector first runs, which costs a fifth
	// of its time.
	baselineGrows = 12 * time.Second
	besideUsers   = 50_000 // of the feed that is asked for beside predictions
	besideRate    = 10_000 // feed requests a second
)

// Names of figures; each form has a rate, a cost and more.
const (
	asJSON      = "JSON"
	asTensors   = "binary tensors"
	predictions = ", predictions, million/s"
	halfP99     = ", p99 at half of the ceiling, ms"
	feedBeside  = "feed: p99 beside predictions back to back, ms"
)

// forms are the ways to ask, in order. The baseline has the first alone.
var forms = []form{
	{asJSON, "text", predictText},
	{"JSON, ids as numbers", "numbers", predictNumbers},
	{asTensors, "int64", inferNumbers},
	{"binary tensors, BYTES", "bytes", inferTexts},
}

// form is a way to write a request for predictions; file is what its requests are kept in.
type form struct {
	name, file string
	write      func(asked) request
}

func (b *bench) pool(f form) string { return b.path("bandit", f.file+".jsonl") }

func (b *bench) measureBandit(ctx context.Context) error {
	if err := b.writeBanditInputs(); err != nil {
		return err
	}
	if err := b.importArms(ctx); err != nil {
		return err
	}
	slow := sleeper{
		server: server{name: baseline, path: "/health", patience: 2 * time.Minute,
			command: "build/bin/bandit --listen {addr} --features " + b.path("bandit", "arms.csv")},
		first: func(p *process) error {
			_, err := b.askPool(ctx, p, baselineGrows, forms[0], "--connections", banditConnections)
			return err
		},
	}
	defer slow.stop()
	return b.inTurns([]string{baseline, weir}, func(name string, round int) error {
		if name == baseline {
			return slow.turn(ctx, b, func(p *process) error { return b.banditTurn(ctx, p, round, forms[:1]) })
		}
		err := b.during(ctx, b.predicting(), func(p *process) error {
			return b.banditTurn(ctx, p, round, forms)
		})
		if err != nil {
			return err
		}
		return b.feedBesidePredictions(ctx, round)
	})
}

// importArms has weir make its file of arms.
func (b *bench) importArms(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "bin/weir", "import-arms", b.path("bandit", "arms.csv"),
		b.path("bandit", "users.csv"),
		"-o", b.path("bandit", "arms.weir"))
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	b.put("bandit", weir, "import of the arms, s", 1, time.Since(start).Seconds())
	return nil
}

// predicting is a weir with arms, and with more flags.
func (b *bench) predicting(flags ...string) server {
	return weirServes(append([]string{"--bandit-arms", b.path("bandit", "arms.weir")}, flags...)...)
}

// askPool sends the requests of a form in turn.
func (b *bench) askPool(ctx context.Context, p *process, d time.Duration, f form,
	args ...string) (*load, error) {
	return b.weirLoad(ctx, p, d, append(b.fromPool(f), args...)...)
}

func (b *bench) fromPool(f form) []string {
	return []string{"--scenario", "requests", "--requests", b.pool(f)}
}

func (b *bench) banditTurn(ctx context.Context, p *process, round int, forms []form) error {
	put := func(name string, value float64) { b.put("bandit", p.name, name, round, value) }
	for _, f := range forms {
		if err := checkScores(ctx, p.addr, f.write(draw(1, b.arms)[0])); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		ask := func(d time.Duration) (*load, error) {
			return b.askPool(ctx, p, d, f, "--connections", banditConnections)
		}
		if _, err := ask(time.Second); err != nil { // is not counted
			return err
		}
		closed, err := b.steady(func() (*load, error) { return ask(b.duration) })
		if err != nil {
			return err
		}
		put(f.name+predictions, closed.served*predictItems/1e6)
		put(f.name+", requests/s", closed.served)
		put(f.name+", CPU a request, us", closed.serverCPU)
		put(f.name+", p50, us", closed.p50)
		put(f.name+", p99, us", closed.p99)
		put(f.name+", the generator's core, %", 100*closed.asking)
		if p.name != weir || f.name != asJSON && f.name != asTensors {
			continue
		}
		open, err := b.openLoop(ctx, p, closed.served/2, b.fromPool(f)...)
		if err != nil {
			return err
		}
		put(f.name+halfP99, open.p99/1000)
		put(f.name+", "+inWindow, open.window/1000)
		put(f.name+", of that p99 the generator's lag, ms", open.lag/1000)
	}
	var data []string
	if p.name == weir {
		data = []string{b.path("bandit", "arms.weir")}
	}
	bytes, err := p.memory(data)
	if err != nil {
		return err
	}
	put(memory, mib(bytes))
	return nil
}

// feedBesidePredictions asks a weir that has both for feeds, without predictions and beside them.
func (b *bench) feedBesidePredictions(ctx context.Context, round int) error {
	lists, err := b.lists(ctx, besideUsers)
	if err != nil {
		return err
	}
	return b.during(ctx, b.predicting("--feeds", lists), func(p *process) error {
		ask := func() (*load, error) {
			return b.openLoop(ctx, p, besideRate, b.askFeed(besideUsers, round)...)
		}
		alone, err := ask()
		if err != nil {
			return err
		}
		b.put("bandit", weir, "feed: p99 at 10,000/s, ms", round, alone.p99/1000)
		args := append(b.fromPool(forms[0]), "--connections", "1")
		var feeds *load
		also, err := b.beside(ctx, p, args, func() (err error) {
			feeds, err = ask()
			return err
		})
		if err != nil {
			return err
		}
		b.put("bandit", weir, feedBeside, round, feeds.p99/1000)
		b.put("bandit", weir, "feed: requests for predictions/s then", round, also.served)
		return nil
	})
}

// checkScores sends a request and returns an error unless its answer has as many scores as it asks for, all
// in [0, 1] and not all the same.
func checkScores(ctx context.Context, addr string, r request) error {
	var body strings.Builder
	head, err := exchange(ctx, "POST", "http://"+addr+r.URL, r.Headers, r.Body, &body)
	if err != nil {
		return err
	}
	scores, err := parseScores(body.String(), head.Get("Inference-Header-Content-Length") != "")
	if err != nil {
		return err
	}
	if len(scores) != predictItems {
		return fmt.Errorf("%d scores, want %d", len(scores), predictItems)
	}
	if least, most := slices.Min(scores), slices.Max(scores); !(least >= 0 && most <= 1) || least == most {
		return fmt.Errorf("scores from %g to %g", least, most)
	}
	return nil
}

// parseScores reads the scores of /predict, or those at the end of an answer with a binary tensor of FP64.
func parseScores(body string, tensor bool) ([]float64, error) {
	if tensor {
		if len(body) < 8*predictItems {
			return nil, fmt.Errorf("%d bytes are not %d scores", len(body), predictItems)
		}
		var scores []float64
		for rest := []byte(body[len(body)-8*predictItems:]); len(rest) > 0; rest = rest[8:] {
			scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64(rest)))
		}
		return scores, nil
	}
	var a struct{ Scores []float64 }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return nil, fmt.Errorf("%w in %.200s", err, body)
	}
	return a.Scores, nil
}

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"
)

// What weir does with more than it can do. A core that answers 100,000 feeds a second cannot be overloaded
// by the one other core there is, which must send three times as much. So another process holds the server's
// core for a part of the time, ahead of everybody: what is left is a core of a third of the speed, for the
// ceiling, the half and the overload alike. A quota of a cgroup would stop the server for milliseconds, at
// half of its ceiling less than beyond it, and so make the ratio of latencies look better than it is.

const aboutShed = "Feeds from a core that another process holds for 200 us in every 300. The ceiling is " +
	"that of a closed loop of 256 connections. At 3x, `weir load` has at most 2,000 connections that " +
	"ignore Retry-After: when all of them wait, it sends less than it was asked for."

const (
	shedConnections    = "2000"
	ceilingConnections = "256" // as many as a loop always answers
	ceiling            = "ceiling, /s"
	recovers           = "until nothing is refused, s"
)

func (b *bench) measureShed(ctx context.Context) error {
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return err
	}
	release, err := hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	plain := weirServes("--feeds", lists)
	open := weirServes("--feeds", lists, "--shed=false")
	return b.inTurns([]string{weir, "without shedder"}, func(name string, round int) error {
		put := func(figure string, value float64) { b.put("shed", name, figure, round, value) }
		s := plain
		if name != weir {
			s = open
		}
		return b.during(ctx, s, func(p *process) error {
			ask := func(args ...string) (*load, error) {
				return b.overload(ctx, p, b.duration,
					append(append(b.askFeed(b.users, round), "--warmup", "2s"), args...)...)
			}
			at := func(times float64, ceiling *load) (*load, error) {
				return ask("--rate", fmt.Sprintf("%.0f/s", times*ceiling.served), "--max-connections",
					shedConnections)
			}
			top, err := ask("--connections", ceilingConnections)
			if err != nil {
				return err
			}
			put(ceiling, top.served)
			if name == weir {
				half, err := at(0.5, top)
				if err != nil {
					return err
				}
				put("p99 of admitted at 0.5x, ms", half.p99/1000)
			}
			triple, err := at(3, top)
			if err != nil {
				return err
			}
			put("sent at 3x, /s", triple.sent)
			put("served at 3x, /s", triple.served)
			put("refused at 3x, /s", triple.refused)
			put("p50 of admitted at 3x, ms", triple.p50/1000)
			put("p99 of admitted at 3x, ms", triple.p99/1000)
			put("the generator's lag at 3x, p99, ms", triple.lag/1000)
			if name != weir {
				return nil
			}
			return b.recovery(ctx, p, put, func() (*load, error) { return at(0.5, top) })
		})
	})
}

// recovery looks at the reject probability during a light load after an overload.
func (b *bench) recovery(ctx context.Context, p *process, put func(string, float64),
	ask func() (*load, error)) error {
	over, refused := time.Now(), time.Duration(0) // how long after the overload something was refused last
	done := make(chan error, 1)
	go func() {
		light, err := ask()
		if err == nil {
			put("refused at 0.5x afterwards, /s", light.refused)
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			put(recovers, refused.Seconds())
			return err
		case <-time.After(50 * time.Millisecond):
		}
		var answer strings.Builder
		if err := call(ctx, http.MethodGet, "http://"+p.admin+"/admin/shed", "", &answer); err != nil {
			return err
		}
		probability, err := parseProbability(answer.String())
		if err != nil {
			return err
		}
		if probability > 0 {
			refused = time.Since(over)
		}
	}
}

// parseProbability returns the reject probability of the class low, which is rejected first.
func parseProbability(answer string) (float64, error) {
	var status struct {
		Probability struct{ Low *float64 }
	}
	if err := json.Unmarshal([]byte(answer), &status); err != nil || status.Probability.Low == nil {
		return 0, fmt.Errorf("/admin/shed does not say the reject probability of the class low: %.200s",
			answer)
	}
	return *status.Probability.Low, nil
}

const aboutStorm = "Predictions of 100 items from a core that is held in the same way. The ceiling is " +
	"that of a closed loop of 256 connections. Half of it is asked for on 10,000 connections that are " +
	"open; beyond it, 10,000 connections are opened by and by, as all others wait. Each rate finds a " +
	"server that has just started."

const stormConnections = "10000"

func (b *bench) measureStorm(ctx context.Context) error {
	if err := b.writeBanditInputs(); err != nil {
		return err
	}
	if err := b.importArms(ctx); err != nil {
		return err
	}
	release, err := hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	for round := 1; round <= b.rounds; round++ {
		put := func(figure string, value float64) { b.put("storm", weir, figure, round, value) }
		during := func(args ...string) (found *load, err error) {
			err = b.during(ctx, b.predicting(), func(p *process) error {
				found, err = b.overload(ctx, p, b.duration,
					append([]string{"--scenario", "predict", "--items", "100"}, args...)...)
				return err
			})
			return found, err
		}
		top, err := during("--connections", ceilingConnections)
		if err != nil {
			return err
		}
		put(ceiling, top.served)
		for _, at := range []struct {
			times float64
			name  string
			args  []string
		}{
			{0.5, "0.5x", []string{"--warm", stormConnections}}, {1.6, "1.6x", nil}, {3, "3x", nil},
			{6, "6x", nil},
		} {
			args := append([]string{"--rate", fmt.Sprintf("%.0f/s", at.times*top.served), "--max-connections",
				stormConnections}, at.args...)
			found, err := during(args...)
			if err != nil {
				return fmt.Errorf("at %s: %w", at.name, err)
			}
			put("sent at "+at.name+", /s", found.sent)
			put("served at "+at.name+", /s", found.served)
			put("p99 of admitted at "+at.name+", ms", found.p99/1000)
			if at.times > 1 {
				put("refused at "+at.name+", /s", found.refused)
				put("p99 of refused at "+at.name+", ms", found.refusedP99/1000)
			}
			put("the generator's lag at "+at.name+", p99, ms", found.lag/1000)
		}
	}
	return nil
}

// soak loads weir for d, with feed requests on a schedule and offloaded ones back to back, and fails if a
// request does, if memory or descriptors keep growing, or if weir does not end orderly. Slices reconnect.
func (b *bench) soak(ctx context.Context, d time.Duration) error {
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return err
	}
	return b.during(ctx, weirServes("--feeds", lists), func(p *process) error {
		var g growth
		for end := time.Now().Add(d); time.Now().Before(end); {
			slice := min(time.Minute, max(time.Second, time.Until(end)))
			slice = slice.Round(time.Second)
			var feeds *load
			b.duration = slice
			offloaded, err := b.beside(ctx, p, b.askOffloaded("--connections", "1"), func() (err error) {
				feeds, err = b.weirLoad(ctx, p, slice, append(b.askFeed(b.users, len(g.memory)), "--rate",
					"20000/s")...)
				return err
			})
			if err != nil {
				return err
			}
			bytes, err := p.memory(nil)
			if err != nil {
				return err
			}
			descriptors, err := p.descriptors()
			if err != nil {
				return err
			}
			log.Printf("soak: %.0f feed and %.0f offloaded requests, p99 %.2f ms, own memory %.0f MiB, %d "+
				"descriptors",
				feeds.requests, offloaded.requests, feeds.p99/1000, mib(bytes), descriptors)
			if err := g.add(bytes, descriptors); err != nil {
				return err
			}
		}
		return nil
	})
}

// growth compares each slice of a soak with the first ones, which fill pools and the cells of positions.
type growth struct{ memory, descriptors []int64 }

const (
	soakFilling = 3
	soakSlack   = 32 << 20
)

func (g *growth) add(memory, descriptors int64) error {
	g.memory = append(g.memory, memory)
	g.descriptors = append(g.descriptors, descriptors)
	if len(g.memory) <= soakFilling {
		return nil
	}
	if most := slices.Max(g.memory[:soakFilling]); memory > most+most/4+soakSlack {
		return fmt.Errorf("memory grew from %.0f to %.0f MiB", mib(most), mib(memory))
	}
	// The connections of a slice may not all be gone when it is looked at.
	if most := slices.Max(g.descriptors[:soakFilling]); descriptors > 2*most+10 {
		return fmt.Errorf("descriptors grew from %d to %d", most, descriptors)
	}
	return nil
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"
)

const aboutSearch = "`weir load --mode adaptive` against a server (nethttp) that serves exactly so many " +
	"requests a second, and lets more wait, answers 503, or cuts them off. The last two halve their rate" +
	" while they are followed: what counts is until the rate stays within a twentieth of the new one. " +
	"One round."

const (
	adaptive = "weir load --mode adaptive"
	offBy    = "found is off by, %"
	found    = "found after, s"
	followed = "followed within, s"
)

const (
	searchTime = 60 * time.Second // as long as the bar allows
	movesAfter = 30 * time.Second // when the rate halves
	movedTime  = 50 * time.Second // the whole of such a search
	// A rate counts as followed once it is within this share of the true one for so many seconds.
	followedWithin, followedStays = 0.05, 3.0
)

// searched are the servers, one after another.
var searched = []struct {
	name, beyond string
	rate, to     float64 // to is what the rate becomes, 0 for it stays
}{
	{"2000/s, wait", "wait", 2000, 0},
	{"20000/s, wait", "wait", 20_000, 0},
	{"2000/s, refuse", "refuse", 2000, 0},
	{"2000/s, cut", "cut", 2000, 0},
	{"5000/s to 2500/s, wait", "wait", 5000, 2500},
	{"5000/s to 2500/s, refuse", "refuse", 5000, 2500},
}

func (b *bench) measureSearch(ctx context.Context) error {
	for _, c := range searched {
		s := server{name: nethttp,
			command: fmt.Sprintf("build/bin/nethttp --listen {addr} --rate %.0f --beyond %s", c.rate,
				c.beyond)}
		err := b.during(ctx, s, func(p *process) error {
			put := func(name string, value float64) { b.put("search", c.name, name, 1, value) }
			length, truth := searchTime, c.rate
			moved := make(chan time.Time, 1)
			if c.to > 0 {
				length, truth = movedTime, c.to
				moving, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() {
					url := fmt.Sprintf("http://%s/rate?to=%.0f", p.addr, c.to)
					if pause(moving, movesAfter) == nil &&
						call(moving, http.MethodPut, url, "", io.Discard) == nil {
						moved <- time.Now()
					}
				}()
			}
			l, err := b.overload(ctx, p, length, "/", "--mode", "adaptive")
			if err != nil {
				return err
			}
			at := l.ceiling
			if at == nil || !at.Converged {
				b.note("%s: no rate was found in %v.", c.name, length)
				return nil
			}
			put("found, /s", at.Rate)
			put("95 % sure of, from /s", at.Low)
			put("to /s", at.High)
			put("the generator's CPU a request, us", l.generatorCPU)
			b.note("%s: limited by %s.", c.name, at.Limit)
			if c.to == 0 {
				put(offBy, 100*math.Abs(at.Rate/truth-1))
				put(found, at.Seconds)
				return nil
			}
			select {
			case when := <-moved:
				put(followed, followedAfter(l.trace, when.Sub(l.started).Seconds(), truth))
				return nil
			default:
				return fmt.Errorf("the rate could not be moved to %.0f/s", c.to)
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// followedAfter returns how long after a move at a time of the run the ceiling that it said was right, and
// stayed so; the rest of the run when it never was.
func followedAfter(trace []tracePoint, moved, truth float64) float64 {
	if len(trace) == 0 {
		return math.Inf(1)
	}
	since := math.Inf(1)
	for _, p := range trace {
		switch {
		case p.At < moved:
		case p.Ceiling == nil || math.Abs(*p.Ceiling/truth-1) > followedWithin:
			since = math.Inf(1)
		case math.IsInf(since, 1):
			since = p.At
		case p.At >= since+followedStays:
			return since - moved
		}
	}
	return trace[len(trace)-1].At - moved
}

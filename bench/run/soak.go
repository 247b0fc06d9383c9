//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"
)

const (
	soakSlice = time.Minute // after each, memory and descriptors are looked at
	soakRate  = 20_000      // feed requests a second
	// The first slices fill pools and the cells of positions. Later ones may have a quarter and
	// 32 MiB more than they.
	soakFilling = 3
	soakSlack   = 32 << 20
)

// soak loads weir for d, with feed requests on a schedule and lent ones back to back, and fails if
// any request does, if its own memory or its descriptors keep growing, or if it does not end
// orderly. Slices reconnect, so that connections come and go.
func (b *bench) soak(ctx context.Context, d time.Duration) (err error) {
	b.only = []string{nameWeir}
	servers, err := b.servers()
	if err != nil {
		return err
	}
	p, err := b.start(ctx, servers[0], true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.settle(ctx); err != nil {
		return err
	}
	var g growth
	for end := time.Now().Add(d); time.Now().Before(end); {
		slice := min(soakSlice, max(time.Second, time.Until(end)))
		s, err := b.openLoop(ctx, p, soakRate, slice, nil, len(g.memory), "--also", lentPath)
		if err != nil {
			return err
		}
		memory, err := p.memory(nil)
		if err != nil {
			return err
		}
		files, err := os.ReadDir(p.proc("fd"))
		if err != nil {
			return err
		}
		log.Printf("soak: %d feed and %d lent requests, p99 %.2f ms, own memory %s, %d descriptors",
			s.Requests, s.Also.Requests, float64(s.P99)/1000, mib(memory), len(files))
		if err := g.add(memory, int64(len(files))); err != nil {
			return err
		}
	}
	return nil
}

// growth compares each slice with the first ones.
type growth struct{ memory, files []int64 }

func (g *growth) add(memory, files int64) error {
	g.memory = append(g.memory, memory)
	g.files = append(g.files, files)
	if len(g.memory) <= soakFilling {
		return nil
	}
	if most := slices.Max(g.memory[:soakFilling]); memory > most+most/4+soakSlack {
		return fmt.Errorf("memory grew from %s to %s", mib(most), mib(memory))
	}
	// The connections of a slice may not all be gone when it is looked at.
	if most := slices.Max(g.files[:soakFilling]); files > 2*most+10 {
		return fmt.Errorf("descriptors grew from %d to %d", most, files)
	}
	return nil
}

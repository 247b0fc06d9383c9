//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// limitedMemory is what a small server has.
const limitedMemory = 768 << 20

// limited overloads a weir that has one core and 768 MiB of memory, three times beyond its ceiling for d, and fails if it
// was killed, swapped, or did not answer throughout.
func (b *bench) limited(ctx context.Context, d time.Duration) (err error) {
	g, err := newMemoryGroup(limitedMemory)
	if err != nil {
		log.Printf("not run: %v", err)
		return nil
	}
	defer func() { err = errors.Join(err, g.remove()) }()
	release, err := hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	p, err := b.startShed(ctx, []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	closed, err := b.overload(ctx, p, 3*time.Second, "--connections", strconv.Itoa(shedCeiling))
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() {
		found, err := b.overload(ctx, p, d, "--rate", fmt.Sprintf("%.0f/s", 3*closed.Rate.Served), "--max-connections", strconv.Itoa(shedConnections))
		if err == nil {
			log.Printf("limited: ceiling %.0f/s; at three times that for %v: %.0f/s served, p50 %.1f ms, p99 %.1f ms, %d refused",
				closed.Rate.Served, d, found.Rate.Served, found.Latency.P50/1000, found.Latency.P99/1000, found.Shed)
		}
		over <- err
	}()
	asked, slowest := 0, time.Duration(0)
	for {
		select {
		case err := <-over:
			if err != nil {
				return err
			}
			return g.judge(asked, slowest)
		case <-time.After(100 * time.Millisecond):
		}
		start := time.Now()
		if !answers(p.addr, "/health") {
			return fmt.Errorf("/health was not answered after %v of silence; the server's log ends:\n%s", time.Since(start), tail(filepath.Join(b.dir, "logs", "shed.log")))
		}
		asked++
		slowest = max(slowest, time.Since(start))
	}
}

// memoryGroup is a cgroup with a limit of memory.
type memoryGroup struct {
	dir string
	v1  bool
}

// newMemoryGroup makes a cgroup below the root of whichever version controls memory here.
func newMemoryGroup(limit int) (*memoryGroup, error) {
	for _, g := range []*memoryGroup{{dir: "/sys/fs/cgroup/memory", v1: true}, {dir: "/sys/fs/cgroup"}} {
		if g.v1 {
			if _, err := os.Stat(filepath.Join(g.dir, "memory.limit_in_bytes")); err != nil {
				continue
			}
		} else if enabled, err := os.ReadFile(filepath.Join(g.dir, "cgroup.subtree_control")); err != nil || !bytes.Contains(enabled, []byte("memory")) {
			continue
		}
		g.dir = filepath.Join(g.dir, fmt.Sprint("weir-bench-", os.Getpid()))
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			return nil, fmt.Errorf("a cgroup cannot be made, which root may where cgroups are writable: %w", err)
		}
		name := "memory.max"
		if g.v1 {
			name = "memory.limit_in_bytes"
		}
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(strconv.Itoa(limit)), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("its memory cannot be limited: %w", err), g.remove())
		}
		return g, nil
	}
	return nil, errors.New("no cgroup controls memory here, by version 1 or 2")
}

// remove waits for its processes to be gone.
func (g *memoryGroup) remove() error {
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// judge reports what the cgroup has seen.
func (g *memoryGroup) judge(asked int, slowest time.Duration) error {
	number := func(file, key string) (int, error) {
		text, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			return 0, err
		}
		if key == "" {
			return strconv.Atoi(strings.TrimSpace(string(text)))
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
				return strconv.Atoi(value)
			}
		}
		return 0, fmt.Errorf("%s has no %s", file, key)
	}
	peakFile, killFile, swapFile, swapKey := "memory.peak", "memory.events", "memory.swap.current", ""
	if g.v1 {
		peakFile, killFile, swapFile, swapKey = "memory.max_usage_in_bytes", "memory.oom_control", "memory.stat", "total_swap"
	}
	peak, errPeak := number(peakFile, "")
	kills, errKills := number(killFile, "oom_kill")
	swap, errSwap := number(swapFile, swapKey)
	if swapKey == "" && errors.Is(errSwap, os.ErrNotExist) {
		swap, errSwap = 0, nil // a kernel without swap
	}
	if err := errors.Join(errPeak, errKills, errSwap); err != nil {
		return err
	}
	log.Printf("limited: of %s at most %s were in use, cached files included; %d killed, %s swapped; /health was answered %d times, the slowest after %v",
		mib(limitedMemory), mib(int64(peak)), kills, mib(int64(swap)), asked, slowest.Round(time.Millisecond))
	if kills > 0 || swap > 0 {
		return fmt.Errorf("%d killed, %d bytes swapped", kills, swap)
	}
	return nil
}

//go:build linux

package main

import (
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

// limited overloads a weir that has one core and 768 MiB of memory, three times beyond its ceiling for d,
// and fails if it was killed, swapped, or did not answer throughout.
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
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return err
	}
	s := weirServes("--feeds", lists)
	s.before = []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
	return b.during(ctx, s, func(p *process) error {
		top, err := b.overload(ctx, p, 3*time.Second, append(b.askFeed(b.users, 1), "--connections",
			ceilingConnections)...)
		if err != nil {
			return err
		}
		over := make(chan error, 1)
		go func() {
			found, err := b.overload(ctx, p, d, append(b.askFeed(b.users, 2),
				"--rate", fmt.Sprintf("%.0f/s", 3*top.served), "--max-connections", shedConnections)...)
			if err == nil {
				log.Printf("limited: ceiling %.0f/s; at three times that for %v: %.0f/s served, p99 %.1f "+
					"ms, %.0f/s refused",
					top.served, d, found.served, found.p99/1000, found.refused)
			}
			over <- err
		}()
		asked, slowest := 0, time.Duration(0)
		for {
			select {
			case err := <-over:
				return errors.Join(err, g.decide(asked, slowest))
			case <-time.After(100 * time.Millisecond):
			}
			start := time.Now()
			if !answers(p.addr, "/health") {
				return fmt.Errorf("/health was not answered after %v of silence; the server's log ends:\n%s",
					time.Since(start), tail(b.path("logs", "weir.log")))
			}
			asked++
			slowest = max(slowest, time.Since(start))
		}
	})
}

// memoryGroup is a cgroup with a limit of memory, and where its version says what became of it.
type memoryGroup struct {
	dir                  string
	limit, peak          string // files
	kills, swap, swapKey string
}

var memoryGroups = []memoryGroup{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control",
		"memory.stat", "total_swap"},
	{"/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events", "memory.swap.current", ""},
}

// newMemoryGroup makes a cgroup below the root of whichever version controls memory here.
func newMemoryGroup(limit int) (*memoryGroup, error) {
	var errs error
	for _, g := range memoryGroups {
		g.dir = filepath.Join(g.dir, fmt.Sprint("weir-bench-", os.Getpid()))
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			if err = os.WriteFile(filepath.Join(g.dir, g.limit), []byte(strconv.Itoa(limit)), 0); err == nil {
				return &g, nil
			}
			os.Remove(g.dir)
		}
		errs = errors.Join(errs, err)
	}
	return nil, fmt.Errorf("no cgroup with a limit can be made, which takes root: %w", errs)
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

// number reads a file's number, or that of a key.
func (g *memoryGroup) number(file, key string) (int, error) {
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

// decide reports what the cgroup has seen.
func (g *memoryGroup) decide(asked int, slowest time.Duration) error {
	peak, errPeak := g.number(g.peak, "")
	kills, errKills := g.number(g.kills, "oom_kill")
	swap, errSwap := g.number(g.swap, g.swapKey)
	if g.swapKey == "" && errors.Is(errSwap, os.ErrNotExist) {
		swap, errSwap = 0, nil // a kernel without swap
	}
	if err := errors.Join(errPeak, errKills, errSwap); err != nil {
		return err
	}
	log.Printf("limited: of %.0f MiB at most %.0f were in use, cached files included; %d killed, %.0f MiB "+
		"swapped; "+
		"/health was answered %d times, the slowest after %v",
		mib(limitedMemory), mib(int64(peak)), kills, mib(int64(swap)), asked, slowest.Round(time.Millisecond))
	if kills > 0 || swap > 0 {
		return fmt.Errorf("%d killed, %d bytes swapped", kills, swap)
	}
	return nil
}

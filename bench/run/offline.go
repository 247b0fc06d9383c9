//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const aboutStarts = "weir on as many users' lists, with the positions of an earlier run."

const (
	firstWarm  = "exec to first answer, warm, s"
	firstCold  = "exec to first answer, cold, s"
	warmingP99 = "p99 while it warms, ms"
)

const (
	colds           = 3               // starts with an empty page cache
	warmingRate     = "10000/s"       // requests to a server that warms after a cold start
	warmingPatience = 2 * time.Minute // for lists to come into memory
)

func (b *bench) measureStarts(ctx context.Context) error {
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return err
	}
	s := weirServes("--feeds", lists)
	s.path = "/feed/0"
	// A run that leaves positions behind.
	if err := b.during(ctx, s, func(p *process) error {
		_, err := b.weirLoad(ctx, p, b.duration, append(b.askFeed(b.users, 1), "--connections", "64")...)
		return err
	}); err != nil {
		return err
	}
	s.keepData = true
	for round := range b.rounds {
		p, err := b.start(ctx, s)
		if err != nil {
			return err
		}
		b.put("starts", weir, firstWarm, round+1, p.firstAnswer.Seconds())
		if err := p.stop(); err != nil {
			return err
		}
	}
	for i := range colds {
		if err := dropCaches(); err != nil {
			b.note("No cold starts: %v.", err)
			return nil
		}
		if err := b.coldStart(ctx, s, lists, i+1); err != nil {
			return fmt.Errorf("cold start: %w", err)
		}
	}
	return nil
}

// coldStart asks a server for feeds until its lists are in memory.
func (b *bench) coldStart(ctx context.Context, s server, lists string, round int) error {
	began := time.Now()
	p, err := b.start(ctx, s)
	if err != nil {
		return err
	}
	defer p.stop()
	b.put("starts", weir, firstCold, round, p.firstAnswer.Seconds())
	// The load ends, orderly, when the lists are in memory.
	warming, warm := context.WithCancel(ctx)
	defer warm()
	watched := make(chan error, 1)
	go func() {
		defer warm()
		watched <- awaitResident(ctx, lists)
		b.put("starts", weir, "from exec until the lists are in memory, s", round,
			time.Since(began).Seconds())
	}()
	open, err := b.overload(warming, p, warmingPatience, append(b.askFeed(b.users, 1000+round), "--rate",
		warmingRate)...)
	if err := errors.Join(err, <-watched); err != nil {
		return err
	}
	b.put("starts", weir, warmingP99, round, open.p99/1000)
	return nil
}

// awaitResident waits until a file is in the page cache as good as whole.
func awaitResident(ctx context.Context, path string) error {
	for end := time.Now().Add(warmingPatience); time.Now().Before(end); {
		// The first look comes late enough for the load to have begun.
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		cached, size, err := resident(path)
		if err != nil {
			return err
		}
		if cached >= size-size/1000 {
			return nil
		}
	}
	return fmt.Errorf("%s was not in memory after %v", path, warmingPatience)
}

const aboutImports = "`weir import` on both cores, from Parquet that pyarrow wrote (`make bench-inputs`):" +
	" 16 part files of Snappy, users in no order."

func (b *bench) measureImports(ctx context.Context) error {
	for _, input := range []string{"lists", "exploded"} {
		source := filepath.Join(b.inputs, input)
		if _, err := os.Stat(source); err != nil {
			b.note("Not measured: %v; make bench-inputs writes it.", err)
			continue
		}
		out := b.path("imported.weir")
		cmd := exec.CommandContext(ctx, "bin/weir", "import", source, "-o", out)
		cmd.Stderr = os.Stderr
		start := time.Now()
		if err := startPinned(cmd, serverCore, clientCore); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
		b.put("imports", weir, input+", s", 1, time.Since(start).Seconds())
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		b.put("imports", weir, input+", memory at most, MiB", 1, mib(peak))
		if err := os.Remove(out); err != nil {
			return err
		}
	}
	return nil
}

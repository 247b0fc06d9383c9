//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const aboutCluster = "Redis and Valkey as clusters of 3 shards, and of one, with a replica each and an " +
	"append-only file synced every second. Figures of the engine and of the client are from a Go benchmark " +
	"of internal/cluster/positions: CPU by the scheduler's count, of the primaries or of the client's " +
	"process. For feeds weir has a core, and the engine shares the load generator's. Three shards against " +
	"one is a simulation: what an advance costs the busiest primary, as if each had a core."

// Names of figures, by the units of the benchmark.
var clusterFigures = map[string]string{
	"batched-us":      "client CPU an advance, batched, us",
	"goroutine-us":    "client CPU an advance, one call a goroutine, us",
	"advance-us":      "engine CPU an advance, us",
	"set-us":          "engine CPU a SET, us",
	"dense-bytes":     "bytes a user, dense",
	"by-id-bytes":     "bytes a user, by id",
	"key-bytes":       "bytes a user, a key each",
	"wait-rate":       "advances/s, WAIT 1",
	"nowait-rate":     "advances/s, no WAIT",
	"event-us":        "engine CPU an event, one an entry, us",
	"event-of-100-us": "engine CPU an event, 100 an entry, us",
	"shards1-us":      "CPU of the busiest primary an advance, 1 shard, us",
	"shards3-us":      "CPU of the busiest primary an advance, 3 shards, us",
}

const (
	onRedis       = "weir, Redis"
	onValkey      = "weir, Valkey"
	weirBefore    = "weir before"
	engineUsers   = 500_000 // in the engine
	beforeCluster = "build/before"
)

func (b *bench) measureCluster(ctx context.Context) error {
	if err := os.Setenv("WEIR_BENCH_USERS", fmt.Sprint(engineUsers)); err != nil {
		return err
	}
	for round := range b.rounds {
		out, _, err := runOn(ctx, serverCore, "build/bin/positions.test", "-test.run=^$",
			"-test.bench=^BenchmarkEngine$", "-test.benchtime=1x")
		if err != nil {
			return err
		}
		for unit, name := range clusterFigures {
			values, err := parseBenchmarks(out, unit)
			if err != nil {
				return err
			}
			for benchmark, v := range values {
				b.put("cluster", benchmark[strings.LastIndexByte(benchmark, '/')+1:], name, round+1, v[0])
			}
		}
	}
	return b.clusteredFeeds(ctx)
}

// clusteredFeeds compares what a feed costs weir alone, on engines, and as it was before it knew of any.
func (b *bench) clusteredFeeds(ctx context.Context) error {
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return err
	}
	servers := map[string]server{weir: weirServes("--feeds", lists)}
	order := []string{weir}
	if err := buildBefore(ctx); err != nil {
		b.note("weir before it knew of clusters is not measured: %v", err)
	} else {
		before := servers[weir]
		before.command = strings.Replace(before.command, "bin/weir", beforeCluster+"/bin/weir", 1)
		servers[weirBefore], order = before, append(order, weirBefore)
	}
	for name, kind := range map[string]string{onRedis: "redis", onValkey: "valkey"} {
		url, stop, err := b.startEngine(ctx, kind)
		if err != nil {
			b.note("%s is not measured: %v", name, err)
			continue
		}
		defer stop()
		servers[name] = weirServes("--feeds", lists, "--cluster", url, "--cluster-restart-delay", "1h")
		order = append(order, name)
	}
	return b.inTurns(order, func(name string, round int) error {
		s := servers[name]
		s.name = name
		return b.during(ctx, s, func(p *process) error {
			if err := awaitResident(ctx, lists); err != nil {
				return err
			}
			args := append(b.askFeed(b.users, round), "--connections", fmt.Sprint(b.connections))
			if _, err := b.weirLoad(ctx, p, time.Second, args...); err != nil {
				return err
			}
			found, err := b.steady(func() (*load, error) { return b.weirLoad(ctx, p, b.duration, args...) })
			if err != nil {
				return err
			}
			b.put("cluster", name, cpu, round, found.serverCPU)
			b.put("cluster", name, "requests/s", round, found.served)
			b.put("cluster", name, "p99, us", round, found.p99)
			return nil
		})
	})
}

var engineURL = regexp.MustCompile(`valkey://\S+`)

// startEngine starts a cluster on the load generator's core.
func (b *bench) startEngine(ctx context.Context, kind string) (url string, stop func(), err error) {
	log := b.path("logs", "engine-"+kind+".log") // says where it is
	argv := []string{"build/bin/localcluster", "--server", kind, "--nodes", "0",
		"--node-timeout", "1m", "--dir", b.path("engine-" + kind)}
	p, err := launch(ctx, clientCore, kind, argv, func() bool {
		text, _ := os.ReadFile(log)
		url = string(engineURL.Find(text))
		return url != ""
	}, log, time.Minute)
	if err != nil {
		return "", nil, err
	}
	return url, func() { p.stop() }, nil //nolint:errcheck // it is no longer wanted
}

// buildBefore builds weir as it was before the commit that brought the cluster's client, unless it is there.
func buildBefore(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(beforeCluster, "bin", "weir")); err == nil {
		return nil
	}
	const first = "internal/cluster/cluster.go"
	out, err := exec.CommandContext(ctx, "git", "log", "--diff-filter=A", "--format=%H", "--", first).Output()
	commits := strings.Fields(string(out))
	if err != nil || len(commits) == 0 {
		return errors.Join(err, fmt.Errorf("git does not know which commit brought %s", first))
	}
	if err := os.MkdirAll(beforeCluster, 0o755); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"git", "archive", "-o", beforeCluster + ".tar", commits[len(commits)-1] + "^"},
		{"tar", "-C", beforeCluster, "-xf", beforeCluster + ".tar"},
		{"make", "-C", beforeCluster, "build"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
		}
	}
	return nil
}

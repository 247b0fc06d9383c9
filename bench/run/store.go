//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const aboutStore = "Feast fills a Redis with 20,000 items. weir makes predictions out of it without a " +
	"cache, Feast's own server with one worker answers the two features: the same 400 items a request, " +
	"16 connections. Redis shares the generator's core."

const (
	feastItems       = 20_000
	feastConnections = "16"
	storeRate        = "requests/s"
)

func (b *bench) measureStore(ctx context.Context) (err error) {
	bin := filepath.Join("build", "venv", "bin")
	if _, err := os.Stat(filepath.Join(bin, "feast")); err != nil {
		b.note("Not measured: Feast is not in build/venv, where make bench installs it.")
		return nil
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.note("Not measured: there is no redis-server, which Debian has by that name.")
		return nil
	}
	if err := b.writeBanditInputs(); err != nil {
		return err
	}
	redis, err := b.start(ctx, server{name: "redis", core: clientCore,
		command: "redis-server --bind 127.0.0.1 --port {port} --save {none} --appendonly no"})
	if err != nil {
		return err
	}
	defer redis.stop()
	repo := b.path("bandit", "feast")
	if _, _, err := runOn(ctx, clientCore, filepath.Join(bin, "python3"), "bench/feast/fill.py", "--repo",
		repo, "--project", "weir",
		"--redis", redis.addr, "--arms", b.path("bandit", "arms.csv"), "--items",
		fmt.Sprint(feastItems)); err != nil {
		return err
	}
	feasts, err := b.start(ctx, server{name: feast, path: "/health", patience: 3 * time.Minute,
		command: filepath.Join(bin, "feast") +
			" -c " + repo + " serve --host 127.0.0.1 --port {port} --workers 1 --no-access-log"})
	if err != nil {
		return err
	}
	defer feasts.stop()
	weirs, err := b.start(ctx, weirServes("--bandit-store", "feast+redis://"+redis.addr+"/weir",
		"--bandit-store-cache-ttl", "0s", "--bandit-store-cache-stale", "0s",
		"--bandit-store-timeout", "10s"))
	if err != nil {
		return err
	}
	defer weirs.stop()

	items := min(feastItems, b.arms)
	asks := map[string]struct {
		p    *process
		form form
	}{
		weir:  {weirs, form{"", "store-weir", predictNumbers}},
		feast: {feasts, form{"", "store-feast", func(a asked) request { return askFeast(a.items) }}},
	}
	for _, a := range asks {
		if err := b.writePool(a.form, items); err != nil {
			return err
		}
	}
	return b.inTurns([]string{weir, feast}, func(name string, round int) error {
		a := asks[name]
		found, err := b.storeLoad(ctx, a.p, a.form)
		if err == nil {
			b.put("store", name, storeRate, round, found.served)
		}
		return err
	})
}

// storeLoad takes a load after a second that does not count. Feast's server ends its worker every thousand
// requests or so, with its connections; such a load is taken again.
func (b *bench) storeLoad(ctx context.Context, p *process, f form) (found *load, err error) {
	for attempt := 0; attempt < attempts && ctx.Err() == nil; attempt++ {
		if _, err = b.askPool(ctx, p, time.Second, f, "--connections", feastConnections); err == nil {
			if found, err = b.askPool(ctx, p, b.duration, f, "--connections", feastConnections); err == nil {
				return found, nil
			}
		}
	}
	return nil, err
}

// askFeast asks for the two features of items.
func askFeast(items []int64) request {
	body, err := json.Marshal(map[string]any{
		"features": []string{"items:alpha", "items:beta"}, "entities": map[string]any{"item_id": items},
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return request{URL: "/get-online-features", Body: string(body)}
}

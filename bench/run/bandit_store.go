//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/bench/pool"
)

// Predictions out of Feast's Redis store, against Feast's own server on the same one. Feast writes the
// features. Both are asked about the same 400 items a request: Feast for their two features, weir for
// predictions, with its cache off. Redis is on the core of whoever asks, so that each of the two has the server's
// core to itself.

const (
	feastItems       = 20_000 // in the store
	feastConnections = 16
	feastPatience    = 3 * time.Minute
	feastProject     = "weir"
	nameFeast        = "feast"
)

// stored is one round.
type stored struct {
	Round int   `json:"round"`
	Weir  *load `json:"weir"`
	Feast *load `json:"feast"`
}

// feastEnvironment is the Python environment that scripts/venv.sh makes.
const feastEnvironment = "build/venv"

// feastIn returns where the programs of an environment with Feast are, or why there is nothing to measure with.
func feastIn(environment string) (bin, reason string) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", "there is no redis-server (Debian has it by that name)"
	}
	bin = filepath.Join(environment, "bin")
	if _, err := os.Stat(filepath.Join(bin, "feast")); err != nil {
		return "", "Feast is not in " + environment + " (make test-deps installs it)"
	}
	return bin, ""
}

// measureStore takes all rounds, or gives the reason why it cannot.
func (b *bench) measureStore(ctx context.Context, in *banditInputs) (all []stored, reason string, err error) {
	if len(b.only) > 0 {
		return nil, "only some servers were asked for", nil
	}
	bin, reason := feastIn(feastEnvironment)
	if reason != "" {
		log.Print("Feast is not measured: ", reason)
		return nil, reason, nil
	}
	redis, err := b.startRedis(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()
	repo := filepath.Join(b.dir, "bandit", "feast")
	if err := fillFeast(ctx, bin, repo, redis.addr, in.arms); err != nil {
		return nil, "", err
	}
	feast, err := b.startFeast(ctx, bin, repo)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, feast.stop()) }()
	weir, err := b.startBandit(ctx, "bandit-store-weir", "--bandit-store", "feast+redis://"+redis.addr+"/"+feastProject,
		"--bandit-store-cache-ttl", "0s", "--bandit-store-cache-stale", "0s", "--bandit-store-timeout", "10s")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, weir.stop()) }()

	items := in.items[:min(feastItems, len(in.items))]
	if err := sameFeatures(ctx, feast.addr, weir.addr, items); err != nil {
		return nil, "", err
	}
	requests := draw(items, poolRequests)
	ofWeir, err := writePool(in.dir, "store", requests, predictNumbers)
	if err != nil {
		return nil, "", err
	}
	ofFeast, err := writeFeastPool(in.dir, requests)
	if err != nil {
		return nil, "", err
	}
	for round := range b.rounds {
		found := stored{Round: round + 1}
		takes := []struct {
			p    *process
			pool string
			to   **load
		}{{weir, ofWeir, &found.Weir}, {feast, ofFeast, &found.Feast}}
		for i := range takes {
			t := takes[(i+round)%len(takes)]
			if *t.to, err = b.storeLoad(ctx, t.p, t.pool); err != nil {
				return nil, "", err
			}
		}
		log.Printf("round %d/%d Redis store: weir %.0f requests/s, Feast %.1f", round+1, b.rounds, found.Weir.PerSecond, found.Feast.PerSecond)
		all = append(all, found)
	}
	return all, "", nil
}

// storeLoad takes a load after a second that does not count. Feast's server ends its worker every thousand requests or so,
// with connections and all; such a load is taken again.
func (b *bench) storeLoad(ctx context.Context, p *process, pool string) (found *load, err error) {
	for range banditAgain {
		if _, err = b.sendPool(ctx, p, time.Second, pool, feastConnections); err == nil {
			if found, err = b.sendPool(ctx, p, b.duration, pool, feastConnections); err == nil {
				return found, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
		log.Printf("again: %v", err)
	}
	return nil, err
}

// startRedis starts a Redis that keeps nothing, on the load generator's core.
func (b *bench) startRedis(ctx context.Context) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	argv := []string{"redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"}
	return launchOn(ctx, clientCore, "redis", argv, addr, pongs, filepath.Join(b.dir, "logs", "redis.log"), 30*time.Second)
}

// pongs asks a Redis whether it is there.
func pongs(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return false
	}
	said, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && said == "+PONG\r\n"
}

// fillFeast has Feast write the items' features to Redis.
func fillFeast(ctx context.Context, bin, repo, redis, arms string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "python3"), "bench/feast/fill.py",
		"--repo", repo, "--project", feastProject, "--redis", redis, "--arms", arms, "--items", strconv.Itoa(feastItems))
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	log.Printf("Feast wrote %d items in %.1f s", feastItems, time.Since(start).Seconds())
	return nil
}

// startFeast starts Feast's server with one worker, as it is on one core.
func (b *bench) startFeast(ctx context.Context, bin, repo string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	argv := []string{filepath.Join(bin, "feast"), "-c", repo, "serve", "--host", "127.0.0.1", "--port", port, "--workers", "1", "--no-access-log"}
	return launch(ctx, nameFeast, argv, addr, "/health", filepath.Join(b.dir, "logs", "feast.log"), feastPatience)
}

// feastBody asks for the two features of items.
func feastBody(items []int64) []byte {
	body, err := json.Marshal(map[string]any{
		"features": []string{"items:alpha", "items:beta"},
		"entities": map[string]any{"item_id": items},
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return body
}

func writeFeastPool(dir string, requests []asked) (string, error) {
	all := make([]pool.Request, len(requests))
	for i, a := range requests {
		all[i].Bytes = pool.Post("/get-online-features", "application/json", feastBody(a.items))
	}
	path := filepath.Join(dir, "feast.pool")
	return path, pool.Write(path, all)
}

// sameFeatures returns an error unless Feast and weir know the same of some of the items.
func sameFeatures(ctx context.Context, feast, weir string, items []int64) error {
	some := items[:min(predictItems, len(items))]
	var said strings.Builder
	if err := ask(ctx, http.MethodPost, "http://"+feast+"/get-online-features", string(feastBody(some)), &said); err != nil {
		return err
	}
	values, err := parseFeast(said.String(), len(some))
	if err != nil {
		return fmt.Errorf("read what Feast answered: %w: %.300s", err, said.String())
	}
	ids, err := json.Marshal(some)
	if err != nil {
		return err
	}
	said.Reset()
	body := fmt.Sprintf(`{"items":%s,"explain":true}`, ids)
	if err := ask(ctx, http.MethodPost, "http://"+weir+"/predict", body, &said); err != nil {
		return err
	}
	var known struct {
		Explain []struct{ Alpha, Beta float64 }
	}
	if err := json.Unmarshal([]byte(said.String()), &known); err != nil {
		return fmt.Errorf("read what weir answered: %w: %.300s", err, said.String())
	}
	if len(known.Explain) != len(some) {
		return fmt.Errorf("weir explains %d of %d items: %.300s", len(known.Explain), len(some), said.String())
	}
	for i, k := range known.Explain {
		for j, w := range []float64{k.Alpha, k.Beta} {
			if f := values[j][i]; math.Abs(w-f) > 1e-6*math.Abs(f) {
				return fmt.Errorf("item %d: Feast has alpha %g and beta %g, weir %g and %g", some[i], values[0][i], values[1][i], k.Alpha, k.Beta)
			}
		}
	}
	return nil
}

// parseFeast returns alpha and beta of n items, all of which have to be there.
func parseFeast(said string, n int) (values [2][]float64, err error) {
	var a struct {
		Metadata struct {
			Names []string `json:"feature_names"`
		}
		Results []struct {
			Values   []*float64
			Statuses []string
		}
	}
	if err := json.Unmarshal([]byte(said), &a); err != nil {
		return values, err
	}
	for i, name := range a.Metadata.Names {
		at := map[string]int{"alpha": 0, "beta": 1}
		j, ok := at[name]
		if !ok || i >= len(a.Results) {
			continue
		}
		for k, v := range a.Results[i].Values {
			if v == nil || k < len(a.Results[i].Statuses) && a.Results[i].Statuses[k] != "PRESENT" {
				return values, fmt.Errorf("%s of item %d is not there", name, k)
			}
			values[j] = append(values[j], *v)
		}
	}
	if len(values[0]) != n || len(values[1]) != n {
		return values, fmt.Errorf("%d times alpha and %d times beta, want %d", len(values[0]), len(values[1]), n)
	}
	return values, nil
}

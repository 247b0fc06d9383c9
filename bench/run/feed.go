//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const aboutFeed = "Users are drawn at random. The floor, nginx (`return 200`) and bare net/http answer " +
	"the same bytes whatever they are asked for; the baseline makes its lists up at start."

// What the bars are about. Smaller runs are for a first impression only.
const (
	barUsers = 5_000_000
	barArms  = 1_000_000
)

// Names of figures.
const (
	cpu           = "CPU a request, us"
	pipelinedRate = "pipelined by 16, requests/s"
	memory        = "memory, MiB"
	offloadedCPU  = "offloaded to a worker, CPU a request, us"
	besideP99     = "p99 at half of the ceiling beside offloaded requests, ms"
)

const (
	pipelineDepth = "16"
	offloadedPath = "/fib?from=1&to=2" // which a worker answers, whatever is at hand
)

// feedServers are those that take turns, in the order of the first round. nginx is left out where there is
// none.
func (b *bench) feedServers(ctx context.Context) (map[string]server, []string, error) {
	lists, err := b.lists(ctx, b.users)
	if err != nil {
		return nil, nil, err
	}
	all := map[string]server{
		floor: {name: floor, command: "build/bin/floor --port {port}", path: "/"},
		baseline: {name: baseline, path: "/feed/0",
			patience: time.Minute + time.Duration(b.users)*50*time.Microsecond,
			command: fmt.Sprintf("build/bin/baseline --listen {addr} --users %d --items %d --max-item %d",
				b.users, b.items, b.maxItem)},
		weir:    weirServes("--feeds", lists),
		nethttp: {name: nethttp, command: "build/bin/nethttp --listen {addr}", path: "/"},
	}
	order := []string{floor, baseline, weir, nethttp}
	if _, err := exec.LookPath("nginx"); err == nil {
		if all[nginx], err = b.nginxServes(); err != nil {
			return nil, nil, err
		}
		order = append(order, nginx)
	}
	return all, order, nil
}

func (b *bench) measureFeed(ctx context.Context) error {
	servers, order, err := b.feedServers(ctx)
	if err != nil {
		return err
	}
	lists, _ := b.lists(ctx, b.users)
	// Requests during an earlier cold start may have left the lists in small pages. weir reads them anew by
	// huge ones.
	if err := forget(lists); err != nil {
		return err
	}
	slow := sleeper{server: servers[baseline]}
	defer slow.stop()
	return b.inTurns(order, func(name string, round int) error {
		measure := func(p *process) error { return b.feedTurn(ctx, p, lists, round) }
		if name == baseline {
			return slow.turn(ctx, b, measure)
		}
		return b.during(ctx, servers[name], measure)
	})
}

// feedTurn takes the figures of one server in one round. Each load draws other users than the ones before.
func (b *bench) feedTurn(ctx context.Context, p *process, lists string, round int) error {
	put := func(name string, value float64) { b.put("feed", p.name, name, round, value) }
	seed := 10 * round
	ask := func(d time.Duration, args ...string) (*load, error) {
		seed++
		return b.weirLoad(ctx, p, d, append(b.askFeed(b.users, seed), args...)...)
	}
	connections := fmt.Sprint(b.connections)
	if p.name == weir {
		// A server that still reads its lists is another one.
		if err := awaitResident(ctx, lists); err != nil {
			return err
		}
	}
	if _, err := ask(time.Second, "--connections", connections); err != nil {
		return err
	}
	closed, err := b.steady(func() (*load, error) {
		return ask(b.duration, "--connections", connections)
	})
	if err != nil {
		return err
	}
	put(cpu, closed.serverCPU)
	put("requests/s", closed.served)
	put("p50, us", closed.p50)
	put("p99, us", closed.p99)
	second, err := b.wrk(ctx, p, b.duration, b.connections, "feed.lua", b.users, seed)
	if err != nil {
		return err
	}
	put("CPU a request as wrk asks, us", second.serverCPU)
	pipelined, err := ask(b.duration, "--connections", connections, "--pipeline", pipelineDepth)
	if err != nil {
		return err
	}
	put(pipelinedRate, pipelined.served)
	put("pipelined by 16, CPU a request, us", pipelined.serverCPU)
	var data []string
	if p.name == weir {
		data = []string{lists, p.data}
	}
	bytes, err := p.memory(data)
	if err != nil {
		return err
	}
	put(memory, mib(bytes))
	put("exec to first answer, ms", 1000*p.firstAnswer.Seconds())
	if p.name != weir && p.name != floor {
		return nil
	}
	// What the machine does to a p99 shows in the floor's.
	half := func() (*load, error) {
		seed++
		return b.openLoop(ctx, p, closed.served/2, append(b.askFeed(b.users, seed), "--warm",
			connections)...)
	}
	open, err := half()
	if err != nil {
		return err
	}
	put("p99 at half of the ceiling, ms", open.p99/1000)
	put(inWindow, open.window/1000)
	put("of that p99 the generator's lag, ms", open.lag/1000)
	if p.name == floor {
		return nil
	}
	offloaded, err := b.weirLoad(ctx, p, b.duration, b.askOffloaded("--connections", connections)...)
	if err != nil {
		return err
	}
	put(offloadedCPU, offloaded.serverCPU)
	also, err := b.beside(ctx, p, b.askOffloaded("--connections", "1"), func() (err error) {
		open, err = half()
		return err
	})
	if err != nil {
		return err
	}
	put(besideP99, open.p99/1000)
	put("the same in the median window of 100 ms", open.window/1000)
	put("offloaded requests/s then", also.served)
	return nil
}

const inWindow = "p99 in the median window of 100 ms, ms"

// askFeed is what weir load takes to ask for the next ten items of random users.
func (b *bench) askFeed(users, seed int) []string {
	return []string{"--scenario", "feed", "--users", fmt.Sprint(users), "--items", "10", "--seed",
		fmt.Sprint(seed)}
}

func (b *bench) askOffloaded(args ...string) []string {
	return append([]string{offloadedPath}, args...)
}

// beside calls do while another weir load asks p, for as long as a measurement takes.
func (b *bench) beside(ctx context.Context, p *process, args []string, do func() error) (*load, error) {
	var l *load
	var loadErr error
	over := make(chan struct{})
	go func() {
		defer close(over)
		l, loadErr = b.weirLoad(ctx, p, b.duration, args...)
	}()
	err := do()
	<-over
	return l, errors.Join(err, loadErr)
}

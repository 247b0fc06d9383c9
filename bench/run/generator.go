//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// load is what a load generator found and what the load cost. Times are in microseconds, rates a second.
type load struct {
	requests, failed      float64 // answered, and refused or in error
	sent, served, refused float64
	p50, p99, refusedP99  float64
	window                float64 // p99 of the median window of 100 ms: a stall of the machine does not count
	lag                   float64 // what the generator itself adds, at p99
	generatorCPU          float64 // a request
	generatorBusy         float64 // share of the time in which its thread worked
	serverCPU             float64 // a request
	busy, others          float64 // shares of the server's core: the server's, and that of anybody else
	asking                float64 // share of the other core that the generator had
	othersAsking          float64
	ceiling               *ceilingFound
	trace                 []tracePoint
	started               time.Time
}

// result is what this reads of the JSON of weir load; docs/load.md describes it.
type result struct {
	Started                time.Time
	Seconds                float64
	Requests, Served, Shed uint64
	Errors                 uint64
	Failures               map[string]uint64
	Rate                   struct{ Achieved, Served float64 }
	Latency                struct{ P50, P99 float64 } `json:"latency_us"`
	Refused                struct{ P99 float64 }      `json:"shed_latency_us"`
	Generator              struct {
		CPU  float64 `json:"cpu_us_per_request"`
		Lag  float64 `json:"lag_p99_us"`
		Busy float64
	}
	Ceiling *ceilingFound
	Trace   []tracePoint
}

type ceilingFound struct {
	Rate, Low, High, Seconds float64
	Converged                bool
	Limit                    string
}

type tracePoint struct {
	At       float64 `json:"t"`
	Measured bool
	P99      *float64
	Ceiling  *float64
}

// aFew is the share of requests that may be refused where none should be: a stall of the machine costs some.
const aFew = 0.001

// parseResult returns an error if nothing was served or, unless refusals are what is measured, requests
// failed, but for a few that were refused.
func parseResult(text []byte, refusals bool) (*load, error) {
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not a result of weir load: %w", err)
	}
	switch {
	case r.Requests == 0 || r.Served == 0:
		return nil, errors.New("nothing was served")
	case !refusals && (r.Errors > 0 || float64(r.Shed) > aFew*float64(r.Requests)):
		return nil, fmt.Errorf("%d of %d requests were served, %d refused, failures %v", r.Served, r.Requests,
			r.Shed, r.Failures)
	case r.Generator.CPU == 0:
		return nil, errors.New("the result does not say what the requests cost")
	}
	l := &load{
		requests: float64(r.Served + r.Shed), failed: float64(r.Shed + r.Errors), sent: r.Rate.Achieved,
		served: r.Rate.Served, refused: float64(r.Shed) / r.Seconds,
		p50: r.Latency.P50, p99: r.Latency.P99, refusedP99: r.Refused.P99, lag: r.Generator.Lag,
		generatorCPU: r.Generator.CPU, generatorBusy: r.Generator.Busy, ceiling: r.Ceiling, trace: r.Trace,
		started: r.Started,
	}
	var windows []float64
	for _, p := range r.Trace {
		if p.Measured && p.P99 != nil {
			windows = append(windows, *p.P99)
		}
	}
	l.window, _ = median(windows)
	return l, nil
}

// weirLoad runs weir load against p. The arguments begin with a path, or are those of a scenario. A failed
// request is an error.
func (b *bench) weirLoad(ctx context.Context, p *process, d time.Duration, args ...string) (*load, error) {
	return b.weirLoadOf(ctx, p, d, false, args...)
}

// overload is weirLoad for loads of which a part is refused or dropped.
func (b *bench) overload(ctx context.Context, p *process, d time.Duration, args ...string) (*load, error) {
	return b.weirLoadOf(ctx, p, d, true, args...)
}

// openLoop sends so many requests a second. Beside a stall of the machine some may be dropped, which is
// noted.
func (b *bench) openLoop(ctx context.Context, p *process, rate float64,
	args ...string) (*load, error) {
	l, err := b.overload(ctx, p, b.duration, append(args, "--rate", fmt.Sprintf("%.0f/s", rate))...)
	if err == nil && l.failed > 0 {
		b.note("Of an open loop of %s %.0f requests failed, and %.0f did not.", p.name,
			l.failed, l.requests)
	}
	return l, err
}

func (b *bench) weirLoadOf(ctx context.Context, p *process, d time.Duration, refusals bool,
	args ...string) (*load, error) {
	file, err := os.CreateTemp(b.dir, "load-*.json")
	if err != nil {
		return nil, err
	}
	file.Close()
	defer os.Remove(file.Name())
	argv := []string{
		"bin/weir", "load", "--quiet", "--json", file.Name(), "--duration", d.String(), "--threads", "1",
		"--no-check",
	}
	if strings.HasPrefix(args[0], "/") { // a path
		argv, args = append(argv, "http://"+p.addr+args[0]), args[1:]
	} else {
		argv = append(argv, "--target", "http://"+p.addr)
	}
	argv = append(argv, args...)
	l, err := b.loaded(ctx, p, argv, func(string) (*load, error) {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		return parseResult(text, refusals)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	if !refusals && l.failed > 0 {
		b.note("Of %.0f requests to %s %.0f were refused where none should be.", l.requests, p.name, l.failed)
	}
	return l, nil
}

// wrk runs wrk on the path / with one of the scripts in bench/wrk.
func (b *bench) wrk(ctx context.Context, p *process, d time.Duration, connections int, script string,
	args ...any) (*load, error) {
	argv := []string{
		// wrk takes whole seconds.
		"wrk", "-t1", fmt.Sprint("-c", connections), fmt.Sprintf("-d%.0fs", max(1, d.Seconds())),
		"--timeout", "10s", "-s", filepath.Join("bench", "wrk", script), "http://" + p.addr + "/", "--",
	}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	l, err := b.loaded(ctx, p, argv, parseWrk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	l.generatorCPU = l.asking * 1e6 / l.served // the whole process
	return l, nil
}

// parseWrk reads the line that the scripts in bench/wrk print.
func parseWrk(out string) (*load, error) {
	const summary = "summary: "
	at := strings.LastIndex(out, summary)
	if at < 0 {
		return nil, errors.New("no summary in the output")
	}
	var s struct {
		Requests, Micros, P50, P99, Not2xx float64
		SocketErrors                       float64 `json:"socket_errors"`
	}
	if err := json.NewDecoder(strings.NewReader(out[at+len(summary):])).Decode(&s); err != nil {
		return nil, fmt.Errorf("not a summary: %w", err)
	}
	switch {
	case s.Requests == 0:
		return nil, errors.New("nothing was answered")
	case s.Not2xx > 0:
		return nil, fmt.Errorf("%.0f of %.0f answers had a status other than 2xx", s.Not2xx, s.Requests)
	case s.SocketErrors > 0:
		return nil, fmt.Errorf("%.0f connections failed", s.SocketErrors)
	}
	return &load{requests: s.Requests, served: s.Requests / (s.Micros / 1e6), p50: s.P50, p99: s.P99}, nil
}

// attempts is how often a load is taken during which others had more than a tenth of one of the cores.
const attempts = 3

// steady takes a load again while it is disturbed, and says so where that does not help.
func (b *bench) steady(take func() (*load, error)) (*load, error) {
	for attempt := 1; ; attempt++ {
		l, err := take()
		if err != nil {
			return nil, err
		}
		most := max(l.others, l.othersAsking)
		if most <= 0.1 {
			return l, nil
		}
		if attempt == attempts {
			b.note("Others had %.0f %% of a core during one load, also when it was repeated.",
				100*most)
			return l, nil
		}
	}
}

// loaded runs a load generator and adds what it did to p and to the cores.
func (b *bench) loaded(ctx context.Context, p *process, argv []string,
	parse func(out string) (*load, error)) (*load, error) {
	type times struct{ server, serverCore, clientCore time.Duration }
	now := func() (t times, err error) {
		var errs [3]error
		t.server, errs[0] = p.cpu()
		t.serverCore, errs[1] = coreBusy(serverCore)
		t.clientCore, errs[2] = coreBusy(clientCore)
		return t, errors.Join(errs[:]...)
	}
	before, err := now()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	out, asking, err := runOn(ctx, clientCore, argv...)
	if err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	after, err := now()
	if err != nil {
		return nil, err
	}
	l, err := parse(out)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	server := after.server - before.server
	l.serverCPU = float64(server.Microseconds()) / l.requests
	l.busy = server.Seconds() / took
	l.others = max(0, (after.serverCore-before.serverCore-server).Seconds()/took)
	l.asking = asking.Seconds() / took
	l.othersAsking = max(0, (after.clientCore-before.clientCore-asking).Seconds()/took)
	return l, nil
}

// runOn runs a program on a core and returns what it printed and its processor time. A program that can end
// orderly before its time, as load generators can, does so when ctx is done.
func runOn(ctx context.Context, core int, argv ...string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error {
		cmd.Process.Signal(os.Interrupt)
		return os.ErrProcessDone // an orderly end is no error
	}
	cmd.WaitDelay = 10 * time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := startPinned(cmd, core)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out.String(), errOut.String())
	}
	return out.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// writeRequests writes a file for weir load --requests. weir load sends them in turn.
func writeRequests(path string, requests []request) error {
	var file bytes.Buffer
	for _, r := range requests {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		file.Write(append(line, '\n'))
	}
	return os.WriteFile(path, file.Bytes(), 0o644)
}

// request is a line of such a file.
type request struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

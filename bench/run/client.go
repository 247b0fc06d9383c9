//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// summary is what the load generators print in their last line, times in microseconds.
type summary struct {
	Requests     int     `json:"requests"`
	Micros       int64   `json:"micros"` // of the run; of closed loops only
	P50          int64   `json:"p50"`
	P99          int64   `json:"p99"`
	Max          int64   `json:"max"`
	Not2xx       int     `json:"not2xx"`
	SocketErrors int     `json:"socket_errors"` // wrk only
	Missing      int     `json:"missing"`       // due, or sent, and never answered; not wrk
	Dropped      int     `json:"dropped"`       // k6: due and never sent
	Lag          int64   `json:"lag"`           // openloop: its own lateness, 99th percentile
	Window       int64   `json:"window_p99"`    // openloop: P99 of the median window of 100 ms
	Rate         float64 `json:"rate"`          // openloop: due a second
	Also         *struct {
		Requests int   `json:"requests"`
		P50      int64 `json:"p50"`
		P99      int64 `json:"p99"`
	} `json:"also"`

	cpu time.Duration // the load generator's own, user and system
}

// client runs a load generator on the client core and returns its summary. A run with a failed
// request is an error: its figures are of something else. When until is not nil, the generator is
// interrupted, and ends orderly, as soon as until is closed.
func client(ctx context.Context, until <-chan struct{}, argv ...string) (*summary, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := startPinned(cmd, clientCore); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-until:
			cmd.Process.Signal(syscall.SIGINT)
		case <-done:
		}
	}()
	err := cmd.Wait()
	close(done)
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out.String(), errOut.String())
	}
	s, err := parseSummary(out.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out.String(), errOut.String())
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s, nil
}

func parseSummary(out string) (*summary, error) {
	_, line, ok := cutLast(out, "summary: ")
	if !ok {
		return nil, errors.New("no summary in the output")
	}
	var s summary
	if err := json.NewDecoder(strings.NewReader(line)).Decode(&s); err != nil {
		return nil, fmt.Errorf("not a summary: %w", err)
	}
	switch {
	case s.Requests == 0:
		return nil, errors.New("nothing was answered")
	case s.Not2xx > 0:
		return nil, fmt.Errorf("%d of %d answers had a status other than 2xx", s.Not2xx, s.Requests)
	case s.SocketErrors > 0:
		return nil, fmt.Errorf("%d connections failed", s.SocketErrors)
	case s.Missing > 0:
		return nil, fmt.Errorf("%d requests were never answered", s.Missing)
	}
	return &s, nil
}

// load is a closed loop and what it cost the server.
type load struct {
	PerSecond float64 `json:"requests_per_second"`
	CPU       float64 `json:"cpu_us_per_request"` // user and system
	P50       int64   `json:"p50_us"`
	P99       int64   `json:"p99_us"`
	// Busy is the server's share of its core.
	Busy float64 `json:"busy"`
	// Others is the share of the server's core that neither the server nor idleness had.
	Others float64 `json:"others"`
	// Asking is the load generator's share of its core: near 1 it may be that which set the rate, and
	// not the server.
	Asking float64 `json:"asking"`
	// OthersAsking is the share of that core that neither the load generator nor idleness had.
	OthersAsking float64 `json:"others_asking"`
}

// disturbed says whether others had so much of one of the cores that the figures are theirs, too.
func (l *load) disturbed() bool { return max(l.Others, l.OthersAsking) > 0.1 }

// wrk loads p for d with one of the scripts in bench/wrk and that script's arguments.
func (b *bench) wrk(ctx context.Context, p *process, d time.Duration, script, path string, args ...any) (*load, error) {
	return b.wrkOver(ctx, b.connections, p, d, script, path, args...)
}

// wrkOver is wrk with another number of connections.
func (b *bench) wrkOver(ctx context.Context, connections int, p *process, d time.Duration, script, path string, args ...any) (*load, error) {
	argv := []string{
		"wrk", "-t1", fmt.Sprint("-c", connections), fmt.Sprintf("-d%.0fs", max(1, d.Seconds())), // wrk knows whole seconds
		"--timeout", "10s", "-s", b.source("wrk", script), "http://" + p.addr + path, "--",
	}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return loaded(ctx, p, argv)
}

// loaded runs a closed loop, wrk or closedloop, and returns what it did to p.
func loaded(ctx context.Context, p *process, argv []string) (*load, error) {
	busyBefore, err := coreBusy(serverCore)
	if err != nil {
		return nil, err
	}
	askingBefore, err := coreBusy(clientCore)
	if err != nil {
		return nil, err
	}
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	s, err := client(ctx, nil, argv...)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return nil, err
	}
	busyAfter, err := coreBusy(serverCore)
	if err != nil {
		return nil, err
	}
	askingAfter, err := coreBusy(clientCore)
	if err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	others := (busyAfter - busyBefore) - (after - before)
	othersAsking := (askingAfter - askingBefore) - s.cpu
	return &load{
		Busy:      (after - before).Seconds() / took,
		Others:    max(0, others.Seconds()/took),
		Asking:    s.cpu.Seconds() / took,
		PerSecond: float64(s.Requests) / (float64(s.Micros) / 1e6),
		CPU:       float64((after - before).Microseconds()) / float64(s.Requests),
		P50:       s.P50,
		P99:       s.P99,

		OthersAsking: max(0, othersAsking.Seconds()/took),
	}, nil
}

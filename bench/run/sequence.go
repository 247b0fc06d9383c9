//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"time"
)

const aboutSequence = "12 connections. A server starts afresh at each index; what it answers is compared " +
	"with F(n) before and after each load. The baseline (bignum) converts math/big numbers; no server on" +
	" one core gets beyond the floor, whose body is as long as the answer. A server that waits is woken " +
	"for fewer requests at a time, and each costs it more, so a ratio near 1 flatters the busier one."

const (
	sequenceConnections = "12"
	walkTo              = 100_000 // where the walk of the memory figure ends
)

// Names of figures; each load has a rate and a cost.
const (
	lowStep       = "/next and /previous at 50,000"
	highStep      = "/next and /previous at 100,000"
	current       = "/current at 100,000"
	allThree      = "the three at 100,000"
	rate          = ", requests/s"
	cpuOf         = ", CPU a request, us"
	residentAfter = "resident after the walk, MiB"
)

// sequenceLoads are the loads of a turn. Paths take turns, so that every server does the same work and the
// index stays.
var sequenceLoads = []struct {
	index int
	loads []sequenceLoad
}{
	{50_000, []sequenceLoad{{lowStep, "/next /previous"}}},
	{100_000, []sequenceLoad{{highStep, "/next /previous"}, {current, "/current"},
		{allThree, "/current /next /previous"}}},
}

type sequenceLoad struct{ name, paths string }

func (b *bench) measureSequence(ctx context.Context) error {
	return b.inTurns([]string{floor, baseline, weir}, func(name string, round int) error {
		for _, at := range sequenceLoads {
			err := b.duringSequence(ctx, name, at.index, func(p *process) error {
				return b.sequenceTurn(ctx, p, round, at.index, at.loads)
			})
			if err != nil {
				return fmt.Errorf("at %d: %w", at.index, err)
			}
		}
		if name != weir {
			return nil
		}
		return b.duringSequence(ctx, name, 0, func(p *process) error { return b.walk(ctx, p, round) })
	})
}

// duringSequence calls do with a server whose index is where it is wanted.
func (b *bench) duringSequence(ctx context.Context, name string, index int, do func(*process) error) error {
	s := server{name: name, path: "/current", command: map[string]string{
		floor:    fmt.Sprintf("build/bin/floor --port {port} --body %d", len(currentAnswer(index))),
		baseline: fmt.Sprintf("build/bin/bignum --listen {addr} --start %d", index),
		weir:     "bin/weir sequence --port {port} --file {data}/index --admin {admin}",
	}[name]}
	return b.during(ctx, s, func(p *process) error {
		if name == weir && index > 0 {
			body := fmt.Sprintf(`{"index":%d}`, index)
			if err := call(ctx, http.MethodPut, "http://"+p.admin+"/current", body, io.Discard); err != nil {
				return err
			}
		}
		return do(p)
	})
}

func (b *bench) sequenceTurn(ctx context.Context, p *process, round, index int, loads []sequenceLoad) error {
	put := func(name string, value float64) { b.put("sequence", p.name, name, round, value) }
	taken := 0
	check := func() error {
		if p.name == floor {
			return nil
		}
		// A load may have asked for one path more often than for another by as many as it has connections.
		return checkCurrent(ctx, p.addr, index, 13*taken)
	}
	for i, l := range loads {
		var requests []request
		for path := range strings.FieldsSeq(l.paths) {
			requests = append(requests, request{URL: path})
		}
		file := b.path("sequence.jsonl")
		if err := writeRequests(file, requests); err != nil {
			return err
		}
		ask := func(d time.Duration) (*load, error) {
			if err := check(); err != nil {
				return nil, err
			}
			taken++
			return b.weirLoad(ctx, p, d, "--scenario", "requests", "--requests", file, "--connections",
				sequenceConnections)
		}
		if i == 0 {
			if _, err := ask(time.Second); err != nil { // is not counted
				return err
			}
		}
		found, err := b.steady(func() (*load, error) { return ask(b.duration) })
		if err != nil {
			return err
		}
		put(l.name+rate, found.served)
		put(l.name+cpuOf, found.serverCPU)
		put(l.name+", the server's core, %", 100*found.busy)
		put(l.name+", the generator's core, %", 100*found.asking)
	}
	return check()
}

// walk asks for /next from 0 to walkTo and takes the memory that it leaves behind.
func (b *bench) walk(ctx context.Context, p *process, round int) error {
	for range walkTo {
		if err := call(ctx, http.MethodGet, "http://"+p.addr+"/next", "", io.Discard); err != nil {
			return err
		}
	}
	status, err := p.status()
	if err != nil {
		return err
	}
	for name, bytes := range map[string]uint64{residentAfter: status.VmRSS,
		"of that anonymous, MiB": status.RssAnon, "resident at most on the walk, MiB": status.VmHWM} {
		b.put("sequence", p.name, name, round, mib(int64(bytes)))
	}
	return checkCurrent(ctx, p.addr, walkTo, 0)
}

// checkCurrent returns an error unless the current value is the sequence's, at the index or at most slack
// away.
func checkCurrent(ctx context.Context, addr string, index, slack int) error {
	var body strings.Builder
	if err := call(ctx, http.MethodGet, "http://"+addr+"/current", "", &body); err != nil {
		return err
	}
	var got struct {
		Index int
		Value string
	}
	if err := json.Unmarshal([]byte(body.String()), &got); err != nil {
		return fmt.Errorf("GET /current: %w in %.100s", err, body.String())
	}
	if got.Index < index-slack || got.Index > index+slack {
		return fmt.Errorf("GET /current is at %d, want %d or up to %d from it", got.Index, index, slack)
	}
	if got.Value != fibonacci(got.Index) {
		return fmt.Errorf("GET /current gives %d digits that are not those of F(%d)",
			len(got.Value), got.Index)
	}
	return nil
}

// currentAnswer is what GET /current answers.
func currentAnswer(index int) string {
	return fmt.Sprintf(`{"index":%d,"value":"%s"}`, index, fibonacci(index))
}

// fibonacci returns the digits of F(n) in the plainest way.
func fibonacci(n int) string {
	value, next := big.NewInt(0), big.NewInt(1)
	for range n {
		value.Add(value, next)
		value, next = next, value
	}
	return value.String()
}

// call sends one request, copies the answer's body and returns an error unless its status is 2xx.
func call(ctx context.Context, method, url, body string, to io.Writer) error {
	_, err := exchange(ctx, method, url, nil, body, to)
	return err
}

// exchange is call with headers there and back.
func exchange(ctx context.Context, method, url string, headers map[string]string, body string,
	to io.Writer) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, said)
	}
	if _, err := io.Copy(to, answer.Body); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return answer.Header, nil
}

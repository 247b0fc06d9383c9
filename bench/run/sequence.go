//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The sequence is measured like the feed: the same cores, rounds and turns. What differs: 12
// connections; every server starts afresh at each index it is measured at; the baseline is bignum;
// and the floor answers as many bytes as the value has, whatever it is asked for. What a server answers is
// compared with the sequence itself, before and after each load. A load during which others were at work on
// one of the cores is repeated.

const (
	sequenceConnections = 12
	sequencePatience    = 30 * time.Second
	sequenceAgain       = 3       // times that a disturbed load is repeated
	walkTo              = 100_000 // where the walk of the memory figure ends
	walkPatience        = 5 * time.Minute
)

// sequenceLoads are the loads of a turn, in order.
var sequenceLoads = []struct {
	name  string
	index int
	paths []string // asked for in turn
}{
	{loadLow, 50_000, []string{"/next", "/previous"}},
	{loadHigh, 100_000, []string{"/next", "/previous"}},
	{loadCurrent, 100_000, []string{"/current"}},
	{loadAll, 100_000, []string{"/current", "/next", "/previous"}},
}

const (
	loadLow     = "/next and /previous at 50,000"
	loadHigh    = "/next and /previous at 100,000"
	loadCurrent = "/current at 100,000"
	loadAll     = "the three at 100,000"
)

// sequenceSample is what one turn of one server found.
type sequenceSample struct {
	Server string           `json:"server"`
	Round  int              `json:"round"`
	Loads  map[string]*load `json:"loads"`
	Walked *walked          `json:"walked,omitempty"` // weir's only
}

func (s *sequenceSample) turn() (server string, round int) { return s.Server, s.Round }

// walked is what a server took up after /next from 0 to walkTo on one connection, in bytes.
type walked struct {
	Resident int64   `json:"resident_bytes"` // VmRSS: program text and mapped files included
	Peak     int64   `json:"peak_bytes"`     // VmHWM
	Own      int64   `json:"own_bytes"`      // RssAnon and RssShmem
	Seconds  float64 `json:"seconds"`
}

func (b *bench) measureSequence(ctx context.Context) (*sequenceReport, error) {
	r := &sequenceReport{Parameters: sequenceParameters{sequenceConnections, b.rounds, b.duration.Seconds(), b.sequenceWrk}}
	servers := []string{nameFloor, nameBaseline, nameWeir}
	if len(b.only) > 0 {
		servers = slices.DeleteFunc(servers, func(s string) bool { return !slices.Contains(b.only, s) })
	}
	if err := checkBenchmarks(ctx); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		for i := range servers {
			name := servers[(i+round)%len(servers)]
			s := &sequenceSample{Server: name, Round: round + 1, Loads: map[string]*load{}}
			if err := b.sequenceTurn(ctx, s); err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, name, err)
			}
			r.Samples = append(r.Samples, s)
		}
		if err := b.compute(ctx, r, round+1); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	r.judge()
	return r, nil
}

// sequenceTurn measures one server at each index.
func (b *bench) sequenceTurn(ctx context.Context, s *sequenceSample) error {
	for first := 0; first < len(sequenceLoads); {
		index := sequenceLoads[first].index
		end := first
		for end < len(sequenceLoads) && sequenceLoads[end].index == index {
			end++
		}
		if err := b.sequenceAt(ctx, s, index, first, end); err != nil {
			return fmt.Errorf("at %d: %w", index, err)
		}
		first = end
	}
	if s.Server != nameWeir {
		return nil
	}
	var err error
	s.Walked, err = b.walk(ctx, s.Server)
	return err
}

// sequenceAt starts a server at an index and takes the loads from first to before end, which are
// those at that index.
func (b *bench) sequenceAt(ctx context.Context, s *sequenceSample, index, first, end int) (err error) {
	p, err := b.startSequence(ctx, s.Server, index)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	if err := p.settle(ctx); err != nil {
		return err
	}
	// A load may have asked for one path more often than for another by as many as it has connections.
	slack := 0
	for i, again := first-1, 0; i < end; i++ {
		l, d := sequenceLoads[max(i, first)], b.duration
		if i < first {
			d = time.Second // not counted
		}
		if s.Server != nameFloor {
			if err := checkCurrent(ctx, p.addr, index, slack); err != nil {
				return err
			}
		}
		found, err := b.askInTurn(ctx, p, d, l.paths)
		if err != nil {
			return err
		}
		slack += sequenceConnections + 1
		if i < first {
			continue
		}
		if found.disturbed() && again < sequenceAgain {
			log.Printf("others had %.0f %% of the server's core and %.0f %% of the other: once more", 100*found.Others, 100*found.OthersAsking)
			i, again = i-1, again+1
			continue
		}
		again = 0
		s.Loads[l.name] = found
		log.Printf("round %d/%d %-8s  %s: %6.2f us CPU a request, %7.0f/s", s.Round, b.rounds, s.Server, l.name, found.CPU, found.PerSecond)
	}
	if s.Server == nameFloor {
		return nil
	}
	return checkCurrent(ctx, p.addr, index, slack)
}

// askInTurn loads p for d with requests for the paths in turn. Unless wrk is asked for, closedloop
// does it: wrk takes longer for an answer this long than a server does.
func (b *bench) askInTurn(ctx context.Context, p *process, d time.Duration, paths []string) (*load, error) {
	if b.sequenceWrk {
		args := make([]any, len(paths))
		for i, path := range paths {
			args[i] = path
		}
		return b.wrkOver(ctx, sequenceConnections, p, d, "sequence.lua", "/", args...)
	}
	argv := []string{
		"build/bin/closedloop", "--address", p.addr, "--connections", fmt.Sprint(sequenceConnections), "--duration", d.String(),
	}
	return loaded(ctx, p, append(argv, paths...))
}

// startSequence launches a server whose index is where it is wanted.
func (b *bench) startSequence(ctx context.Context, name string, index int) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "sequence")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var argv []string
	switch file := filepath.Join(dir, "index"); name {
	case nameFloor:
		argv = []string{"build/bin/floor", "--port", port, "--body", fmt.Sprint(len(currentAnswer(index)))}
	case nameBaseline:
		argv = []string{"build/bin/bignum", "--listen", addr, "--file", file, "--start", fmt.Sprint(index)}
	case nameWeir:
		argv = []string{"bin/weir", "sequence", "--port", port, "--file", file, "--admin", admin}
	}
	logPath := filepath.Join(b.dir, "logs", "sequence-"+name+".log")
	p, err := launch(ctx, name, argv, addr, "/current", logPath, sequencePatience)
	if err != nil {
		return nil, err
	}
	if name == nameWeir && index > 0 {
		if err := putCurrent(ctx, admin, index); err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// walk asks a server for /next from 0 to walkTo and returns what it takes up then.
func (b *bench) walk(ctx context.Context, name string) (found *walked, err error) {
	p, err := b.startSequence(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	asked, err := client(ctx, nil, "build/bin/closedloop", "--address", p.addr, "--connections", "1",
		"--requests", fmt.Sprint(walkTo), "--duration", walkPatience.String(), "/next")
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", name, err)
	}
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return nil, fmt.Errorf("%s is gone: %w", p.name, err)
	}
	found = &walked{Seconds: float64(asked.Micros) / 1e6}
	if found.Resident, err = parseStatus(string(status), "VmRSS"); err != nil {
		return nil, err
	}
	if found.Peak, err = parseStatus(string(status), "VmHWM"); err != nil {
		return nil, err
	}
	if found.Own, err = parseOwn(string(status)); err != nil {
		return nil, err
	}
	log.Printf("%s after /next from 0 to %d in %.1f s: %s", name, walkTo, found.Seconds, mib(found.Resident))
	return found, checkCurrent(ctx, p.addr, walkTo, 0)
}

// putCurrent moves the index through weir's admin port.
func putCurrent(ctx context.Context, admin string, index int) error {
	return ask(ctx, http.MethodPut, "http://"+admin+"/current", fmt.Sprintf(`{"index":%d}`, index), io.Discard)
}

// checkCurrent asks for the current value and returns an error unless it is the sequence's, at the
// wanted index or at most slack away from it.
func checkCurrent(ctx context.Context, addr string, index, slack int) error {
	var body strings.Builder
	if err := ask(ctx, http.MethodGet, "http://"+addr+"/current", "", &body); err != nil {
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
		return fmt.Errorf("GET /current gives %d digits that are not those of F(%d)", len(got.Value), got.Index)
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

// ask sends one request, copies the answer's body and returns an error unless its status is 2xx.
func ask(ctx context.Context, method, url, body string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, said)
	}
	if _, err := io.Copy(to, answer.Body); err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	return nil
}

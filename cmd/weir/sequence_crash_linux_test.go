package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/sequence/decimal"
	"weir/internal/systest"
)

// stepped is an answer of the sequence.
type stepped struct {
	Index uint64
	Value string
}

// steps sends batches of requests over one connection, each for a path that next returns, and passes on
// every answer that came whole, until the connection ends. It returns how many requests were sent and not
// answered.
func steps(t testing.TB, addr string, batch int, next func() string,
	answered func(path string, status int, s stepped)) (open int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		paths := make([]string, 1+rand.IntN(batch))
		var requests []byte
		for i := range paths {
			paths[i] = next()
			requests = fmt.Appendf(requests, "GET %s HTTP/1.1\r\nHost: weir\r\n\r\n", paths[i])
		}
		if _, err := conn.Write(requests); err != nil {
			return len(paths)
		}
		for i, path := range paths {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return len(paths) - i
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return len(paths) - i
			}
			var s stepped
			if resp.StatusCode == http.StatusOK {
				if err := json.Unmarshal(body, &s); err != nil {
					t.Errorf("GET %s: %.80s: %v", path, body, err)
				}
			}
			answered(path, resp.StatusCode, s)
		}
	}
}

// current returns where a server's index is.
func (p *ports) current() stepped {
	p.t.Helper()
	status, body := p.get("/current")
	var s stepped
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		p.t.Fatalf("GET /current: %d %.80s", status, body)
	}
	return s
}

// TestKillLosesNoAcknowledgedStep kills the server again and again, with -9 and in the middle of answers.
// No index that a client was given by /next may come again, none may be lost, and the index may be ahead of
// what was received by what was in flight at the kill, no more.
func TestKillLosesNoAcknowledgedStep(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	const clients, batch = 8, 8
	rounds := 20
	if os.Getenv(soakEnv) != "" {
		rounds = 500
	}
	file := filepath.Join(t.TempDir(), "f")
	given := make(map[uint64]int) // indices, and the round they came in
	var highest uint64
	inFlight := uint64(0)
	for round := 1; round <= rounds && !t.Failed(); round++ {
		p := startCommand(t, []string{"sequence", "--port", "0", "--file", file, "--seconds", "0.02",
			fmt.Sprintf("--net-http=%t", round%5 == 4)})
		if round == rounds/2 { // from here on with values of 10 KB
			if status, body := ask(t, "PUT", "http://"+p.admin+"/current", `{"index":50000}`); status != 200 {
				t.Fatal(status, body)
			}
			highest, inFlight = 50_000, 0
		}
		if at := p.current().Index; at < highest || at > highest+inFlight {
			t.Fatalf("round %d: the index is %d after %d was given and %d were in flight", round, at, highest,
				inFlight)
		}
		inFlight = 0
		var mu sync.Mutex
		var answers atomic.Int64
		killAt := int64(1 + rand.IntN(1500))
		var killed sync.Once
		var load sync.WaitGroup
		for range clients {
			load.Go(func() {
				open := steps(t, p.public, batch, func() string { return "/next" },
					func(_ string, status int, s stepped) {
						if status != 200 || len(s.Value) != decimal.Digits(s.Index) {
							t.Errorf("round %d: %d %d with %d digits", round, status, s.Index, len(s.Value))
						}
						mu.Lock()
						if was, ok := given[s.Index]; ok {
							t.Errorf("index %d was given in round %d and again in round %d", s.Index, was,
								round)
						}
						given[s.Index] = round
						highest = max(highest, s.Index)
						mu.Unlock()
						if answers.Add(1) >= killAt {
							killed.Do(func() { p.cmd.Process.Kill() }) //nolint:errcheck // it lives
						}
					})
				mu.Lock()
				inFlight += uint64(open)
				mu.Unlock()
			})
		}
		load.Wait()
		p.kill()
		client.CloseIdleConnections()
	}
	t.Logf("%d indices in %d rounds, the last one %d", len(given), rounds, highest)
}

// A single client that goes both ways finds the index where it left it, or where its last request would
// have moved it.
func TestKillLeavesTheIndexWhereItsClientHasIt(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	const rounds = 12
	file := filepath.Join(t.TempDir(), "f")
	at, last := uint64(0), ""
	for round := 1; round <= rounds && !t.Failed(); round++ {
		p := startCommand(t, []string{"sequence", "--port", "0", "--file", file})
		moved := at
		switch {
		case last == "/next":
			moved++
		case last == "/previous" && at > 0:
			moved--
		}
		found := p.current().Index
		if found != at && found != moved {
			t.Fatalf("round %d: the index is %d; it was at %d, and %q in flight", round, found, at, last)
		}
		at = found
		left := 1 + rand.IntN(400)
		steps(t, p.public, 1, func() string {
			last = []string{"/next", "/next", "/previous"}[rand.IntN(3)]
			return last
		}, func(path string, status int, s stepped) {
			want := at
			switch {
			case path == "/next":
				want++
			case at > 0:
				want--
			}
			if status != 200 || s.Index != want {
				t.Errorf("round %d: GET %s at %d: %d, index %d", round, path, at, status, s.Index)
			}
			at = s.Index
			if left--; left == 0 {
				go p.cmd.Process.Kill() //nolint:errcheck // it lives
			}
		})
		p.kill()
		client.CloseIdleConnections()
	}
}

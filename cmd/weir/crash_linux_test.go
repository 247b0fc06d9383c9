package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"weir/internal/systest"
)

// soakEnv asks for the long variant of the crash test.
const soakEnv = "WEIR_SOAK"

// TestKillLosesNoAcknowledgedPosition kills the server again and again, with -9 and in the middle of
// answers, and starts it anew, with other lists every now and then. No item that a client has
// received may come again, no position may go back, and a position may be ahead of what was received
// by what was in flight at the kills, no more.
func TestKillLosesNoAcknowledgedPosition(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	// Users are found by their number, or by way of the key file.
	t.Run("dense", func(t *testing.T) { killAndRestart(t, 1) })
	t.Run("keyed", func(t *testing.T) { killAndRestart(t, 1<<40) })
}

// killAndRestart is the test for users whose numbers are step apart.
func killAndRestart(t *testing.T, step uint64) {
	const users, perList, clients, largest = 200, 1000, 8, 12
	rounds := 24
	if os.Getenv(soakEnv) != "" {
		rounds = 1000
	}
	t.Logf("%d kills; %s=1 makes it 1000", rounds, soakEnv)
	write := func(version int, feeds string) lists {
		l := versions(version, users, perList)
		apart := make(lists)
		for u, items := range l {
			apart[u*step] = items
		}
		apart.write(t, feeds)
		return l
	}

	dir := t.TempDir()
	feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
	version := 0
	current := write(version, feeds)

	var mu sync.Mutex
	received := make(map[uint64]int) // items, and the round they came in
	reached := make(map[uint64]int)  // by a list's first item, the position that was received
	var answers atomic.Int64
	ended := int64(0)
	for round := 1; round <= rounds && !t.Failed(); round++ {
		lane := fmt.Sprintf("--net-http=%t", round%6 == 5)
		p := start(t, lane, "--feeds", feeds, "--data", data, "--feeds-watch", "-1s",
			"--sync-interval", "20ms")

		before := make([]int, users)
		for u := range before {
			before[u] = p.position(uint64(u) * step)
			mu.Lock()
			if was := reached[current[uint64(u)][0]]; before[u] < was {
				t.Errorf("round %d: user %d is at %d and was at %d", round, u, before[u], was)
			}
			mu.Unlock()
		}

		// At any moment: after so many answers, and while lists are swapped in every third round.
		killAt := answers.Load() + int64(1+rand.IntN(1500))
		var killed sync.Once
		kill := func() { killed.Do(func() { p.cmd.Process.Kill() }) } //nolint:errcheck // it lives
		var load sync.WaitGroup
		for range clients {
			load.Go(func() {
				pipeline(p.public, users, step, largest, func(user uint64, status int, body string) {
					mu.Lock()
					defer mu.Unlock()
					switch status {
					case 200:
						for _, item := range items(t, body) {
							if was, ok := received[item]; ok {
								t.Errorf("item %d came in round %d and again in round %d", item, was, round)
							}
							received[item] = round
							first := (item-1)/perList*perList + 1
							reached[first] = max(reached[first], int(item-first)+1)
						}
					case 500: // no items are left
						ended++
					default:
						t.Errorf("round %d: user %d: %d %s", round, user, status, body)
					}
					if answers.Add(1) >= killAt {
						kill()
					}
				})
			})
		}
		if round%3 == 0 {
			half := answers.Load() + (killAt-answers.Load())/2
			systest.Eventually(t, "answers", func() bool { return answers.Load() >= half })
			version++
			current = write(version, feeds)
			p.cmd.Process.Signal(syscall.SIGHUP) //nolint:errcheck // it may be dead already
		}
		load.Wait()
		kill()
		p.kill()
		client.CloseIdleConnections()
		if round%5 == 0 { // a restart with other lists
			version++
			current = write(version, feeds)
		}
	}

	p := start(t, "--feeds", feeds, "--data", data)
	ahead, got := 0, 0
	for u := range uint64(users) {
		pos := p.position(u * step)
		count := 0
		for _, item := range current[u] {
			if _, ok := received[item]; ok {
				count++
			}
		}
		if pos < count {
			t.Errorf("user %d is at %d after %d items", u, pos, count)
		}
		ahead += pos - count
		got += count
	}
	if most := rounds * clients * batch * largest; ahead > most {
		t.Errorf("positions are %d items ahead of what came, at most %d were in flight", ahead, most)
	}
	if got == 0 || ended == answers.Load() {
		t.Errorf("only %d items of the present lists came", got)
	}
	stop(t, p)
	t.Logf("%d answers with %d items, %d swaps, %d kills; positions are %d items ahead", answers.Load(),
		len(received), version, rounds, ahead)
}

// batch is how many requests a client of pipeline sends at once, at most.
const batch = 16

// pipeline sends requests of random users, whose numbers are step apart, and of random sizes over one
// connection, several at once, and passes on every answer that came whole, until the connection ends.
func pipeline(addr string, users, step uint64, largest int,
	answered func(user uint64, status int, body string)) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		asked := make([]uint64, 1+rand.IntN(batch))
		var requests []byte
		for i := range asked {
			asked[i] = rand.Uint64N(users) * step
			requests = fmt.Appendf(requests,
				"POST /feed/%d?size=%d HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n", asked[i],
				1+rand.IntN(largest))
		}
		if _, err := conn.Write(requests); err != nil {
			return
		}
		for _, user := range asked {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return // it was cut off
			}
			answered(user, resp.StatusCode, string(body))
		}
	}
}

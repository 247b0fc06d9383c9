package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// soakEnv asks for the long variant of the crash test.
const soakEnv = "WEIR_SOAK"

// TestKillLosesNoAcknowledgedPosition kills the server again and again, with -9 and in the middle of
// answers, and starts it anew, with other lists every now and then. No item that a client has
// received may come again, no position may go back, and a position may be ahead of what was received
// by what was in flight at the kills, no more.
func TestKillLosesNoAcknowledgedPosition(t *testing.T) {
	const users, perList, clients, largest = 200, 300, 8, 12
	rounds := 24
	if os.Getenv(soakEnv) != "" {
		rounds = 1000
	}
	t.Logf("%d kills; %s=1 makes it 1000", rounds, soakEnv)

	dir := t.TempDir()
	feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
	version := 0
	current := versions(version, users, perList)
	current.write(t, feeds)

	var mu sync.Mutex
	received := make(map[uint64]int) // items, and the round they came in
	reached := make(map[uint64]int)  // by a list's first item, the position that was received
	var answers, ended atomic.Int64
	for round := 1; round <= rounds && !t.Failed(); round++ {
		lane := fmt.Sprintf("--net-http=%t", round%6 == 5)
		p := start(t, lane, "--feeds", feeds, "--data", data, "--feeds-watch", "-1s", "--sync-interval", "20ms")

		before := make([]int, users)
		for u := range before {
			before[u] = p.position(uint64(u))
			mu.Lock()
			if was := reached[current[uint64(u)][0]]; before[u] < was {
				t.Errorf("round %d: user %d is at %d and was at %d", round, u, before[u], was)
			}
			mu.Unlock()
		}

		// Any moment: after so many answers, and while lists are swapped in every third round.
		killAt := answers.Load() + int64(1+rand.IntN(1500))
		var killed sync.Once
		kill := func() { killed.Do(func() { p.cmd.Process.Kill() }) } //nolint:errcheck // it lives
		var load sync.WaitGroup
		for range clients {
			load.Go(func() {
				f := newFeeder()
				defer f.close()
				for {
					user, size := rand.Uint64N(users), 1+rand.IntN(largest)
					status, body, err := f.next(p.public, user, size)
					if err != nil {
						return // killed
					}
					if status == 500 {
						ended.Add(1) // no items are left
						if answers.Add(1) >= killAt {
							kill()
						}
						continue
					}
					if status != 200 {
						t.Errorf("round %d: %d %s", round, status, body)
						kill()
						return
					}
					got := items(t, body)
					mu.Lock()
					for _, item := range got {
						if was, ok := received[item]; ok {
							t.Errorf("item %d came in round %d and again in round %d", item, was, round)
						}
						received[item] = round
						first := (item-1)/perList*perList + 1
						reached[first] = max(reached[first], int(item-first)+1)
					}
					mu.Unlock()
					if answers.Add(1) >= killAt {
						kill()
					}
				}
			})
		}
		if round%3 == 0 {
			half := answers.Load() + (killAt-answers.Load())/2
			eventually(t, "answers", func() bool { return answers.Load() >= half })
			version++
			current = versions(version, users, perList)
			current.write(t, feeds)
			p.cmd.Process.Signal(syscall.SIGHUP) //nolint:errcheck // it may be dead already
		}
		load.Wait()
		kill()
		p.kill()
		client.CloseIdleConnections()
		if round%5 == 0 { // a restart with other lists
			version++
			current = versions(version, users, perList)
			current.write(t, feeds)
		}
	}

	p := start(t, "--feeds", feeds, "--data", data)
	ahead, got := 0, 0
	for u := range uint64(users) {
		pos := p.position(u)
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
	if most := rounds * clients * largest; ahead > most {
		t.Errorf("positions are %d items ahead of what came, at most %d were in flight", ahead, most)
	}
	if got == 0 || ended.Load() == answers.Load() {
		t.Errorf("only %d items of the present lists came", got)
	}
	stop(t, p)
	t.Logf("%d answers with %d items, %d swaps, %d kills; positions are %d items ahead", answers.Load(), len(received), version, rounds, ahead)
}

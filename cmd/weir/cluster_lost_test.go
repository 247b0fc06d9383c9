package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// ledger is what users were given, and must not be given again.
type ledger [10][]uint64

// feed asks a node for items of a user.
func (l *ledger) feed(t *testing.T, p *ports, user int) *answerOfAPI {
	t.Helper()
	return callAPI(t, "GET", fmt.Sprintf("http://%s/feed/%d?size=3", p.public, user), "", 0)
}

// take notes items of a user; false if there are none now.
func (l *ledger) take(t *testing.T, p *ports, user int) bool {
	t.Helper()
	a := l.feed(t, p, user)
	if a.StatusCode != http.StatusOK || a.Header.Get("Weir-Degraded") != "" {
		return false
	}
	for _, item := range items(t, string(a.body)) {
		if slices.Contains(l[user], item) {
			t.Errorf("user %d is given %d twice", user, item)
		}
		l[user] = append(l[user], item)
	}
	return true
}

func TestANodeGoesOnWithoutItsEngine(t *testing.T) {
	t.Parallel()
	// All of the engine ends at once, so its files must have what was answered.
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true,
		Config: "--appendfsync always"})
	p, falls := twoNodes(t, c, []string{"--cluster-lost", "serve-fallback"})
	var given ledger
	for user := range given {
		if !given.take(t, p, user) || !given.take(t, falls, user) {
			t.Fatalf("user %d is given nothing", user)
		}
	}
	next := func() (index, status int) {
		t.Helper()
		status, text := ask(t, "GET", "http://"+p.public+"/next", "")
		var answer struct{ Index int }
		if err := json.Unmarshal([]byte(text), &answer); status == 200 && err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return answer.Index, status
	}
	learn := func(id string) int {
		status, _ := ask(t, "POST", "http://"+p.public+"/events", `{"item":"a","reward":1,"id":"`+id+`"}`)
		return status
	}
	before, status := next()
	if learned := learn("before"); status != 200 || learned != 200 {
		t.Fatalf("with the engine: %d, %d", status, learned)
	}
	for _, n := range c.Nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "the engine is known to be lost", func() bool {
		status, text := ask(t, "GET", "http://"+p.public+"/health", "")
		return status == http.StatusOK && strings.Contains(text, `"cluster":{"status":"degraded"`)
	})
	status, text := ask(t, "POST", "http://"+p.public+"/predict", `{"user":"u","items":["a","b"]}`)
	if status != 200 {
		t.Errorf("a prediction without the engine: %d %s", status, text)
	}
	if _, status := next(); status != 503 {
		t.Errorf("the sequence without the engine: %d", status)
	}
	if status := learn("lost"); status != 503 {
		t.Errorf("an event without the engine: %d", status)
	}
	for user := range given {
		if a := given.feed(t, p, user); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("user %d without the engine: %s, %v, %s", user, a.Status, a.Header, a.body)
		}
		a := given.feed(t, falls, user)
		if a.StatusCode != 200 || a.Header.Get("Weir-Degraded") == "" {
			t.Errorf("user %d: %s, %v, %s; want fallback items that are marked", user, a.Status, a.Header,
				a.body)
			continue
		}
		for _, item := range items(t, string(a.body)) {
			if item != 9001 && item != 9002 {
				t.Errorf("user %d is given %d of the list, though nobody knows the position", user, item)
			}
		}
	}
	_, text = falls.get("/feed/1?size=1&meta=1")
	wantSays(t, "with meta=1", text, `"degraded":true`)
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "the engine is back, and all that needs it", func() bool {
		_, text := ask(t, "GET", "http://"+p.public+"/health", "")
		_, status := next()
		return strings.Contains(text, `"cluster":{"status":"ready"`) && status == 200 && learn("back") == 200
	})
	if after, _ := next(); after <= before {
		t.Errorf("index %d after %d", after, before)
	}
	for user := range given {
		for _, node := range []*ports{p, falls} {
			systest.Eventually(t, "feeds are back", func() bool { return given.take(t, node, user) })
		}
		// To the end of the list, where fallback items begin.
		for !slices.Contains(given[user], 9001) && given.take(t, p, user) {
		}
		if n := len(given[user]); n < 200 {
			t.Errorf("user %d was given %d items of 400", user, n)
		}
	}
}

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
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/systest"
)

// sums is what events add to the posterior of an item: rewards to alpha, what is missing from 1 to beta.
// Rewards are quarters, so that every sum is exact.
type sums struct{ alpha, beta float64 }

// sumsByKind is what events add to the posteriors of items.
type sumsByKind [8]sums

func (t *sumsByKind) add(o *sumsByKind) {
	for i := range t {
		t[i].alpha += o[i].alpha
		t[i].beta += o[i].beta
	}
}

// feedback is a request of several events. Each of them comes twice, for an item and for its twin, which
// must always know the same: a request counts as a whole or not at all.
type feedback struct {
	body   string
	events int
	counts sumsByKind
	sent   int // how often
	acked  bool
}

// newFeedback makes a request for the items of a kind. With an id every event has one of its own, which
// begins with it.
func newFeedback(kind, id string) *feedback {
	f := new(feedback)
	var events []string
	for n := range 1 + rand.IntN(8) {
		item, reward := rand.IntN(len(f.counts)), float64(rand.IntN(5))/4
		f.counts[item].alpha += reward
		f.counts[item].beta += 1 - reward
		for _, twin := range []string{"", "'"} {
			event := fmt.Sprintf(`{"user":"u%d","item":"%s%d%s","reward":%g`, rand.IntN(50), kind, item,
				twin, reward)
			if id != "" {
				event += fmt.Sprintf(`,"id":"%s.%d%s"`, id, n, twin)
			}
			events = append(events, event+"}")
		}
	}
	f.events = len(events)
	if rand.IntN(2) == 0 {
		f.body = strings.Join(events, "\n")
	} else {
		f.body = "[" + strings.Join(events, ",") + "]"
	}
	return f
}

// tell sends batches of the requests that next returns over one connection, several at once, and passes on
// every answer that came whole, until the connection ends or next returns nil. It returns those that were
// sent, or may have been, and not answered.
func tell(addr string, batch int, next func() *feedback,
	answered func(f *feedback, status int, body string)) (open []*feedback) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		var asked []*feedback
		var requests []byte
		for range 1 + rand.IntN(batch) {
			f := next()
			if f == nil {
				break
			}
			asked = append(asked, f)
			requests = fmt.Appendf(requests, "POST /events HTTP/1.1\r\nHost: weir\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n%s", len(f.body), f.body)
		}
		if len(asked) == 0 {
			return nil
		}
		if _, err := conn.Write(requests); err != nil {
			return asked
		}
		for i, f := range asked {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return asked[i:]
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return asked[i:]
			}
			answered(f, resp.StatusCode, string(body))
		}
	}
}

// learned returns what events have added to the posteriors of the items of a kind.
func (p *ports) learned(kind string) (t sumsByKind) {
	p.t.Helper()
	var items []string
	for i := range t {
		items = append(items, fmt.Sprintf("%q,%q", fmt.Sprint(kind, i), fmt.Sprint(kind, i, "'")))
	}
	status, body := ask(p.t, "POST", "http://"+p.public+"/predict", `{"items":[`+strings.Join(items, ",")+
		`],"explain":true}`)
	var answer struct {
		Explain []struct{ Alpha, Beta float64 }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK ||
		len(answer.Explain) != 2*len(t) {
		p.t.Fatalf("POST /predict: %d %.300s", status, body)
	}
	for i := range t {
		one, twin := answer.Explain[2*i], answer.Explain[2*i+1]
		if one != twin {
			p.t.Errorf("item %s%d is at %v and its twin at %v: a request was torn", kind, i, one, twin)
		}
		t[i] = sums{one.Alpha - 1, one.Beta - 1} // above the prior
	}
	return t
}

// between checks that an item has learned at least what was acknowledged, and no more than that and what
// was in flight.
func between(t *testing.T, round int, kind string, got, acked, open *sumsByKind) {
	t.Helper()
	for i := range got {
		g, a, o := got[i], acked[i], open[i]
		if g.alpha < a.alpha || g.beta < a.beta || g.alpha > a.alpha+o.alpha || g.beta > a.beta+o.beta {
			t.Errorf("round %d: item %s%d has learned %v; %v was acknowledged, and %v was in flight", round,
				kind, i, g, a, o)
		}
	}
}

// TestKillLosesNoAcknowledgedEvent kills the server again and again, with -9 and while events come in over
// several connections. An event that was acknowledged counts exactly once, one in flight at most once. Half
// of the clients give their events ids and send what was not answered again after the restart: those count
// exactly once in the end.
func TestKillLosesNoAcknowledgedEvent(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	const clients, batch = 8, 6
	rounds := 24
	if os.Getenv(soakEnv) != "" {
		rounds = 1000
	}
	t.Logf("%d kills; %s=1 makes it 1000", rounds, soakEnv)
	dir := t.TempDir()
	serve := func(round int) *process {
		return start(t, "--data", dir, "--sequence=false", "--bandit-sync", "10ms", "--bandit-checkpoint",
			"1MiB", fmt.Sprintf("--net-http=%t", round%6 == 5))
	}

	var mu sync.Mutex // of what follows
	var plain, plainOpen, known, knownOpen sumsByKind
	var pending [clients][]*feedback // with ids, not answered yet
	var old []*feedback              // with ids, answered
	var events, number int
	again, counted := 0, 0 // requests that were sent again, and those of them that had counted the first time

	// send notes that a request is sent.
	send := func(f *feedback) *feedback {
		f.sent++
		if f.sent > 1 && !f.acked {
			again++
		}
		return f
	}

	// answer takes in an answer.
	answer := func(f *feedback, withIDs bool, status int, body string) {
		var got struct{ Accepted, Duplicates int }
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Errorf("POST /events: %d %s", status, body)
			return
		}
		switch {
		case got.Accepted == f.events && got.Duplicates == 0 && !f.acked:
		case got.Accepted == 0 && got.Duplicates == f.events && withIDs && f.sent > 1:
			if !f.acked {
				counted++
			}
		default:
			t.Errorf("%d events that were sent %d times, acknowledged before: %t, were answered %s", f.events,
				f.sent, f.acked, body)
		}
		if f.acked {
			return
		}
		f.acked = true
		events += f.events
		if withIDs {
			known.add(&f.counts)
			old = append(old[max(0, len(old)-1000):], f)
		} else {
			plain.add(&f.counts)
		}
	}
	check := func(p *process, round int) {
		got := p.learned("plain")
		between(t, round, "plain", &got, &plain, &plainOpen)
		plain, plainOpen = got, sumsByKind{} // what was in flight has come or never will
		got = p.learned("known")
		between(t, round, "known", &got, &known, &knownOpen)
	}

	for round := 1; round <= rounds && !t.Failed(); round++ {
		p := serve(round)
		check(p, round)
		var answers atomic.Int64
		killAt := int64(1 + rand.IntN(3000))
		var killed sync.Once
		kill := func() { killed.Do(func() { p.cmd.Process.Kill() }) } //nolint:errcheck // it lives
		var load sync.WaitGroup
		for c := range clients {
			withIDs := c%2 == 0
			load.Go(func() {
				retry := pending[c]
				next := func() *feedback {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case !withIDs:
						return send(newFeedback("plain", ""))
					case len(retry) > 0:
						f := retry[0]
						retry = retry[1:]
						return send(f)
					case len(old) > 0 && rand.IntN(10) == 0:
						return send(old[rand.IntN(len(old))])
					}
					number++
					return send(newFeedback("known", fmt.Sprint("e", number)))
				}
				open := tell(p.public, batch, next, func(f *feedback, status int, body string) {
					mu.Lock()
					answer(f, withIDs, status, body)
					mu.Unlock()
					if answers.Add(1) >= killAt {
						kill()
					}
				})
				mu.Lock()
				defer mu.Unlock()
				pending[c] = retry // those that there was no time for
				for _, f := range open {
					switch {
					case !withIDs:
						plainOpen.add(&f.counts)
					case !f.acked:
						pending[c] = append(pending[c], f)
					}
				}
			})
		}
		load.Wait()
		kill()
		p.kill()
		client.CloseIdleConnections()
		knownOpen = sumsByKind{}
		for _, open := range pending {
			for _, f := range open {
				knownOpen.add(&f.counts)
			}
		}
	}

	p := serve(0)
	check(p, rounds+1)
	for c := range pending {
		retry := pending[c]
		open := tell(p.public, batch, func() *feedback {
			if len(retry) == 0 {
				return nil
			}
			f := retry[0]
			retry = retry[1:]
			return send(f)
		}, func(f *feedback, status int, body string) { answer(f, true, status, body) })
		if len(open) > 0 {
			t.Errorf("%d requests are not answered", len(open))
		}
	}
	if got := p.learned("known"); got != known {
		t.Errorf("events with ids have taught %v, and %v was acknowledged", got, known)
	}
	if got := p.learned("plain"); got != plain {
		t.Errorf("events without ids have taught %v after %v", got, plain)
	}
	if again == 0 || counted == again || counted == 0 && rounds > 100 { // ten in a short run, usually
		t.Errorf("of %d requests that were sent again %d had counted before: that proves nothing",
			again, counted)
	}
	if _, err := os.Stat(filepath.Join(dir, "bandit", "checkpoint")); err != nil {
		t.Errorf("no checkpoint was made between the kills: %v", err)
	}
	stop(t, p)

	// All of it once more, from what an orderly end has left.
	p = serve(0)
	if a, b := p.learned("known"), p.learned("plain"); a != known || b != plain {
		t.Errorf("after a restart %v and %v, want %v and %v", a, b, known, plain)
	}
	stop(t, p)
	t.Logf("%d events, %d kills, %d requests sent again, %d of which had counted", events,
		rounds, again, counted)
}

// TestKillBringsNothingBackThatWasForgotten kills the server between events and what is forgotten of them:
// what the next one knows is what this one knew.
func TestKillBringsNothingBackThatWasForgotten(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	dir := t.TempDir()
	serve := func() *process {
		return start(t, "--data", dir, "--sequence=false", "--bandit-learn", "segment")
	}
	p := serve()
	send := func(address, path, body, want string) {
		t.Helper()
		if status, answer := ask(t, "POST", "http://"+address+path, body); status != http.StatusOK ||
			answer != want {
			t.Fatalf("POST %s %s: %d %s, want %s", path, body, status, answer, want)
		}
	}
	const one, forget = `{"accepted":1,"duplicates":0}`, "/admin/bandit/forget"
	// knows checks of which arms predictions are, and after a kill again.
	knows := func(sources ...string) {
		t.Helper()
		for range 2 {
			for i, query := range []string{`{"items":["a"]`, `{"segment":"s","items":["a"]`,
				`{"items":["b"]`} {
				status, answer := ask(t, "POST", "http://"+p.public+"/predict", query+`,"explain":true}`)
				if status != http.StatusOK || !strings.Contains(answer, sources[i]) {
					t.Errorf("%s}: %d %s, want %s", query, status, answer, sources[i])
				}
			}
			p.kill()
			client.CloseIdleConnections()
			p = serve()
		}
	}
	const prior, item, segment = `"alpha":1,"beta":1,"mean":0.5,"source":"prior"`,
		`"alpha":2,"beta":1,"mean":0.6666666666666666,"source":"item"`, `"source":"segment"`
	send(p.public, "/events", `{"item":"a","segment":"s","reward":1}`, one)
	send(p.public, "/events", `{"item":"b","reward":1,"id":"x"}`, one)
	knows(item, segment, item)
	send(p.admin, forget, `{"item":"a","segment":"s"}`, `{"forgotten":1}`)
	knows(item, item, item)
	send(p.admin, forget, `{"item":"a"}`, `{"forgotten":1}`)
	knows(prior, prior, item)
	send(p.public, "/events", `{"item":"a","reward":1}`, one)
	knows(item, item, item)
	send(p.admin, forget, `{"all":true}`, `{"forgotten":2}`)
	knows(prior, prior, prior)
	send(p.public, "/events", `{"item":"b","reward":1,"id":"x"}`, `{"accepted":0,"duplicates":1}`)
	send(p.public, "/events", `{"item":"a","reward":1}`, one)
	knows(item, item, prior)
	stop(t, p) // with a checkpoint
	p = serve()
	knows(item, item, prior)
}

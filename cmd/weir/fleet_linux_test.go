package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// fleet is processes of weir on an engine, and clients that ask any of them, as behind a load balancer. It
// keeps the books of what they were given and told.
type fleet struct {
	t      *testing.T
	engine *clustertest.Cluster
	dir    string
	flags  []string
	at     [fleetNodes]atomic.Pointer[backend]

	stop    context.CancelFunc
	clients sync.WaitGroup

	answers, refused, ended, unanswered atomic.Int64
	told                                atomic.Int64 // batches of events

	mu      sync.Mutex // of the books
	version int        // of the lists that were published last
	given   map[uint64]*[givenPage / 64]uint64
	newest  [fleetUsers]int // version of the newest list that each was given of
	indices map[int]bool
	taught  [fleetArms]int
	sums    fleetSums
}

const (
	fleetNodes = 3
	fleetUsers = 400
	fleetList  = 5000 // items
	fleetArms  = 64
	fleetBatch = 10      // events
	givenPage  = 1 << 16 // items
)

// fleetSums is what was given and must not have been.
type fleetSums struct {
	items, twice     int
	old              int // of older lists than were given before
	skipped, counted int // items, and those of them that nodes know of
	steps, again     int // of the index
	events           int
	lost, twiceEvent int // of the node that is farthest off
}

// backend is a node that is asked as long as it is not leaving.
type backend struct {
	*process
	data    string // name of its data directory
	leaving atomic.Bool
	refused atomic.Int64
}

// newFleet starts an engine, nodes and clients. They end with the test.
func newFleet(t *testing.T, o clustertest.Options, flags ...string) *fleet {
	t.Helper()
	o.Replicas, o.Own = 1, true
	f := &fleet{t: t, engine: clustertest.Start(t, o), dir: t.TempDir(),
		given: make(map[uint64]*[givenPage / 64]uint64), indices: make(map[int]bool)}
	f.flags = append(append(engineFlags(f.engine), "--feeds", f.write(0)), flags...)
	for i := range f.at {
		f.at[i].Store(f.open(fmt.Sprint("node", i)))
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(t.Context())
	for _, c := range []struct {
		clients int
		pace    time.Duration // of each, so that machines that are busy otherwise keep up
		ask     func(context.Context)
	}{{6, time.Millisecond, f.feed}, {2, 20 * time.Millisecond, f.teach},
		{2, 20 * time.Millisecond, f.step}} {
		for range c.clients {
			f.clients.Go(func() {
				for ; ctx.Err() == nil && !t.Failed(); time.Sleep(c.pace) {
					c.ask(ctx)
				}
			})
		}
	}
	f.more()
	return f
}

// versionOf is the version in which a user got the list that is theirs in a version: half of the users have
// another with each.
func versionOf(user, version int) int {
	if user%2 == 0 {
		return version - version%8
	}
	return version
}

// write writes a version of the lists, in which no item is of two, and returns its path.
func (f *fleet) write(version int) string {
	f.t.Helper()
	l := make(lists, fleetUsers)
	for user := range fleetUsers {
		first := (versionOf(user, version)*fleetUsers+user)*fleetList + 1
		all := make([]uint64, fleetList)
		for i := range all {
			all[i] = uint64(first + i)
		}
		l[uint64(user)] = all
	}
	l.write(f.t, f.path(version))
	return f.path(version)
}

func (f *fleet) path(version int) string {
	return filepath.Join(f.dir, fmt.Sprintf("feeds%d.weir", version))
}

// open starts a node on a data directory of the fleet.
func (f *fleet) open(data string) *backend {
	f.t.Helper()
	return &backend{data: data, process: start(f.t, append(f.flags, "--data", filepath.Join(f.dir, data))...)}
}

// ask asks one of the nodes; 0 is no answer of one that is leaving.
func (f *fleet) ask(method, path, body string) (int, string) {
	node := f.at[rand.IntN(fleetNodes)].Load()
	for node.leaving.Load() {
		node = f.at[rand.IntN(fleetNodes)].Load()
	}
	r, err := http.NewRequest(method, "http://"+node.public+path, strings.NewReader(body))
	if err != nil {
		f.t.Error(err)
		return 0, ""
	}
	resp, err := client.Do(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		resp.Body.Close() //nolint:errcheck // was read to its end
	}
	if err != nil {
		if !node.leaving.Load() {
			f.t.Errorf("no answer: %v", err)
		}
		f.unanswered.Add(1)
		return 0, ""
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		f.refused.Add(1)
		node.refused.Add(1)
		if resp.Header.Get("Retry-After") == "" {
			f.t.Errorf("503 without Retry-After: %s", text)
		}
		time.Sleep(5 * time.Millisecond) // far less than asked for
	case http.StatusInternalServerError: // no items are left
		if f.ended.Add(1); !strings.HasPrefix(path, "/feed/") {
			f.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	default:
		f.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	return resp.StatusCode, string(text)
}

// feed asks for items of a user.
func (f *fleet) feed(context.Context) {
	user := rand.IntN(fleetUsers)
	f.mu.Lock()
	newest := f.newest[user]
	f.mu.Unlock()
	status, body := f.ask("POST", fmt.Sprintf("/feed/%d?size=%d", user, 1+rand.IntN(5)), "")
	if status != http.StatusOK {
		return
	}
	f.answers.Add(1)
	var items []uint64
	if err := json.Unmarshal([]byte(body), &items); err != nil {
		f.t.Errorf("%s: %v", body, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, item := range items {
		list := int(item-1) / fleetList
		if list%fleetUsers != user {
			f.t.Errorf("user %d is given %d of user %d", user, item, list%fleetUsers)
		}
		if list/fleetUsers < newest {
			f.sums.old++
		}
		f.newest[user] = max(f.newest[user], list/fleetUsers)
		if f.sums.items++; f.mark(item) {
			f.sums.twice++
		}
	}
}

// mark notes that an item was given, and says whether it had been. The books are locked.
func (f *fleet) mark(item uint64) (again bool) {
	page := f.given[item/givenPage]
	if page == nil {
		page = new([givenPage / 64]uint64)
		f.given[item/givenPage] = page
	}
	word, bit := &page[item%givenPage/64], uint64(1)<<(item%64)
	again = *word&bit != 0
	*word |= bit
	return again
}

// has says whether an item was given.
func (f *fleet) has(item uint64) bool {
	page := f.given[item/givenPage]
	return page != nil && page[item%givenPage/64]&(1<<(item%64)) != 0
}

// teach tells of a batch of events, with the same ids until some node has accepted it.
func (f *fleet) teach(ctx context.Context) {
	n := f.told.Add(1)
	arm := int(n % fleetArms)
	var events []string
	for i := range fleetBatch {
		events = append(events, fmt.Sprintf(`{"item":"a%d","reward":1,"id":"e%d-%d"}`, arm, n, i))
	}
	body := "[" + strings.Join(events, ",") + "]"
	for !f.t.Failed() {
		if status, _ := f.ask("POST", "/events", body); status == http.StatusOK {
			f.mu.Lock()
			f.taught[arm] += fleetBatch
			f.sums.events += fleetBatch
			f.mu.Unlock()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// step takes the next index.
func (f *fleet) step(context.Context) {
	status, body := f.ask("GET", "/next", "")
	if status != http.StatusOK {
		return
	}
	var answer struct{ Index int }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		f.t.Errorf("%.80s: %v", body, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sums.steps++; f.indices[answer.Index] {
		f.sums.again++
	}
	f.indices[answer.Index] = true
}

// more waits for feeds.
func (f *fleet) more() {
	f.t.Helper()
	goal := f.answers.Load() + 200
	systest.Eventually(f.t, "feeds", func() bool { return f.answers.Load() > goal || f.t.Failed() })
}

// killNode kills a node, and starts it again on what it has left, after meanwhile.
func (f *fleet) killNode(i int, meanwhile func()) {
	f.t.Helper()
	victim := f.at[i].Load()
	f.count(victim)
	victim.leaving.Store(true)
	victim.kill()
	meanwhile()
	f.at[i].Store(f.open(victim.data))
}

// publish has weir publish publish the next version, as often as it takes, and says how often that was. What
// it does is under way when meanwhile is called. Whatever the outcome of each is, all nodes serve the same.
func (f *fleet) publish(meanwhile func()) (runs int) {
	f.t.Helper()
	f.mu.Lock()
	f.version++
	version := f.version
	f.mu.Unlock()
	os.Remove(f.path(version - 2)) //nolint:errcheck // nodes have copies
	args := append([]string{"publish", f.write(version), "--timeout", "20s"}, f.flags[:2]...)
	before := f.serving()
	for runs = 1; ; runs++ {
		cmd := exec.Command("weir", args...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := systest.Start(cmd); err != nil {
			f.t.Fatal(err)
		}
		if runs == 1 {
			meanwhile()
		}
		err := cmd.Wait()
		now := f.serving()
		switch {
		case err == nil && now == before:
			f.t.Fatalf("publication %s serves still, and weir publish said: %s", now, &said)
		case err == nil:
			return runs
		case runs == 10:
			f.t.Fatalf("weir publish: %v: %s", err, &said)
		case now != before && strings.Contains(said.String(), "serve already"):
			return runs // the run before was cut off behind its last step
		}
	}
}

// serving waits until all nodes serve what the record of publications says, and returns its number.
func (f *fleet) serving() (number string) {
	f.t.Helper()
	systest.Eventually(f.t, "all nodes serve the same", func() bool {
		text, err := weirSays(f.t, "publish", append([]string{"--status", "--json"}, f.flags[:2]...)...)
		var found struct {
			Serving struct{ Number string }
			Nodes   []struct{ Address, Serves string }
		}
		if err != nil || json.Unmarshal([]byte(text), &found) != nil {
			return false // there is a failover
		}
		number = found.Serving.Number
		same := 0
		for _, n := range found.Nodes {
			for i := range f.at {
				if n.Address == f.at[i].Load().public && n.Serves == number {
					same++
				}
			}
		}
		return same == fleetNodes
	})
	return number
}

// replace starts a node on an empty disk in the place of one that is ended in order.
func (f *fleet) replace(i int, data string) {
	f.t.Helper()
	old := f.at[i].Swap(f.open(data))
	f.count(old)
	old.leaving.Store(true)
	if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Error(err)
	}
	old.wait(0)
}

// count adds what a node that is about to end counts.
func (f *fleet) count(b *backend) {
	f.t.Helper()
	skipped, _ := b.metric("weir_cluster_skipped_items_total")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sums.counted += int(skipped)
}

// rest ends the load.
func (f *fleet) rest() {
	f.t.Helper()
	f.stop()
	f.clients.Wait()
	client.CloseIdleConnections()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// settle ends the load and balances the books.
func (f *fleet) settle() fleetSums {
	f.t.Helper()
	f.rest()
	node, s := f.at[0].Load(), &f.sums
	for user := range fleetUsers {
		at := 0
		systest.Eventually(f.t, "a position", func() bool {
			status, text := node.get(fmt.Sprintf("/feed/%d/position", user))
			var answer struct{ Position int }
			err := json.Unmarshal([]byte(text), &answer)
			at = answer.Position
			return status == http.StatusOK && err == nil
		})
		first := (versionOf(user, f.version)*fleetUsers+user)*fleetList + 1
		for i := range fleetList {
			switch has := f.has(uint64(first + i)); {
			case has && i >= at:
				s.twice++ // it would be
			case !has && i < at:
				s.skipped++
			}
		}
	}
	for i := range f.at {
		b := f.at[i].Load()
		f.count(b)
		_, text := ask(f.t, "GET", "http://"+b.admin+"/metrics", "")
		refused := 0
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "weir_http_requests_total{"); ok &&
				strings.Contains(rest, `code="503"`) {
				n := 0
				fmt.Sscan(rest[strings.LastIndexByte(rest, ' '):], &n) //nolint:errcheck // 0 is too few
				refused += n
			}
		}
		if seen := b.refused.Load(); int64(refused) < seen {
			f.t.Errorf("a node counts %d requests that it refused, and %d were", refused, seen)
		}
	}
	if s.skipped > s.counted+5*int(f.unanswered.Load()) {
		f.t.Errorf("%d items were skipped; %d were counted, and %d requests not answered", s.skipped,
			s.counted, f.unanswered.Load())
	}
	late := f.open("late") // knows nothing but what the engine has
	f.at[0].Swap(late).kill()
	for i := range f.at {
		lost, twice := f.learned(f.at[i].Load())
		s.lost, s.twiceEvent = max(s.lost, lost), max(s.twiceEvent, twice)
	}
	return *s
}

// learned waits for what a node has yet to learn, and returns how many events it lacks and has too many.
func (f *fleet) learned(b *backend) (lost, twice int) {
	var items []string
	for i := range fleetArms {
		items = append(items, fmt.Sprintf(`"a%d"`, i))
	}
	question := `{"items":[` + strings.Join(items, ",") + `],"explain":true}`
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var answer struct{ Explain []struct{ Alpha float64 } }
		status, body := ask(f.t, "POST", "http://"+b.public+"/predict", question)
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK ||
			len(answer.Explain) != fleetArms {
			f.t.Fatalf("POST /predict: %d %.300s", status, body)
		}
		lost, twice = 0, 0
		for i, posterior := range answer.Explain {
			off := int(posterior.Alpha+0.5) - 1 - f.taught[i]
			lost, twice = lost+max(0, -off), twice+max(0, off)
		}
		if lost == 0 || time.Now().After(end) {
			return lost, twice
		}
	}
}

// wantNone fails if anything was given or counted that must not be.
func (f *fleet) wantNone(s fleetSums) {
	f.t.Helper()
	f.t.Logf("%v: %d answers, %d refused by 503, %d of nodes that left missing, %d at the end of their "+
		"list; %+v", cmp.Or(f.engine.Options.Server, clustertest.Redis), f.answers.Load(), f.refused.Load(),
		f.unanswered.Load(), f.ended.Load(), s)
	if s.twice+s.old+s.again+s.lost+s.twiceEvent > 0 {
		f.t.Errorf("something came twice, was lost, or was of older lists")
	}
	if f.ended.Load() > f.answers.Load() || s.steps == 0 || s.events == 0 {
		f.t.Errorf("void: most users had no items left, or nothing else was asked for")
	}
}

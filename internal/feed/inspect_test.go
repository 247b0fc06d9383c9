package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/progress"
	"weir/internal/progress/positionstest"
	"weir/internal/server"
	"weir/internal/systest"
)

// fromAdmin sends a request to the admin port that is to be answered with JSON that into has all members of.
func (s *served) fromAdmin(method, path string, into any) {
	s.t.Helper()
	status, body := s.ask(method, path)
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); status != http.StatusOK || err != nil {
		s.t.Fatalf("%s %s: %d %s: %v", method, path, status, body, err)
	}
}

func TestALookAtAUserSaysWhatTheNextRequestGives(t *testing.T) {
	for name, change := range map[string][]func(*Config){"local": nil, "elsewhere": {elsewhere}} {
		t.Run(name, func(t *testing.T) {
			eachShape(t, func(t *testing.T, as shape, names bool) {
				dir := t.TempDir()
				l := numbered(3, 30)
				l.write(t, filepath.Join(dir, "feeds.weir"), as, names, 91, 92, 1, 93)
				s := serveFeed(t, dir, server.Config{}, change...)
				for _, size := range []int{1, 7, 10, 9, 4, 5} {
					var before, after seen
					path := fmt.Sprintf("/admin/feeds/users/1?size=%d", size)
					s.fromAdmin("GET", path, &before)
					m, items := s.meta("GET", fmt.Sprintf("/feed/1?meta=1&size=%d", size))
					own := items[:len(items)-m.Fallback]
					want := seen{User: "1", Known: true, List: m.List, Length: 30,
						Position: m.Position - len(own), Remaining: m.Remaining + len(own),
						From: before.From, Items: before.Items,
						Next: append([]string{}, texts(own)...), Fallback: m.Fallback, Drawn: "random"}
					if fmt.Sprint(before) != fmt.Sprint(want) {
						t.Errorf("seen are %+v, want %+v", before, want)
					}
					if got := append([]string{}, texts(l[1])...)[before.From:]; !slices.Equal(before.Items, got) {
						t.Errorf("items from %d on are %v, want %v", before.From, before.Items, got)
					}
					s.fromAdmin("GET", path, &after)
					if after.Position != m.Position || after.Remaining != m.Remaining {
						t.Errorf("after a request: %+v, want position %d", after, m.Position)
					}
				}
				var part, unknown seen
				s.fromAdmin("GET", "/admin/feeds/users/2?from=28&limit=1", &part)
				if part.From != 28 || !slices.Equal(part.Items, texts(l[2][28:29])) {
					t.Errorf("a part is %+v", part)
				}
				s.fromAdmin("GET", "/admin/feeds/users/17?size=3", &unknown)
				if unknown.Known || unknown.Length != 0 || len(unknown.Items) != 0 || unknown.Fallback != 3 {
					t.Errorf("a stranger is %+v", unknown)
				}
			})
		})
	}
}

// Whoever looks changes nothing: not for those who come after, nor for those who are served meanwhile, in no
// file and no figure.
func TestLooksAtUsersChangeNothing(t *testing.T) {
	dir := t.TempDir()
	const users, length = 20, 400
	l := numbered(users, length)
	l.write(t, filepath.Join(dir, "feeds.weir"), keyed, false, 1_000_001)
	s := serveFeed(t, dir, server.Config{})
	for user := range users {
		s.ok("GET", fmt.Sprintf("/feed/%d?size=%d", user, user+1), "")
	}
	systest.Eventually(t, "all is synced", func() bool { return s.positions.Lag() == 0 })
	counted := func() string {
		return fmt.Sprint(s.stats.items.Value(), s.stats.fallback.Value(),
			s.stats.short.Value(), s.stats.empty.Value())
	}
	look := func(user int) (found seen) {
		s.fromAdmin("GET", fmt.Sprintf("/admin/feeds/users/%d?size=255&limit=1000", user), &found)
		return found
	}
	before := counted()
	for range 3 {
		for user := range users {
			if found := look(user); found.Position != user+1 || len(found.Items) != length-max(0, user+1-200) {
				t.Fatalf("user %d is seen at %d with %d items", user, found.Position, len(found.Items))
			}
			look(users + user)
		}
	}
	if lag := s.positions.Lag(); lag != 0 {
		t.Errorf("looks have left something to sync, for %v", lag)
	}
	if after := counted(); after != before {
		t.Errorf("looks have counted: %s, and before %s", after, before)
	}
	// Beside them each item is given once, in order, and a look never sees a user go back.
	var busy sync.WaitGroup
	var ended atomic.Bool
	for i := range 2 {
		busy.Go(func() {
			last := make([]int, users)
			for n := i; !ended.Load(); n++ {
				user := n % users
				found := look(user)
				if found.Position < last[user] || found.Position > length {
					t.Errorf("user %d was at %d and is at %d", user, last[user], found.Position)
				}
				last[user] = found.Position
			}
		})
	}
	for user := range users {
		var given []uint64
		for len(given) < 60 {
			given = append(given, s.items("GET", fmt.Sprintf("/feed/%d?size=3", user))...)
		}
		if want := l[uint64(user)][user+1 : user+1+len(given)]; !slices.Equal(given, want) {
			t.Errorf("user %d was given %v beside looks, want %v", user, given, want)
		}
	}
	ended.Store(true)
	busy.Wait()
}

func TestWrongLooksAreRefused(t *testing.T) {
	for as, refused := range map[shape][]string{
		dense: {"/admin/feeds/users/ada", "/admin/feeds/users/18446744073709551616", "/admin/feeds/users/-1"},
		named: {"/admin/feeds/users/" + strings.Repeat("a", 256)},
	} {
		dir := t.TempDir()
		numbered(3, 20).write(t, filepath.Join(dir, "feeds.weir"), as, false)
		s := serveFeed(t, dir, server.Config{})
		for _, query := range []string{"from=x", "from=-1", "from=65536", "limit=0", "limit=1001", "limit=",
			"size=0", "size=256", "size=1e1", "size=%zz"} {
			refused = append(refused, "/admin/feeds/users/1?"+query)
		}
		for _, path := range refused {
			what, _, _ := strings.Cut(path[strings.LastIndexAny(path, "?/")+1:], "=")
			if !strings.Contains(path, "?") {
				what = "userId"
			} else if strings.Contains(path, "%zz") {
				what = "escape"
			}
			if status, body := s.ask("GET", path); status != 422 || !strings.Contains(body, what) {
				t.Errorf("%s: %d %s, want a 422 about %s", path, status, body, what)
			}
		}
		// Far behind the end is the end: lists have different lengths.
		var end seen
		if s.fromAdmin("GET", "/admin/feeds/users/1?from=65535", &end); end.From != 20 || len(end.Items) != 0 {
			t.Errorf("behind the end: %+v", end)
		}
		if status, _ := s.ask("GET", "/feed/1"); status != 404 {
			t.Errorf("the admin port moves users: %d", status)
		}
		s.problem(404, "GET", "/admin/feeds", "")
	}
}

func TestAPositionIsSetOnTheAdminPort(t *testing.T) {
	dir := t.TempDir()
	numbered(3, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	s := serveFeed(t, dir, server.Config{})
	const path = "/admin/feeds/users/1/position"
	for _, c := range []struct {
		method, body string
		status, at   int
	}{
		{"PUT", `{"position":7}`, 200, 7}, {"PUT", `{"position":21}`, 422, 7}, {"PUT", `{"position":-1}`, 422, 7},
		{"PUT", `{}`, 422, 7}, {"PUT", `x`, 422, 7}, {"DELETE", "", 200, 0},
	} {
		if resp, body := s.Do(c.method, s.admin+path, c.body); resp.StatusCode != c.status {
			t.Errorf("%s %s: %s %s", c.method, c.body, resp.Status, body)
		}
		s.wantAt(c.at, 1)
	}
	if status, _ := s.ask("DELETE", "/admin/feeds/users/3/position"); status != 404 {
		t.Errorf("a stranger's position: %d", status)
	}
}

// gate is positions whose next Prepare waits until the gate is opened.
type gate struct {
	positionstest.Reference
	closed  atomic.Bool
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) Prepare(l progress.Lists) (progress.Generation, error) {
	if g.closed.Load() {
		g.arrived <- struct{}{}
		<-g.open
	}
	return g.Reference.Prepare(l)
}

func TestAReloadIsSeenWhileItIsUnderWayAndAfter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, path, dense, false, 7)
	g := &gate{arrived: make(chan struct{}), open: make(chan struct{})}
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions, c.MinShare = g, 0.5 })
	look := func() (now state) {
		s.fromAdmin("GET", "/admin/feeds", &now)
		return now
	}
	systest.Eventually(t, "the lists are checked", func() bool { return look().Checked == 1 })
	if now := look(); now.Generation != 1 || now.Users != 10 || now.Items != 200 || now.UserIDs != "number" ||
		now.ItemIDs != "number" || now.Fallback != 1 || now.Exhausted != 0 || now.Reload != nil ||
		now.LastReload != nil || now.Damaged || now.Changed || now.MinimumUser != 5 || now.Durability == "" ||
		now.Written.IsZero() || now.Bytes == 0 {
		t.Errorf("after the start: %+v", now)
	}
	numbered(12, 20).write(t, path, dense, false)
	g.closed.Store(true)
	reloaded := make(chan error)
	go func() { reloaded <- s.Reload(context.Background()) }()
	<-g.arrived
	if r := look().Reload; r == nil || r.Stage != "positions" || r.Users != 12 || r.Done == 0 ||
		r.Done != r.Total || r.Started.IsZero() {
		t.Errorf("meanwhile: %+v", r)
	}
	g.closed.Store(false)
	close(g.open)
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
	if now := look(); now.Reload != nil || now.LastReload == nil || now.LastReload.Generation != 2 ||
		now.LastReload.Refused != "" || now.LastReload.At.IsZero() || now.Users != 12 {
		t.Errorf("after it: %+v, %+v", now, now.LastReload)
	}
	numbered(2, 20).write(t, path, dense, false)
	if status, body := s.ask("POST", "/admin/feeds/reload"); status != 409 || strings.Contains(body, dir) {
		t.Errorf("lists that lose users: %d %s", status, body)
	}
	if r := look().LastReload; r == nil || r.Generation != 2 || !strings.Contains(r.Refused, "2 users") ||
		strings.Contains(r.Refused, dir) {
		t.Errorf("after a refusal: %+v", r)
	}
	if r := (&reloading{}).state(); r.Stage != "opening" {
		t.Errorf("before the lists are open it is %q", r.Stage)
	}
}

func TestASurveySaysHowFarUsersAre(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	l := numbered(100, 40)
	l[7] = nil
	l.write(t, path, dense, false, 1_000_001)
	s := serveFeed(t, dir, server.Config{})
	look := func(method string) (now surveyState) {
		s.fromAdmin(method, "/admin/feeds/survey", &now)
		return now
	}
	if now := look("GET"); now.Last != nil || now.Running != nil || now.Failed != "" {
		t.Errorf("before any: %+v", now)
	}
	set := func(user, at int) {
		s.ok("PUT", fmt.Sprintf("/feed/%d/position", user), fmt.Sprintf(`{"position":%d}`, at))
	}
	var want surveyed
	for user := range 100 {
		at := user % 41
		if user == 7 {
			at = 0
			want.Exhausted++ // has nothing to begin with
		} else if set(user, at); at == 40 {
			want.Exhausted++
		} else {
			want.Buckets[at/2]++
		}
		if at == 0 && user != 7 {
			want.Untouched++
		}
		want.Users++
	}
	survey := func() *surveyed {
		look("POST")
		systest.Eventually(t, "the survey is done", func() bool { return look("GET").Running == nil })
		return look("GET").Last
	}
	got := survey()
	if got == nil || got.At.IsZero() || got.Generation != 1 {
		t.Fatalf("a survey came to %+v", got)
	}
	if got.Users != want.Users || got.Untouched != want.Untouched || got.Exhausted != want.Exhausted ||
		got.Buckets != want.Buckets {
		t.Errorf("a survey came to %+v, want %+v", got, want)
	}
	set(1, 40)
	if got := look("GET").Last; got.Exhausted != want.Exhausted {
		t.Errorf("a survey that is kept has changed: %+v", got)
	}
	if got := survey(); got.Exhausted != want.Exhausted+1 {
		t.Errorf("anew it came to %+v", got)
	}
}

// stepwise is positions whose survey goes on when it is told to.
type stepwise struct {
	positionstest.Reference
	arrived, step chan struct{}
	fail          error
}

func (p *stepwise) Prepare(l progress.Lists) (progress.Generation, error) {
	g, err := p.Reference.Prepare(l)
	return stepwiseGeneration{g, p}, err
}

type stepwiseGeneration struct {
	progress.Generation
	p *stepwise
}

func (g stepwiseGeneration) Survey(ctx context.Context, visit func(position, length int)) error {
	if g.p.fail != nil {
		return g.p.fail
	}
	select {
	case g.p.arrived <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-g.p.step
	for range 1024 {
		visit(0, 1)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return g.Generation.Survey(ctx, visit)
}

// A reload does not wait for a survey, which begins anew with the new lists; nor does the end.
func TestASurveyHoldsUpNeitherAReloadNorTheEnd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, path, dense, false, 1_000_001)
	p := &stepwise{arrived: make(chan struct{}), step: make(chan struct{})}
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions = p })
	look := func(method string) (now surveyState) {
		s.fromAdmin(method, "/admin/feeds/survey", &now)
		return now
	}
	look("POST")
	<-p.arrived
	if now := look("POST"); now.Running == nil || now.Running.Total != 10 || now.Last != nil {
		t.Errorf("while one is under way: %+v", now)
	}
	numbered(12, 20).write(t, path, dense, false, 1_000_001)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.step <- struct{}{}
	<-p.arrived // again, under the new lists
	p.step <- struct{}{}
	systest.Eventually(t, "the survey is done", func() bool { return look("GET").Running == nil })
	if last := look("GET").Last; last == nil || last.Generation != 2 || last.Users != 1024+12 {
		t.Errorf("it came to %+v", last)
	}
	look("POST") // and ends with the server
}

func TestASurveyThatCannotBeMadeSaysWhy(t *testing.T) {
	for want, failure := range map[string]error{
		"nobody can go through": errors.ErrUnsupported, "the log says why": errors.New("no such luck"),
	} {
		dir := t.TempDir()
		numbered(10, 20).write(t, filepath.Join(dir, "feeds.weir"), dense, false, 1_000_001)
		s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions = &stepwise{fail: failure} })
		var now surveyState
		s.fromAdmin("POST", "/admin/feeds/survey", &now)
		systest.Eventually(t, "it says why", func() bool {
			s.fromAdmin("GET", "/admin/feeds/survey", &now)
			return now.Running == nil && strings.Contains(now.Failed, want)
		})
		if now.Last != nil {
			t.Errorf("it came to %+v", now.Last)
		}
	}
}

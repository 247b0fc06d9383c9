package scenario

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/load/client"
)

const origin = "http://127.0.0.1:8080"

// everything is a spec of each scenario, and of what changes its requests.
var everything = map[string]Spec{
	"a URL":  {URL: origin + "/a b?q=ä#x"},
	"a body": {URL: origin, Body: `{"a":1}`, Headers: []string{"X-Y:  z "}},
	"a URL with columns": {URL: origin + "/u/{{name}}", Body: `{"n":{{n}}}`, Vars: "v.csv",
		VarsText: "name,n\na/b,1\n\"c\r\nd\",22\n"},
	"feed": {Scenario: "feed", Target: origin},
	"feed, posted": {Scenario: "feed", Target: origin + "/behind/", Method: "POST", Items: 5, Users: 3,
		FirstUser: 1 << 62},
	"predict":            {Scenario: "predict", Target: origin, Items: 7, MaxItem: 9},
	"predict of a few":   {Scenario: "predict", Target: origin, Items: 3, MaxItem: 3},
	"sequence":           {Scenario: "sequence", Target: origin, MaxIndex: 2},
	"sequence on and on": {Scenario: "sequence", Target: origin, MaxIndex: -1},
	"poll":               {Scenario: "poll", Target: origin, Users: 10, Feeds: 3},
	"poll of own feeds": {Scenario: "poll", Target: origin, Users: 10, Feeds: 3,
		FeedURL: "/{user}/{feed}?u={user}"},
	"a mix": {Scenario: "feed=3,predict=1,sequence,poll=2,requests", Target: origin, Users: 100,
		Items: 5, MaxItem: 50, Requests: "r", RequestsText: `{"url":"/x"}`},
	"requests": {Requests: "r", RequestsText: "{\"url\":\"http://localhost/\"}\n\n" +
		"{\"url\":\"/p\",\"method\":\"PUT\",\"headers\":{\"A\":[\"1\",\"2\"]},\"body\":[1]}", Target: origin},
	"requests by weight": {Requests: "r",
		RequestsText: "{\"url\":\"/a\",\"weight\":3}\n{\"url\":\"/b\",\"method\":\"DELETE\"}",
		Target:       origin},
	"requests of columns": {Requests: "r",
		RequestsText: `{"url":"{{{path}}}","headers":{"K":"a{{k}}b"},"body":"k={{k}}"}`, Target: origin +
			"/pre", Vars: "v", VarsText: "path,k\n/a,1\n/b?c=d,two\n", VarsOrder: "random"},
}

// open opens a spec that is right.
func open(t testing.TB, s Spec) *Scenario {
	t.Helper()
	sc, err := Open(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// take returns the first n requests of a source.
func take(s client.Source, n int) []string {
	var all []string
	for range n {
		wire, _ := s.Next(nil)
		all = append(all, string(wire))
	}
	return all
}

func TestEveryRequestIsOneWholeRequestForItsTarget(t *testing.T) {
	for name, spec := range everything {
		t.Run(name, func(t *testing.T) {
			sc := open(t, spec)
			s := sc.Source(0, 1)
			for range 1000 {
				wire, q := s.Next([]byte("before"))
				rest, ok := bytes.CutPrefix(wire, []byte("before"))
				if !ok {
					t.Fatalf("%.60q does not begin with what was there", wire)
				}
				r := bufio.NewReader(bytes.NewReader(rest))
				req, err := http.ReadRequest(r)
				if err != nil {
					t.Fatalf("%q: %v", rest, err)
				}
				body, err := io.ReadAll(req.Body)
				if err != nil || r.Buffered() > 0 {
					t.Fatalf("%q: error %v, %d bytes left over, expected one whole request", rest, err,
						r.Buffered())
				}
				if req.Host != sc.Targets()[q.Target].Host {
					t.Errorf("%q goes to %s", rest, sc.Targets()[q.Target].URL)
				}
				if len(body) > 0 && req.Header.Get("Content-Type") == "application/json" &&
					!json.Valid(body) {
					t.Errorf("the body %q is no JSON", body)
				}
			}
			if sc.String() == "" {
				t.Error("nothing to tell people")
			}
		})
	}
}

func TestRequestsDependOnTheSeedAndNotOnThreads(t *testing.T) {
	for name, spec := range everything {
		t.Run(name, func(t *testing.T) {
			spec.Seed = 7
			one := take(open(t, spec).Source(0, 1), 600)
			if !slices.Equal(one, take(open(t, spec).Source(0, 1), 600)) {
				t.Fatal("other requests with the same seed")
			}
			var three []string
			sc := open(t, spec)
			for thread := range 3 {
				three = append(three, take(sc.Source(thread, 3), 200)...)
			}
			// Two runners with three threads each, of which this process is the second.
			spec.Part, spec.Parts = 1, 2
			var halves []string
			for thread := range 3 {
				halves = append(halves, take(open(t, spec).Source(thread, 3), 100)...)
			}
			spec.Part = 0
			for thread := range 3 {
				halves = append(halves, take(open(t, spec).Source(thread, 3), 100)...)
			}
			if spec.Scenario == "poll" {
				// A thread polls its own subscriptions in turn, and 30 of them are no multiple of 600: as
				// many of each, then.
				one, three, halves = one[:30], slices.Concat(three[:10], three[200:210], three[400:410]), nil
			}
			slices.Sort(one)
			slices.Sort(three)
			slices.Sort(halves)
			if !slices.Equal(one, three) {
				t.Error("three threads make other requests than one")
			}
			if halves != nil && !slices.Equal(one, halves) {
				t.Error("two runners make other requests than one")
			}
		})
	}
	a, b := everything["feed"], everything["feed"]
	b.Seed = 1
	if slices.Equal(take(open(t, a).Source(0, 1), 10), take(open(t, b).Source(0, 1), 10)) {
		t.Error("another seed gives the same requests")
	}
}

func TestFeedAsksForAllUsersAlike(t *testing.T) {
	s := open(t, Spec{Scenario: "feed", Target: origin, Users: 4, FirstUser: 10, Items: 3}).Source(0, 1)
	seen := make(map[string]int)
	for _, r := range take(s, 4000) {
		line, _, _ := strings.Cut(r, " HTTP/")
		seen[line]++
	}
	for user := 10; user < 14; user++ {
		if n := seen[fmt.Sprintf("GET /feed/%d?size=3", user)]; n < 800 || n > 1200 {
			t.Errorf("user %d comes %d times of 4000, expected about 1000", user, n)
		}
	}
	if len(seen) != 4 {
		t.Errorf("requests %v, expected those of 4 users", seen)
	}
}

// TestPredictIsWhatWritingItDownGives holds requests against ones that are written by encoding/json.
func TestPredictIsWhatWritingItDownGives(t *testing.T) {
	for _, spec := range []Spec{
		{Items: 5, MaxItem: 5}, {Items: 1, MaxItem: 1}, {Items: 20, MaxItem: 1000},
		{Items: 50, MaxItem: maxList + 3}, {MaxItem: 1 << 40},
	} {
		spec.Scenario, spec.Target, spec.Users = "predict", origin, 30
		sc := open(t, spec)
		p := sc.kinds[0].(*predict)
		s := sc.Source(0, 1)
		seen := make(map[uint64]bool)
		for k := range 200 {
			wire, _ := s.Next(nil)
			_, body, _ := strings.Cut(string(wire), "\r\n\r\n")
			var got struct {
				User  json.Number `json:"user"`
				Items []uint64    `json:"items"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != body {
				t.Fatalf("%s, expected %s", body, again)
			}
			if len(got.Items) != p.items ||
				got.User.String() != strconv.FormatUint(below(p.users.dice.at(uint64(k)), 30), 10) {
				t.Fatalf("%d items for user %s, expected %d", len(got.Items), got.User, p.items)
			}
			once := slices.Clone(got.Items)
			slices.Sort(once)
			if len(slices.Compact(once)) != p.items || once[0] < 1 || once[len(once)-1] > uint64(p.most) {
				t.Fatalf("items %v, expected different ones from 1 to %d", got.Items, p.most)
			}
			for _, id := range got.Items {
				seen[id] = true
			}
		}
		if highest := slices.Max(slices.Collect(maps.Keys(seen))); highest < uint64(p.most/10*9) {
			t.Errorf("no item beyond %d of %d", highest, p.most)
		}
		if want := min(p.most*9/10, 200*p.items/2); len(seen) < want {
			t.Errorf("%d different items in 200 requests for %d of %d, expected %d at least", len(seen),
				p.items, p.most, want)
		}
	}
}

func TestSequenceGoesBackAsFarAsItClimbs(t *testing.T) {
	index, most := 0, 0
	for _, r := range take(open(t, Spec{Scenario: "sequence", Target: origin, MaxIndex: 50}).Source(0, 1),
		1000) {
		switch {
		case strings.HasPrefix(r, "GET /next HTTP/1.1\r\n"):
			index++
		case strings.HasPrefix(r, "GET /previous HTTP/1.1\r\n"):
			index--
		default:
			t.Fatalf("%q", r)
		}
		if most = max(most, index); index < 0 {
			t.Fatal("below 0")
		}
	}
	if index != 0 || most != 50 {
		t.Errorf("ends at %d after %d at most, expected 0 and 50", index, most)
	}
	for _, r := range take(open(t, Spec{Scenario: "sequence", Target: origin, MaxIndex: -1}).Source(0, 1),
		3000) {
		if !strings.HasPrefix(r, "GET /next ") {
			t.Fatalf("%q, expected the next value on and on", r)
		}
	}
}

func TestAMixHasItsWeights(t *testing.T) {
	seen := make(map[string]int)
	for _, r := range take(open(t, Spec{Scenario: " feed = 3 , predict", Target: origin, Items: 2}).Source(
		0, 1), 4000) {
		seen[r[:strings.IndexByte(r, ' ')]]++
		if strings.HasPrefix(r, "GET") && !strings.Contains(r, "?size=20 ") {
			t.Fatalf("%q: --items of a mix with predict is about predictions", r)
		}
	}
	if seen["GET"] < 2850 || seen["GET"] > 3150 || seen["GET"]+seen["POST"] != 4000 {
		t.Errorf("%v, expected about 3000 and 1000", seen)
	}
}

func TestUsersWhoComeEverySoOftenMakeARate(t *testing.T) {
	for want, spec := range map[float64]Spec{
		0:               {Scenario: "feed", Users: 100},
		50:              {Scenario: "feed", Users: 100, Every: 2 * time.Second},
		25:              {Scenario: "feed,predict", Users: 100, Every: 4 * time.Second, MaxItem: 500},
		125_000.0 / 300: {Scenario: "poll"},
		100:             {Scenario: "poll", Users: 100, Feeds: 10, Every: 10 * time.Second},
		400:             {Scenario: "feed=3,poll=1", Users: 100, Feeds: 10, Every: 10 * time.Second},
		2_000:           {Scenario: "poll=5,feed=5", Users: 100, Feeds: 10, Every: time.Second},
	} {
		spec.Target = origin
		if got := open(t, spec).Rate(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%+v makes %v a second, expected %v", spec, got, want)
		}
	}
}

func TestASpecSurvivesItsJourney(t *testing.T) {
	for name, spec := range everything {
		text, err := json.Marshal(open(t, spec).Spec())
		if err != nil {
			t.Fatal(err)
		}
		var there Spec
		if err := json.Unmarshal(text, &there); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(take(open(t, there).Source(0, 1), 50), take(open(t, spec).Source(0, 1), 50)) {
			t.Errorf("%s: other requests on the other side", name)
		}
	}
}

func TestScenariosAreCompleted(t *testing.T) {
	for typed, want := range map[string]string{
		"":                  "feed predict sequence poll requests",
		"p":                 "predict poll",
		"feed=3,":           "feed=3,predict feed=3,sequence feed=3,poll feed=3,requests",
		"feed=3,poll,p":     "feed=3,poll,predict",
		"feed=3":            "",
		"nonsense,f":        "nonsense,feed",
		"feed, poll=2,pred": "feed, poll=2,predict",
	} {
		if got := strings.Join(Complete(typed), " "); got != want {
			t.Errorf("%q becomes %q, expected %q", typed, got, want)
		}
	}
}

// TestARoundOfAMixIsWhole counts a round: every part has its numbers, each once and in their order.
func TestARoundOfAMixIsWhole(t *testing.T) {
	for _, weights := range [][]uint64{{1, 2}, {3, 4}, {6, 8, 20}, {1_000_000, 1_000_003}} {
		o := newOrder(newDice(1, "test"), weights)
		if n := len(o.turns); n < shortRound {
			t.Fatalf("%v: a round of %d", weights, n)
		}
		next := make([]uint64, len(weights))
		for k := range uint64(2 * len(o.turns)) {
			part, number := o.at(k)
			if number != next[part] {
				t.Fatalf("%v: turn %d is number %d of part %d, expected %d", weights, k, number, part,
					next[part])
			}
			next[part]++
		}
		before := uint64(0)
		for part, sum := range weights {
			if next[part]*weights[len(weights)-1] != (sum-before)*uint64(2*len(o.turns)) {
				t.Errorf("%v: part %d has %d of %d", weights, part, next[part], 2*len(o.turns))
			}
			before = sum
		}
	}
}

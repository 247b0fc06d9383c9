package bandit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"weir/internal/server"
)

// fromAdmin asks the admin port for what into has all members of.
func (s *served) fromAdmin(path string, into any) {
	s.t.Helper()
	a := s.do("GET", s.admin+path, "")
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); a.status != 200 || err != nil {
		s.t.Fatalf("GET %s: %d %s: %v", path, a.status, a.body, err)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		s.t.Errorf("GET %s: Cache-Control %q", path, got)
	}
}

// teachMany teaches n items, named item0 and so on, of which the one with number i is pulled i%17+1 times,
// of which i%5 in twenty are rewarded, and pairs for one of ten.
func teachMany(t *testing.T, s *served, n int) {
	var body bytes.Buffer
	events := 0
	flush := func() {
		if events > 0 {
			s.events("["+body.String()+"]", accepted{events, 0})
			body.Reset()
			events = 0
		}
	}
	for i := range n {
		for pull := range i%17 + 1 {
			if events > 0 {
				body.WriteByte(',')
			}
			user := ""
			if i%10 == 0 {
				user = fmt.Sprintf(`,"user":"User%d"`, i%7)
			}
			fmt.Fprintf(&body, `{"item":"item%d","reward":%g%s}`, i, float64((i+pull)%5)/20, user)
			if events++; events == 5000 {
				flush()
			}
		}
	}
	flush()
}

func TestArmsAreRankedSearchedAndPaged(t *testing.T) {
	s := teachable(t, t.TempDir())
	const items = 700
	teachMany(t, s, items)
	all := s.listed("", 10_000)
	deviation := func(a ListedArm) float64 { return distuv.Beta{Alpha: a.Alpha, Beta: a.Beta}.StdDev() }
	by := map[string]func(ListedArm) float64{
		"pulls": func(a ListedArm) float64 { return a.Pulls },
		"mean":  func(a ListedArm) float64 { return a.Mean }, "deviation": deviation,
	}
	for order, of := range by {
		for _, ascending := range []int{0, 1} {
			for query, wanted := range map[string]func(ListedArm) bool{
				"":                        func(ListedArm) bool { return true },
				"level=pair":              func(a ListedArm) bool { return a.Level == "pair" },
				"search=ITEM69":           func(a ListedArm) bool { return strings.Contains(a.Item, "item69") },
				"search=user3&level=pair": func(a ListedArm) bool { return a.User == "User3" },
				"search=nobody":           func(ListedArm) bool { return false },
			} {
				var want []float64
				for _, a := range all {
					if wanted(a) {
						want = append(want, of(a))
					}
				}
				slices.Sort(want)
				if ascending == 0 {
					slices.Reverse(want)
				}
				var got []float64
				seen := make(map[string]bool)
				for offset := 0; ; offset += 150 {
					var page rankedPage
					s.fromAdmin(fmt.Sprintf("/admin/bandit/ranking?by=%s&ascending=%d&offset=%d&limit=150&%s",
						order, ascending, offset, query), &page)
					if page.Matched != len(want) || page.Ranked != len(want) || page.Taught != len(all) ||
						page.Offset != offset {
						t.Fatalf("%s %s: %d of %d, ranked %d, at %d; want %d of %d", order, query,
							page.Matched, page.Taught, page.Ranked, page.Offset, len(want), len(all))
					}
					for _, a := range page.Arms {
						got = append(got, of(a))
						seen[a.Level+a.Item+a.User] = true
					}
					if len(page.Arms) < 150 {
						break
					}
				}
				if len(seen) != len(want) || !slices.EqualFunc(got, want, func(x, y float64) bool {
					return math.Abs(x-y) <= 1e-9*math.Abs(y)
				}) {
					t.Errorf("%s, ascending %d, %s: %d different arms, by %.4v, want %.4v", order, ascending, query,
						len(seen), got[:min(9, len(got))], want[:min(9, len(want))])
				}
			}
		}
	}
	// An order of a page that was asked for stays that of the pages behind it.
	var page rankedPage
	s.fromAdmin("/admin/bandit/ranking", &page)
	s.events(`[{"item":"item0","reward":1},{"item":"new","reward":1}]`, accepted{2, 0})
	if s.fromAdmin("/admin/bandit/ranking?offset=150", &page); page.Taught != len(all) {
		t.Errorf("a further page is of a ranking of %d arms, want the one of %d", page.Taught, len(all))
	}
	// What was forgotten since is left out.
	s.forgets(`{"item":"item16"}`, 1)
	s.fromAdmin("/admin/bandit/ranking?limit=500", &page)
	if slices.ContainsFunc(page.Arms, func(a ListedArm) bool { return a.Item == "item16" && a.Level == "item" }) {
		t.Error("an arm that was forgotten is shown")
	}
}

// A ranking keeps the first of them, and finds these whatever order arms come in.
func TestARankingOfMoreArmsThanItKeepsHasTheFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("teaches 25,000 arms")
	}
	s := serve(t, open(t, t.TempDir()), server.Config{})
	const items = 25_000
	var body bytes.Buffer
	for from := 0; from < items; from += 5000 {
		body.Reset()
		body.WriteByte('[')
		for i := from; i < from+5000; i++ {
			if i > from {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"item":"item%d","reward":%g}`, i, float64(i*7919%items)/items)
		}
		body.WriteByte(']')
		s.events(body.String(), accepted{5000, 0})
	}
	var page rankedPage
	for _, offset := range []int{0, 9_990, 10_000} {
		s.fromAdmin(fmt.Sprintf("/admin/bandit/ranking?by=mean&offset=%d&limit=10", offset), &page)
		if page.Matched != items || page.Ranked != maxRanked || len(page.Arms) != min(10, maxRanked-offset) {
			t.Fatalf("from %d on: %d of %d, %d shown", offset, page.Ranked, page.Matched, len(page.Arms))
		}
		for i, a := range page.Arms {
			want := (1 + float64(items-1-offset-i)/items) / 3
			if math.Abs(a.Mean-want) > 1e-9 {
				t.Errorf("place %d has the mean %v, want %v", offset+i, a.Mean, want)
			}
		}
	}
}

func TestWrongQuestionsOfArmsAreRefused(t *testing.T) {
	s := teachable(t, t.TempDir())
	long := strings.Repeat("x", 256)
	for path, names := range map[string]string{
		"ranking?by=name": "by", "ranking?by=": "by", "ranking?ascending=yes": "ascending",
		"ranking?level=user": "level", "ranking?offset=-1": "offset", "ranking?offset=10001": "offset",
		"ranking?offset=x": "offset", "ranking?limit=0": "limit", "ranking?limit=501": "limit",
		"ranking?limit=1e2": "limit", "ranking?search=%zz": "escape", "arm": "item", "arm?item=": "item",
		"arm?item=" + long: "item", "arm?item=a&user=" + long: "user", "arm?item=a&segment=": "segment",
		"arm?item=a&user=u&segment=s": "segment", "arm?item=%": "escape",
	} {
		s.problem(s.do("GET", s.admin+"/admin/bandit/"+path, ""), 422, names)
	}
	for _, path := range []string{"", "/arm?item=a", "/ranking"} {
		if a := s.do("GET", s.url+"/admin/bandit"+path, ""); a.status != 404 {
			t.Errorf("on the public port: %s: %d", path, a.status)
		}
	}
}

// An arm that was imported, and never taught, is found by its name as predictions find it.
func TestThePosteriorOfAnyArmIsShown(t *testing.T) {
	s := teachable(t, t.TempDir())
	s.events(taught, accepted{5, 0})
	for query, want := range map[string]ListedArm{
		"item=a":                           {Level: "item", Item: "a", Pulls: 3, Alpha: 32, Beta: 11},
		"item=a&segment=young":             {Level: "segment", Item: "a", Segment: "young", Pulls: 2, Alpha: 6, Beta: 7},
		"item=a&segment=unheard-of":        {Level: "item", Item: "a", Segment: "unheard-of", Alpha: 32, Beta: 11},
		"item=nobody%27s":                  {Level: "prior", Item: "nobody's", Alpha: 1, Beta: 1},
		"item=" + url.QueryEscape(`x,"y"`): {Level: "item", Item: `x,"y"`, Pulls: 1, Alpha: 2, Beta: 1},
		"item=7":                           {Level: "item", Item: "7", Pulls: 1, Alpha: 2.25, Beta: 2.75},
	} {
		var d armDensity
		s.fromAdmin("/admin/bandit/arm?"+query, &d)
		want.Mean = want.Alpha / (want.Alpha + want.Beta)
		got := d.ListedArm
		got.Low, got.High = 0, 0
		if got != want || !(d.Low < d.Mean && d.Mean < d.High) {
			t.Errorf("%s: %+v, want %+v", query, d.ListedArm, want)
		}
		if len(d.X) != curvePoints || len(d.Density) != curvePoints || slices.Max(d.Density) != 1 {
			t.Errorf("%s: a curve of %d points, up to %v", query, len(d.X), slices.Max(d.Density))
		}
	}
}

// Curves are those of the distribution where that can be computed directly, and finite everywhere.
func TestCurvesAreDensities(t *testing.T) {
	for _, shape := range [][2]float64{{1, 1}, {2, 3}, {30, 10}, {0.5, 0.5}, {0.2, 5}, {1e3, 2e3}, {5e4, 3},
		{1, 900}} {
		x, density := curve(shape[0], shape[1])
		d := distuv.Beta{Alpha: shape[0], Beta: shape[1]}
		top := math.Inf(-1)
		for _, at := range x {
			top = max(top, d.LogProb(at))
		}
		for i, at := range x {
			if want := math.Exp(d.LogProb(at) - top); math.Abs(density[i]-want) > 1e-6*max(1, shape[0]/1e3) {
				t.Errorf("%v at %v: %v, want %v", shape, at, density[i], want)
				break
			}
		}
		if inside := d.CDF(x[len(x)-1]) - d.CDF(x[0]); inside < 0.95 && min(shape[0], shape[1]) >= 1 {
			t.Errorf("%v: the curve has %v of it", shape, inside)
		}
	}
	for _, shape := range [][2]float64{{1e6, 1e7}, {1e15, 1e15}, {1e12, 3}, {3, 1e12}, {1e-9, 1e-9}, {1e-3, 1e3},
		{1e300, 1e300}, {1e300, 1e-300}, {1e-300, 1e300}, {math.MaxFloat64, math.MaxFloat64}, {1e5 + 1, 2e9}} {
		x, density := curve(shape[0], shape[1])
		if len(x) != len(density) || len(x) == 0 || !slices.IsSorted(x) || !(x[0] >= 0 && x[len(x)-1] <= 1) ||
			slices.Max(density) != 1 || !(slices.Min(density) >= 0) {
			t.Errorf("%v: x from %v to %v, density %v to %v", shape, x[0], x[len(x)-1], slices.Min(density),
				slices.Max(density))
		}
	}
	// The highest point of a narrow one is where it is.
	x, density := curve(1e6, 1e7)
	at := slices.Index(density, 1)
	if mode := (1e6 - 1) / (1.1e7 - 2); math.Abs(x[at]-mode) > x[1]-x[0] {
		t.Errorf("Beta(1e6, 1e7) is highest at %v, want %v", x[at], mode)
	}
}

func TestIntervalsHoldTheMeanWithAProbabilityOf95Percent(t *testing.T) {
	for _, shape := range [][2]float64{{1, 1}, {2, 3}, {0.5, 0.5}, {1e6, 1e7}, {1e6, 3}, {3, 1e6}, {9e4, 9e4},
		{5e5, 100}, {100, 5e5}} {
		low, high := interval(shape[0], shape[1])
		inside := mathext.RegIncBeta(shape[0], shape[1], high) - mathext.RegIncBeta(shape[0], shape[1], low)
		if math.Abs(inside-0.95) > 1e-4 {
			t.Errorf("%v: %v to %v has %v", shape, low, high, inside)
		}
	}
	for _, shape := range [][2]float64{{1e300, 1e-300}, {1e-300, 1e300}, {1e300, 1e300}, {1e-9, 1e-9},
		{math.MaxFloat64, 1e-300}} {
		if low, high := interval(shape[0], shape[1]); !(0 <= low && low <= high && high <= 1) {
			t.Errorf("%v: %v to %v", shape, low, high)
		}
	}
}

func TestTheStateOfABanditIsShown(t *testing.T) {
	s := teachable(t, t.TempDir())
	s.events(taught, accepted{5, 0})
	s.events(`[{"item":"a","reward":1,"id":"x"}]`, accepted{1, 0})
	s.events(`[{"item":"a","reward":1,"id":"x"}]`, accepted{0, 1})
	s.do("POST", s.url+"/events", `[{"item":"a","reward":2}]`)
	s.do("POST", s.url+"/predict", `{"items":["a","b"]}`)
	var now state
	s.fromAdmin("/admin/bandit", &now)
	if now.Generation != 1 || now.Loading || now.Problem != "" || now.Durability == "" || now.Scores != 2 ||
		now.Prior != [2]float64{1, 1} || now.Store != nil {
		t.Errorf("%+v", now)
	}
	if i := now.Imported; i == nil || i.Arms != 3 || i.Segment != 1 || i.Pair != 0 || i.Users != 1 || i.Segments != 1 {
		t.Errorf("imported are %+v", i)
	}
	if fmt.Sprint(now.Learned) != "map[item:3 pair:3 segment:2]" {
		t.Errorf("learned are %v", now.Learned)
	}
	if now.Events != (eventCounts{6, 1, 1}) {
		t.Errorf("events are %+v", now.Events)
	}
}

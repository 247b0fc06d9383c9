package bandit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/bandit/beta"
	"weir/internal/server"
)

// list is the JSON of an array of items from, from+1 and so on.
func list(from, n int) string {
	var b []byte
	for i := range n {
		b = append(strconv.AppendInt(b, int64(from+i), 10), ',')
	}
	return "[" + string(b[:len(b)-1]) + "]"
}

func TestTheFinestArmGivesThePosterior(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{
			{item: "a", alpha: 2, beta: 3}, {segment: "young", item: "a", alpha: 20, beta: 30},
			{user: "u1", item: "a", alpha: 200, beta: 300},
			{segment: "young", item: "b", alpha: 4, beta: 5}, {user: "u1", item: "c", alpha: 6, beta: 7},
			{item: "7", alpha: 8, beta: 9},
			{segment: "old", item: "a", alpha: 0.5, beta: 1e-3},
			{item: "big", alpha: math.MaxFloat64 / 4, beta: math.MaxFloat64},
			{item: "tiny", alpha: 5e-324, beta: 5e-324},
			{user: "9", item: "7", alpha: 11, beta: 12},
		}, "u1", "young", "u2", "young", "u3", "old", "9", "old")
		s := serve(t, open(t, dir, func(c *Config) { c.Arms, c.Prior = path, [2]float64{1, 4} }), kernel)
		type from = explained
		prior := from{1, 4, 0.2, "prior"}
		for _, c := range []struct {
			query string
			want  []from
			in    string
		}{
			{`{"items":["a","b","c","7","x"]`, []from{{2, 3, 0.4, "item"}, prior, prior,
				{8, 9, 8.0 / 17, "item"}, prior}, ""},
			{`{"user":"u1","items":["a","b","c","7","x"]`,
				[]from{{200, 300, 0.4, "pair"}, {4, 5, 4.0 / 9, "segment"}, {6, 7, 6.0 / 13, "pair"},
					{8, 9, 8.0 / 17, "item"}, prior}, "young"},
			{`{"user":"u2","items":["a","b","c"]`,
				[]from{{20, 30, 0.4, "segment"}, {4, 5, 4.0 / 9, "segment"}, prior}, "young"},
			{`{"user":"u3","items":["a","b"]`, []from{{0.5, 1e-3, 0.5 / 0.501, "segment"}, prior}, "old"},
			{`{"user":"nobody","items":["a"]`, []from{{2, 3, 0.4, "item"}}, ""},
			{`{"user":null,"items":["a"]`, []from{{2, 3, 0.4, "item"}}, ""},
			// A segment that the request names wins over the user's own, and need not be known.
			{`{"user":"u1","segment":"old","items":["a","b","c"]`,
				[]from{{200, 300, 0.4, "pair"}, prior, {6, 7, 6.0 / 13, "pair"}}, "old"},
			{`{"user":"u2","segment":"old","items":["a"]`, []from{{0.5, 1e-3, 0.5 / 0.501, "segment"}},
				"old"},
			{`{"segment":"young","items":["b"]`, []from{{4, 5, 4.0 / 9, "segment"}}, "young"},
			{`{"user":"u2","segment":"strange \"ä\"","items":["a","b"]`, []from{{2, 3, 0.4, "item"}, prior},
				`strange "ä"`},
			{`{"user":"u1","segment":null,"items":["b"]`, []from{{4, 5, 4.0 / 9, "segment"}}, "young"},
			// Numbers are their text.
			{`{"user":9,"items":[7,"7",7.0e0]`, nil, ""},
			{`{"user":9,"items":[7,"7"]`, []from{{11, 12, 11.0 / 23, "pair"}, {11, 12, 11.0 / 23, "pair"}},
				"old"},
			{`{"user":"9","items":["\u0037"]`, []from{{11, 12, 11.0 / 23, "pair"}}, "old"},
			// An item may come twice, and what is beyond all measure is JSON too.
			{`{"items":["a","a"]`, []from{{2, 3, 0.4, "item"}, {2, 3, 0.4, "item"}}, ""},
			{`{"items":["big","tiny"]`, []from{{0.25e9, 1e9, 0.2, "item"},
				{5e-324, 5e-324, 0.5, "item"}}, ""},
		} {
			if c.want == nil {
				s.problem(s.do("POST", s.url+"/predict", c.query+"}"), 422,
					"items[2] must be a text of 1 to 255 bytes or a whole number")
				continue
			}
			p := s.explain(c.query)
			if !reflect.DeepEqual(p.Explain, c.want) || p.Segment != c.in {
				t.Errorf("%s: %+v of segment %q, want %+v of %q", c.query, p.Explain, p.Segment, c.want, c.in)
			}
			for _, x := range p.Scores {
				if x < 0 || x > 1 {
					t.Errorf("%s: score %v", c.query, x)
				}
			}
		}
	})
}

func TestWithoutAFileThereIsThePriorAlone(t *testing.T) {
	s := serve(t, open(t, t.TempDir()), server.Config{})
	s.posterior(`{"user":"u","segment":"s","items":["a"]`, 1, 1, "prior")
	a := s.do("POST", s.url+"/predict", `{"items":["a"]}`)
	if a.header.Get("Cache-Control") != "no-store" || strings.Contains(a.body, "explain") ||
		strings.Contains(a.body, "items") || strings.Contains(a.body, "degraded") {
		t.Errorf("%v %s", a.header, a.body)
	}
	s.problem(s.do("POST", s.admin+"/admin/bandit/reload", ""), 409, "start with --bandit-arms FILE")
	if err := s.Reload(t.Context()); err != nil {
		t.Errorf("there is nothing to reload, and that is no error: %v", err)
	}
}

// TestScoresAreSamplesOfThePosterior looks at mean and variance over many requests: the distribution itself
// is the sampler's tests'.
func TestScoresAreSamplesOfThePosterior(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "1", alpha: 30, beta: 10}, {item: "2", alpha: 1, beta: 9},
		{item: "3", alpha: 0.5, beta: 0.5}})
	s := serve(t, open(t, dir, func(c *Config) { c.Arms = path }), server.Config{})
	const rounds, copies = 100, 300
	body := `{"items":[` + strings.TrimSuffix(strings.Repeat("1,2,3,", copies), ",") + `]}`
	var sum, squares [3]float64
	for range rounds {
		var p prediction
		s.post("/predict", body, &p)
		for i, x := range p.Scores {
			sum[i%3] += x
			squares[i%3] += x * x
		}
	}
	const n = rounds * copies
	for i, c := range [][2]float64{{30, 10}, {1, 9}, {0.5, 0.5}} {
		mean := c[0] / (c[0] + c[1])
		variance := mean * (1 - mean) / (c[0] + c[1] + 1)
		got := sum[i] / n
		if math.Abs(got-mean) > 6*math.Sqrt(variance/n) {
			t.Errorf("Beta(%v,%v): mean %v, want %v", c[0], c[1], got, mean)
		}
		if v := squares[i]/n - got*got; math.Abs(v-variance) > 0.1*variance {
			t.Errorf("Beta(%v,%v): variance %v, want %v", c[0], c[1], v, variance)
		}
	}
}

func TestTheBestComeFirst(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		r := rand.New(rand.NewPCG(21, 22))
		var all []arm
		for i := range 500 {
			all = append(all, arm{item: fmt.Sprint(i), alpha: 1 + 5*r.Float64(), beta: 1 + 5*r.Float64()})
		}
		writeArms(t, path, all)
		s := serve(t, open(t, dir, func(c *Config) { c.Arms = path }), kernel)
		for _, n := range []int{1, 2, 10, 64, 65, 500} {
			for _, top := range []int{1, 2, n/2 + 1, n - 1, n, n + 1, math.MaxInt32} {
				if top < 1 {
					continue
				}
				seed := r.Uint64()
				query := fmt.Sprintf(`{"items":%s,"seed":%d`, list(0, n), seed)
				plain := s.explain(query)
				best := s.explain(query + fmt.Sprintf(`,"top":%d`, top))
				order := make([]int, n)
				for i := range order {
					order[i] = i
				}
				slices.SortStableFunc(order,
					func(i, j int) int { return cmp.Compare(plain.Scores[j], plain.Scores[i]) })
				order = order[:min(n, top)]
				if len(best.Items) != len(order) || len(best.Scores) != len(order) ||
					len(best.Explain) != len(order) || plain.Items != nil {
					t.Fatalf("the best %d of %d: %d items, %d scores", top, n, len(best.Items),
						len(best.Scores))
				}
				for rank, i := range order {
					if best.Items[rank] != float64(i) || best.Scores[rank] != plain.Scores[i] ||
						best.Explain[rank] != plain.Explain[i] {
						t.Fatalf("the best %d of %d: at %d there is %v with %v, want %d with %v", top, n,
							rank, best.Items[rank], best.Scores[rank], i, plain.Scores[i])
					}
				}
			}
		}
		// Items come back as they were sent.
		var p struct{ Items []json.RawMessage }
		if err := json.Unmarshal(
			[]byte(s.post("/predict", `{"items":["\u00e4\"", 18446744073709551616 ,-7,"7"],"top":9}`, nil)),
			&p); err != nil {
			t.Fatal(err)
		}
		var sent []string
		for _, i := range p.Items {
			sent = append(sent, string(i))
		}
		slices.Sort(sent)
		if want := []string{`"7"`, `"\u00e4\""`, `-7`, `18446744073709551616`}; !slices.Equal(sent, want) {
			t.Errorf("items %q, want %q", sent, want)
		}
	})
}

func TestBestIsASort(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for range 2000 {
		var sc scratch
		n := r.IntN(60)
		order := make([]int32, n)
		for i := range n {
			sc.score = append(sc.score, float64(r.IntN(8))/8) // many are alike
			order[i] = int32(i)
		}
		k := 1 + r.IntN(70)
		got := sc.best(&query{seed: r.Uint64(), seeded: true}, k)
		slices.SortFunc(order, func(i, j int32) int {
			return cmp.Or(cmp.Compare(sc.score[j], sc.score[i]), cmp.Compare(sc.tie(i), sc.tie(j)))
		})
		if !slices.Equal(got, order[:min(k, n)]) {
			t.Fatalf("the best %d of %v are %v, want %v", k, sc.score, got, order[:min(k, n)])
		}
	}
}

// Scores of a prior close to 0 are mostly 0 or 1: none of the items that are alike must come more often for
// its place.
func TestEqualScoresAreInAnyOrder(t *testing.T) {
	const items, rounds = 50, 20_000
	sc := scratch{score: make([]float64, items)}
	var first [items]int
	for range rounds {
		order := sc.best(&query{}, 3)
		first[order[0]]++
		if order[0] == order[1] || order[1] == order[2] {
			t.Fatalf("an item comes twice: %v", order)
		}
	}
	for i, n := range first { // 400 each, give or take six deviations
		if n < 280 || n > 520 {
			t.Errorf("item %d is first %d times of %d", i, n, rounds)
		}
	}
}

func TestASeedGivesTheSameAnswerWhereverItIsAsked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	var all []arm
	for i := range 200 {
		all = append(all, arm{item: fmt.Sprint(i), alpha: 0.1 + float64(i)/7, beta: 100 / (1 + float64(i))})
	}
	writeArms(t, path, all)
	for _, n := range []int{3, inlineItems, inlineItems + 1, 200} {
		answers := make(map[uint64][]string)
		for _, netHTTP := range []bool{false, true} {
			s := serve(t, open(t, t.TempDir(), func(c *Config) { c.Arms = path }),
				server.Config{NetHTTP: netHTTP})
			for _, seed := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
				query := fmt.Sprintf(`{"items":%s,"seed":%d}`, list(0, n), seed)
				first := s.post("/predict", query, nil)
				var b struct{ Results []json.RawMessage }
				s.post("/predict/batch", `[{"items":[5,6]},`+query+`,{"items":[9],"seed":7},`+query+`]`, &b)
				answers[seed] = append(answers[seed], first, s.post("/predict", query, nil),
					string(b.Results[1]), string(b.Results[3]))
				// The reference is the sampler's.
				alpha, bet, dst := make([]float64, n), make([]float64, n), make([]float64, n)
				for i := range n {
					alpha[i], bet[i] = all[i].alpha, all[i].beta
				}
				beta.Seeded(seed, dst, alpha, bet)
				want := []byte(`{"scores":[`)
				for i, x := range dst {
					if i > 0 {
						want = append(want, ',')
					}
					want = appendScore(want, x)
				}
				answers[seed] = append(answers[seed], string(append(want, "]}"...)))
			}
			a, b := s.post("/predict", `{"items":`+list(0, n)+`}`, nil),
				s.post("/predict", `{"items":`+list(0, n)+`}`, nil)
			if a == b {
				t.Errorf("%d items without a seed are answered alike", n)
			}
		}
		seen := make(map[string]uint64)
		for seed, all := range answers {
			for _, a := range all {
				if a != all[0] {
					t.Fatalf("%d items with seed %d:\n%.200s\n%.200s", n, seed, a, all[0])
				}
			}
			if other, ok := seen[all[0]]; ok {
				t.Errorf("seeds %d and %d give one answer", seed, other)
			}
			seen[all[0]] = seed
		}
	}
}

func TestABatchAnswersEachOfItsRequests(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		writeArms(t, path, []arm{{item: "1", alpha: 2, beta: 3}, {user: "u", item: "1", alpha: 4, beta: 5},
			{segment: "s", item: "1", alpha: 6, beta: 7}}, "v", "s")
		s := serve(t, open(t, dir, func(c *Config) { c.Arms, c.MaxQueries, c.MaxItems = path, 4, 3 }), kernel)
		const queries = `[{"user":"u","items":[1],"explain":true},{"items":[2,1],"top":1},{"user":"v","items":[1],"explain":true,"seed":3},{"items":[1,2,3]}]`
		for _, body := range []string{queries, `{"requests":` + queries + `}`, " \n" + queries + "\t"} {
			var b struct{ Results []prediction }
			s.post("/predict/batch", body, &b)
			if len(b.Results) != 4 {
				t.Fatalf("%d results", len(b.Results))
			}
			if got, want := b.Results[0].Explain, []explained{{4, 5, 4.0 / 9, "pair"}}; !reflect.DeepEqual(
				got, want) {
				t.Errorf("the first: %+v", got)
			}
			if len(b.Results[1].Items) != 1 || len(b.Results[1].Scores) != 1 || b.Results[1].Explain != nil ||
				b.Results[1].Segment != "" {
				t.Errorf("the second: %+v", b.Results[1])
			}
			if got, want := b.Results[2].Explain,
				[]explained{{6, 7, 6.0 / 13, "segment"}}; !reflect.DeepEqual(got, want) ||
				b.Results[2].Segment != "s" {
				t.Errorf("the third: %+v", b.Results[2])
			}
			if len(b.Results[3].Scores) != 3 {
				t.Errorf("the fourth: %+v", b.Results[3])
			}
		}
		for _, c := range []struct {
			body   string
			status int
			says   string
		}{
			{`[]`, 422, "requests must be an array with at least one"},
			{`{}`, 422, "requests must be an array with at least one"},
			{`{"requests":[]}`, 422, "requests must be an array with at least one"},
			{`7`, 422, "the body must be an object"},
			{`{"requests":7}`, 422, "requests must be an array of requests"},
			{`{"requests":[{"items":[1]}],"requests":[{"items":[1]}]}`, 422,
				`the body may have requests, once, and not "requests"`},
			{`{"requests":[],"requests":[{"items":[1]}]}`, 422, "requests, once"},
			{`{"queries":[]}`, 422, `the body may have requests, once, and not "queries"`},
			{`[{"items":[1]},{"items":[1],"top":0}]`, 422,
				"requests[1].top must be a whole number from 1 on"},
			{`[{"items":[1]},{"items":[1,{}]}]`, 422, "requests[1].items[1] must be a text"},
			{`[{"items":[1]},{"user":"u"}]`, 422, "requests[1].items must be there"},
			{`[{"items":[1]},7]`, 422, "requests[1] must be an object"},
			{`[{"items":[1,2,3,4]}]`, 422, "requests[0].items must be at most 3 ids (--bandit-max-items)"},
			{`[{"items":[1]},{"items":[1]},{"items":[1]},{"items":[1]},{"items":[1]}]`, 422,
				"more than 4 requests in one batch (--bandit-max-queries)"},
			{`[{"items":[1]}`, 400, "the body is not JSON"},
			{`[{"items":[1]}] 7`, 400, "something follows the value"},
			{``, 422, "the body is empty: send an array of requests"},
		} {
			s.problem(s.do("POST", s.url+"/predict/batch", c.body), c.status, c.says)
		}
	})
}

func TestBadQueriesNameTheField(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, open(t, t.TempDir(), func(c *Config) { c.MaxItems = 100 }), kernel)
		for _, c := range []struct {
			body   string
			status int
			says   string
		}{
			{``, 422, `the body is empty: send {"user":...,"items":[...]}`},
			{`user=u1`, 400, "the body is not JSON: a value that is none at byte 0"},
			{`{"items":[1]`, 400, "the body is not JSON: expected ',' or '}' at byte 12"},
			{`{"items":[1]}}`, 400, "the body is not JSON: something follows the value at byte 13"},
			{`{"items":[NaN]}`, 400, "the body is not JSON: a value that is none at byte 10"},
			{"{\"items\":[\"\xff\"]}", 400, "text that is not UTF-8"},
			{`{"items":["\ud800"]}`, 400, "text that is not Unicode"},
			{`[1,2]`, 422, "the body must be an object"},
			{`{}`, 422, "items must be there: an array of ids"},
			{`{"user":"u1"}`, 422, "items must be there: an array of ids"},
			{`{"items":[]}`, 422, "items must be an array with at least one id"},
			{`{"items":"a"}`, 422, "items must be an array of ids"},
			{`{"items":null}`, 422, "items must be an array of ids"},
			{`{"items":["a",1.5]}`, 422, "items[1] must be a text of 1 to 255 bytes or a whole number"},
			{`{"items":["a",""]}`, 422, "items[1] must be a text of 1 to 255 bytes"},
			{`{"items":["a",null]}`, 422, "items[1] must be"},
			{`{"items":["` + strings.Repeat("x", 256) + `"]}`, 422,
				"items[0] must be a text of 1 to 255 bytes"},
			{`{"items":` + list(0, 101) + `}`, 422, "items must be at most 100 ids (--bandit-max-items)"},
			{`{"items":[1],"user":""}`, 422, "user must be a text of 1 to 255 bytes or a whole number"},
			{`{"items":[1],"user":true}`, 422, "user must be"},
			{`{"items":[1],"segment":[]}`, 422, "segment must be"},
			{`{"items":[1],"top":0}`, 422, "top must be a whole number from 1 on"},
			{`{"items":[1],"top":"all"}`, 422, "top must be a whole number from 1 on"},
			{`{"items":[1],"seed":-1}`, 422, "seed must be a whole number from 0 to 18446744073709551615"},
			{`{"items":[1],"seed":1e3}`, 422, "seed must be a whole number"},
			{`{"items":[1],"explain":"yes"}`, 422, "explain must be true or false"},
			{`{"items":[1],"items":[2]}`, 422, "items must be there once"},
			{`{"items":[1],"tops":3}`, 422,
				`the body may have user, segment, items, top, seed and explain, and not "tops"`},
		} {
			s.problem(s.do("POST", s.url+"/predict", c.body), c.status, c.says)
			// The same at the size that a worker reads.
			if c.body != "" {
				s.problem(s.do("POST", s.url+"/predict", c.body+strings.Repeat(" ", inlineItems*(MaxID+3))),
					c.status)
			}
		}
		s.problem(s.do("GET", s.url+"/predict", ""), 405)
		s.problem(s.do("POST", s.url+"/predict", strings.Repeat(" ", maxBody+1)), 413)
	})
}

func TestWhatTakesLongLeavesTheLoop(t *testing.T) {
	f := open(t, t.TempDir())
	route := make(map[string]server.Route)
	for _, r := range f.Routes() {
		route[r.Pattern] = r
	}
	predict, batch := route["POST /predict"], route["POST /predict/batch"]
	infer := route["POST /v2/models/{model}/infer"]
	f.cfg.Model = "" // the name in a request that only a test makes
	tensor := func(n int, more string) string {
		return fmt.Sprintf(`{"inputs":[{"name":"items","shape":[%d],"datatype":"INT64","data":%s}]%s}`, n,
			list(0, n), more)
	}
	for _, c := range []struct {
		name      string
		handler   server.Handler
		body      string
		elsewhere bool
	}{
		{"one item", predict.Handler, `{"items":[1]}`, false},
		{"64 items", predict.Handler, `{"items":` + list(0, 64) + `}`, false},
		{"64 items and everything else", predict.Handler,
			`{"user":"u","segment":"s","top":3,"seed":1,"explain":true,"items":` + list(0, 64) + `}`, false},
		{"64 long items", predict.Handler, `{"items":["` + strings.Repeat(strings.Repeat("x", 250)+`","`,
			63) + `y"]}`, false},
		{"65 items", predict.Handler, `{"items":` + list(0, 65) + `}`, true},
		{"65 items and another member", predict.Handler, `{"items":` + list(0, 65) + `,"top":3}`, true},
		{"400 items", predict.Handler, `{"items":` + list(0, 400) + `}`, true},
		{"much white space", predict.Handler, `{"items":[1]}` + strings.Repeat(" ", 100_000), true},
		{"a long id of escapes", predict.Handler, `{"items":["` + strings.Repeat(`\u0061`, 100_000) +
			`"]}`, true},
		{"a batch of one", batch.Handler, `[{"items":[1]}]`, true},
		{"a tensor of 64", infer.Handler, tensor(64, ""), false},
		{"a tensor of 65", infer.Handler, tensor(65, ""), true},
		{"a tensor of 2000", infer.Handler, tensor(2000, ""), true},
		{"a tensor in a long body", infer.Handler, tensor(1, strings.Repeat(" ", inferInline)), true},
	} {
		w := new(server.Response)
		outcome := c.handler(w, server.OnLoop(&server.Request{Method: "POST", Body: []byte(c.body)}))
		if elsewhere := outcome != server.Done; elsewhere != c.elsewhere || elsewhere &&
			(w.Status != 0 || len(w.Body) > 0) {
			t.Errorf("%s: outcome %d, want another than Done: %t: %d %.100s", c.name, outcome, c.elsewhere,
				w.Status, w.Body)
		}
	}
}

func TestAPanicIsTheFaultOfItsRequestAlone(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		f := open(t, t.TempDir())
		f.scratch.New = func() any { return new(scratch) } // without a sampler: what has no seed panics
		s := serve(t, f, kernel)
		const bad, good = `{"items":[1]}`, `{"items":[1],"seed":1}`
		big := func(body string) string { return strings.Replace(body, "[1]", list(0, 300), 1) }
		for range 5 {
			for _, body := range []string{bad, big(bad)} {
				a := s.do("POST", s.url+"/predict", body)
				s.problem(a, 500, "the request failed inside the server and has been logged")
				if strings.Contains(a.body, "nil") || strings.Contains(a.body, ".go") {
					t.Errorf("%s tells of the inside", a.body)
				}
			}
			s.post("/predict", good, nil)
			s.post("/predict", big(good), nil)
			s.problem(s.do("POST", s.url+"/predict/batch", "["+good+","+bad+"]"), 500)
			s.post("/predict/batch", "["+good+"]", nil)
			s.post("/events", `{"item":1,"reward":1}`, nil)
		}
		if !strings.Contains(s.log.String(), "panic") {
			t.Errorf("nothing was logged: %s", s.log)
		}
		if err := s.Health().Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestPriorsAreRead(t *testing.T) {
	for text, want := range map[string][2]float64{"1,1": {1, 1}, " 0.5 , 2e3 ": {0.5, 2000},
		"1e-300,1e300": {1e-300, 1e300}} {
		if got, err := ParsePrior(text); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "1", "1,", ",1", "1,1,1", "0,1", "1,-1", "NaN,1",
		"1,Inf", "a,b", "1;1"} {
		if got, err := ParsePrior(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

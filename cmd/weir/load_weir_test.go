package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/load"
	"weir/internal/load/mock"
	"weir/internal/load/report"
	"weir/internal/server"
)

// loadFor makes a short load and returns what came of it.
func loadFor(t *testing.T, p load.Plan) *report.Result {
	t.Helper()
	p.Warm, p.Duration = 2, load.Duration(300*time.Millisecond)
	if p.Every == 0 && p.Connections == 0 {
		p.Rate = "200/s"
	}
	run, err := load.New(t.Context(), p, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Requests == 0 || result.Errors > 0 || result.Shed > 0 {
		t.Errorf("%d requests, %d shed, errors %v, expected some that were all served", result.Requests,
			result.Shed, result.Failures)
	}
	return result
}

// TestWeirServesEveryScenario holds the requests of scenarios against the services that they are made for.
func TestWeirServesEveryScenario(t *testing.T) {
	dir := t.TempDir()
	numbered(50, 400).write(t, filepath.Join(dir, "feeds.weir"), 1, 2, 3)
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--feeds",
		filepath.Join(dir, "feeds.weir"))
	plan := func(scenario string) load.Plan {
		plan := load.Default()
		plan.Scenario, plan.Target = scenario, "http://"+p.public
		return plan
	}

	t.Run("feed", func(t *testing.T) {
		feed := plan("feed")
		feed.Users, feed.Items = 50, 3
		asked := loadFor(t, feed).Requests
		feed.Method = http.MethodPost
		asked += loadFor(t, feed).Requests
		moved := 0
		for user := range uint64(50) {
			moved += p.position(user)
		}
		// Before each load one request tries the target.
		if want := 3 * (int(asked) + 2); moved != want {
			t.Errorf("positions have moved by %d, expected %d of %d requests", moved, want, asked)
		}
	})
	t.Run("predict", func(t *testing.T) {
		predict := plan("predict")
		predict.Items, predict.MaxItem = 10, 100
		asked := loadFor(t, predict).Requests
		p.reaches("weir_bandit_predictions_total", float64(10*(asked+1)))
	})
	t.Run("sequence", func(t *testing.T) {
		sequence := plan("sequence")
		sequence.MaxIndex = -1
		asked := loadFor(t, sequence).Requests
		_, body := p.get("/current")
		var at struct{ Index uint64 }
		if err := json.Unmarshal([]byte(body), &at); err != nil || at.Index != asked+1 {
			t.Errorf("the index is %s after %d requests, error %v", body, asked, err)
		}
	})
	t.Run("a mix", func(t *testing.T) {
		mix := plan("feed=2,predict=1,sequence=1")
		mix.Users, mix.Every, mix.MaxItem = 100, load.Duration(500*time.Millisecond), 1000
		if rate := loadFor(t, mix).Rate.Intended; rate < 100 || rate > 400 {
			t.Errorf("%v a second, expected about 200 of 100 users every half second", rate)
		}
	})
}

// TestAServerIsNoAgent holds what an agent's address is told to be against both ports of a server.
func TestAServerIsNoAgent(t *testing.T) {
	p := serveHere(t, server.Config{}, t.TempDir())
	plan := load.Default()
	plan.URL, plan.Rate = "http://"+p.public+"/next", "10/s"
	for address, what := range map[string]string{p.public: "a weir server answers",
		p.admin: "the admin port of a weir server answers"} {
		plan.Agents = []string{address}
		want := "--agents: agent " + address + ": " + what +
			", which makes no load; start weir load agent on that machine"
		if _, err := load.New(t.Context(), plan, load.Options{}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTheMockSeesReadersThatAskForWhatHasChanged holds poll against the upstream that it is made for.
func TestTheMockSeesReadersThatAskForWhatHasChanged(t *testing.T) {
	feeds, err := mock.Open(mock.Options{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(feeds)
	defer upstream.Close()
	plan := load.Default()
	plan.Scenario, plan.Target, plan.Users, plan.Feeds, plan.Connections = "poll", upstream.URL, 5, 2, 1
	asked := loadFor(t, plan).Requests
	_, body := ask(t, http.MethodGet, upstream.URL+"/stats", "")
	var stats struct {
		Requests    uint64 `json:"requests"`
		NotModified uint64 `json:"not_modified"`
	}
	if err := json.Unmarshal([]byte(body), &stats); err != nil {
		t.Fatal(err)
	}
	// One tried the target. The connection awaits each answer, so only the first turn through ten
	// subscriptions has no validators.
	if stats.Requests != asked+1 || stats.NotModified != asked-10 {
		t.Errorf("%s after %d requests", body, asked)
	}
}

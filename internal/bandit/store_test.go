package bandit

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

func TestClientsAreNotToldWhereAStoreIs(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		const nowhere = "127.0.0.1:1"
		down := func(prior bool) *served {
			return serve(t, open(t, t.TempDir(), func(c *Config) {
				// Which sets what is usual.
				c.StoreOptions.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
				c.Store, c.PriorOnStoreError, c.Prior = "feast+http://"+nowhere, prior, [2]float64{2, 3}
			}), kernel)
		}
		const tensors = `{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`
		s := down(false)
		for path, body := range map[string]string{"/predict": `{"user":"u","items":["a"]}`,
			"/predict/batch": `[{"items":["a"]}]`, "/v2/models/bandit/infer": tensors} {
			a := s.do("POST", s.url+path, body)
			s.problem(a, 503, "the feature store failed: it cannot be reached")
			if strings.Contains(a.body, nowhere) {
				t.Errorf("POST %s: %s", path, a.body)
			}
		}
		var now state
		if s.fromAdmin("/admin/bandit", &now); now.Store == nil || now.Store.Ready || now.Store.Users != nil ||
			now.Store.Reason != "it cannot be reached" || now.Store.Items.Misses == 0 ||
			now.Store.Errors["unreachable"] == 0 || !strings.Contains(now.Problem, "feature store") {
			t.Errorf("its health is %+v, the bandit's %q", now.Store, now.Problem)
		}
		s.problem(s.do("GET", s.admin+"/admin/bandit/arm?item=a", ""), 503, "it cannot be reached")
		s.problem(s.do("GET", s.admin+"/admin/bandit/ranking?by=mean", ""), 422, "by must be pulls")
		s.fromAdmin("/admin/bandit/ranking", new(rankedPage))
		s = down(true)
		a := s.do("POST", s.url+"/predict", `{"user":"u","items":["a"],"explain":true}`)
		if a.status != 200 ||
			!strings.HasSuffix(a.body,
				`"explain":[{"alpha":2,"beta":3,"mean":0.4,"source":"prior"}],"degraded":true}`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a = s.do("POST", s.url+"/v2/models/bandit/infer", tensors); a.status != 200 ||
			!strings.Contains(a.body, `"parameters":{"degraded":true}`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		// What events teach is above the prior.
		s.events(`{"user":"u","item":"a","reward":1}`, accepted{1, 0})
		if a = s.do("POST", s.url+"/predict", `{"items":["a"],"explain":true}`); !strings.Contains(a.body,
			`{"alpha":3,"beta":3,"mean":0.5,"source":"item"}`) {
			t.Errorf("%s", a.body)
		}
	})
}

// feast is a feature server for items that are all alike, and for users of one segment. Either kind can be
// made to fail.
type feast struct {
	items, users atomic.Bool // down
	hang         atomic.Bool // for items
}

func (f *feast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Entities map[string][]json.RawMessage }
	body, err := io.ReadAll(r.Body) // to its end, or nobody sees the client go
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	down, names, values := &f.items, []string{"alpha", "beta"}, []any{20, 30}
	if asked.Entities["user_id"] != nil {
		down, names, values = &f.users, []string{"segment"}, []any{"young"}
	}
	if down == &f.items && f.hang.Load() {
		<-r.Context().Done()
	}
	if down.Load() {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	type column struct {
		Values   []any    `json:"values"`
		Statuses []string `json:"statuses"`
	}
	var results []column
	for _, v := range values {
		var c column
		for range len(asked.Entities["item_id"]) + len(asked.Entities["user_id"]) {
			c.Values, c.Statuses = append(c.Values, v), append(c.Statuses, "PRESENT")
		}
		results = append(results, c)
	}
	json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"feature_names": names},
		"results": results}) //nolint:errcheck // the client may be gone
}

func TestAStoreMayFailForItemsOrForUsersAlone(t *testing.T) {
	start := func(prior bool, change ...func(*Config)) (*feast, *served) {
		var f feast
		upstream := httptest.NewServer(&f)
		t.Cleanup(upstream.Close)
		return &f, serve(t, open(t, t.TempDir(), append([]func(*Config){func(c *Config) {
			c.StoreOptions.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
			c.Store, c.PriorOnStoreError, c.Prior, c.Learn = "feast+"+upstream.URL, prior, [2]float64{2, 3},
				arms.Segmented
			c.StoreOptions.UserView, c.StoreOptions.IDType = "users", "string"
			c.StoreOptions.TTL, c.StoreOptions.Stale, c.StoreOptions.Timeout = 0, 0, time.Minute
		}}, change...)...), server.Config{})
	}
	const query, event = `{"user":"u","items":["a"],"explain":true}`, `{"user":"u","item":"a","reward":1}`
	answers := func(s *served, explained, segment, rest string) {
		t.Helper()
		a := s.do("POST", s.url+"/predict", query)
		if want := `"explain":[` + explained + `]` + segment + rest + `}`; a.status != 200 ||
			!strings.HasSuffix(a.body, want) {
			t.Errorf("%d %s, want %s", a.status, a.body, want)
		}
	}
	const stored, young, old = `{"alpha":20,"beta":30,"mean":0.4,"source":"item"}`, `,"segment":"young"`,
		`,"degraded":true`
	t.Run("fail", func(t *testing.T) {
		f, s := start(false)
		answers(s, stored, young, "")
		f.users.Store(true)
		s.problem(s.do("POST", s.url+"/predict", query), 503, "the feature store failed: it answered")
		s.problem(s.do("POST", s.url+"/events", event), 503, "the feature store failed: it answered")
		if n := s.learnedArms(); n != 0 {
			t.Errorf("an event that failed has taught %d arms", n)
		}
		f.hang.Store(true) // the first failure ends it, and is what is told
		s.problem(s.do("POST", s.url+"/predict", query), 503, "the feature store failed: it answered")
		f.hang.Store(false)
		f.users.Store(false)
		f.items.Store(true)
		s.problem(s.do("POST", s.url+"/predict", query), 503, "the feature store failed: it answered")
		f.items.Store(false)
		s.events(event, accepted{1, 0})
		// Its arm begins with the item's.
		answers(
			s,
			`{"alpha":3.0588235294117645,"beta":2.9411764705882355,"mean":0.5098039215686274,"source":"segment"}`, young, "")
	})
	t.Run("prior", func(t *testing.T) {
		f, s := start(true)
		f.users.Store(true)
		answers(s, stored, "", old)
		s.events(event, accepted{1, 0}) // it counts for the item
		if n := s.learner.Len(arms.Segmented); n != 0 {
			t.Errorf("%d arms of segments that nobody knows", n)
		}
		f.users.Store(false)
		f.items.Store(true)
		answers(s, `{"alpha":3,"beta":3,"mean":0.5,"source":"item"}`, young, old)
	})
	t.Run("older answers", func(t *testing.T) {
		f, s := start(false, func(c *Config) { c.StoreOptions.Stale = time.Hour })
		answers(s, stored, young, "")
		f.users.Store(true)
		answers(s, stored, young, old)
		f.users.Store(false)
		f.items.Store(true)
		answers(s, stored, young, old)
	})
}

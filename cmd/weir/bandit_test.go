package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"weir/internal/server"
	"weir/internal/systest"
)

// importArms runs weir import-arms on sources, files given by name and text.
func importArms(t testing.TB, out string, sources ...string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"import-arms", "-o", out}
	for i := 0; i < len(sources); i += 2 {
		path := filepath.Join(dir, sources[i])
		if err := os.WriteFile(path, []byte(sources[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.Command("weir", args...).CombinedOutput(); err != nil {
		t.Fatalf("weir %v: %v\n%s", args, err, out)
	}
}

// post sends a body to the public port, which must be answered with 200 and, if it is not empty, want.
func (p *ports) post(path, body, want string) string {
	p.t.Helper()
	status, got := ask(p.t, http.MethodPost, "http://"+p.public+path, body)
	if status != http.StatusOK || want != "" && got != want {
		p.t.Errorf("POST %s %.100s: %d %.300s, want %s", path, body, status, got, want)
	}
	return got
}

// posterior returns what an explained prediction of one item says, without its score.
func (p *ports) posterior(query string) string {
	p.t.Helper()
	body := p.post("/predict", query+`,"explain":true}`, "")
	_, explained, _ := strings.Cut(body, `"explain":`)
	return strings.TrimSuffix(explained, "}")
}

func (p *ports) wantPosterior(query, want string) {
	p.t.Helper()
	if got := p.posterior(query); got != want {
		p.t.Errorf("%s: %s, want %s", query, got, want)
	}
}

func TestServeHasTheBanditBesideTheFeed(t *testing.T) {
	lanes(t, func(t *testing.T, cfg server.Config) {
		dir := t.TempDir()
		feeds, arms, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "arms.weir"),
			filepath.Join(dir, "data")
		numbered(10, 20).write(t, feeds)
		importArms(t, arms, "items.csv", "item,alpha,beta\na,2,3\nb,4,4\n", "segments.csv",
			"item,segment,clicks,impressions\na,young,9,38\n", "users.csv", "user,segment\nu1,young\n")
		t.Run("without arms", func(t *testing.T) {
			p := serveHere(t, cfg, data, "--feeds", feeds, "--bandit-prior", "1,4")
			p.want("/feed/1?size=2", 200, "[21,22]")
			p.want("/next", 200, `{"index":1,"value":"1"}`)
			p.want("/health", 200)
			p.wantPosterior(`{"user":"u1","items":["a"]`,
				`[{"alpha":1,"beta":4,"mean":0.2,"source":"prior"}]`)
			p.post("/events", `{"user":"u1","item":"a","reward":1,"id":"e1"}`,
				`{"accepted":1,"duplicates":0}`)
			p.post("/events", `{"user":"u1","item":"a","reward":1,"id":"e1"}`,
				`{"accepted":0,"duplicates":1}`)
			p.wantPosterior(`{"user":"u1","items":["a"]`,
				`[{"alpha":2,"beta":4,"mean":0.3333333333333333,"source":"item"}]`)
		})
		t.Run("again, with arms", func(t *testing.T) {
			p := serveHere(t, cfg, data, "--bandit-arms", arms)
			systest.Eventually(t, "arms", func() bool { status, _ := p.get("/health"); return status == 200 })
			p.post("/events", `{"item":"a","reward":1,"id":"e1"}`, `{"accepted":0,"duplicates":1}`)
			p.wantPosterior(`{"items":["a"]`, `[{"alpha":3,"beta":3,"mean":0.5,"source":"item"}]`)
			p.wantPosterior(`{"user":"u1","items":["a"]`,
				`[{"alpha":10,"beta":30,"mean":0.25,"source":"segment"}],"segment":"young"`)
			p.want("/feed/1", 404)
			for name, want := range map[string]float64{"weir_bandit_predictions_total": 2,
				"weir_bandit_requests_total": 2, "weir_bandit_imported_arms": 3, "weir_bandit_generation": 1,
				"weir_bandit_learned_arms": 1, "weir_bandit_event_ids": 1, "weir_bandit_events_total": 1,
				"weir_bandit_stage_seconds": 6, "weir_bandit_event_lag_seconds": 0} {
				if got, ok := p.metric(name); !ok || got != want {
					t.Errorf("%s is %v, %t, want %v", name, got, ok, want)
				}
			}
			for _, name := range []string{"weir_bandit_journal_appends_total", "weir_sync_lag_seconds",
				"weir_bandit_save_errors_total", "weir_bandit_checkpoint_errors_total"} {
				if _, ok := p.metric(name); !ok {
					t.Errorf("there is no %s", name)
				}
			}
		})
		t.Run("off", func(t *testing.T) {
			p := serveHere(t, cfg, data, "--bandit=false")
			if status, body := ask(t, "POST", "http://"+p.public+"/predict",
				`{"items":["a"]}`); status != 404 {
				t.Errorf("%d %s", status, body)
			}
			p.want("/v2/health/ready", 404)
			p.want("/health", 200)
		})
	})
}

func TestDamagedArmsAreTheReasonInHealth(t *testing.T) {
	dir := t.TempDir()
	arms := filepath.Join(dir, "arms.weir")
	importArms(t, arms, "items.csv", "item,alpha,beta\na,2,3\n")
	b, err := os.ReadFile(arms)
	if err != nil {
		t.Fatal(err)
	}
	b[4096+20] ^= 1
	if err := os.WriteFile(arms, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--bandit-arms", arms)
	systest.Eventually(t, "what is wrong", func() bool {
		status, body := p.get("/health")
		return status == 503 && strings.Contains(body, "bandit") &&
			strings.Contains(body, "the arms cannot be used; see the log, and replace the file")
	})
	p.want("/next", 200)
	if status, body := ask(t, "POST", "http://"+p.public+"/predict", `{"items":["a"]}`); status != 503 ||
		!strings.Contains(body, "the arms cannot be used") {
		t.Errorf("%d %s", status, body)
	}
	importArms(t, arms, "items.csv", "item,alpha,beta\na,5,6\n")
	if status, body := ask(t, "POST", "http://"+p.admin+"/admin/bandit/reload", ""); status != 200 {
		t.Errorf("reload: %d %s", status, body)
	}
	p.want("/health", 200)
	p.wantPosterior(`{"items":["a"]`, `[{"alpha":5,"beta":6,"mean":0.45454545454545453,"source":"item"}]`)
}

// TestASeedIsAnsweredAlikeByAllWays asks for the same predictions by every way there is.
func TestASeedIsAnsweredAlikeByAllWays(t *testing.T) {
	dir := t.TempDir()
	arms := filepath.Join(dir, "arms.weir")
	items := "item,alpha,beta\n"
	for i := range 300 {
		items += fmt.Sprintf("%d,%v,%v\n", i, 0.01+float64(i*i)/7, 1000/float64(i+1))
	}
	importArms(t, arms, "items.csv", items)
	cert, key := certificate(t, dir, "one")
	keys, err := openCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	loops := serveHere(t, server.Config{TLS: keys.config()}, filepath.Join(dir, "data"),
		"--bandit-arms", arms)
	other := serveHere(t, server.Config{NetHTTP: true}, filepath.Join(dir, "other"), "--bandit-arms", arms)
	for _, p := range []*ports{loops, other} {
		systest.Eventually(t, "arms", func() bool { status, _ := p.get("/health"); return status == 200 })
	}
	secure := trusting(t, cert)
	defer secure.CloseIdleConnections()
	for _, n := range []int{5, 300} {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		query := fmt.Sprintf(`{"items":[%s],"seed":%d}`, strings.Join(list, ","), 1000+n)
		want := loops.post("/predict", query, "")
		other.post("/predict", query, want)
		loops.post("/predict/batch", "["+query+"]", `{"results":[`+want+`]}`)
		for range 3 {
			resp, err := secure.Post("https://"+loops.tls+"/predict", "application/json",
				strings.NewReader(query))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.ProtoMajor != 2 || string(body) != want {
				t.Errorf("by TLS and %s: %.200s %v, want %.200s", resp.Proto, body, err, want)
			}
		}
		// A body whose length is not said leaves the event loops.
		resp, err := client.Post("http://"+loops.public+"/predict", "application/json",
			struct{ io.Reader }{strings.NewReader(query)})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("in chunks: %.200s %v, want %.200s", body, err, want)
		}
	}
}

// TestAllServicesAtOnce has feeds, the sequence, predictions large and small, and events asked for side by
// side: every answer is right.
func TestAllServicesAtOnce(t *testing.T) {
	lanes(t, func(t *testing.T, cfg server.Config) {
		dir := t.TempDir()
		feeds, arms := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "arms.weir")
		const users, perUser, clients, rounds = 20, 200, 3, 60
		numbered(users, perUser).write(t, feeds)
		importArms(t, arms, "items.csv", "item,alpha,beta\n1,2,3\n")
		p := serveHere(t, cfg, filepath.Join(dir, "data"), "--feeds", feeds, "--bandit-arms", arms)
		systest.Eventually(t, "arms", func() bool { status, _ := p.get("/health"); return status == 200 })
		var many []string
		for i := range 2000 {
			many = append(many, fmt.Sprint(i))
		}
		var all sync.WaitGroup
		var given sync.Map
		var events atomic.Int64
		for c := range clients {
			all.Go(func() {
				for i := range rounds {
					_, body := p.get(fmt.Sprintf("/feed/%d?size=3", (c+i)%users))
					for _, item := range items(t, body) {
						if _, twice := given.LoadOrStore(item, true); twice {
							t.Errorf("item %d came twice", item)
						}
					}
				}
			})
			all.Go(func() {
				for range rounds {
					for _, list := range []string{"1,2,3", strings.Join(many, ",")} {
						var answer struct{ Scores []float64 }
						if err := json.Unmarshal([]byte(p.post("/predict", `{"items":[`+list+`]}`, "")),
							&answer); err != nil || len(answer.Scores) != strings.Count(list, ",")+1 ||
							slices.ContainsFunc(answer.Scores, func(x float64) bool {
								return !(x >= 0 && x <= 1)
							}) {
							t.Errorf("%d scores, %v", len(answer.Scores), err)
						}
					}
				}
			})
			all.Go(func() {
				for range rounds {
					p.post("/events", `[{"user":1,"item":1,"reward":1},{"user":1,"item":1,"reward":0}]`,
						`{"accepted":2,"duplicates":0}`)
					events.Add(1)
				}
			})
			all.Go(func() {
				for range rounds {
					p.want("/fib/10", 200, `"55"`)
				}
			})
		}
		all.Wait()
		p.wantPosterior(`{"items":[1]`, fmt.Sprintf(`[{"alpha":%d,"beta":%d,"mean":%v,"source":"item"}]`,
			2+events.Load(), 3+events.Load(), float64(2+events.Load())/float64(5+2*events.Load())))
	})
}

func TestSIGHUPTakesUpArms(t *testing.T) {
	dir := t.TempDir()
	arms := filepath.Join(dir, "arms.weir")
	importArms(t, arms, "items.csv", "item,alpha,beta\na,2,3\n")
	p := start(t, "--bandit-arms", arms, "--bandit-arms-watch", "-1s", "--data", filepath.Join(dir, "data"))
	p.reaches("weir_bandit_generation", 1)
	importArms(t, arms, "items.csv", "item,alpha,beta\na,4,4\n")
	p.wantPosterior(`{"items":["a"]`, `[{"alpha":2,"beta":3,"mean":0.4,"source":"item"}]`)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.reaches("weir_bandit_generation", 2)
	p.wantPosterior(`{"items":["a"]`, `[{"alpha":4,"beta":4,"mean":0.5,"source":"item"}]`)
	// What is broken is refused, and said.
	if err := os.WriteFile(arms+".new", []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(arms+".new", arms); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "a refusal", func() bool {
		return strings.Contains(p.logs.String(), "the new arms are refused, generation 2 serves on") &&
			strings.Contains(p.logs.String(), "not a file of arms")
	})
	p.want("/health", 200)
	p.wantPosterior(`{"items":["a"]`, `[{"alpha":4,"beta":4,"mean":0.5,"source":"item"}]`)
}

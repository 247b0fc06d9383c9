// Package web drives load runs from a browser: a page with a form for a plan, live plots, and the history
// of results.
//
// A UI is an http.Handler that runs one load at a time. Its pages are plain files, embedded; they talk to
// it by JSON under /api and hear of a run by server-sent events, which a client that was away resumes where
// it stopped. Results are kept as JSON files in a folder, at most Options.Keep of them, and outlive the
// process.
//
// What makes load is a weapon, so the UI is careful who points it. Without a token it answers only requests
// addressed to the machine itself by a loopback name, which keeps out pages that rebind a name of theirs to
// 127.0.0.1; Listen refuses other addresses. With one, every request under /api carries it. In either case
// requests that another site's page makes are refused, and which hosts may be loaded, and which agents are
// told to, is for who starts the UI to say, not for who uses it.
//
// Errors are problem documents (RFC 9457) that say what to change. Those about a plan name the field in the
// member "field".
package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir/internal/load"
	"weir/internal/load/access"
	"weir/internal/load/report"
)

// Runner is one run: what load.New returns.
type Runner interface {
	// Load is what the plan sets: requests a second or connections; 0 where nothing is set.
	Load() float64
	// Do makes the load and returns when it is over, or soon after ctx is done, with what was measured
	// until then. It is called once.
	Do(ctx context.Context) (*report.Result, error)
	// SetRate changes the load from now on: requests a second, or connections in the closed model.
	SetRate(ctx context.Context, rate float64) error
	// Watch returns the points as they come, and is closed when the run is over.
	Watch() <-chan report.Point
	// Points returns the points so far, a bounded number: those of a long run are merged.
	Points() []report.Point
	// Latency is that of all that was measured so far.
	Latency() report.Latency
	// String says in a line what the run asks for.
	String() string
}

// Options say how a UI works. New and History are needed.
type Options struct {
	// New checks a plan and prepares its run; it makes no load yet. Its errors are shown to people.
	New func(ctx context.Context, p load.Plan) (Runner, error)
	// History is the folder of the results. It is made when it is missing.
	History string
	// Keep is how many results that the UI has written stay in the folder, the newest; default 200.
	Keep int
	// Token, when set, is what every request under /api must carry.
	Token string
	// Own are the hosts beyond loopback that may be loaded. What a plan says of that is replaced.
	Own []string
	// Agents are those that plans may name, each as host:port; without them they may name none. Agents are
	// shown a token and told what to load, so who uses the UI does not choose them.
	Agents []string
	// Files is the folder whose files plans may name as requests and variables; without it they may name
	// none.
	Files string
	Log   *slog.Logger // default: none
}

// UI serves the pages and drives the runs.
type UI struct {
	o       Options
	handler http.Handler
	history *history
	live    *live
	key     []byte // of the cookies of this process

	mu      sync.Mutex
	current *activeRun // nil when nothing runs
	closed  bool
	closing context.Context // done when the UI closes
	close   context.CancelFunc
	runs    sync.WaitGroup
}

// New returns a UI that runs nothing yet. Close ends it.
func New(o Options) (*UI, error) {
	if err := access.CheckToken(o.Token); err != nil {
		return nil, err
	}
	if o.Keep == 0 {
		o.Keep = 200
	}
	if o.Keep < 1 {
		return nil, fmt.Errorf("the number of results to keep must be at least 1, got %d", o.Keep)
	}
	for _, a := range o.Agents {
		if err := access.CheckAgent(a); err != nil {
			return nil, err
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h, err := openHistory(o.History, o.Keep)
	if err != nil {
		return nil, err
	}
	u := &UI{o: o, history: h, live: newLive(), key: make([]byte, 32)}
	rand.Read(u.key) //nolint:errcheck // never fails
	u.closing, u.close = context.WithCancel(context.Background())
	u.handler = u.guard(u.routes())
	return u, nil
}

// ServeHTTP implements http.Handler.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.handler.ServeHTTP(w, r) }

// Close stops the run, keeps its result, and ends all event streams. Requests are refused from then on.
func (u *UI) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.close()
	u.runs.Wait()
	u.live.Close()
	return u.history.close()
}

// Serve answers on l until ctx is done, then closes the UI.
func (u *UI) Serve(ctx context.Context, l net.Listener) error {
	return access.Serve(ctx, l, u, 30*time.Second, u.o.Log, u.Close)
}

func (u *UI) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/run", u.getRun)
	mux.HandleFunc("POST /api/runs", u.postRun)
	mux.HandleFunc("DELETE /api/run", u.stopRun)
	mux.HandleFunc("POST /api/run/stop", u.stopRun)
	mux.HandleFunc("PUT /api/run/rate", u.putRate)
	mux.HandleFunc("POST /api/plan/check", u.checkPlan)
	mux.Handle("GET /api/events", u.live)
	mux.HandleFunc("GET /api/history", u.listHistory)
	mux.HandleFunc("GET /api/history/{file}", u.getResult)
	mux.HandleFunc("DELETE /api/history/{id}", u.deleteResult)
	mux.HandleFunc("GET /api/compare", u.compare)
	mux.HandleFunc("POST /api/session", u.postSession)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound,
			r.Method+" has nothing at this path; docs/load.md lists what there is", "")
	})
	u.pages(mux)
	return mux
}

// problem answers with a problem document. The field is a plan's, "" when it is about none of them.
func problem(w http.ResponseWriter, status int, detail, field string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	write(w, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Field  string `json:"field,omitempty"`
	}{"about:blank", http.StatusText(status), status, detail, field})
}

// refuse answers with a problem document that is about no field.
func refuse(w http.ResponseWriter, status int, detail string) { problem(w, status, detail, "") }

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	write(w, v)
}

func write(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: an answer that is no JSON: " + err.Error())
	}
	w.Write(text) //nolint:errcheck // the client may be gone
}

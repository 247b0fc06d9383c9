package bandit

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/bandit/arms"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/server/servertest"
	"weir/internal/systest"
)

// arm is an arm of a file: of an item, of an item for a segment, or of an item for a user.
type arm struct {
	user, segment, item string
	alpha, beta         float64
}

// writeArms puts a file of arms at path, by a rename. users are pairs of a user and a segment.
func writeArms(t testing.TB, path string, list []arm, users ...string) {
	t.Helper()
	w, err := arms.Create(path, arms.Options{TempDir: filepath.Dir(path)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, a := range list {
		level, k := arms.Item, arms.KeyOf([]byte(a.item))
		var scope arms.Scope
		switch {
		case a.user != "":
			level, scope = arms.Pair, arms.UserScope(arms.KeyOf([]byte(a.user)))
		case a.segment != "":
			level, scope = arms.Segmented, arms.SegmentScope(arms.KeyOf([]byte(a.segment)))
		}
		if level != arms.Item {
			if err := w.Hint(k, scope); err != nil {
				t.Fatal(err)
			}
			k = scope.Key(k)
		}
		if err := w.Add(level, k, a.alpha, a.beta); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(users); i += 2 {
		if err := w.AddUser(arms.KeyOf([]byte(users[i])), users[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(nil); err != nil {
		t.Fatal(err)
	}
}

// logged keeps what is logged.
type logged struct {
	sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

// fixture is a bandit and what it was opened with.
type fixture struct {
	*Bandit
	t    testing.TB
	env  server.Env
	log  *logged
	dir  string // what it keeps
	done bool
}

// open opens a bandit that keeps its events in dir and is closed when the test ends. It has its arms.
func open(t testing.TB, dir string, change ...func(*Config)) *fixture {
	t.Helper()
	f, err := tryOpen(t, dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	f.loaded()
	return f
}

func tryOpen(t testing.TB, dir string, change ...func(*Config)) (*fixture, error) {
	t.Helper()
	cfg := Defaults()
	cfg.Watch = -1 // tests reload when they want to
	for _, c := range change {
		c(&cfg)
	}
	f := &fixture{t: t, log: new(logged), dir: dir}
	f.env = server.Env{DataDir: dir, Metrics: metrics.New(4), Log: slog.New(slog.NewTextHandler(f.log, nil))}
	var err error
	if f.Bandit, err = Open(context.Background(), cfg, f.env); err != nil {
		return nil, err
	}
	t.Cleanup(f.close)
	return f, nil
}

// loaded waits until the arms are there.
func (f *fixture) loaded() {
	f.t.Helper()
	systest.Eventually(f.t, "arms", func() bool { return f.model.Load() != nil || f.failed.Load() != nil })
	if err := f.Health().Err(); err != nil {
		f.t.Fatalf("%v\n%s", err, f.log)
	}
}

// close ends the bandit as a server does.
func (f *fixture) close() {
	if f.done {
		return
	}
	f.done = true
	if err := f.Close(); err != nil {
		f.t.Errorf("Close: %v", err)
	}
}

// served is a bandit behind a server.
type served struct {
	*servertest.Served
	*fixture
	url, admin string
	client     *http.Client
}

// serve serves a bandit until the test ends.
func serve(t testing.TB, f *fixture, kernel server.Config) *served {
	t.Helper()
	kernel.Metrics, kernel.Log = f.env.Metrics, f.env.Log
	k := servertest.Start(t, kernel, func(err error) {
		f.done = true // the server has closed it
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}, f.Bandit)
	return &served{k, f, k.URL, k.Admin, k.Client}
}

// lanes runs a test on the event loops and on net/http.
var lanes = servertest.Lanes

// answer is an answer with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; fields are pairs of a header field's name and value.
func (s *served) do(method, url, body string, fields ...string) answer {
	s.t.Helper()
	a, err := s.try(method, url, body, fields...)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *served) try(method, url, body string, fields ...string) (answer, error) {
	resp, b, err := s.Try(method, url, body, fields...)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, b}, nil
}

// post sends a body, which must be answered with 200, and reads the answer into to, which may be nil.
func (s *served) post(path, body string, to any) string {
	s.t.Helper()
	a := s.do(http.MethodPost, s.url+path, body)
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		s.t.Fatalf("POST %s %.200s: %d %v %.300s", path, body, a.status, a.header, a.body)
	}
	if to != nil {
		d := json.NewDecoder(strings.NewReader(a.body))
		d.DisallowUnknownFields()
		if err := d.Decode(to); err != nil || d.More() {
			s.t.Fatalf("POST %s %.200s: %.300s: %v", path, body, a.body, err)
		}
	}
	return a.body
}

// problem checks that an answer is a problem that says all of these.
func (s *served) problem(a answer, status int, says ...string) {
	s.t.Helper()
	var p struct {
		Type, Title, Detail, Error string
		Status                     int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Status != status || a.status != status ||
		p.Error != p.Detail ||
		a.header.Get("Content-Type") != "application/problem+json" ||
		a.header.Get("Cache-Control") != "no-store" {
		s.t.Errorf("%d %v %s is no problem document of a %d: %v", a.status, a.header, a.body, status, err)
	}
	if status == 503 && a.header.Get("Retry-After") == "" {
		s.t.Errorf("%v does not say when to come again", a.header)
	}
	for _, say := range says {
		if !strings.Contains(p.Detail, say) {
			s.t.Errorf("%q does not say %q", p.Detail, say)
		}
	}
}

// prediction is an answer to a query.
type prediction struct {
	Items   []any
	Scores  []float64
	Explain []explained
	Segment string
}

type explained struct {
	Alpha, Beta, Mean float64
	Source            string
}

// explain asks where the posteriors of items come from. query is the JSON of a query without its end.
func (s *served) explain(query string) prediction {
	s.t.Helper()
	var p prediction
	s.post("/predict", query+`,"explain":true}`, &p)
	if len(p.Explain) != len(p.Scores) {
		s.t.Fatalf("%s: %d explanations of %d scores", query, len(p.Explain), len(p.Scores))
	}
	return p
}

// posterior checks alpha, beta and source of one item.
func (s *served) posterior(query string, alpha, beta float64, source string) {
	s.t.Helper()
	p := s.explain(query)
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }
	want := explained{alpha, beta, alpha / (alpha + beta), source}
	if len(p.Explain) != 1 || p.Explain[0].Source != source || !near(p.Explain[0].Alpha, alpha) ||
		!near(p.Explain[0].Beta, beta) || !near(p.Explain[0].Mean, want.Mean) {
		s.t.Errorf("%s: %+v, want %+v", query, p.Explain, want)
	}
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/load/access"
	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/load/scenario"
)

// fake is an engine that remembers what it was told, and measures one request a Collect.
type fake struct {
	mu       sync.Mutex
	start    time.Time
	rates    []string // "rate after"
	ends     []time.Duration
	conns    []int
	collects int
	closed   int
	closing  chan struct{} // Close waits for it, if it is not nil, or for its context
	err      error         // of SetRate
}

func (f *fake) SetRate(perSecond float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates = append(f.rates, fmt.Sprintf("%g after %v", perSecond, time.Since(f.start)))
	return f.err
}

func (f *fake) SetEnd(after time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends = append(f.ends, after)
	return nil
}

func (f *fake) SetConnections(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, n)
	return nil
}

func (f *fake) Collect(w *measure.Window) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collects++
	w.Served++
	measure.Record(w.Latency, time.Duration(f.collects)*time.Millisecond)
	w.Connections, w.InFlight = 3, f.collects
	return nil
}

func (f *fake) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed++
	f.mu.Unlock()
	if f.closing != nil {
		select {
		case <-f.closing:
		case <-ctx.Done():
		}
	}
	return nil
}

func (f *fake) closes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// faked returns an agent whose engines are fakes.
func faked(o Options, e *fake) *Server {
	e.start = time.Now()
	o.start = func(context.Context, *order, []string) (Engine, string, error) { return e, "a fake", nil }
	return New(o)
}

// call makes a request without a network.
func call(s http.Handler, method, path, body string, fields ...string) (int, string) {
	r := httptest.NewRequest(method, "http://127.0.0.1:8092"+path, strings.NewReader(body))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// begin starts a run and returns its path.
func begin(t *testing.T, s *Server, body string) string {
	t.Helper()
	status, text := call(s, "POST", "/runs", body)
	var n started
	if err := json.Unmarshal([]byte(text), &n); status != 201 || err != nil || n.ID == "" {
		t.Fatalf("a run does not begin: %d %s", status, text)
	}
	return "/runs/" + n.ID
}

func want(t *testing.T, what string, status int, text string, wantStatus int, parts ...string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("%s: status %d, want %d: %s", what, status, wantStatus, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q: %s", what, p, text)
		}
	}
}

func TestALeaderThatIsSilentLosesItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{}
		s := faked(Options{}, e)
		run := begin(t, s, `{"version":1}`)
		// Every word of the leader is one.
		for i := range 10 {
			time.Sleep(2900 * time.Millisecond)
			path := fmt.Sprintf("%s/windows?seen=%d", run, i)
			if status, text := call(s, "POST", path, ""); status != 200 {
				t.Fatalf("after %d times 2.9 s: %d %s", i+1, status, text)
			}
		}
		if e.closes() != 0 {
			t.Fatal("the run of a leader that speaks was ended")
		}
		time.Sleep(2999 * time.Millisecond)
		synctest.Wait()
		if e.closes() != 0 {
			t.Fatal("the run was ended before its leader was silent for 3 s")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if e.closes() != 1 {
			t.Fatalf("the engine was closed %d times after 3 s of silence", e.closes())
		}
		for _, c := range []struct{ method, path, body string }{
			{"POST", run + "/windows?seen=10", ""}, {"PUT", run + "/load", `{"rate":1}`},
			{"DELETE", run + "?seen=10&timeout=1s", ""},
		} {
			status, text := call(s, c.method, c.path, c.body)
			want(t, c.method, status, text, http.StatusGone, "silent for 3s")
		}
		begin(t, s, `{"version":1}`) // there is room for another
		if err := s.Close(); err != nil || e.closes() != 2 {
			t.Errorf("Close: %v, %d engines were closed", err, e.closes())
		}
	})
}

// The end of a run may take longer than the silence: the leader waits, which is not silence.
func TestARunMayEndSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{closing: make(chan struct{})}
		s := faked(Options{}, e)
		run := begin(t, s, `{"version":1}`)
		answers := make(chan string, 2)
		ask := func() {
			status, text := call(s, "DELETE", run+"?seen=0&timeout=1m", "")
			answers <- fmt.Sprint(status, text)
		}
		go ask()
		synctest.Wait()
		go ask() // the leader believes that the first request is lost
		time.Sleep(20 * time.Second)
		synctest.Wait()
		select {
		case a := <-answers:
			t.Fatalf("an answer before the end: %s", a)
		default:
		}
		// Nobody else gets the agent meanwhile.
		status, text := call(s, "POST", "/runs", `{"version":1}`)
		want(t, "another leader", status, text, http.StatusConflict)
		close(e.closing)
		a, b := <-answers, <-answers
		if a != b || !strings.HasPrefix(a, `200{"seq":1,`) {
			t.Errorf("answers are %s and %s", a, b)
		}
		ask() // and once more
		if c := <-answers; c != a {
			t.Errorf("asked again: %s, was %s", c, a)
		}
		if e.closes() != 1 || e.collects != 1 {
			t.Errorf("%d closes, %d collects", e.closes(), e.collects)
		}
	})
}

func TestTheTimeoutEndsTheWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{closing: make(chan struct{})}
		s := faked(Options{}, e)
		run := begin(t, s, `{"version":1}`)
		start := time.Now()
		status, text := call(s, "DELETE", run+"?seen=0&timeout=7s", "")
		want(t, "the end", status, text, 200)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAnAgentMakesOneRunAtATime(t *testing.T) {
	e := &fake{}
	s := faked(Options{}, e)
	status, text := call(s, "GET", "/", "")
	want(t, "status", status, text, 200, `"busy":false`)
	run := begin(t, s, `{"version":1}`)
	status, text = call(s, "GET", "/", "")
	want(t, "status", status, text, 200, `"busy":true`, `"load":"a fake"`, `"leader":"192.0.2.1:1234"`)
	status, text = call(s, "POST", "/runs", `{"version":1}`)
	want(t, "a second run", status, text, http.StatusConflict, "making load for 192.0.2.1:1234",
		"one run at a time")
	status, text = call(s, "DELETE", run+"?seen=0&timeout=1s", "")
	want(t, "the end", status, text, 200)
	begin(t, s, `{"version":1}`)
	// A run that does not start leaves room for the next.
	s = New(Options{start: func(context.Context, *order, []string) (Engine, string, error) {
		return nil, "", errors.New("no such target")
	}})
	for range 2 {
		status, text = call(s, "POST", "/runs", `{"version":1}`)
		want(t, "a run that cannot start", status, text, http.StatusUnprocessableEntity, "no such target")
	}
}

func TestWindowsAreKeptUntilTheLeaderHasThem(t *testing.T) {
	e := &fake{}
	s := faked(Options{}, e)
	run := begin(t, s, `{"version":1}`)
	total := measure.NewWindow()
	for i, c := range []struct{ seen, seq, served uint64 }{
		{0, 1, 1}, {0, 1, 2}, {0, 1, 3}, // twice lost
		{1, 2, 1},
		{2, 3, 1}, {2, 3, 2},
		{3, 4, 1},
	} {
		status, text := call(s, "POST", fmt.Sprintf("%s/windows?seen=%d", run, c.seen), "")
		w := measure.NewWindow()
		seq, err := decodeWindow([]byte(text), w)
		if status != 200 || err != nil || seq != c.seq || w.Served != c.served ||
			w.Latency.TotalCount() != int64(c.served) {
			t.Fatalf("%d: status %d, %v, window %d with %d requests, want %d with %d", i, status, err, seq,
				w.Served, c.seq, c.served)
		}
		if w.Connections != 3 || w.InFlight != i+1 {
			t.Errorf("%d: %d connections, %d in flight", i, w.Connections, w.InFlight)
		}
		if i == 2 || i == 3 || i == 5 {
			total.Add(w)
		}
	}
	for _, seen := range []string{"2", "5", "x", "", "-1", "18446744073709551616"} {
		status, text := call(s, "POST", run+"/windows?seen="+seen, "")
		if status != http.StatusConflict && status != http.StatusBadRequest {
			t.Errorf("seen=%s: %d %s", seen, status, text)
		}
	}
	status, text := call(s, "DELETE", run+"?seen=3&timeout=1s", "") // the fourth was lost as well
	if _, err := decodeWindow([]byte(text), total); status != 200 || err != nil {
		t.Fatalf("%d %v", status, err)
	}
	if total.Served != 8 || e.collects != 8 {
		t.Errorf("%d requests came of %d", total.Served, e.collects)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	e := &fake{}
	s := faked(Options{}, e)
	for body, says := range map[string]string{
		``: "cannot be read", `{`: "cannot be read",
		`{"version":2}`:                      "the leader speaks version 2 and the agent 1",
		`{"colour":1}`:                       `there is no field \"colour\"`,
		`{"version":1,"spec":{"users":"5"}}`: "spec.users must be a whole number, not a text",
		`{"version":1} 7`:                    "more than one",
	} {
		status, text := call(s, "POST", "/runs", body)
		want(t, body, status, text, http.StatusBadRequest, says)
	}
	run := begin(t, s, `{"version":1,"closed":true}`)
	for body, wantStatus := range map[string]int{
		`{}`: 422, `{"rate":1,"connections":1}`: 422, `{"rate":"x"}`: 400, `{"speed":1}`: 400,
		`{"connections":5}`: 204,
	} {
		status, text := call(s, "PUT", run+"/load", body)
		want(t, body, status, text, wantStatus)
	}
	if fmt.Sprint(e.conns) != "[5]" {
		t.Errorf("connections %v", e.conns)
	}
	for _, query := range []string{"", "?seen=0", "?seen=0&timeout=x", "?seen=0&timeout=-1s",
		"?seen=0&timeout=1h", "?timeout=1s"} {
		status, text := call(s, "DELETE", run+query, "")
		want(t, query, status, text, http.StatusBadRequest)
	}
	for _, c := range []struct{ method, path string }{{"POST", "/runs/x/windows?seen=0"},
		{"PUT", "/runs/x/load"}, {"DELETE", "/runs/x?seen=0&timeout=1s"}} {
		status, text := call(s, c.method, c.path, "")
		want(t, c.path, status, text, http.StatusNotFound, "no such run")
	}
	status, text := call(s, "GET", "/other", "")
	want(t, "another path", status, text, http.StatusNotFound, "same version")
}

func TestTargetsElsewhereAreRefusedUnlessTheAgentOwnsThem(t *testing.T) {
	body := `{"version":1,"spec":{"url":"http://192.0.2.7:80/"}}`
	status, text := call(New(Options{}), "POST", "/runs", body)
	want(t, "a target elsewhere", status, text, http.StatusForbidden, "192.0.2.7",
		"--i-own-this-target 192.0.2.7 to weir load agent")
	// Owned, the scenario is taken; nothing is connected here.
	s := New(Options{Own: []string{"192.0.2.7"}, start: func(ctx context.Context, o *order,
		own []string) (Engine, string, error) {
		sc, err := scenario.Open(ctx, o.Spec, own)
		if err != nil {
			return nil, "", err
		}
		return &fake{}, sc.String(), nil
	}})
	begin(t, s, body)
}

func TestWhoMayUseAnAgent(t *testing.T) {
	open, closed := faked(Options{}, &fake{}), faked(Options{Token: "a secret"}, &fake{})
	for _, c := range []struct {
		s      *Server
		field  string
		status int
	}{
		{open, "", 200},
		{open, "Origin: http://127.0.0.1:8092", 403},
		{open, "Sec-Fetch-Site: cross-site", 403},
		{closed, "", 401},
		{closed, "Authorization: Bearer a secret", 200},
		{closed, "Authorization: Bearer a secre", 401},
		{closed, "Authorization: Bearer ", 401},
		{closed, "Authorization: Basic a secret", 401},
		{closed, "Authorization: a secret", 401},
	} {
		status, text := call(c.s, "GET", "/", "", c.field)
		want(t, c.field, status, text, c.status)
	}
	for host, status := range map[string]int{"localhost:8092": 200, "[::1]:8092": 200, "127.0.0.1": 200,
		"evil.example:8092": 421, "10.0.0.1": 421, "": 421} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		open.ServeHTTP(w, r)
		want(t, host, w.Code, w.Body.String(), status)
	}
}

func TestServeEndsTheRun(t *testing.T) {
	e := &fake{}
	s := faked(Options{}, e)
	l, err := access.Listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	f, err := Dial(t.Context(), []string{l.Addr().String()}, "", scenario.Spec{URL: "http://127.0.0.1:1/"},
		client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(5); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if e.closes() != 1 {
		t.Errorf("the engine was closed %d times", e.closes())
	}
	if err := f.Collect(measure.NewWindow()); !errors.Is(err, ErrLost) {
		t.Errorf("an agent that was stopped: %v", err)
	}
}

func TestALeaderThatHangsUpWhileItsRunStartsHasNone(t *testing.T) {
	e := &fake{}
	ctx, hangUp := context.WithCancel(t.Context())
	s := New(Options{start: func(context.Context, *order, []string) (Engine, string, error) {
		hangUp()
		return e, "", nil
	}})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/runs",
		strings.NewReader(`{"version":1}`)))
	if e.closes() != 1 {
		t.Errorf("the engine was closed %d times", e.closes())
	}
	status, text := call(s, "GET", "/", "")
	want(t, "status", status, text, 200, `"busy":false`)
}

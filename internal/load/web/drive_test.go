package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/load"
	"weir/internal/load/report"
)

// statusOf reads a status from an answer.
func statusOf(t *testing.T, w *httptest.ResponseRecorder) status {
	t.Helper()
	var s status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return s
}

// until waits for the run to be in a state, by the events that say so.
func until(t *testing.T, u *UI, want state) status {
	t.Helper()
	site := httptest.NewServer(u)
	defer site.Close()
	events := openStream(t, site.URL)
	defer events.Close() //nolint:errcheck
	for {
		kind, data, ok := events.next()
		if !ok { // too slow, or too long
			t.Fatalf("the run never was %s", want)
		}
		var s status
		switch kind {
		case "run":
			s = decode[status](t, data)
		case "snapshot":
			s = decode[struct{ Run status }](t, data).Run
		}
		if s.State == want {
			return s
		}
	}
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestARunGoesThroughItsStates(t *testing.T) {
	u := testUI(t)
	if s := statusOf(t, ask(u, "GET", "/api/run", "")); s.State != idle {
		t.Errorf("before any run the state is %q", s.State)
	}
	for _, c := range [][2]string{{"DELETE", "/api/run"}, {"POST", "/api/run/stop"}} {
		if w := ask(u, c[0], c[1], ""); w.Code != 409 {
			t.Errorf("%s of nothing is answered %d", c, w.Code)
		}
	}
	if w := ask(u, "PUT", "/api/run/rate", `{"rate": 5}`); w.Code != 409 {
		t.Errorf("the rate of nothing is answered %d", w.Code)
	}
	w := ask(u, "POST", "/api/runs", endless)
	s := statusOf(t, w)
	if w.Code != 201 || s.State != running || !ownID.MatchString(s.ID) || s.What == "" {
		t.Fatalf("a start is answered %d %s", w.Code, w.Body)
	}
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 409 {
		t.Errorf("a second start is answered %d", w.Code)
	}
	if w := ask(u, "PUT", "/api/run/rate", `{"rate": 250}`); w.Code != 200 || statusOf(t, w).Rate != 250 {
		t.Errorf("a rate is answered %d %s", w.Code, w.Body)
	}
	for _, wrong := range []string{`{}`, `{"rate":-1}`, `{"rate":"x"}`, `{"rate":null}`, `[]`,
		`{"rate":1e999}`, `{"rate":2000000}`} {
		if w := ask(u, "PUT", "/api/run/rate", wrong); w.Code != 400 ||
			!strings.Contains(w.Body.String(), `"field":"rate"`) {
			t.Errorf("the rate %s is answered %d %s", wrong, w.Code, w.Body)
		}
	}
	u.awaitPoint(t)
	if w := ask(u, "DELETE", "/api/run", ""); w.Code != 202 {
		t.Errorf("stopping is answered %d", w.Code)
	}
	s = until(t, u, over)
	if s.Result == "" || s.Result != s.ID || s.Reason != "stopped" || s.Error != "" {
		t.Errorf("the run ended as %+v", s)
	}
	r, err := report.ReadJSON(ask(u, "GET", "/api/history/"+s.Result+".json", "").Body)
	if err != nil || r.Requests == 0 || len(r.Trace) == 0 {
		t.Errorf("its result is %+v, %v", r, err)
	}
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 201 {
		t.Errorf("the next start is answered %d %s", w.Code, w.Body)
	}
}

func TestOnlyOneOfManyStartsIsARun(t *testing.T) {
	u := testUI(t)
	var codes sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { codes.Store(i, ask(u, "POST", "/api/runs", endless).Code) })
	}
	all.Wait()
	started := 0
	codes.Range(func(_, code any) bool {
		if code == 201 {
			started++
		} else if code != 409 {
			t.Errorf("a start is answered %v", code)
		}
		return true
	})
	if started != 1 {
		t.Errorf("%d runs were started", started)
	}
}

func TestACheckThatTakesLongCanBeStopped(t *testing.T) {
	asked := make(chan struct{})
	u := testUI(t, func(o *Options) {
		o.New = func(ctx context.Context, _ load.Plan) (Runner, error) {
			close(asked)
			<-ctx.Done() // a target that never answers
			return nil, ctx.Err()
		}
	})
	answers := make(chan *httptest.ResponseRecorder)
	go func() { answers <- ask(u, "POST", "/api/runs", endless) }()
	<-asked
	if s := u.live.get(); s.State != starting {
		t.Errorf("while the plan is checked, the state is %s", s.State)
	}
	if w := ask(u, "PUT", "/api/run/rate", `{"rate": 5}`); w.Code != 409 {
		t.Errorf("the rate of a run that has not begun is answered %d", w.Code)
	}
	if w := ask(u, "DELETE", "/api/run", ""); w.Code != 202 {
		t.Errorf("stopping is answered %d", w.Code)
	}
	if w := <-answers; w.Code != 400 || !strings.Contains(w.Body.String(), "stopped before it began") {
		t.Errorf("the start is answered %d %s", w.Code, w.Body)
	}
	if s := u.live.get(); s.State != idle {
		t.Errorf("after that, the state is %s", s.State)
	}
}

func TestErrorsOfPlansNameTheField(t *testing.T) {
	u := testUI(t)
	for _, c := range []struct{ body, field string }{
		{`{"url":"http://127.0.0.1:9/","duration":"soon"}`, "duration"},
		{`{"url":"http://127.0.0.1:9/","connections":"many"}`, "connections"},
		{`{"url":"http://127.0.0.1:9/","connections":1.5}`, "connections"},
		{`{"url":"http://127.0.0.1:9/","seed":-1}`, "seed"},
		{`{"url":"http://127.0.0.1:9/","duration":"0s"}`, "duration"},
		{`{"url":"http://127.0.0.1:9/","http2":1}`, "http2"},
		{`{"url":"http://127.0.0.1:9/","headers":"A: b"}`, "headers"},
		{`{"url":7}`, "url"},
		{`{"url":"http://127.0.0.1:9/","rate":"fast"}`, "rate"}, // said by the run, which names the flag
		{`{}`, "scenario"},
		{`{"url":"http://127.0.0.1:9/","speed":1}`, ""},
		{`[]`, ""}, {`null`, ""}, {``, ""}, {`{"url"`, ""}, {`{} {}`, ""},
	} {
		for _, path := range []string{"/api/runs", "/api/plan/check"} {
			w := ask(u, "POST", path, c.body, "Content-Type: application/json")
			var p struct{ Detail, Field string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			if w.Code != 400 || p.Field != c.field || p.Detail == "" {
				t.Errorf("%s is answered %d, field %q, %q; expected field %q", c.body, w.Code, p.Field,
					p.Detail, c.field)
			}
		}
	}
	if w := ask(u, "POST", "/api/runs", `{"body":"`+strings.Repeat("x", mostBody)+`"}`); w.Code != 413 {
		t.Errorf("a body beyond the bound is answered %d", w.Code)
	}
	if s := u.live.get(); s.State != idle {
		t.Errorf("after refused plans the state is %s", s.State)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(endless))
	f.Add([]byte(`{"mode":"adaptive","healthy":["p99<50ms"],"agents":["a:1"],"http2":true,"every":"5m"}`))
	f.Add([]byte(`{"url":null,"seed":18446744073709551615}`))
	f.Add([]byte(`{"duration":"-1h","URL":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := load.ReadPlan(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error says nothing")
			}
			return
		}
		// What was understood is understood again.
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := load.ReadPlan(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if more, _ := json.Marshal(q); string(more) != string(again) {
			t.Errorf("%s became %s", again, more)
		}
	})
}

func TestARunThatFailsSaysWhy(t *testing.T) {
	u := testUI(t, func(o *Options) {
		o.New = func(context.Context, load.Plan) (Runner, error) {
			return &failingRun{newFake(load.Default(), time.Millisecond)}, nil
		}
	})
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 201 {
		t.Fatal(w.Code)
	}
	if s := until(t, u, over); s.Error != "the target is gone" || s.Result != "" {
		t.Errorf("the run ended as %+v", s)
	}
}

type failingRun struct{ *fakeRun }

func (f *failingRun) Do(context.Context) (*report.Result, error) {
	close(f.seen)
	return nil, errors.New("the target is gone")
}

func TestClosingKeepsTheResult(t *testing.T) {
	dir := t.TempDir()
	u, err := New(Options{New: fakeNew(time.Millisecond), History: dir})
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 201 {
		t.Fatal(w.Code)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 409 {
		t.Errorf("a closed UI answers a start with %d", w.Code)
	}
	h, err := openHistory(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close() //nolint:errcheck
	if entries, err := h.list(); err != nil || len(entries) != 1 || entries[0].Broken != "" {
		t.Errorf("the history has %+v, %v", entries, err)
	}
}

// stream reads server-sent events.
type stream struct {
	io.Closer
	lines *bufio.Scanner
}

// openStream opens the stream of events, for a time that is long enough for anything.
func openStream(t *testing.T, url string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() }) //nolint:errcheck
	if answer.StatusCode != 200 {
		t.Fatalf("a stream is answered %d", answer.StatusCode)
	}
	return &stream{answer.Body, bufio.NewScanner(answer.Body)}
}

// next returns the next event, and false at the end.
func (s *stream) next() (kind, data string, ok bool) {
	for s.lines.Scan() {
		switch name, value, _ := strings.Cut(s.lines.Text(), ": "); name {
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if kind != "" {
				return kind, data, true
			}
		}
	}
	return "", "", false
}

// awaitPoint waits until the run has made a point.
func (u *UI) awaitPoint(t *testing.T) {
	t.Helper()
	site := httptest.NewServer(u)
	defer site.Close()
	events := openStream(t, site.URL)
	defer events.Close() //nolint:errcheck
	for {
		if kind, _, ok := events.next(); kind == "point" || !ok {
			return
		}
	}
}

func TestAStreamBeginsWithTheRunSoFar(t *testing.T) {
	u := testUI(t)
	site := httptest.NewServer(u)
	t.Cleanup(site.Close) // after the requests' ends, before u.Close
	events := openStream(t, site.URL)
	if kind, data, _ := events.next(); kind != "snapshot" || !strings.Contains(data, `"points":[]`) {
		t.Fatalf("a stream begins with %s %s", kind, data)
	}
	u.live.point(report.Point{At: 3, Phase: "steady"})
	kind, data, _ := events.next()
	if kind != "point" || decode[report.Point](t, data).At != 3 {
		t.Fatalf("and goes on with %s %s", kind, data)
	}
}

package web

import (
	"bufio"
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
	c, first := u.live.subscribe("")
	if c == nil {
		t.Fatal("no more streams")
	}
	defer u.live.unsubscribe(c)
	var snap snapshot
	if err := json.Unmarshal(first[0].data, &snap); err != nil {
		t.Fatal(err)
	}
	if snap.Status.State == want {
		return snap.Status
	}
	limit := time.After(20 * time.Second)
	for {
		select {
		case e, ok := <-c.events:
			if !ok {
				return until(t, u, want)
			}
			var s status
			if e.kind == "run" && json.Unmarshal(e.data, &s) == nil && s.State == want {
				return s
			}
		case <-limit:
			t.Fatalf("the run never was %s", want)
		}
	}
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
	c, _ := u.live.subscribe("")
	for e := range c.events {
		if e.kind == "point" {
			break
		}
	}
	u.live.unsubscribe(c)
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

func FuzzLastEventID(f *testing.F) {
	l := newLive()
	for n := range 2 * keepEvents {
		l.point(report.Point{At: float64(n)})
	}
	f.Add("")
	f.Add(".")
	f.Add(l.epoch + ".2000")
	f.Add("another.2000")
	f.Fuzz(func(t *testing.T, id string) {
		for _, last := range []string{id, l.epoch + "." + id} {
			c, missed := l.subscribe(last)
			if c == nil {
				t.Fatal("a client is refused")
			}
			l.unsubscribe(c)
			// Either all that was missed, up to the last event, or a snapshot of it.
			for i, e := range missed {
				if want := l.seq - uint64(len(missed)-1-i); e.seq != want {
					t.Fatalf("%q: event %d of %d is %d, expected %d", last, i, len(missed), e.seq, want)
				}
			}
			if len(missed) > keepEvents {
				t.Fatalf("%q: %d events are kept", last, len(missed))
			}
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
	t     *testing.T
	lines *bufio.Scanner
	last  string // the id
}

func openStream(t *testing.T, url, last string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() }) //nolint:errcheck
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("a stream is answered %d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	return &stream{t: t, lines: bufio.NewScanner(answer.Body)}
}

// next returns the next event, and false at the end.
func (s *stream) next() (kind, data string, ok bool) {
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			s.last = value
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

func TestAStreamResumesWithoutAGap(t *testing.T) {
	u := testUI(t)
	s := httptest.NewServer(u)
	t.Cleanup(s.Close) // after the requests' ends, before u.Close
	first := openStream(t, s.URL, "")
	if kind, data, _ := first.next(); kind != "snapshot" || !strings.Contains(data, `"points":[]`) {
		t.Fatalf("a stream begins with %s %s", kind, data)
	}
	point := func(n int) { u.live.point(report.Point{At: float64(n), Phase: "steady"}) }
	for n := range 5 {
		point(n)
	}
	at := func(data string) float64 {
		var p report.Point
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			t.Fatal(err)
		}
		return p.At
	}
	for n := range 3 { // and then it is cut off
		if kind, data, _ := first.next(); kind != "point" || at(data) != float64(n) {
			t.Fatalf("event %d is %s %s", n, kind, data)
		}
	}
	for n := 5; n < 9; n++ {
		point(n)
	}
	second := openStream(t, s.URL, first.last)
	for n := 3; n < 9; n++ {
		if kind, data, _ := second.next(); kind != "point" || at(data) != float64(n) {
			t.Fatalf("after resuming, event %d is %s %s", n, kind, data)
		}
	}
	// Who has everything gets nothing twice.
	third := openStream(t, s.URL, second.last)
	point(9)
	if kind, data, _ := third.next(); kind != "point" || at(data) != 9 {
		t.Errorf("who had everything gets %s %s", kind, data)
	}
	// What can't be resumed begins anew: too long ago, another process, nonsense, the future.
	for n := range keepEvents + 10 {
		point(10 + n)
	}
	for _, last := range []string{second.last, "other.3", "nonsense", u.live.epoch + ".99999999",
		u.live.epoch + ".-1", u.live.epoch + "."} {
		again := openStream(t, s.URL, last)
		if kind, _, _ := again.next(); kind != "snapshot" {
			t.Errorf("after %q a stream begins with %s", last, kind)
		}
	}
}

func TestASlowClientIsDroppedAndHoldsNobodyUp(t *testing.T) {
	l := newLive()
	slow, _ := l.subscribe("")
	quick, _ := l.subscribe("")
	for n := range queueEvents + 10 {
		l.point(report.Point{At: float64(n)}) // would block for ever if it waited for the slow one
		<-quick.events
	}
	n := 0
	for range slow.events {
		n++
	}
	if n != queueEvents {
		t.Errorf("the slow client got %d events before its end, expected %d", n, queueEvents)
	}
	if len(l.clients) != 1 {
		t.Errorf("%d clients are left, expected the quick one", len(l.clients))
	}
	l.unsubscribe(slow) // again, as its handler does
	back, missed := l.subscribe(fmt.Sprintf("%s.%d", l.epoch, queueEvents))
	if back == nil || len(missed) != 10 {
		t.Errorf("it comes back and gets %d events, expected 10", len(missed))
	}
	for range mostClients - 2 {
		if c, _ := l.subscribe(""); c == nil {
			t.Fatal("a client is refused before the bound")
		}
	}
	if c, _ := l.subscribe(""); c != nil {
		t.Error("there is no bound of clients")
	}
}

// flushes is an http.ResponseWriter that takes down what is flushed, and when.
type flushes struct {
	http.ResponseWriter
	written []string
	begin   time.Time
	at      []time.Duration
}

func (f *flushes) Header() http.Header { return http.Header{} }
func (f *flushes) WriteHeader(int)     {}
func (f *flushes) Write(p []byte) (int, error) {
	f.written = append(f.written, string(p))
	return len(p), nil
}
func (f *flushes) Flush() { f.at = append(f.at, time.Since(f.begin)) }

func TestAStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &UI{live: newLive()}
		ctx, cancel := context.WithCancel(t.Context())
		w := &flushes{begin: time.Now()}
		done := make(chan struct{})
		go func() {
			u.events(w, httptest.NewRequestWithContext(ctx, "GET", "/api/events", nil))
			close(done)
		}()
		time.Sleep(2*heartbeat + time.Second)
		cancel()
		<-done
		if len(w.at) != 3 || w.at[1] != heartbeat || w.at[2] != 2*heartbeat ||
			w.written[2] != ": heartbeat\n\n" {
			t.Errorf("a quiet stream says %q at %v", w.written, w.at)
		}
		if len(u.live.clients) != 0 {
			t.Error("a client that is gone is still served")
		}
	})
}

package load

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/load/agent"
	"weir/internal/load/measure"
	"weir/internal/load/report"
)

// target is a server that counts what it is asked.
func target(t *testing.T, answer http.HandlerFunc) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// plan returns a short plan for url.
func plan(url string) Plan {
	p := Default()
	p.URL, p.Rate, p.Duration, p.Warm = url, "200/s", Duration(500*time.Millisecond), 4
	return p
}

func run(t *testing.T, p Plan) *report.Result {
	t.Helper()
	r, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestARunCountsWhatTheTargetSaw(t *testing.T) {
	url, asked := target(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("answer") {
		case "shed":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "fail":
			w.WriteHeader(http.StatusTeapot)
		}
	})
	file := filepath.Join(t.TempDir(), "requests.jsonl")
	lines := `{"url":"/?answer=ok"}` + "\n" + `{"url":"/?answer=shed"}` + "\n" + `{"url":"/?answer=fail"}` +
		"\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plan("")
	p.Requests, p.Target, p.NoCheck = file, url, true
	r, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	result, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := uint64(asked.Load() - before); got != result.Requests {
		t.Errorf("the target saw %d requests, the result has %d", got, result.Requests)
	}
	if result.Served == 0 || result.Shed == 0 || result.Failures["status"] == 0 {
		t.Errorf("served %d, shed %d, failed %v: all three were answered in turn", result.Served, result.Shed,
			result.Failures)
	}
	if result.Requests != result.Served+result.Shed+result.Errors {
		t.Errorf("%d requests are not %d served, %d shed and %d errors", result.Requests, result.Served,
			result.Shed, result.Errors)
	}
	at := 0.0 // a busy machine makes fewer points, and longer ones
	for i, p := range result.Trace {
		if i > 0 && math.Abs(p.At-p.Seconds-at) > 1e-6 {
			t.Errorf("a point of %v s ends after %v s, the one before after %v s", p.Seconds, p.At, at)
		}
		at = p.At
	}
	if at < 0.4 { // the end is rounded to a window
		t.Errorf("the trace ends after %v s of half a second", at)
	}
}

func TestACondionEndsTheRun(t *testing.T) {
	url, _ := target(t, func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	p := plan(url)
	p.Duration = Duration(time.Minute)
	p.StopWhen = []string{"p50>5ms for 300ms"}
	p.FailWhen = []string{"p50>5ms", "errors>1%"}
	result := run(t, p)
	if result.Seconds > 30 || !strings.Contains(result.Reason, "p50") {
		t.Errorf("it ended after %.1f s, because %q", result.Seconds, result.Reason)
	}
	if len(result.Verdicts) != 2 || !result.Verdicts[0].Failed || result.Verdicts[1].Failed {
		t.Errorf("verdicts %+v: the first should have failed, and the second not", result.Verdicts)
	}
}

func TestTheRateChangesLive(t *testing.T) {
	url, _ := target(t, nil)
	p := plan(url)
	p.Rate, p.Duration = "10/s", Duration(time.Minute)
	r, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	points := r.Watch()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan *report.Result, 1)
	go func() {
		result, err := r.Do(ctx)
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	<-points
	if err := r.SetRate(ctx, 400); err != nil {
		t.Fatal(err)
	}
	for p := range points {
		if p.Intended > 300 {
			break
		}
	}
	for _, wrong := range []float64{-1, 2e7} {
		if err := r.SetRate(ctx, wrong); err == nil {
			t.Errorf("the rate %g was taken", wrong)
		}
	}
	cancel()
	result := <-done
	if result.Reason != "it was stopped" || result.Served == 0 {
		t.Errorf("the result says %q with %d served", result.Reason, result.Served)
	}
	if err := r.SetRate(t.Context(), 10); !errors.Is(err, ErrNoLoad) {
		t.Errorf("a rate for a run that is over: %v", err)
	}
}

func TestTheClosedModelKeepsItsConnectionsBusy(t *testing.T) {
	var now, most atomic.Int64
	url, _ := target(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
	})
	p := plan(url)
	p.Rate, p.Connections = "", 5
	if result := run(t, p); result.Served == 0 || most.Load() > 5 {
		t.Errorf("%d served, %d at a time on 5 connections", result.Served, most.Load())
	}
}

func TestAgentsMakeTheLoadTogether(t *testing.T) {
	url, asked := target(t, nil)
	p := plan(url)
	for range 2 {
		a := agent.New(agent.Options{Token: "secret"})
		s := httptest.NewServer(a)
		defer s.Close()
		defer a.Close() //nolint:errcheck // its run is over
		p.Agents = append(p.Agents, s.Listener.Addr().String())
	}
	unasked := asked.Load()
	if _, err := New(t.Context(), p, Options{Token: "guess"}); err == nil ||
		!strings.Contains(err.Error(), p.Agents[0]) {
		t.Errorf("with a wrong token the error is %v, expected it to name the agent", err)
	}
	if asked.Load() != unasked {
		t.Error("the target was asked for a run that cannot be")
	}
	r, err := New(t.Context(), p, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	result, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := uint64(asked.Load() - before); got == 0 || got != result.Served ||
		result.Generator.Runners != 2 {
		t.Errorf("the target saw %d requests, the result has %d of %d runners", got, result.Served,
			result.Generator.Runners)
	}
}

// A generator that breaks must not take the result with it.
type broken struct{ windows int }

func (b *broken) SetRate(float64) error       { return nil }
func (b *broken) SetEnd(time.Duration) error  { return nil }
func (b *broken) SetConnections(int) error    { return nil }
func (b *broken) Close(context.Context) error { return nil }
func (b *broken) Collect(w *measure.Window) error {
	if b.windows--; b.windows < 0 {
		return errors.New("the runner is lost")
	}
	w.End = Interval
	w.Intended, w.Sent, w.Served = 10, 10, 10
	return nil
}

func TestALostGeneratorLeavesTheResultSoFar(t *testing.T) {
	url, _ := target(t, nil)
	r, err := New(t.Context(), plan(url), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.start = func(context.Context) (agent.Engine, error) { return &broken{windows: 2}, nil }
	result, err := r.Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("the error is %v", err)
	}
	if result == nil || result.Served != 20 {
		t.Fatalf("the result is %+v, expected 20 served", result)
	}
}

// A search whose target is gone fails, and says so in its result: what it knows is from before.
func TestASearchEndsWithItsTarget(t *testing.T) {
	var asked atomic.Int64
	full := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 500 {
			close(full)
		}
	}))
	defer s.Close()
	go func() {
		<-full
		s.CloseClientConnections()
		s.Close()
	}()
	p := plan(s.URL)
	p.Mode, p.Duration = "adaptive", Duration(time.Minute)
	r, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the target is gone: it has answered nothing since ") {
		t.Errorf("the error is %v", err)
	}
	if result == nil || err == nil || result.Reason != err.Error() || len(result.Marks) == 0 ||
		!strings.HasPrefix(result.Marks[0], "Nothing was answered any more from ") {
		t.Fatalf("the reason is %q, the marks are %q", result.Reason, result.Marks)
	}
	if result.Seconds > 20 || result.Ceiling != nil && result.Ceiling.Converged {
		t.Errorf("after %.1f s the ceiling is %+v", result.Seconds, result.Ceiling)
	}
}

// A search takes its time where few requests come at random times.
func TestASearchIsToldHowRequestsArrive(t *testing.T) {
	climbed := make(map[string]time.Duration)
	for _, arrivals := range []string{"constant", "poisson"} {
		p := plan("http://127.0.0.1:9/")
		p.Mode, p.Rate, p.Arrivals = "adaptive", "50/s", arrivals
		c, err := p.controller(0)
		if err != nil {
			t.Fatal(err)
		}
		d := c.Begin()
		w := measure.NewWindow()
		for d.Rate == 50 && w.End < 10*time.Second {
			start := w.End
			w.Reset()
			w.Start, w.End, w.Intended, w.Sent, w.Served = start, start+Interval, 5, 5, 5
			for range 5 {
				measure.Record(w.Latency, time.Millisecond)
				measure.Record(w.Lag, time.Microsecond)
			}
			d = c.Next(w)
		}
		climbed[arrivals] = w.End
	}
	if climbed["constant"] > 1500*time.Millisecond || climbed["poisson"] < 2*time.Second {
		t.Errorf("the first load is left after %v", climbed)
	}
}

// steadily sends at 1000/s, whenever it is looked at.
type steadily struct {
	broken
	begun, seen time.Time
	sent        uint64
	looked      chan struct{}
}

func (s *steadily) Collect(w *measure.Window) error {
	now := time.Now()
	w.Start, w.End = s.seen.Sub(s.begun), now.Sub(s.begun)
	n := uint64(w.End/time.Millisecond) - s.sent
	w.Intended, w.Sent, w.Served = n, n, n
	s.sent, s.seen = s.sent+n, now
	select {
	case s.looked <- struct{}{}:
	default:
	}
	return nil
}

// What was sent in the window that a person's stop cut short is of its time, and so are the rates.
func TestAStoppedRunHasTheRateThatItHad(t *testing.T) {
	url, _ := target(t, nil)
	r, err := New(t.Context(), plan(url), Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	g := &steadily{begun: now, seen: now, looked: make(chan struct{}, 1)}
	r.start = func(context.Context) (agent.Engine, error) { return g, nil }
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-g.looked
		time.AfterFunc(Interval*8/10, stop)
	}()
	result, err := r.Do(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if result.Rate.Intended < 900 || result.Rate.Intended > 1100 || result.Rate.Served < 900 {
		t.Errorf("of 1000/s the result has %.0f/s intended and %.0f/s served in %.2f s", result.Rate.Intended,
			result.Rate.Served, result.Seconds)
	}
}

func TestMetricsOfTheTargetAreRead(t *testing.T) {
	var seconds atomic.Int64
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := seconds.Add(1)
		w.Write([]byte("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total " +
			string(rune('0'+n)) + "\n" +
			"# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 1e6\n"))
	}))
	defer metrics.Close()
	w, err := watchTarget(t.Context(), metrics.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.target(); got.Memory != 1e6 || got.CPU == got.CPU {
		t.Errorf("at first %+v, expected 1e6 bytes and no CPU", got)
	}
	if err := w.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.target(); !(got.CPU > 0) {
		t.Errorf("then %+v, expected CPU", got)
	}
	for _, body := range []string{"", "nonsense {",
		"process_cpu_seconds_total{a=\"1\"} 1\nprocess_cpu_seconds_total{a=\"2\"} 1\n"} {
		bad := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }))
		if _, err := watchTarget(t.Context(), bad.URL); err == nil {
			t.Errorf("metrics %q were taken", body)
		}
		bad.Close()
	}
}

// A target that uses three processors while it is asked, and none before.
func TestVerdictsOnTheTargetAreKnownOfShortRunsToo(t *testing.T) {
	url, asked := target(t, nil)
	var first atomic.Int64
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		used := 100.0
		if asked.Load() > 0 {
			first.CompareAndSwap(0, time.Now().UnixNano())
			used += 3 * time.Since(time.Unix(0, first.Load())).Seconds()
		}
		fmt.Fprintf(w, "process_cpu_seconds_total %g\n", used+1)
	}))
	defer metrics.Close()
	for _, d := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond} {
		p := plan(url)
		p.Duration, p.TargetMetrics, p.FailWhen = Duration(d), metrics.URL, []string{"cpu>10%", "memory>1GB"}
		result := run(t, p)
		if cpu := result.Verdicts[0]; !cpu.Failed || cpu.Value < 250 || cpu.Value > 350 {
			t.Errorf("in a run of %v: %+v, want about 300%%", d, cpu)
		}
		if memory := result.Verdicts[1]; !memory.Failed ||
			memory.Got != "not known: the target's metrics did not say" {
			t.Errorf("memory that the metrics do not have: %+v", memory)
		}
	}
}

// Whose metrics may be asked for is decided by their address.
func TestMetricsAreNotLookedForElsewhere(t *testing.T) {
	elsewhere, asked := target(t, nil)
	moved := httptest.NewServer(http.RedirectHandler(elsewhere+"/metrics", http.StatusFound))
	defer moved.Close()
	url, _ := target(t, nil)
	p := plan(url)
	p.TargetMetrics = moved.URL
	if _, err := New(t.Context(), p, Options{}); err == nil ||
		!strings.Contains(err.Error(), "answers 302") || asked.Load() > 0 {
		t.Errorf("metrics that have moved: %v, and the other server was asked %d times", err, asked.Load())
	}
}

// Every mistake must be told before any load, and say what to change.
func TestPlansThatCannotBeAreRefused(t *testing.T) {
	url, asked := target(t, nil)
	for _, c := range []struct {
		name string
		plan func(*Plan)
		want string
	}{
		{"a mode that there is not", func(p *Plan) { p.Mode = "fast" }, "--mode"},
		{"both models", func(p *Plan) { p.Connections = 3 }, "--connections"},
		{"no load", func(p *Plan) { p.Rate = "" }, "say how much"},
		{"a bad rate", func(p *Plan) { p.Rate = "many" }, "--rate"},
		{"a bad condition", func(p *Plan) { p.StopWhen = []string{"p95"} }, "--stop-when"},
		{"a bad verdict", func(p *Plan) { p.FailWhen = []string{"p95 > fast"} }, "--fail-when"},
		{"health without a search", func(p *Plan) { p.Healthy = []string{"p95<1ms"} }, "--healthy-when"},
		{"bad health", func(p *Plan) { p.Mode, p.Healthy = "adaptive", []string{"p95"} }, "--healthy-when"},
		{"a search without a rate", func(p *Plan) { p.Mode, p.Rate, p.Connections = "adaptive", "", 3 },
			"adaptive"},
		{"a search with a ramp", func(p *Plan) { p.Mode, p.Ramp = "adaptive", Duration(time.Second) },
			"--ramp"},
		{"stages of a constant run", func(p *Plan) { p.Rate, p.Stages = "", "1/s:1s" }, "classic"},
		{"stages and a rate", func(p *Plan) { p.Mode, p.Stages = "classic", "1/s:1s" }, "--rate"},
		{"a verdict on a part of the run", func(p *Plan) { p.FailWhen = []string{"p95>1ms for 5s"} },
			"--fail-when"},
		{"a condition on a target that is not asked",
			func(p *Plan) { p.StopWhen = []string{"errors>1%,cpu > 90%"} },
			"--stop-when: cpu > 90% needs --target-metrics"},
		{"a verdict on a target that is not asked", func(p *Plan) { p.FailWhen = []string{"memory>1GB"} },
			"--fail-when: memory > 1GB needs --target-metrics"},
		{"health of a target that is not asked",
			func(p *Plan) { p.Mode, p.Healthy = "adaptive", []string{"cpu<90%"} },
			"--healthy-when: cpu < 90% needs --target-metrics"},
		{"more connections than can be", func(p *Plan) { p.Rate, p.Connections = "", 2_000_000 },
			"--connections"},
		{"more than can be sent", func(p *Plan) { p.Rate = "20M/s" }, "--rate"},
		{"more users than can be sent for", func(p *Plan) {
			p.URL, p.Target, p.Scenario, p.Rate, p.Users, p.Every, p.NoCheck = "", url, "feed", "", 1000,
				Duration(time.Microsecond), true
		}, "--every"},
		{"bad stages", func(p *Plan) { p.Mode, p.Rate, p.Duration, p.Stages = "classic", "", 0, "1/s" },
			"--stages"},
		{"negative time", func(p *Plan) { p.Warmup = Duration(-1) }, "--warmup"},
		{"no time for answers", func(p *Plan) { p.Timeout = 0 }, "--timeout"},
		{"arrivals of the closed model",
			func(p *Plan) { p.Rate, p.Connections, p.Arrivals = "", 4, "poisson" },
			"--arrivals poisson is of the open model"},
		{"arrivals", func(p *Plan) { p.Arrivals = "bursts" },
			"--arrivals takes constant, poisson, got \"bursts\""},
		{"a preset that there is not", func(p *Plan) { p.Preset = "hasty" },
			"--preset takes normal, quick, careful, got \"hasty\""},
		{"rows in no order", func(p *Plan) { p.VarsOrder = "shuffled" },
			"--vars-order takes sequential, random"},
		{"fewer users than one", func(p *Plan) { p.Users = -1 }, "--users must be from 1"},
		{"users beyond all numbers", func(p *Plan) { p.FirstUser = 1 << 63 }, "--first-user must be"},
		{"users who come before they came", func(p *Plan) { p.Every = -1 }, "--every must not be negative"},
		{"classic without stages", func(p *Plan) { p.Mode = "classic" }, "--stages are for --mode classic"},
		{"an agent without a port", func(p *Plan) { p.Agents = []string{"host"} }, "--agents"},
		{"two rates", func(p *Plan) { p.Users, p.Every = 5, Duration(time.Second) }, "--every"},
		{"another's host", func(p *Plan) { p.URL = "http://192.0.2.1/" }, "--i-own-this-target"},
		{"a target that is not there", func(p *Plan) { p.URL = "http://127.0.0.1:1/" }, "127.0.0.1:1"},
		{"metrics that are not there", func(p *Plan) { p.TargetMetrics = "http://127.0.0.1:1/metrics" },
			"--target-metrics"},
		{"a file that is not there", func(p *Plan) { p.URL, p.Target, p.Requests = "", url, "/no/such/file" },
			"--requests"},
	} {
		p := plan(url)
		c.plan(&p)
		before := asked.Load()
		_, err := New(t.Context(), p, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected it to speak of %s", c.name, err, c.want)
		}
		if asked.Load() > before+1 {
			t.Errorf("%s: the target was asked %d times", c.name, asked.Load()-before)
		}
	}
}

// What cannot be because of the network is no mistake in the command line, and --no-check is offered where
// it helps.
func TestWhatIsNotThereIsNoMistakeInThePlan(t *testing.T) {
	url, _ := target(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	var wrong *PlanError
	for _, c := range []struct {
		url     string
		noCheck bool
	}{{"http://nobody.invalid/", false}, {"http://127.0.0.1:1/", false}, {url, true}} {
		p := plan(c.url)
		p.Own = []string{"nobody.invalid"}
		_, err := New(t.Context(), p, Options{})
		if err == nil || errors.As(err, &wrong) || strings.Contains(err.Error(), "--no-check") != c.noCheck {
			t.Errorf("%s: the error is %T: %v", c.url, err, err)
		}
	}
}

func TestWhoStopsACheckIsNotToldHowToDoWithoutIt(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, stop := context.WithCancel(t.Context())
	url, _ := target(t, func(http.ResponseWriter, *http.Request) { stop(); <-release })
	if _, err := New(ctx, plan(url), Options{}); !errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "--no-check") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryMemberOfAPlanHasAFlag(t *testing.T) {
	p := Default()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.AddFlags(f)
	seen := 0
	f.VisitAll(func(*pflag.Flag) { seen++ })
	// The URL is an argument, and what files hold is theirs.
	other := []string{"", "url", "feed_urls_text", "requests_text", "vars_text", "part", "parts"}
	if members := len(members) - len(other); seen != members || seen != len(Fields)-1 {
		t.Errorf("%d flags for %d members", seen, members)
	}
}

func TestPlansOutliveTheirJSON(t *testing.T) {
	p := plan("http://127.0.0.1:8080/feed/1")
	p.Every, p.FailWhen, p.Agents = Duration(90*time.Second), []string{"p99>1ms"}, []string{"a:1", "b:2"}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"every":"1m30s"`) {
		t.Errorf("durations are not text: %s", text)
	}
	again, err := ReadPlan(text)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("read again it is %+v, %v", again, err)
	}
	p.Seed = 0
	if text, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadPlan(text); err != nil || again.Seed != 0 {
		t.Errorf("a seed of 0 is read again as %d, %v", again.Seed, err)
	}
}

func TestPlansThatCannotBeReadSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "a plan is a JSON object: it ends before its JSON does",
		"{":                     "a plan is a JSON object: it ends before its JSON does",
		"[]":                    "a plan is a JSON object: it must be an object, not an array",
		"null":                  "a plan is a JSON object, not null",
		`{"url":1}`:             "url must be a text, got 1",
		`{"users":"5"}`:         `users must be a whole number, got "5"`,
		`{"seed":-1}`:           "seed must be a whole number from 0, got -1",
		`{"no_check":1}`:        "no_check must be true or false, got 1",
		`{"headers":"A: b"}`:    `headers must be a list of texts, got "A: b"`,
		`{"every":"soon"}`:      `every must be a duration like "30s" or "5m", got "soon"`,
		`{"every":30}`:          `every must be a duration like "30s" or "5m", got 30`,
		`{"speed":1}`:           `plans have no member "speed"`,
		`{"duration":"0s"}`:     "duration must not be 0s; leave it out for the default",
		`{"users":0}`:           "users must not be 0; leave it out for the default",
		`{"max_connections":0}`: "max_connections must not be 0; leave it out for the default",
		`{"warm":0}`:            "warm must not be 0; leave it out for the default",
	} {
		if _, err := ReadPlan([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ReadPlan(
		[]byte(
			`{"warmup":"0s","ramp":"0s","every":"0s","connections":0,"threads":0,"seed":0,"first_user":0,"duration":null}`)); err != nil {
		t.Errorf("zeros that are what they say: %v", err)
	}
}

func TestLengthIsWhatTheModeNeeds(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want time.Duration
	}{
		{Plan{Mode: "constant"}, 30 * time.Second},
		{Plan{Mode: "adaptive"}, time.Minute},
		{Plan{Mode: "adaptive", Healthy: []string{"p99<1ms"}}, 90 * time.Second},
		{Plan{Mode: "constant", Preset: "quick"}, 10 * time.Second},
		{Plan{Mode: "adaptive", Preset: "careful"}, 3 * time.Minute},
		{Plan{Mode: "adaptive", Preset: "careful", Duration: Duration(time.Minute)}, time.Minute},
		{Plan{Mode: "constant", Duration: Duration(time.Second)}, time.Second},
		{Plan{Mode: "classic", Stages: "1/s:2s,5/s:3s"}, 5 * time.Second},
	} {
		if got := c.plan.Length(); got != c.want {
			t.Errorf("%+v is %v long, expected %v", c.plan, got, c.want)
		}
	}
}

func TestARunSendsWhatItsScheduleHasAndLastsAsLongAsItsPlan(t *testing.T) {
	url, _ := target(t, nil)
	p := plan(url)
	p.Rate, p.Duration = "10/s", Duration(time.Second)
	if result := run(t, p); result.Requests != 10 || math.Abs(result.Rate.Intended-10) > 1e-9 {
		t.Errorf("%d requests in %v s, %v/s intended: expected 10 in one second", result.Requests,
			result.Seconds, result.Rate.Intended)
	}
}

// late is a generator that its run cannot ask for a while, and whose windows are as long as they were.
type late struct {
	broken
	began     time.Time
	collected time.Duration
	stalls    []time.Duration // of each Collect
}

func (l *late) Collect(w *measure.Window) error {
	if len(l.stalls) > 0 {
		time.Sleep(l.stalls[0])
		l.stalls = l.stalls[1:]
	}
	w.Start, w.End = l.collected, time.Since(l.began)
	l.collected = w.End
	return nil
}

func TestWindowsAfterAStallAreNoSlivers(t *testing.T) {
	url, _ := target(t, nil)
	synctest.Test(t, func(t *testing.T) {
		for stall := Interval; stall < 3*Interval; stall += 7 * time.Millisecond {
			p := plan(url)
			p.NoCheck, p.Duration = true, Duration(2030*time.Millisecond)
			r, err := New(t.Context(), p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r.start = func(context.Context) (agent.Engine, error) {
				return &late{began: time.Now(), stalls: []time.Duration{0, 0, stall, 0, stall}}, nil
			}
			result, err := r.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range result.Trace {
				if p.Seconds < Interval.Seconds()/2 {
					t.Errorf("after a stall of %v a window of %v s ends at %v s", stall, p.Seconds, p.At)
				}
			}
			if math.Abs(result.Seconds-2.03) > 1e-9 {
				t.Errorf("after a stall of %v the run has %v s", stall, result.Seconds)
			}
		}
	})
}

func TestATargetThatSpeaksHTTP2OnlyIsSaidTo(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP2(true)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	plain := httptest.NewUnstartedServer(s.Config.Handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	for _, url := range []string{s.URL, plain.URL} {
		p := Default()
		p.URL, p.Rate, p.Insecure = url, "10/s", true
		if _, err := New(t.Context(), p, Options{}); err == nil || !strings.Contains(err.Error(), "--http2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

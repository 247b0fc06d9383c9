package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load"
	"weir/internal/load/agent"
	"weir/internal/load/report"
	"weir/internal/webui/webuitest"
)

// realNew is an Options.New that makes real load.
func realNew(ctx context.Context, p load.Plan) (Runner, error) {
	run, err := load.New(ctx, p, load.Options{})
	if err != nil {
		return nil, err
	}
	return run, nil
}

// aTarget is a server that counts what it is asked, and says what it uses.
func aTarget(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	started := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /next", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"index":1}`)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %g\n",
			time.Since(started).Seconds()/2)
		fmt.Fprint(w, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes "+
			"1.048576e+08\n")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, asked
}

// All of it together: a browser, the UI, a run, a target.
func TestRealLoadFromABrowser(t *testing.T) {
	target, asked := aTarget(t)
	u, url := fakeUI(t, 0, func(o *Options) { o.New = realNew })
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Fill("plan-url", target+"/next")
	b.Fill("plan-rate", "100/s")
	b.Fill("plan-duration", "10m")
	b.Fill("plan-warmup", "500ms")
	b.Fill("plan-name", "real")
	b.Fill("plan-target_metrics", target+"/metrics")
	b.Fill("plan-fail_when", "errors > 1%\np50 > 10s")
	b.Click("#start")
	b.Wait("document.getElementById('state').dataset.state === 'running'")
	b.Wait(painted + "('rate') && " + painted + "('latency') && " + painted + "('target')")
	b.Wait("document.getElementById('state-text').textContent.includes('steady')")
	b.Wait(legend("target", "Memory") + " === '100\u00a0MiB'")
	b.Fill("rate-now", "400")
	b.Eval("document.getElementById('rate-form').requestSubmit()")
	b.Wait("Math.abs(parseFloat(" + legend("rate", "Intended") + ") - 400) < 60")
	b.Shot("real-light")
	b.Click("#stop")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Wait("document.getElementById('to-result') !== null")
	b.Wait("document.querySelectorAll('#end-verdicts .held').length === 2 && /requests " +
		"in/.test(document.getElementById('end-figures').textContent)")
	b.Wait("document.getElementById('rate-now').value === '400'")
	b.Wait("[...document.querySelectorAll('#live-plots .plot-at')].every((e) => " +
		"e.textContent.startsWith('end, '))")
	b.Click("#to-result")
	b.Wait("document.getElementById('result-title').textContent === 'real' && " +
		"document.querySelectorAll('#result .verdicts .held').length === 2")
	b.Wait("document.querySelector('#result .marks').innerText.includes('changed by hand')")
	b.Wait(painted + "('result-rate')")
	b.Shot("real-result-light")
	answer, err := http.Get(b.Text("document.getElementById('download-json').href"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck
	r, err := report.ReadJSON(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 || r.Errors > 0 || int64(r.Served) > asked.Load() || r.Latency.P99 == 0 {
		t.Errorf("the result has %d requests, %d served, %d errors, p99 %g; the target was asked %d times",
			r.Requests, r.Served, r.Errors, r.Latency.P99, asked.Load())
	}
	if s := u.live.get(); s.Error != "" {
		t.Errorf("the run ended as %+v", s)
	}
	if n := len(r.Changes); n != 1 || r.Changes[0].Load != 400 {
		t.Errorf("the changes of the load are %+v", r.Changes)
	}
	b.Eval("location.hash = '#/history/20200101-000000-0000'")
	b.Wait("/There is no result/.test(document.getElementById('no-result')?.textContent ?? '')")
	b.Eval("history.back()")
	b.Wait("document.getElementById('result-title').textContent === 'real'")

	// Again, as a search.
	b.Click("#result button.primary")
	b.Wait("!document.getElementById('page-run').hidden && document.getElementById('plan-url').value === " +
		quote(target+"/next"))
	b.Eval("document.querySelector('[name=mode][value=adaptive]').click()")
	b.Fill("plan-fail_when", "")
	b.Click("#start")
	b.Wait("document.getElementById('state').dataset.state === 'running' && " +
		"/climb|search|bisect|track/.test(document.getElementById('state-text').textContent)")
	b.Click("#stop")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Clean()
}

// A target that dies in the middle of a search is told as such while it lasts, at its end, and in its result.
func TestATargetThatIsGoneIsShown(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	_, url := fakeUI(t, 0, func(o *Options) { o.New = realNew })
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Fill("plan-url", target.URL)
	b.Fill("plan-name", "gone")
	b.Eval("document.querySelector('[name=mode][value=adaptive]').click()")
	b.Click("#start")
	b.Wait("document.getElementById('state-text').textContent.includes('climb')")
	target.CloseClientConnections()
	target.Close()
	b.Wait("document.getElementById('state-text').textContent.includes('does not answer')")
	b.Wait("document.getElementById('state-text').textContent === 'Failed'")
	b.Wait("document.getElementById('run-end').innerText.includes('the target is gone')")
	b.Wait("document.getElementById('to-result') !== null")
	b.Shot("gone")
	b.Click("#to-result")
	b.Wait("document.getElementById('result-title').textContent === 'gone'")
	b.Wait("document.getElementById('result').innerText.includes('Nothing was answered any more from')")
	b.Clean()
}

// The load of two agents from a browser: its plots, a change of its rate, and its result.
func TestSeveralRunnersFromABrowser(t *testing.T) {
	target, asked := aTarget(t)
	var agents []string
	for range 2 {
		a := agent.New(agent.Options{})
		s := httptest.NewServer(a)
		t.Cleanup(s.Close)
		t.Cleanup(func() { a.Close() }) //nolint:errcheck // its run is over
		agents = append(agents, s.Listener.Addr().String())
	}
	_, url := fakeUI(t, 0, func(o *Options) { o.New, o.Agents = realNew, append(agents, "127.0.0.1:1") })
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Fill("plan-url", target+"/next")
	b.Fill("plan-rate", "200/s")
	b.Fill("plan-duration", "10m")
	b.Fill("plan-name", "two runners")
	b.Fill("plan-agents", strings.Join(agents, ", "))
	b.Click("#start")
	b.Wait("document.getElementById('state').dataset.state === 'running'")
	b.Wait(painted + "('rate') && " + painted + "('latency') && " + painted + "('generator')")
	b.Wait("Math.abs(parseFloat(" + legend("rate", "Served") + ") - 200) < 40")
	b.Fill("rate-now", "500")
	b.Eval("document.getElementById('rate-form').requestSubmit()")
	b.Wait("Math.abs(parseFloat(" + legend("rate", "Served") + ") - 500) < 100")
	b.Shot("agents-running")
	b.Click("#stop")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Wait("document.getElementById('to-result') !== null")
	b.Click("#to-result")
	b.Wait("document.getElementById('result-title').textContent === 'two runners'")
	b.Wait(painted + "('result-rate')")
	b.Shot("agents-result")
	answer, err := http.Get(b.Text("document.getElementById('download-json').href"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck
	r, err := report.ReadJSON(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); r.Generator.Runners != 2 || r.Errors > 0 || int64(r.Served) > n ||
		int64(r.Served) < n-10 {
		t.Errorf("the result has %d runners, %d served, %d errors; the target was asked %d times",
			r.Generator.Runners, r.Served, r.Errors, n)
	}
	b.Clean()

	// One that is not there is told beside its field, before any load.
	b.Click("#result button.primary")
	b.Wait("!document.getElementById('page-run').hidden && " +
		"document.getElementById('plan-agents').value.includes(" + quote(agents[1]) + ")")
	b.Fill("plan-agents", agents[0]+", 127.0.0.1:1")
	b.Click("#start")
	b.Wait("document.getElementById('plan-agents').getAttribute('aria-invalid') === 'true'")
	b.Wait("document.body.innerText.includes('is weir load agent running there?')")
	b.Shot("agents-wrong")
}

// What load says of a plan is shown beside the field that it is about.
func TestErrorsOfRealPlansNameTheField(t *testing.T) {
	target, asked := aTarget(t)
	u := testUI(t, func(o *Options) { o.New, o.Agents = realNew, []string{"127.0.0.1:1"} })
	for _, c := range []struct{ plan, field string }{
		{`"url":"TARGET/next","rate":"fast"`, "rate"},
		{`"url":"TARGET/next"`, "rate"},
		{`"url":"TARGET/next","rate":"1/s","mode":"wild"`, "mode"},
		{`"url":"TARGET/next","rate":"1/s","stop_when":["p95 is bad"]`, "stop_when"},
		{`"url":"TARGET/next","rate":"1/s","fail_when":["errors >"]`, "fail_when"},
		{`"url":"TARGET/next","mode":"adaptive","healthy":["p99 ~ 1"]`, "healthy"},
		{`"url":"TARGET/next","mode":"classic","stages":"1000"`, "stages"},
		{`"url":"TARGET/next","rate":"1/s","arrivals":"random"`, "arrivals"},
		{`"url":"TARGET/next","rate":"1/s","duration":"-1s"`, "duration"},
		{`"url":"TARGET/next","rate":"1/s","connections":3`, "rate"},
		{`"url":"TARGET/next","rate":"1/s","agents":["nowhere"]`, "agents"},
		{`"url":"TARGET/next","rate":"1/s","agents":["127.0.0.1:1"]`, "agents"},
		{`"url":"TARGET/next","rate":"1/s","stop_when":["cpu>90%"]`, "stop_when"},
		{`"url":"TARGET/next","rate":"1/s","target_metrics":"TARGET/next"`, "target_metrics"},
		{`"url":"TARGET/next","rate":"1/s","headers":["nonsense"]`, "headers"},
		{`"scenario":"nothing","target":"TARGET","rate":"1/s"`, "scenario"},
		{`"scenario":"feed","rate":"1/s"`, "target"},
		{`"url":"TARGET/missing","rate":"1/s"`, ""},
		{`"url":"http://192.0.2.1/","rate":"1/s"`, "url"},
		{`"url":"http://127.0.0.1:1/","rate":"1/s"`, ""},
	} {
		w := ask(u, "POST", "/api/plan/check", "{"+strings.ReplaceAll(c.plan, "TARGET", target)+"}")
		var p struct{ Detail, Field string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || p.Detail == "" || p.Field != c.field {
			t.Errorf("%s is answered %d %q %q, expected the field %q", c.plan, w.Code, p.Field, p.Detail,
				c.field)
		}
	}
	if n := asked.Load(); n > 20 {
		t.Errorf("checking plans made %d requests", n)
	}
}

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/internal/load"
	"weir/internal/webui/webuitest"
)

// What is chosen and typed is what the server gets, and nothing that the choices have hidden; and a plan
// that comes back fills the form in so that it gets the same again.
func TestTheFormSaysWhatAPlanSays(t *testing.T) {
	plans := make(chan load.Plan, 1)
	_, url := fakeUI(t, time.Millisecond, func(o *Options) {
		o.New = func(_ context.Context, p load.Plan) (Runner, error) {
			plans <- p
			return newFake(p, time.Millisecond), nil
		}
		o.Files, o.Agents = t.TempDir(), []string{"a:1", "b:2"}
	})
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	choose := func(name, value string) {
		t.Helper()
		b.Eval(fmt.Sprintf("(() => { const e = document.querySelector('#plan [name=%[1]s][value=%[2]s]') "+
			"?? document.querySelector('#plan select[name=%[1]s]'); if (e.type === 'radio') { e.click(); } "+
			"else { e.value = %[3]q; e.dispatchEvent(new Event('input', {bubbles: true})); } })()", name,
			value, value))
	}
	check := func() load.Plan {
		t.Helper()
		b.Eval("document.getElementById('check').click()")
		select {
		case p := <-plans:
			b.Wait("!document.getElementById('check').disabled && !document.querySelector('#plan " +
				".good').hidden")
			return p
		case <-time.After(20 * time.Second):
			t.Fatalf("no plan comes; the page says %s", b.Text("document.getElementById('plan').innerText"))
			return load.Plan{}
		}
	}
	for _, c := range []struct {
		what string
		do   func()
		want func(p *load.Plan)
	}{
		{"one URL at a rate", func() {
			b.Fill("plan-url", "http://127.0.0.1:9/a")
			b.Fill("plan-rate", "70/s")
			b.Fill("plan-headers", "A: 1\n\n B: 2 ")
			b.Fill("plan-method", "PUT")
			b.Fill("plan-duration", "1m")
		}, func(p *load.Plan) {
			p.URL, p.Rate, p.Headers, p.Method, p.Duration = "http://127.0.0.1:9/a", "70/s",
				[]string{"A: 1", "B: 2"}, "PUT", load.Duration(time.Minute)
		}},
		{"a search, which has no ramp, over the same URL", func() {
			choose("mode", "adaptive")
			b.Fill("plan-ramp", "5s")
			b.Fill("plan-begin", "10/s")
			b.Fill("plan-healthy", "p99 < 50ms\nerrors < 1%")
		}, func(p *load.Plan) {
			p.URL, p.Rate, p.Headers, p.Method, p.Duration = "http://127.0.0.1:9/a", "10/s",
				[]string{"A: 1", "B: 2"}, "PUT", load.Duration(time.Minute)
			p.Mode, p.Healthy = "adaptive", []string{"p99 < 50ms", "errors < 1%"}
		}},
		{"readers who come again", func() {
			choose("mode", "constant")
			b.Fill("plan-ramp", "")
			choose("source", "scenario")
			choose("scenario", "poll")
			b.Fill("plan-target", "http://127.0.0.1:9")
			choose("model", "users")
			b.Fill("plan-users", "5000")
			b.Fill("plan-every", "5m")
			b.Fill("plan-feeds", "25")
			b.Fill("plan-duration", "")
		}, func(p *load.Plan) {
			p.Scenario, p.Target, p.Users, p.Every, p.Feeds = "poll", "http://127.0.0.1:9", 5000,
				load.Duration(5*time.Minute), 25
		}},
		{"stages of a mix", func() {
			choose("mode", "classic")
			choose("scenario", "mix")
			b.Fill("plan-mix", "feed=3,predict=1")
			b.Fill("plan-stages", "10/s:1s,20/s:1s")
			b.Fill("plan-stop_when", "p95 > 50ms for 5s")
			b.Fill("plan-users", "")
			b.Fill("plan-feeds", "")
		}, func(p *load.Plan) {
			p.Mode, p.Scenario, p.Target, p.Stages, p.StopWhen = "classic", "feed=3,predict=1",
				"http://127.0.0.1:9", "10/s:1s,20/s:1s", []string{"p95 > 50ms for 5s"}
			p.VarsOrder = "sequential" // a mix may have requests of a file
		}},
		{"connections, from two machines", func() {
			choose("mode", "constant")
			choose("model", "connections")
			choose("scenario", "sequence")
			b.Fill("plan-connections", "64")
			b.Fill("plan-agents", "a:1, b:2")
			b.Fill("plan-stop_when", "")
			b.Eval("document.getElementById('plan-http2').click()")
		}, func(p *load.Plan) {
			p.Scenario, p.Target, p.Connections, p.Agents, p.HTTP2 = "sequence", "http://127.0.0.1:9", 64,
				[]string{"a:1", "b:2"}, true
		}},
	} {
		c.do()
		want := load.Default()
		c.want(&want)
		got := check()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the server gets %s, expected %s", c.what, asJSON(t, got), asJSON(t, want))
			continue
		}
		// As a result has it, and as the history gives it back to the form.
		b.Eval("import(document.querySelector('script[type=module]').src.replace('main.js', 'form.js')).then((m) => { window.form_ = m; })")
		b.Wait("window.form_")
		b.Eval("window.filled = new window.form_.PlanForm(document.createElement('form'), {onStart() {}, " +
			"onCheck() {}, onChange() {}}); window.filled.fill(" + asJSON(t, got) + ")")
		again, err := load.ReadPlan([]byte(b.Text("JSON.stringify(window.filled.plan())")))
		if err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: filled in from a result, the form says %s, %v", c.what, asJSON(t, again), err)
		}
	}
	b.Shot("form-light")
	b.Clean()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

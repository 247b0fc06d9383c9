package web

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/internal/load"
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
	b := openBrowser(t, url, 1280, 900, "light")
	b.wait("document.getElementById('state-text').textContent === 'Ready'")
	choose := func(name, value string) {
		t.Helper()
		b.eval(fmt.Sprintf("(() => { const e = document.querySelector('#plan [name=%[1]s][value=%[2]s]') "+
			"?? document.querySelector('#plan select[name=%[1]s]'); if (e.type === 'radio') { e.click(); } "+
			"else { e.value = %[3]q; e.dispatchEvent(new Event('input', {bubbles: true})); } })()", name,
			value, value))
	}
	check := func() load.Plan {
		t.Helper()
		b.eval("document.getElementById('check').click()")
		select {
		case p := <-plans:
			b.wait("!document.getElementById('check').disabled && !document.querySelector('#plan " +
				".good').hidden")
			return p
		case <-time.After(20 * time.Second):
			t.Fatalf("no plan comes; the page says %s", b.text("document.getElementById('plan').innerText"))
			return load.Plan{}
		}
	}
	for _, c := range []struct {
		what string
		do   func()
		want func(p *load.Plan)
	}{
		{"one URL at a rate", func() {
			b.fill("plan-url", "http://127.0.0.1:9/a")
			b.fill("plan-rate", "70/s")
			b.fill("plan-headers", "A: 1\n\n B: 2 ")
			b.fill("plan-method", "PUT")
			b.fill("plan-duration", "1m")
		}, func(p *load.Plan) {
			p.URL, p.Rate, p.Headers, p.Method, p.Duration = "http://127.0.0.1:9/a", "70/s",
				[]string{"A: 1", "B: 2"}, "PUT", load.Duration(time.Minute)
		}},
		{"a search, which has no ramp, over the same URL", func() {
			choose("mode", "adaptive")
			b.fill("plan-ramp", "5s")
			b.fill("plan-begin", "10/s")
			b.fill("plan-healthy", "p99 < 50ms\nerrors < 1%")
		}, func(p *load.Plan) {
			p.URL, p.Rate, p.Headers, p.Method, p.Duration = "http://127.0.0.1:9/a", "10/s",
				[]string{"A: 1", "B: 2"}, "PUT", load.Duration(time.Minute)
			p.Mode, p.Healthy = "adaptive", []string{"p99 < 50ms", "errors < 1%"}
		}},
		{"readers who come again", func() {
			choose("mode", "constant")
			b.fill("plan-ramp", "")
			choose("source", "scenario")
			choose("scenario", "poll")
			b.fill("plan-target", "http://127.0.0.1:9")
			choose("model", "users")
			b.fill("plan-users", "5000")
			b.fill("plan-every", "5m")
			b.fill("plan-feeds", "25")
			b.fill("plan-duration", "")
		}, func(p *load.Plan) {
			p.Scenario, p.Target, p.Users, p.Every, p.Feeds = "poll", "http://127.0.0.1:9", 5000,
				load.Duration(5*time.Minute), 25
		}},
		{"stages of a mix", func() {
			choose("mode", "classic")
			choose("scenario", "mix")
			b.fill("plan-mix", "feed=3,predict=1")
			b.fill("plan-stages", "10/s:1s,20/s:1s")
			b.fill("plan-stop_when", "p95 > 50ms for 5s")
			b.fill("plan-users", "")
			b.fill("plan-feeds", "")
		}, func(p *load.Plan) {
			p.Mode, p.Scenario, p.Target, p.Stages, p.StopWhen = "classic", "feed=3,predict=1",
				"http://127.0.0.1:9", "10/s:1s,20/s:1s", []string{"p95 > 50ms for 5s"}
			p.VarsOrder = "sequential" // a mix may have requests of a file
		}},
		{"connections, from two machines", func() {
			choose("mode", "constant")
			choose("model", "connections")
			choose("scenario", "sequence")
			b.fill("plan-connections", "64")
			b.fill("plan-agents", "a:1, b:2")
			b.fill("plan-stop_when", "")
			b.eval("document.getElementById('plan-http2').click()")
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
		b.eval("import('/form.js').then((m) => { window.form_ = m; })")
		b.wait("window.form_")
		b.eval("window.filled = new window.form_.PlanForm(document.createElement('form'), {onStart() {}, " +
			"onCheck() {}, onChange() {}}); window.filled.fill(" + asJSON(t, got) + ")")
		again, err := load.ReadPlan([]byte(b.text("JSON.stringify(window.filled.plan())")))
		if err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: filled in from a result, the form says %s, %v", c.what, asJSON(t, again), err)
		}
	}
	b.shot("form-light")
	b.clean()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

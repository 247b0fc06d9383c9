package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/load"
	"weir/internal/load/report"
	"weir/internal/webui/webuitest"
)

// A person without a mouse starts a run, sees it, changes its rate, stops it and finds it in the history.
func TestARunIsDrivenByKeysAlone(t *testing.T) {
	_, url := fakeUI(t, 20*time.Millisecond)
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Shot("idle-light")

	b.TabTo("plan-url")
	b.Press("http://127.0.0.1:9/next")
	b.TabTo("plan-duration")
	b.Do(selectAll())
	b.Press("10m")
	b.TabTo("start")
	b.Press("\r")
	b.Wait("document.getElementById('state').dataset.state === 'running'")
	b.Wait(painted + "('rate')")
	b.Wait(painted + "('latency')")
	served := b.Text(legend("rate", "Served"))
	b.Wait(legend("rate", "Served") + " !== " + quote(served))
	b.Wait("[...document.querySelectorAll('#tiles dd')].some((e) => e.textContent.endsWith('/s'))")
	b.Wait("document.getElementById('announce').textContent !== ''")
	for name, soFar := range map[string]string{"p50": "so far 1.23\u00a0ms", "p99": "so far 4.56\u00a0ms"} {
		b.Wait(fmt.Sprintf("[...document.querySelectorAll('#tiles .tile')].find((e) => "+
			"e.firstChild.textContent === %s).lastChild.textContent.endsWith(%s)", quote(name), quote(soFar)))
	}

	// The rate, by the number field and then by the slider.
	b.TabTo("rate-now")
	b.Do(selectAll())
	b.Press("2000\r")
	b.Wait(legend("rate", "Intended") + " === '2,000/s'")
	b.Eval("document.body.focus()")
	b.TabTo("rate-slide")
	before := b.Text("document.getElementById('rate-slide').value")
	b.Press(arrowRight)
	b.Wait("document.getElementById('rate-slide').value !== " + quote(before))
	b.Wait(legend("rate", "Intended") + " !== '2,000/s'")
	if said := b.Text(
		"document.getElementById('rate-slide').getAttribute('aria-valuetext')"); !strings.HasSuffix(
		said, "/s") {
		t.Errorf("the slider calls itself %q", said)
	}

	// A plot's cursor, by keys.
	b.Eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.Press(arrowLeft + arrowLeft)
	b.Wait("document.querySelector('[data-plot=rate] .plot-at').textContent.startsWith('at ')")
	b.Shot("running-light")

	// Beyond what the target can do there are errors, and in the end examples of them.
	b.Do(chromedp.Focus("#rate-now"))
	b.Do(selectAll())
	b.Press("9000\r")
	b.Wait("[...document.querySelectorAll('#tiles .tile.warn dt')].some((e) => e.textContent === 'Errors')")
	b.Eval("document.body.focus()")
	b.TabTo("stop")
	b.Press("\r")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Wait("document.getElementById('end-notes').textContent.includes('For example GET /slow <b>page</b>: " +
		"timed out, nothing within 10 s')")
	b.Wait("document.getElementById('to-result') !== null")
	b.TabTo("to-result")
	b.Press("\r")
	b.Wait("!document.getElementById('page-result').hidden && document.querySelector('#result .tiles')")
	b.Wait(painted + "('result-rate')")
	b.Eval("location.hash = '#/history'")
	b.Wait("document.querySelectorAll('#history tbody tr').length === 1")
	b.Clean()
}

// legend is an expression for what a plot's legend says of a line.
func legend(plot, line string) string {
	return fmt.Sprintf("[...document.querySelectorAll('[data-plot=%s] .legend-item')].find((e) => "+
		"e.children[1].textContent === %s).querySelector('output').textContent", plot, quote(line))
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

func TestHistoryOpensComparesDownloadsAndRunsAgain(t *testing.T) {
	u, url := fakeUI(t, 5*time.Millisecond)
	for i, mode := range []string{"constant", "constant", "adaptive"} {
		f := newFake(planFor(
			t,
			fmt.Sprintf(
				`{"url": "http://127.0.0.1:9/next", "mode": %q, "name": "run %d", "rate": "%d/s", "duration": "12s",
			"target_metrics": "http://127.0.0.1:9/metrics", "fail_when": ["errors > 1%%"]}`, mode, i, 3000+i*1300)), 0)
		for n := range 120 {
			f.point(n)
		}
		r := f.result(time.Now().Add(time.Duration(i-3)*time.Hour), "")
		if i == 0 {
			r.Marks = []string{"The generator was the limit: its threads were busy 95 % of the time."}
		}
		if err := u.history.save(fmt.Sprintf("20261121-1%d0000-00ab", i), r); err != nil {
			t.Fatal(err)
		}
	}
	b := webuitest.Open(t, url, 1280, 900, "dark")
	b.Go("/#/history")
	b.Wait("document.querySelectorAll('#history tbody tr').length === 3")
	if first := b.Text("document.querySelector('#history tbody tr a').textContent"); first != "run 2" {
		t.Errorf("the first run listed is %q, expected the newest", first)
	}
	if off := b.Text("document.getElementById('compare').disabled"); off != "true" {
		t.Error("nothing is chosen, and can be compared")
	}
	b.Shot("history-dark")

	// Two are compared.
	b.Click("[data-run='20261121-100000-00ab'] input")
	b.Click("[data-run='20261121-110000-00ab'] input")
	b.Click("#compare")
	b.Wait("document.querySelectorAll('.compared tbody tr').length > 8")
	b.Wait(painted + "('two-served')")
	b.Wait("[...document.querySelectorAll('.compared td')].some((e) => /worse$/.test(e.textContent))")
	b.Shot("compare-dark")

	// One is opened, and says what it found.
	b.Click("#comparison a")
	b.Wait("document.getElementById('result-title').textContent === 'run 0'")
	b.Wait(painted + "('result-target')")
	b.Wait("document.querySelector('.marks li').textContent.includes('generator was the limit')")
	b.Wait("document.querySelector('.verdicts').textContent.includes('errors > 1%')")
	b.Shot("result-dark")
	href := b.Text("document.getElementById('download-json').href")
	answer, err := http.Get(href)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if r, err := report.ReadJSON(answer.Body); err != nil || r.Name != "run 0" {
		t.Errorf("the downloaded result is %v, %v", r, err)
	}
	if how := answer.Header.Get("Content-Disposition"); !strings.HasPrefix(how, "attachment") {
		t.Errorf("the download is %q, expected an attachment", how)
	}

	// Its plan comes back into the form.
	b.Click("#result button.primary")
	b.Wait("!document.getElementById('page-run').hidden && document.getElementById('plan-rate').value === " +
		"'3000/s'")
	for id, want := range map[string]string{"plan-url": "http://127.0.0.1:9/next", "plan-duration": "12s",
		"plan-fail_when": "errors > 1%", "plan-name": "run 0"} {
		if got := b.Text("document.getElementById(" + quote(id) + ").value"); got != want {
			t.Errorf("%s says %q, expected %q", id, got, want)
		}
	}

	// Deleting asks once.
	b.Go("/#/history")
	b.Wait("document.querySelector('#history[aria-busy=false]') && document.querySelectorAll('#history " +
		"tbody tr').length === 3")
	b.Click("#delete-20261121-100000-00ab")
	b.Wait("document.getElementById('delete-20261121-100000-00ab').textContent === 'Sure?'")
	b.Click("#delete-20261121-100000-00ab")
	b.Wait("document.querySelectorAll('#history tbody tr').length === 2")
	b.Go("/#/history/20261121-120000-00ab")
	b.Wait("document.querySelector('#result .tiles').textContent.includes('95 % confidence')")
	b.Shot("result-adaptive-dark")
	b.Clean()
}

func TestErrorsStandBesideTheirField(t *testing.T) {
	target, _ := aTarget(t)
	_, url := fakeUI(t, 0, func(o *Options) { o.New = realNew })
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Fill("plan-url", target+"/next")
	b.Eval("for (const d of document.querySelectorAll('#plan details')) d.open = true")
	good := map[string]string{"plan-rate": "100/s", "plan-duration": "1s", "plan-url": target + "/next"}
	for _, c := range []struct{ id, text, says string }{
		{"plan-rate", "fast", "5000/s"},
		{"plan-duration", "soon", "soon"},
		{"plan-stop_when", "p99 > fast", "p99 is compared with a duration"},
		{"plan-fail_when", "errors > 1%\nerrors is bad", "expected >, >=, < or <= after errors"},
		{"plan-headers", "nonsense", `expected "Name: value"`},
		{"plan-url", "http://192.0.2.1/", "weir load ui with --i-own-this-target"},
	} {
		b.Fill("plan-rate", "100/s")
		b.Fill(c.id, c.text)
		b.Click("#check")
		problem := "document.getElementById(" + quote(c.id+"-error") + ")"
		b.Wait(problem + ".textContent.includes(" + quote(c.says) + ")")
		b.Wait("document.activeElement.id === " + quote(c.id) +
			" && document.activeElement.getAttribute('aria-invalid') === 'true'")
		if n := b.Text("[...document.querySelectorAll('#plan [aria-invalid=true]')].length"); n != "1" {
			t.Errorf("%s fields are wrong, expected %s alone", n, c.id)
		}
		b.Shot("error-light-" + c.id)
		b.Fill(c.id, good[c.id])
		b.Wait(problem + ".hidden")
	}
	b.Fill("plan-url", "")
	b.Click("#check")
	b.Wait("!document.getElementById('plan-error').hidden")
	b.Fill("plan-url", target+"/<b>x</b>")
	b.Click("#check")
	b.Wait("document.getElementById('plan-error').textContent.includes('%3Cb%3Ex%3C/b%3E is answered 404')")
	// Chromium itself reports answers with an error status; nothing else may be said.
	for _, m := range b.Said() {
		if !strings.Contains(m, "400 (Bad Request)") {
			t.Errorf("the console says: %s", m)
		}
	}
}

// What a plot shows of a long run is smoothed; zoomed in, it is every point.
func TestPlotsSmoothAndZoom(t *testing.T) {
	u, url := fakeUI(t, 20*time.Millisecond)
	f := newFake(planFor(t, `{"url": "http://127.0.0.1:9/next", "duration": "2m"}`), 0)
	for n := range 1200 {
		f.point(n)
	}
	r := f.result(time.Now(), "")
	for i := range r.Trace {
		r.Trace[i].Served = float64(i % 2 * 4000)
	}
	if err := u.history.save("20261121-100000-00ab", r); err != nil {
		t.Fatal(err)
	}
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Go("/#/history/20261121-100000-00ab")
	b.Wait(painted + "('result-rate')")
	b.Wait("document.getElementById('result').textContent.includes('2\u00a0min measured')")
	b.Wait(tall + "('result-rate', 'served') < 0.3")
	b.Eval("document.querySelector('[data-plot=result-rate] .plot-canvas').focus()")
	// Plots of a page zoom together.
	back := "document.querySelector('[data-plot=result-latency] .plot-back').hidden"
	b.Wait(back)
	b.Press("++++")
	b.Wait(back + " === false")
	b.Wait(tall + "('result-rate', 'served') > 0.6")
	b.Press("----")
	b.Wait(back)
	b.Wait(tall + "('result-rate', 'served') < 0.3")

	// The same by dragging.
	b.Drag("[data-plot=result-rate] .u-over", 0.4, 0.45)
	b.Wait(back + " === false")
	b.Wait(tall + "('result-rate', 'served') > 0.6")
	b.Click("[data-plot=result-latency] .plot-back")
	b.Wait(back)
	b.Wait(tall + "('result-rate', 'served') < 0.3")
	b.Clean()
}

func TestNothingFromOutsideIsMarkup(t *testing.T) {
	u, url := fakeUI(t, 20*time.Millisecond)
	evil := `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	plan := load.Default()
	plan.Name, plan.URL, plan.Mode = evil, evil, evil
	f := newFake(plan, 0)
	f.point(0)
	r := f.result(time.Now(), evil)
	r.Marks = []string{evil}
	r.Failures[evil] = 3
	r.Verdicts = []report.Verdict{{Condition: evil}}
	r.Trace[0].Phase = evil
	if err := u.history.save("20261121-100000-00ab", r); err != nil {
		t.Fatal(err)
	}
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Go("/#/history")
	b.Wait("document.querySelectorAll('#history tbody tr').length === 1")
	b.Wait("document.querySelector('#history').textContent.includes('<img')")
	b.Go("/#/history/20261121-100000-00ab")
	b.Wait("document.querySelector('.marks li')?.textContent.startsWith('<img')")
	b.Wait("document.querySelector('[data-plot=result-rate] canvas') !== null")
	if n := b.Text(
		"document.querySelectorAll('#result img, #result script, #history img').length"); n != "0" {
		t.Errorf("%s elements came out of text", n)
	}
	if title := b.Text("document.title"); title == "owned" {
		t.Error("text was run as a script")
	}
	b.Clean()
}

func TestPagesFitAPhone(t *testing.T) {
	f := newFake(planFor(
		t,
		`{"url": "http://127.0.0.1:9/next", "mode": "adaptive", "name": "evening", "duration": "12s", "target_metrics": "http://127.0.0.1:9/metrics"}`), 0)
	for n := range 120 {
		f.point(n)
	}
	for _, scheme := range []string{"light", "dark"} {
		u, url := fakeUI(t, 20*time.Millisecond)
		for _, id := range []string{"20261121-100000-00ab", "20261121-110000-00ab"} {
			if err := u.history.save(id, f.result(time.Now(), "")); err != nil {
				t.Fatal(err)
			}
		}
		b := webuitest.Open(t, url, 360, 740, scheme)
		b.Wait("document.getElementById('state-text').textContent === 'Ready'")
		b.Fits()
		b.Shot("phone-idle-" + scheme)
		b.Fill("plan-url",
			"http://127.0.0.1:9/a/rather/long/path/that/does/not/fit/into/a/line?of=a&telephone=1")
		b.Eval("document.querySelector('[name=mode][value=adaptive]').click()")
		b.Fill("plan-duration", "10m")
		b.Click("#start")
		b.Wait(painted + "('rate')")
		b.Wait("document.getElementById('state-text').textContent.includes('bisect')")
		b.Fits()
		for _, width := range []int64{390, 360} {
			b.Do(chromedp.EmulateViewport(width, 740))
			if b.Text("document.getElementById('rate-less').offsetTop === "+
				"document.getElementById('rate-more').offsetTop") != "true" {
				t.Errorf("at %d pixels the steps of the rate are not beside each other", width)
			}
		}
		b.Shot("phone-running-" + scheme)
		b.Click("#stop")
		b.Wait("document.getElementById('state-text').textContent === 'Over'")
		for _, page := range []string{"/#/history", "/#/history/20261121-100000-00ab",
			"/#/compare/20261121-100000-00ab/20261121-110000-00ab"} {
			b.Go(page)
			b.Wait("document.querySelector('#history tbody tr, #result .tiles, #comparison table') !== null")
			b.Fits()
			b.Shot("phone-" + strings.Split(page, "/")[2] + fmt.Sprint(len(page)) + "-" + scheme)
		}
		b.Wait("document.querySelector('.compared small:not(.interval)')")
		b.Eval("for (const s of document.querySelectorAll('.compared small:not(.interval)')) s.textContent " +
			"= '? too little measured'")
		if b.Text("document.querySelector('.compared').offsetWidth > document.querySelector('#comparison "+
			".scroll').clientWidth") == "true" {
			t.Error("the comparison has to be scrolled to see what has changed")
		}
		b.Clean()
	}
}

// The stream breaks, and goes on where it was.
func TestAPageThatWasCutOffCatchesUp(t *testing.T) {
	u, url := fakeUI(t, 20*time.Millisecond)
	b := webuitest.Open(t, url, 1280, 900, "dark")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Fill("plan-url", "http://127.0.0.1:9/")
	b.Fill("plan-duration", "10m")
	b.Fill("plan-target_metrics", "http://127.0.0.1:9/metrics")
	b.Eval("document.querySelector('[name=mode][value=adaptive]').click()")
	b.Click("#start")
	b.Wait(painted + "('target')")
	u.live.Cut()
	b.Wait("document.getElementById('state-text').textContent.includes('track')")
	b.Wait(legend("rate", "Ceiling") + " !== '\u2013'")
	b.Shot("adaptive-dark")
	// Nothing is missing: the whole run is asked for, and compared by what the plot shows at its beginning.
	b.Eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.Press(home)
	// They move together.
	b.Wait("document.querySelector('[data-plot=latency] .plot-at').textContent.startsWith('at ')")
	b.Wait("document.querySelector('[data-plot=rate] .plot-at').textContent === 'at 0.1\u00a0s, climb'")

	// Another page, or this one opened again, sees all of it too, in whatever colours it wants.
	b.Eval("delete document.documentElement.dataset.ready; location.reload()")
	b.Wait("document.documentElement.dataset.ready === 'yes'")
	b.Wait(painted + "('target')")
	b.Eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.Press(home)
	b.Wait("document.querySelector('[data-plot=rate] .plot-at').textContent === 'at 0.1\u00a0s, climb'")
	background := b.Text("getComputedStyle(document.body).backgroundColor")
	b.Scheme("light")
	b.Wait("getComputedStyle(document.body).backgroundColor !== " + quote(background))
	b.Wait(painted + "('rate')")
	b.Click("#stop")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Clean()
}

// Of a long run a page keeps a bounded number of points, by asking for the merged ones, and not again and
// again.
func TestALongRunIsShownToItsEnd(t *testing.T) {
	steps := make(chan time.Time)
	u, url := fakeUI(t, 0, func(o *Options) {
		o.New = func(_ context.Context, p load.Plan) (Runner, error) {
			f := newFake(p, 0)
			f.steps = steps
			return f, nil
		}
	})
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	if w := ask(u, "POST", "/api/runs", endless); w.Code != 201 {
		t.Fatal(w.Code)
	}
	for range 5300 {
		before := u.live.Sent()
		steps <- time.Time{}
		for u.live.Sent() == before { // a Runner's watcher that is slow misses points
			runtime.Gosched()
		}
	}
	b.Wait("document.getElementById('state-text').textContent.includes(' 8:50 ')")
	b.Wait(painted + "('rate')")
	streams := 0
	for _, url := range b.Asked() {
		if strings.HasSuffix(url, "/api/events") {
			streams++
		}
	}
	// It is dropped now and then, since the points come faster than any real ones.
	if streams == 0 || streams > 30 {
		t.Errorf("the page opened %d streams", streams)
	}
	ask(u, "DELETE", "/api/run", "")
	b.Wait("document.getElementById('state-text').textContent === 'Over'")
	b.Clean()
}

func TestPagesAskForTheToken(t *testing.T) {
	const token = "a token nobody guesses"
	_, url := fakeUI(t, 20*time.Millisecond, func(o *Options) { o.Token = token })
	b := webuitest.Open(t, url, 360, 740, "light")
	b.Wait("!document.getElementById('page-login').hidden && document.activeElement.id === 'token'")
	b.Shot("phone-login-light")
	b.Press("wrong\r")
	b.Wait("!document.getElementById('token-error').hidden")
	b.Do(selectAll())
	b.Press(token + "\r")
	b.Wait("document.getElementById('state-text').textContent === 'Ready' && " +
		"!document.getElementById('page-run').hidden")
	if stored := b.Text("document.cookie + JSON.stringify(localStorage)"); strings.Contains(stored, token) {
		t.Errorf("scripts can read the token: %s", stored)
	}

	// The printed address has it too, and does not keep it.
	other := webuitest.Open(t, url, 360, 740, "light")
	other.Go("/#token=" + strings.ReplaceAll(token, " ", "%20"))
	other.Eval("location.reload()")
	other.Wait("document.getElementById('state-text').textContent === 'Ready'")
	if at := other.Text("location.href"); strings.Contains(at, "token") {
		t.Errorf("the address still says %s", at)
	}
}

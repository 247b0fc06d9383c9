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
)

// A person without a mouse starts a run, sees it, changes its rate, stops it and finds it in the history.
func TestARunIsDrivenByKeysAlone(t *testing.T) {
	_, url := fakeUI(t, 20*time.Millisecond)
	b := openBrowser(t, url, 1280, 900, "light")
	b.wait("document.getElementById('state-text').textContent === 'Ready'")
	b.shot("idle-light")

	b.tabTo("plan-url")
	b.press("http://127.0.0.1:9/next")
	b.tabTo("plan-duration")
	b.do(selectAll())
	b.press("10m")
	b.tabTo("start")
	b.press("\r")
	b.wait("document.getElementById('state').dataset.state === 'running'")
	b.wait(painted + "('rate')")
	b.wait(painted + "('latency')")
	served := b.text(legend("rate", "Served"))
	b.wait(legend("rate", "Served") + " !== " + quote(served))
	b.wait("[...document.querySelectorAll('#tiles dd')].some((e) => e.textContent.endsWith('/s'))")
	b.wait("document.getElementById('announce').textContent !== ''")
	for name, soFar := range map[string]string{"p50": "so far 1.23\u00a0ms", "p99": "so far 4.56\u00a0ms"} {
		b.wait(fmt.Sprintf("[...document.querySelectorAll('#tiles .tile')].find((e) => "+
			"e.firstChild.textContent === %s).lastChild.textContent.endsWith(%s)", quote(name), quote(soFar)))
	}

	// The rate, by the number field and then by the slider.
	b.tabTo("rate-now")
	b.do(selectAll())
	b.press("2000\r")
	b.wait(legend("rate", "Intended") + " === '2,000/s'")
	b.eval("document.body.focus()")
	b.tabTo("rate-slide")
	before := b.text("document.getElementById('rate-slide').value")
	b.press(arrowRight)
	b.wait("document.getElementById('rate-slide').value !== " + quote(before))
	b.wait(legend("rate", "Intended") + " !== '2,000/s'")
	if said := b.text(
		"document.getElementById('rate-slide').getAttribute('aria-valuetext')"); !strings.HasSuffix(
		said, "/s") {
		t.Errorf("the slider calls itself %q", said)
	}

	// A plot's cursor, by keys.
	b.eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.press(arrowLeft + arrowLeft)
	b.wait("document.querySelector('[data-plot=rate] .plot-at').textContent.startsWith('at ')")
	b.shot("running-light")

	// Beyond what the target can do there are errors, and in the end examples of them.
	b.do(chromedp.Focus("#rate-now"))
	b.do(selectAll())
	b.press("9000\r")
	b.wait("[...document.querySelectorAll('#tiles .tile.warn dt')].some((e) => e.textContent === 'Errors')")
	b.eval("document.body.focus()")
	b.tabTo("stop")
	b.press("\r")
	b.wait("document.getElementById('state-text').textContent === 'Over'")
	b.wait("document.getElementById('end-notes').textContent.includes('For example GET /slow <b>page</b>: " +
		"timed out, nothing within 10 s')")
	b.wait("document.getElementById('to-result') !== null")
	b.tabTo("to-result")
	b.press("\r")
	b.wait("!document.getElementById('page-result').hidden && document.querySelector('#result .tiles')")
	b.wait(painted + "('result-rate')")
	b.eval("location.hash = '#/history'")
	b.wait("document.querySelectorAll('#history tbody tr').length === 1")
	b.clean()
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
	b := openBrowser(t, url, 1280, 900, "dark")
	b.open("/#/history")
	b.wait("document.querySelectorAll('#history tbody tr').length === 3")
	if first := b.text("document.querySelector('#history tbody tr a').textContent"); first != "run 2" {
		t.Errorf("the first run listed is %q, expected the newest", first)
	}
	if off := b.text("document.getElementById('compare').disabled"); off != "true" {
		t.Error("nothing is chosen, and can be compared")
	}
	b.shot("history-dark")

	// Two are compared.
	b.click("[data-run='20261121-100000-00ab'] input")
	b.click("[data-run='20261121-110000-00ab'] input")
	b.click("#compare")
	b.wait("document.querySelectorAll('.compared tbody tr').length > 8")
	b.wait(painted + "('two-served')")
	b.wait("[...document.querySelectorAll('.compared td')].some((e) => /worse$/.test(e.textContent))")
	b.shot("compare-dark")

	// One is opened, and says what it found.
	b.click("#comparison a")
	b.wait("document.getElementById('result-title').textContent === 'run 0'")
	b.wait(painted + "('result-target')")
	b.wait("document.querySelector('.marks li').textContent.includes('generator was the limit')")
	b.wait("document.querySelector('.verdicts').textContent.includes('errors > 1%')")
	b.shot("result-dark")
	href := b.text("document.getElementById('download-json').href")
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
	b.click("#result button.primary")
	b.wait("!document.getElementById('page-run').hidden && document.getElementById('plan-rate').value === " +
		"'3000/s'")
	for id, want := range map[string]string{"plan-url": "http://127.0.0.1:9/next", "plan-duration": "12s",
		"plan-fail_when": "errors > 1%", "plan-name": "run 0"} {
		if got := b.text("document.getElementById(" + quote(id) + ").value"); got != want {
			t.Errorf("%s says %q, expected %q", id, got, want)
		}
	}

	// Deleting asks once.
	b.open("/#/history")
	b.wait("document.querySelector('#history[aria-busy=false]') && document.querySelectorAll('#history " +
		"tbody tr').length === 3")
	b.click("#delete-20261121-100000-00ab")
	b.wait("document.getElementById('delete-20261121-100000-00ab').textContent === 'Sure?'")
	b.click("#delete-20261121-100000-00ab")
	b.wait("document.querySelectorAll('#history tbody tr').length === 2")
	b.open("/#/history/20261121-120000-00ab")
	b.wait("document.querySelector('#result .tiles').textContent.includes('95 % confidence')")
	b.shot("result-adaptive-dark")
	b.clean()
}

func TestErrorsStandBesideTheirField(t *testing.T) {
	target, _ := aTarget(t)
	_, url := fakeUI(t, 0, func(o *Options) { o.New = realNew })
	b := openBrowser(t, url, 1280, 900, "light")
	b.wait("document.getElementById('state-text').textContent === 'Ready'")
	b.fill("plan-url", target+"/next")
	b.eval("for (const d of document.querySelectorAll('#plan details')) d.open = true")
	good := map[string]string{"plan-rate": "100/s", "plan-duration": "1s", "plan-url": target + "/next"}
	for _, c := range []struct{ id, text, says string }{
		{"plan-rate", "fast", "5000/s"},
		{"plan-duration", "soon", "soon"},
		{"plan-stop_when", "p99 > fast", "p99 is compared with a duration"},
		{"plan-fail_when", "errors > 1%\nerrors is bad", "expected >, >=, < or <= after errors"},
		{"plan-headers", "nonsense", `expected "Name: value"`},
		{"plan-url", "http://192.0.2.1/", "weir load ui with --i-own-this-target"},
	} {
		b.fill("plan-rate", "100/s")
		b.fill(c.id, c.text)
		b.click("#check")
		problem := "document.getElementById(" + quote(c.id+"-error") + ")"
		b.wait(problem + ".textContent.includes(" + quote(c.says) + ")")
		b.wait("document.activeElement.id === " + quote(c.id) +
			" && document.activeElement.getAttribute('aria-invalid') === 'true'")
		if n := b.text("[...document.querySelectorAll('#plan [aria-invalid=true]')].length"); n != "1" {
			t.Errorf("%s fields are wrong, expected %s alone", n, c.id)
		}
		b.shot("error-light-" + c.id)
		b.fill(c.id, good[c.id])
		b.wait(problem + ".hidden")
	}
	b.fill("plan-url", "")
	b.click("#check")
	b.wait("!document.getElementById('plan-error').hidden")
	b.fill("plan-url", target+"/<b>x</b>")
	b.click("#check")
	b.wait("document.getElementById('plan-error').textContent.includes('%3Cb%3Ex%3C/b%3E is answered 404')")
	// Chromium itself reports answers with an error status; nothing else may be said.
	for _, m := range b.said() {
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
	b := openBrowser(t, url, 1280, 900, "light")
	b.open("/#/history/20261121-100000-00ab")
	b.wait(painted + "('result-rate')")
	b.wait("document.getElementById('result').textContent.includes('2\u00a0min measured')")
	b.wait(tall + "('result-rate', 'served') < 0.3")
	b.eval("document.querySelector('[data-plot=result-rate] .plot-canvas').focus()")
	// Plots of a page zoom together.
	back := "document.querySelector('[data-plot=result-latency] .plot-back').hidden"
	b.wait(back)
	b.press("++++")
	b.wait(back + " === false")
	b.wait(tall + "('result-rate', 'served') > 0.6")
	b.press("----")
	b.wait(back)
	b.wait(tall + "('result-rate', 'served') < 0.3")

	// The same by dragging.
	b.drag("[data-plot=result-rate] .u-over", 0.4, 0.45)
	b.wait(back + " === false")
	b.wait(tall + "('result-rate', 'served') > 0.6")
	b.click("[data-plot=result-latency] .plot-back")
	b.wait(back)
	b.wait(tall + "('result-rate', 'served') < 0.3")
	b.clean()
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
	b := openBrowser(t, url, 1280, 900, "light")
	b.open("/#/history")
	b.wait("document.querySelectorAll('#history tbody tr').length === 1")
	b.wait("document.querySelector('#history').textContent.includes('<img')")
	b.open("/#/history/20261121-100000-00ab")
	b.wait("document.querySelector('.marks li')?.textContent.startsWith('<img')")
	b.wait("document.querySelector('[data-plot=result-rate] canvas') !== null")
	if n := b.text(
		"document.querySelectorAll('#result img, #result script, #history img').length"); n != "0" {
		t.Errorf("%s elements came out of text", n)
	}
	if title := b.text("document.title"); title == "owned" {
		t.Error("text was run as a script")
	}
	b.clean()
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
		b := openBrowser(t, url, 360, 740, scheme)
		b.wait("document.getElementById('state-text').textContent === 'Ready'")
		b.fits()
		b.shot("phone-idle-" + scheme)
		b.fill("plan-url",
			"http://127.0.0.1:9/a/rather/long/path/that/does/not/fit/into/a/line?of=a&telephone=1")
		b.eval("document.querySelector('[name=mode][value=adaptive]').click()")
		b.fill("plan-duration", "10m")
		b.click("#start")
		b.wait(painted + "('rate')")
		b.wait("document.getElementById('state-text').textContent.includes('bisect')")
		b.fits()
		for _, width := range []int64{390, 360} {
			b.do(chromedp.EmulateViewport(width, 740))
			if b.text("document.getElementById('rate-less').offsetTop === "+
				"document.getElementById('rate-more').offsetTop") != "true" {
				t.Errorf("at %d pixels the steps of the rate are not beside each other", width)
			}
		}
		b.shot("phone-running-" + scheme)
		b.click("#stop")
		b.wait("document.getElementById('state-text').textContent === 'Over'")
		for _, page := range []string{"/#/history", "/#/history/20261121-100000-00ab",
			"/#/compare/20261121-100000-00ab/20261121-110000-00ab"} {
			b.open(page)
			b.wait("document.querySelector('#history tbody tr, #result .tiles, #comparison table') !== null")
			b.fits()
			b.shot("phone-" + strings.Split(page, "/")[2] + fmt.Sprint(len(page)) + "-" + scheme)
		}
		b.wait("document.querySelector('.compared small:not(.interval)')")
		b.eval("for (const s of document.querySelectorAll('.compared small:not(.interval)')) s.textContent " +
			"= '? too little measured'")
		if b.text("document.querySelector('.compared').offsetWidth > document.querySelector('#comparison "+
			".scroll').clientWidth") == "true" {
			t.Error("the comparison has to be scrolled to see what has changed")
		}
		b.clean()
	}
}

// The stream breaks, and goes on where it was.
func TestAPageThatWasCutOffCatchesUp(t *testing.T) {
	u, url := fakeUI(t, 20*time.Millisecond)
	b := openBrowser(t, url, 1280, 900, "dark")
	b.wait("document.getElementById('state-text').textContent === 'Ready'")
	b.fill("plan-url", "http://127.0.0.1:9/")
	b.fill("plan-duration", "10m")
	b.fill("plan-target_metrics", "http://127.0.0.1:9/metrics")
	b.eval("document.querySelector('[name=mode][value=adaptive]').click()")
	b.click("#start")
	b.wait(painted + "('target')")
	u.live.Cut()
	b.wait("document.getElementById('state-text').textContent.includes('track')")
	b.wait(legend("rate", "Ceiling") + " !== '\u2013'")
	b.shot("adaptive-dark")
	// Nothing is missing: the whole run is asked for, and compared by what the plot shows at its beginning.
	b.eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.press(home)
	// They move together.
	b.wait("document.querySelector('[data-plot=latency] .plot-at').textContent.startsWith('at ')")
	b.wait("document.querySelector('[data-plot=rate] .plot-at').textContent === 'at 0.1\u00a0s, climb'")

	// Another page, or this one opened again, sees all of it too, in whatever colours it wants.
	b.eval("delete document.documentElement.dataset.ready; location.reload()")
	b.wait("document.documentElement.dataset.ready === 'yes'")
	b.wait(painted + "('target')")
	b.eval("document.querySelector('[data-plot=rate] .plot-canvas').focus()")
	b.press(home)
	b.wait("document.querySelector('[data-plot=rate] .plot-at').textContent === 'at 0.1\u00a0s, climb'")
	background := b.text("getComputedStyle(document.body).backgroundColor")
	b.scheme("light")
	b.wait("getComputedStyle(document.body).backgroundColor !== " + quote(background))
	b.wait(painted + "('rate')")
	b.click("#stop")
	b.wait("document.getElementById('state-text').textContent === 'Over'")
	b.clean()
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
	b := openBrowser(t, url, 1280, 900, "light")
	b.wait("document.getElementById('state-text').textContent === 'Ready'")
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
	b.wait("document.getElementById('state-text').textContent.includes(' 8:50 ')")
	b.wait(painted + "('rate')")
	b.mu.Lock()
	streams := 0
	for _, url := range b.asked {
		if strings.HasSuffix(url, "/api/events") {
			streams++
		}
	}
	b.mu.Unlock()
	// It is dropped now and then, since the points come faster than any real ones.
	if streams == 0 || streams > 30 {
		t.Errorf("the page opened %d streams", streams)
	}
	ask(u, "DELETE", "/api/run", "")
	b.wait("document.getElementById('state-text').textContent === 'Over'")
	b.clean()
}

func TestPagesAskForTheToken(t *testing.T) {
	const token = "a token nobody guesses"
	_, url := fakeUI(t, 20*time.Millisecond, func(o *Options) { o.Token = token })
	b := openBrowser(t, url, 360, 740, "light")
	b.wait("!document.getElementById('page-login').hidden && document.activeElement.id === 'token'")
	b.shot("phone-login-light")
	b.press("wrong\r")
	b.wait("!document.getElementById('token-error').hidden")
	b.do(selectAll())
	b.press(token + "\r")
	b.wait("document.getElementById('state-text').textContent === 'Ready' && " +
		"!document.getElementById('page-run').hidden")
	if stored := b.text("document.cookie + JSON.stringify(localStorage)"); strings.Contains(stored, token) {
		t.Errorf("scripts can read the token: %s", stored)
	}

	// The printed address has it too, and does not keep it.
	other := openBrowser(t, url, 360, 740, "light")
	other.open("/#token=" + strings.ReplaceAll(token, " ", "%20"))
	other.eval("location.reload()")
	other.wait("document.getElementById('state-text').textContent === 'Ready'")
	if at := other.text("location.href"); strings.Contains(at, "token") {
		t.Errorf("the address still says %s", at)
	}
}

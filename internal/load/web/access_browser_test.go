package web

import (
	"testing"
	"time"
	"weir/internal/webui/webuitest"
)

// unnamed lists what a screen reader would have no name for, and ids that are there twice.
const unnamed = `(() => {
	const seen = (e) => e.checkVisibility();
	const named = (e) => e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length ||
		(e.getAttribute('aria-labelledby') ?? '').split(' ').some((id) => id && document.getElementById(id)?.textContent.trim());
	const out = [...document.querySelectorAll('input, select, textarea, button, a, [tabindex="0"], [role="group"], [role="region"]')]
		.filter((e) => seen(e) && !named(e)).map((e) => 'no name: ' + e.outerHTML.slice(0, 100));
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
	ids.forEach((id, i) => { if (ids.indexOf(id) !== i) out.push('twice: ' + id); });
	for (const a of ['aria-labelledby', 'aria-describedby']) for (const e of document.querySelectorAll('[' + a + ']'))
		for (const id of e.getAttribute(a).split(' ')) if (!document.getElementById(id)) out.push(a + ' of nothing: ' + id);
	if (document.querySelectorAll('h1').length && [...document.querySelectorAll('h1')].filter(seen).length !== 1) out.push('not one h1');
	return out.join('\n');
})()`

// faint lists texts whose contrast with what is behind them is below 4.5, which WCAG 2 asks for.
const faint = `(() => {
	const rgb = (c) => { const m = /rgba?\(([^)]+)\)/.exec(c)[1].split(/[ ,/]+/).map(Number); return [m[0], m[1], m[2], m[3] ?? 1]; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => { const layers = []; for (; e; e = e.parentElement) { layers.push(rgb(getComputedStyle(e).backgroundColor)); if (layers.at(-1)[3] === 1) break; }
		return layers.reverse().reduce((under, l) => over(l, under), [255, 255, 255, 1]); };
	const out = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		let e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility() || e.closest('.unseen, .skip, :disabled, noscript, option')) continue;
		if (e.matches('.choices span')) { const i = e.previousElementSibling; if (!i.checked) { e = e.parentElement; } }
		const back = behind(e), front = over(rgb(getComputedStyle(e).color), back);
		const [hi, lo] = [light(front), light(back)].sort((a, b) => b - a);
		const contrast = (hi + 0.05) / (lo + 0.05);
		if (contrast < 4.5) out.add(contrast.toFixed(2) + ' ' + e.className + ': ' + n.data.trim().slice(0, 40));
	}
	return [...out].join('\n');
})()`

func TestPagesCanBeReadByEverybody(t *testing.T) {
	u, url := fakeUI(t, 20*time.Millisecond)
	f := newFake(planFor(
		t,
		`{"url": "http://127.0.0.1:9/next", "rate": "4500/s", "name": "evening", "duration": "12s", "fail_when": ["errors > 1%"]}`), 0)
	for n := range 120 {
		f.point(n)
	}
	for _, id := range []string{"20261121-100000-00ab", "20261121-110000-00ab"} {
		r := f.result(time.Now(), "")
		r.Marks = []string{"A mark."}
		if err := u.history.save(id, r); err != nil {
			t.Fatal(err)
		}
	}
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Wait("document.getElementById('state-text').textContent === 'Ready'")
	b.Eval("for (const d of document.querySelectorAll('details')) d.open = true")
	look := func(page string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			b.Wait("matchMedia('(prefers-color-scheme: " + scheme + ")').matches")
			// Colours move for a moment.
			b.Wait("document.getAnimations().length === 0")
			if wrong := b.Text(faint); wrong != "" {
				t.Errorf("too faint on %s, %s:\n%s", page, scheme, wrong)
			}
		}
		if wrong := b.Text(unnamed); wrong != "" {
			t.Errorf("on %s:\n%s", page, wrong)
		}
	}
	look("the form")
	b.Fill("plan-url", "http://127.0.0.1:9/")
	b.Fill("plan-rate", "fast")
	b.Eval("document.getElementById('start').click()")
	b.Wait("!document.getElementById('plan-rate-error').hidden")
	look("the form with an error")
	b.Fill("plan-rate", "6000/s")
	b.Fill("plan-duration", "10m")
	b.Eval("document.getElementById('start').click()")
	b.Wait(painted + "('rate') && document.querySelector('.tile.warn')")
	look("a run")
	b.Eval("document.getElementById('stop').click()")
	b.Wait("document.getElementById('to-result')")
	look("a run that is over")
	b.Go("/#/history")
	b.Wait("document.querySelector('#history[aria-busy=false]') && document.querySelectorAll('#history " +
		"tbody tr').length === 3")
	look("the history")
	b.Go("/#/history/20261121-100000-00ab")
	b.Wait(painted + "('result-rate') && document.querySelector('.verdicts')")
	look("a result")
	b.Go("/#/compare/20261121-100000-00ab/20261121-110000-00ab")
	b.Wait(painted + "('two-served')")
	look("a comparison")

	// The focus is seen wherever it is.
	b.Go("/#/history")
	b.Wait("document.querySelector('#history[aria-busy=false]') && document.querySelectorAll('#history " +
		"tbody tr').length === 3")
	for range 12 {
		b.Press("\t")
		if width := b.Text("getComputedStyle(document.activeElement).outlineStyle + " +
			"parseFloat(getComputedStyle(document.activeElement).outlineWidth)"); width != "solid3" &&
			width != "none0" {
			t.Errorf("the focus on %s has the outline %s",
				b.Text("document.activeElement.outerHTML.slice(0, 80)"), width)
		} else if width == "none0" && b.Text("document.activeElement.tagName") != "BODY" {
			t.Errorf("the focus on %s cannot be seen",
				b.Text("document.activeElement.outerHTML.slice(0, 80)"))
		}
	}
}

// Package webuitest looks at pages with a headless Chromium: what they show, what they complain about, what
// axe-core finds wrong with them. It is for tests.
package webuitest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"weir/internal/systest"
)

// Browser is a tab of a headless Chromium that looks at a site. Its methods end the test where they cannot do
// what they are asked for.
type Browser struct {
	t   *testing.T
	Ctx context.Context // for steps of chromedp
	url string

	mu      sync.Mutex
	console []string
	asked   []string // addresses of requests
}

// Open starts Chromium, of Debian's package or whatever else is found, and opens the page. The test
// is skipped where there is none.
func Open(t *testing.T, url string, width, height int64, scheme string) *Browser {
	t.Helper()
	systest.LongRun(t, "a browser")
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here to look at the pages with: scripts/need.sh chromium=chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &Browser{t: t, Ctx: ctx, url: url}
	b.Do(chromedp.EmulateViewport(width, height))
	b.Scheme(scheme)
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.console = append(b.console, fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
			b.mu.Unlock()
		}
	}()
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.asked = append(b.asked, r.Request.URL)
			b.mu.Unlock()
		}
	}()
	b.Go("/")
	return b
}

// Scheme says which colours the person wants, light or dark, and that nothing should move.
func (b *Browser) Scheme(scheme string) {
	b.t.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}, // no picture of something halfway
		})
		return err
	}))
}

// Do does steps.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.Ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Go goes to a page, another document or, with a #, a place in this one, and waits until its script has run:
// that sets data-ready of the root to yes. Streams of events never end, so nothing waits for those.
func (b *Browser) Go(path string) {
	b.t.Helper()
	if strings.Contains(path, "#") {
		b.Eval(fmt.Sprintf("void (document.querySelectorAll('[aria-busy]').forEach((e) => "+
			"e.removeAttribute('aria-busy')), location.href = %q)", b.url+path))
	} else {
		b.Eval("delete document.documentElement.dataset.ready")
		b.Do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, err := cdp.Call(ctx, tab, page.Navigate, page.NavigateParams{URL: b.url + path})
			return err
		}))
	}
	b.Wait(fmt.Sprintf("location.href.startsWith(%q) && document.documentElement.dataset.ready === 'yes'",
		b.url))
}

// Eval runs JavaScript.
func (b *Browser) Eval(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.Ctx, chromedp.Evaluate[chromedp.Void](script)); err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
}

// Text is the text that an expression gives.
func (b *Browser) Text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.Ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Wait waits until an expression is true. It asks from outside: a page with a strict policy lets nobody
// make functions of text.
func (b *Browser) Wait(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute) // for a machine that is busy
	for {
		ok, err := chromedp.Run(b.Ctx, chromedp.Evaluate[bool]("(() => { try { return Boolean("+expression+
			") } catch { return false } })()"))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.Shot("failed")
			b.t.Fatalf("it never came that %s (%v); the page says:\n%s\nconsole: %q", expression, err,
				b.Text("document.body.innerText"), b.Said())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-b.Ctx.Done():
			b.t.Fatal(b.Ctx.Err())
		}
	}
}

// Press sends keys to what has the focus.
func (b *Browser) Press(keys string) {
	b.t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// TabTo presses Tab until an element has the focus.
func (b *Browser) TabTo(id string) {
	b.t.Helper()
	var passed []string
	for range 100 {
		b.Press("\t")
		at := b.Text("document.activeElement.id || document.activeElement.tagName")
		if at == id {
			return
		}
		passed = append(passed, at)
	}
	b.t.Fatalf("Tab never comes to %s; it passes %v", id, passed)
}

// Fill writes a text into a field, as if it was typed.
func (b *Browser) Fill(id, text string) {
	b.t.Helper()
	value, _ := json.Marshal(text)
	b.Eval(fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = %s; e.dispatchEvent(new "+
		"Event('input', {bubbles: true})); })()", id, value))
}

// Click looks for the element again where the page has put another in its place before the mouse was there.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := chromedp.Do(b.Ctx, chromedp.Click(chromedp.CSS(selector)))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") || time.Now().After(deadline) {
			b.t.Fatalf("click on %s: %v", selector, err)
		}
	}
}

// Drag drags over an element, from one share of its width to another.
func (b *Browser) Drag(selector string, from, to float64) {
	b.t.Helper()
	b.Eval(fmt.Sprintf("document.querySelector(%s).scrollIntoView({block: 'center', behavior: 'instant'})",
		quote(selector)))
	at := func(share float64) (x, y float64) {
		text := b.Text(fmt.Sprintf("((r) => (r.left + %g * r.width) + ' ' + (r.top + r.height / "+
			"2))(document.querySelector(%s).getBoundingClientRect())", share, quote(selector)))
		if _, err := fmt.Sscan(text, &x, &y); err != nil {
			b.t.Fatalf("%s is at %q: %v", selector, text, err)
		}
		return x, y
	}
	x0, y := at(from)
	x1, _ := at(to)
	b.Do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		for _, m := range []input.DispatchMouseEventParams{
			{Type: "mouseMoved", X: x0, Y: y}, {Type: "mousePressed", X: x0, Y: y, Button: "left",
				ClickCount: 1},
			{Type: "mouseMoved", X: x1, Y: y, Button: "left"},
			{Type: "mouseReleased", X: x1, Y: y, Button: "left", ClickCount: 1},
		} {
			if _, err := cdp.Call(ctx, tab, input.DispatchMouseEvent, m); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Shot takes a picture of the whole page, build/screenshots/NAME.png.
func (b *Browser) Shot(name string) {
	b.t.Helper()
	data, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join(top(b.t), "build", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// top returns the module's folder.
func top(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// Look fails the test if the page as it is now is not fit for anybody: at the widths of a desk and a phone it
// must not scroll sideways, in both themes axe-core must find nothing serious. It leaves four pictures,
// NAME-WIDTH-THEME.png, and the page in the light theme at the width of a desk.
func (b *Browser) Look(name string) {
	b.t.Helper()
	for _, width := range []int64{390, 1280} {
		b.Do(chromedp.EmulateViewport(width, 900))
		for _, scheme := range []string{"dark", "light"} {
			b.Scheme(scheme)
			b.Wait(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width,
				scheme))
			b.Eval("scrollTo({top: 0, behavior: 'instant'})")
			b.Shot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
			b.Axe()
		}
		b.Fits()
	}
}

// Axe fails the test if axe-core finds anything serious or critical on the page. It says so and does nothing
// where axe-core is not there.
func (b *Browser) Axe() {
	b.t.Helper()
	path := filepath.Join(top(b.t), "build", "axe", "node_modules", "axe-core", "axe.min.js")
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Log("axe-core is not there to look at the page: scripts/axe.sh build/axe")
		return
	}
	// Scripts of a debugger are not held to the page's policy.
	b.Eval("void (() => { if (!window.axe) { " + string(script) + " } })()")
	type violation struct{ ID, Impact, Help, Nodes string }
	found, err := chromedp.Run(b.Ctx, chromedp.Evaluate[[]violation](`axe.run().then((r) =>
		r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.map((n) => n.html.slice(0, 200) + ' ' +
			n.any.map((a) => a.message).join('; ')).join('\n'),
	})))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe-core: %v", err)
	}
	for _, v := range found {
		if slices.Contains([]string{"serious", "critical"}, v.Impact) {
			b.t.Errorf("%s: axe-core finds %s (%s): %s\n%s", b.Text("location.pathname"), v.ID, v.Impact,
				v.Help, v.Nodes)
		}
	}
}

// Said returns what the console says.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.console...)
}

// Clean fails the test if the page complained, or asked anybody but its own server.
func (b *Browser) Clean() {
	b.t.Helper()
	for _, m := range b.Said() {
		// What is not there, and what is refused, is asked for on purpose.
		if !strings.Contains(m, "status of 404") && !strings.Contains(m, "status of 422") {
			b.t.Errorf("the console says: %s", m)
		}
	}
	for _, word := range []string{"undefined", "NaN", "[object", "null", "false"} {
		if text := b.Text("document.body.innerText"); strings.Contains(text, word) {
			b.t.Errorf("the page says %s:\n%s", word, text)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		b.t.Error("no requests were seen: they are not watched")
	}
	for _, url := range b.asked {
		if !strings.HasPrefix(url, b.url) && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asked %s", url)
		}
	}
}

// Fits fails the test if the page is wider than the window.
func (b *Browser) Fits() {
	b.t.Helper()
	if wide := b.Text("[...document.querySelectorAll('body *')].filter((e) => !e.closest('.unseen, .skip, " +
		".scroll, pre, .plot-canvas') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => " +
		"e.outerHTML.slice(0, 120)).join('\\n')"); wide != "" {
		b.t.Errorf("wider than the window:\n%s", wide)
	}
	if w := b.Text("document.documentElement.scrollWidth - innerWidth"); w != "0" {
		b.t.Errorf("the page scrolls sideways by %s pixels", w)
	}
}

// Asked returns the addresses of all requests so far.
func (b *Browser) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) //nolint:errcheck // texts are JSON
	return string(quoted)
}

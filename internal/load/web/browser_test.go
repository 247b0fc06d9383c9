package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weir/internal/load"
	"weir/internal/systest"
)

// browser is a tab of a headless Chromium that looks at a UI.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu      sync.Mutex
	console []string
	asked   []string // addresses of requests
}

// openBrowser starts Chromium, of Debian's package or whatever else is found, and opens the page. The test
// is skipped where there is none.
func openBrowser(t *testing.T, url string, width, height int64, scheme string) *browser {
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
	b := &browser{t: t, ctx: ctx, url: url}
	b.do(chromedp.EmulateViewport(width, height))
	b.scheme(scheme)
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
	b.open("/")
	return b
}

// scheme says which colours the person wants, light or dark.
func (b *browser) scheme(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a page, another document or a place in this one, and waits until its script has run. Streams
// of events never end, so nothing waits for those.
func (b *browser) open(path string) {
	b.t.Helper()
	b.eval(
		fmt.Sprintf("void (document.getElementById('history')?.removeAttribute('aria-busy'), location.href "+
			"= %q)", b.url+path))
	b.wait(fmt.Sprintf("location.href.startsWith(%q) && document.documentElement.dataset.ready === 'yes'",
		b.url))
}

// eval runs JavaScript.
func (b *browser) eval(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[chromedp.Void](script)); err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
}

// text is the text that an expression gives.
func (b *browser) text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// wait waits until an expression is true. It asks from outside: a page with a strict policy lets nobody
// make functions of text.
func (b *browser) wait(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute) // for a machine that is busy
	for {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("(() => { try { return Boolean("+expression+
			") } catch { return false } })()"))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.shot("failed")
			b.t.Fatalf("it never came that %s (%v); the page says:\n%s\nconsole: %q", expression, err,
				b.text("document.body.innerText"), b.said())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-b.ctx.Done():
			b.t.Fatal(b.ctx.Err())
		}
	}
}

// press sends keys to what has the focus.
func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until an element has the focus.
func (b *browser) tabTo(id string) {
	b.t.Helper()
	var passed []string
	for range 100 {
		b.press("\t")
		at := b.text("document.activeElement.id || document.activeElement.tagName")
		if at == id {
			return
		}
		passed = append(passed, at)
	}
	b.t.Fatalf("Tab never comes to %s; it passes %v", id, passed)
}

func (b *browser) fill(id, text string) {
	b.t.Helper()
	value, _ := json.Marshal(text)
	b.eval(fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = %s; e.dispatchEvent(new "+
		"Event('input', {bubbles: true})); })()", id, value))
}

// click looks for the element again where the page has put another in its place before the mouse was there.
func (b *browser) click(selector string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector)))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") || time.Now().After(deadline) {
			b.t.Fatalf("click on %s: %v", selector, err)
		}
	}
}

// drag drags over an element, from one share of its width to another.
func (b *browser) drag(selector string, from, to float64) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.querySelector(%s).scrollIntoView({block: 'center', behavior: 'instant'})",
		quote(selector)))
	at := func(share float64) (x, y float64) {
		text := b.text(fmt.Sprintf("((r) => (r.left + %g * r.width) + ' ' + (r.top + r.height / "+
			"2))(document.querySelector(%s).getBoundingClientRect())", share, quote(selector)))
		if _, err := fmt.Sscan(text, &x, &y); err != nil {
			b.t.Fatalf("%s is at %q: %v", selector, text, err)
		}
		return x, y
	}
	x0, y := at(from)
	x1, _ := at(to)
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
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

// shot takes a picture of the whole page into the folder WEIR_SCREENSHOTS, if it is set.
func (b *browser) shot(name string) {
	dir := os.Getenv("WEIR_SCREENSHOTS")
	if dir == "" {
		return
	}
	data, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.console...)
}

// clean fails the test if the page complained, or asked anybody but its own server.
func (b *browser) clean() {
	b.t.Helper()
	for _, m := range b.said() {
		if !strings.Contains(m, "status of 404") { // what is not there is asked for on purpose
			b.t.Errorf("the console says: %s", m)
		}
	}
	for _, word := range []string{"undefined", "NaN", "[object", "null", "false"} {
		if text := b.text("document.body.innerText"); strings.Contains(text, word) {
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

// fits fails the test if the page is wider than the window.
func (b *browser) fits() {
	b.t.Helper()
	if wide := b.text("[...document.querySelectorAll('body *')].filter((e) => !e.closest('.unseen, .skip, " +
		".scroll, pre, .plot-canvas') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => " +
		"e.outerHTML.slice(0, 120)).join('\\n')"); wide != "" {
		b.t.Errorf("wider than the window:\n%s", wide)
	}
	if w := b.text("document.documentElement.scrollWidth - innerWidth"); w != "0" {
		b.t.Errorf("the page scrolls sideways by %s pixels", w)
	}
}

// fakeUI is a UI over fakes, served.
func fakeUI(t *testing.T, tick time.Duration, change ...func(*Options)) (*UI, string) {
	t.Helper()
	o := Options{New: fakeNew(tick), History: t.TempDir()}
	for _, f := range change {
		f(&o)
	}
	u, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return u, s.URL
}

// painted says whether the canvas of a plot has anything on it.
const painted = `((id) => { const c = document.querySelector('[data-plot="' + id + '"] canvas'); if (!c || !c.width) return false;
	const empty = document.createElement('canvas'); empty.width = c.width; empty.height = c.height; return c.toDataURL() !== empty.toDataURL(); })`

// tall says how much of the height of a plot a line takes, by its colour.
const tall = `((id, name) => {
	const c = document.querySelector('[data-plot="' + id + '"] canvas'), copy = document.createElement('canvas');
	copy.width = c.width; copy.height = c.height;
	const read = copy.getContext('2d', { willReadFrequently: true });
	read.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
	read.fillRect(0, 0, 1, 1);
	const want = read.getImageData(0, 0, 1, 1).data;
	read.clearRect(0, 0, 1, 1);
	read.drawImage(c, 0, 0);
	const got = read.getImageData(0, 0, c.width, c.height).data;
	let top = c.height, bottom = 0;
	for (let i = 0; i < got.length; i += 4) {
		if (got[i + 3] < 200 || [0, 1, 2].some((j) => Math.abs(got[i + j] - want[j]) > 10)) continue;
		const y = Math.floor(i / 4 / c.width);
		top = Math.min(top, y); bottom = Math.max(bottom, y);
	}
	return (bottom - top) / c.height; })`

// Keys that chromedp's package kb names.
const (
	arrowLeft  = kb.ArrowLeft
	arrowRight = kb.ArrowRight
	home       = kb.Home
)

// selectAll selects what the focused field holds.
func selectAll() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void]("document.activeElement.select()")(ctx, tab)
		return err
	})
}

func planFor(t *testing.T, text string) load.Plan {
	t.Helper()
	p, err := load.ReadPlan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

package report

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"weir/internal/load/control"
	"weir/internal/load/measure"
	"weir/internal/systest"
)

func pageOf(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageEscapesWhatItIsTold(t *testing.T) {
	r := sample(t)
	r.Trace[5].Phase = "</script><b>"
	r.Ceiling.Limit = "<i>"
	r.Verdicts[0].Condition = "<u>"
	r.Failures["<s>"] = 1
	text := pageOf(t, r)
	for _, tag := range []string{"<script>alert", "<img", "<b>&amp;", "<i>", "<u>", "<s>"} {
		if strings.Contains(text, tag) {
			t.Errorf("the page has %q in it", tag)
		}
	}
	if n := strings.Count(text, "<script"); n != 3 {
		t.Errorf("the page has %d scripts", n)
	}
	for _, want := range []string{"&lt;/script&gt;&lt;script&gt;alert(1)",
		"A mark with &lt;script&gt;alert(3)", "18446744073709551615", "the ceiling is known &lt;i&gt;",
		"The MIT License"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, network := range []string{`src="http`, `href="`, "url(", "@import"} {
		if strings.Contains(text, network) {
			t.Errorf("the page asks for another file: %q", network)
		}
	}
}

func TestPageDoesNotShowSecrets(t *testing.T) {
	r := sample(t)
	r.Plan = map[string]any{"headers": []string{"Authorization: Bearer hunter2", "X-API-Key: hunter3",
		"Accept: text/plain"}}
	text := pageOf(t, r)
	if strings.Contains(text, "hunter") || !strings.Contains(text, "Accept: text/plain") {
		t.Error("the page shows what is secret, or hides what is not")
	}
}

func TestPagePlotsATargetThatIsKnown(t *testing.T) {
	r := sample(t)
	if !strings.Contains(pageOf(t, r), `id="target"`) {
		t.Error("the target's metrics are not plotted")
	}
	for i := range r.Trace {
		r.Trace[i].TargetCPU, r.Trace[i].TargetMemory = nil, nil
	}
	if strings.Contains(pageOf(t, r), `id="target"`) {
		t.Error("there is an empty plot of a target of which nothing is known")
	}
}

func TestPageRefusesABrokenHistogram(t *testing.T) {
	r := sample(t)
	r.Histogram = "AAAA"
	if err := WriteHTML(io.Discard, r); err == nil {
		t.Error("a broken histogram is plotted")
	}
}

func FuzzPage(f *testing.F) {
	r := sample(f)
	f.Add("name", "http://127.0.0.1/", "a mark", "phase")
	f.Add("</title><script>", `"><script>`, "<!--<script>", "</script>\u2028")
	f.Fuzz(func(t *testing.T, name, url, mark, phase string) {
		r := *r
		r.Name, r.Plan, r.Marks, r.Reason = name, map[string]any{"url": url, url: mark}, []string{mark}, mark
		r.Trace = []Point{{Phase: phase}}
		plain := r
		plain.Name, plain.Plan, plain.Marks, plain.Reason = "x", map[string]any{"url": "x", "y": "x"},
			[]string{"x"}, "x"
		if url == "url" {
			plain.Plan = map[string]any{"url": "x"}
		}
		if a, b := strings.Count(pageOf(t, &r), "<"), strings.Count(pageOf(t, &plain), "<"); a > b+6 {
			t.Errorf("text made %d tags of %d", a, b)
		}
	})
}

// realistic is a search for a ceiling as it goes: it climbs, finds it, and tracks it.
func realistic(t testing.TB) *Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	r := NewRecorder(RecorderOptions{Name: "feed, one core", Started: time.Date(2026, 11, 21, 12, 0, 0, 0,
		time.UTC), Search: true, TargetMetrics: true,
		Plan: map[string]any{"mode": "adaptive", "scenario": "feed", "target": "http://127.0.0.1:8080",
			"users": 100000, "duration": "1m0s", "healthy": []string{"p99<20ms", "success>99.9%"}}})
	const ceiling = 42000.0
	w := measure.NewWindow()
	rate := 1000.0
	for i := range 600 {
		w.Reset()
		w.Start, w.End = time.Duration(i)*tick, time.Duration(i+1)*tick
		d := control.Decision{Phase: "climb", Measured: true}
		switch {
		case i < 20:
			d = control.Decision{Phase: "warmup"}
		case i < 80:
			rate = min(rate*1.08, 60000)
		case i < 200:
			d.Phase = "bisect"
			rate = ceiling * (1 + 0.3*math.Cos(float64(i/15)*math.Pi)*math.Exp(-float64(i-80)/40))
		default:
			d.Phase = "track"
			rate = ceiling * (0.97 + 0.02*math.Sin(float64(i)/9))
		}
		n := rate / 10
		over := max(n-ceiling/10, 0)
		w.Intended, w.Sent, w.Served, w.Shed = uint64(n), uint64(n), uint64(n-over), uint64(over)
		base := 300 + 40/(1.02-min(n/(ceiling/10), 1))
		for range 300 {
			measure.Record(w.Latency, time.Duration(base*(0.6+rng.ExpFloat64()))*time.Microsecond)
		}
		measure.Record(w.Lag, 20*time.Microsecond)
		measure.Record(w.ShedLatency, 100*time.Microsecond)
		w.CPU, w.Busy = time.Duration(n*8000), min(n/6000, 1)*0.8
		w.Connections, w.InFlight = 64+int(over/10), int(base*n/1e5)
		w.Target = measure.Target{CPU: min(n/4200, 1), Memory: 2e8 + 1e5*float64(i)}
		var c *control.Ceiling
		if i > 90 {
			half := 6000 * math.Exp(-float64(i-90)/60)
			c = &control.Ceiling{Rate: ceiling - half/9, Low: ceiling - half, High: ceiling + half,
				Seconds: 18.4, Converged: i > 200, Limit: "p99"}
		}
		r.Add(w, d, c)
	}
	res, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// browser returns a context of a headless Chromium, and what its pages complain of.
func browser(t *testing.T) (context.Context, func() []string) {
	t.Helper()
	systest.LongRun(t, "a browser")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here: scripts/need.sh chromium=chromium installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var complaints []string
	err = chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, string(e.Type))
		case *log.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), complaints...)
	}
}

// look opens a page and takes a picture of it, which -artifacts keeps.
func look(t *testing.T, ctx context.Context, text, name, scheme string, width, height int64) {
	t.Helper()
	dir := t.ArtifactDir()
	file := filepath.Join(dir, name+".html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		t.Fatal(err)
	}
	err = chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate("file://"+file),
		chromedp.WaitReady(chromedp.CSS("html[data-plots]")))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, ctx context.Context, script string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPageInABrowser(t *testing.T) {
	ctx, complaints := browser(t)
	r := realistic(t)
	for _, c := range []struct {
		name, scheme  string
		width, height int64
	}{{"light", "light", 1200, 900}, {"dark", "dark", 1200, 900}, {"phone", "dark", 375, 800}} {
		look(t, ctx, pageOf(t, r), c.name, c.scheme, c.width, c.height)
		if n := ask[string](t, ctx, `document.documentElement.dataset.plots`); n != "5" {
			t.Errorf("%s: %s of 5 plots are there", c.name, n)
		}
		if over := ask[int](t, ctx, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%s: the page is %d pixels wider than the window", c.name, over)
		}
		// Every plot has lines: pixels of the colour of a series.
		for _, id := range []string{"rate", "latency", "percentiles", "use", "target"} {
			colours := ask[int](t, ctx, `(() => { const c = document.querySelector("#`+id+
				` canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
				let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i+3] > 200 && Math.max(d[i],d[i+1],d[i+2]) - Math.min(d[i],d[i+1],d[i+2]) > 60) n++; return n; })()`)
			if colours < 200 {
				t.Errorf("%s: the plot %s has %d coloured pixels", c.name, id, colours)
			}
		}
		dark := ask[bool](t, ctx,
			`getComputedStyle(document.body).backgroundColor.match(/\d+/g).every(v => v < 60)`)
		if dark != (c.scheme == "dark") {
			t.Errorf("%s: dark is %v", c.name, dark)
		}
	}
	if list := complaints(); len(list) > 0 {
		t.Errorf("the browser complains: %q", list)
	}
}

func TestHostileResultInABrowser(t *testing.T) {
	ctx, complaints := browser(t)
	r := sample(t)
	look(t, ctx, pageOf(t, r), "hostile", "light", 1000, 800)
	if n := ask[int](t, ctx,
		`document.querySelectorAll("script").length * 100 + document.images.length`); n != 300 {
		t.Errorf("scripts and images are %d", n)
	}
	if title := ask[string](t, ctx, `document.querySelector("h1").textContent`); title != r.Name {
		t.Errorf("the name is shown as %q", title)
	}
	if list := complaints(); len(list) > 0 {
		t.Errorf("the browser complains: %q", list)
	}
	// Were text to become a script all the same, the policy stops it.
	evil := strings.Replace(pageOf(t, r), "</footer>", "</footer><script>document.title='broken'</script>", 1)
	look(t, ctx, evil, "evil", "light", 1000, 800)
	if title := ask[string](t, ctx, `document.title`); title == "broken" {
		t.Error("a script that is not the page's own ran")
	}
}

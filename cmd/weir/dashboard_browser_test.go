package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
	"weir/internal/shed"
	"weir/internal/webui/webuitest"
)

// asked asks for items of users until the test ends, some hundred a second.
func asked(t *testing.T, public string) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
			path := []string{"/next", "/current", "/feed/1?size=1", "/nothing"}[n%4]
			answer, err := client.Get("http://" + public + path)
			if err == nil {
				io.Copy(io.Discard, answer.Body) //nolint:errcheck // it is not looked at
				answer.Body.Close()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// dashboard serves lists, asked for until the test ends, and opens the dashboard.
func dashboard(t *testing.T, scheme string) (*ports, *webuitest.Browser) {
	t.Helper()
	dir := t.TempDir()
	lists := filepath.Join(dir, "feeds.weir")
	numbered(1000, 200).write(t, lists, 900)
	overload := shed.Defaults()
	p := serveHere(t, server.Config{Shed: &overload}, filepath.Join(dir, "data"), "--feeds", lists)
	asked(t, p.public)
	b := webuitest.Open(t, "http://"+p.admin, 1280, 900, scheme)
	b.Wait("location.pathname === '/ui/overview'")
	return p, b
}

// Whoever brings a page to the menu has it looked at: nothing in the console, nothing serious by axe-core, no
// scrolling sideways, and a picture of each at two widths in both themes.
func TestEveryPageIsFitToBeSeen(t *testing.T) {
	_, b := dashboard(t, "light")
	pages := strings.Fields(b.Text(
		"[...document.querySelectorAll('#pages a')].map((a) => a.pathname).join(' ')"))
	if len(pages) < 3 {
		t.Fatalf("the menu has %q", pages)
	}
	for _, page := range pages {
		b.Go(page)
		b.Wait("document.getElementById('connection').dataset.state === 'running' || " +
			"!performance.getEntriesByType('resource').some((r) => r.name.endsWith('/live.js'))")
		if page == "/ui/overview" {
			b.Wait("document.querySelectorAll('#plots canvas').length >= 6")
		}
		b.Look(strings.TrimPrefix(page, "/ui/"))
		b.Clean()
	}
}

func TestTheOverviewMoves(t *testing.T) {
	_, b := dashboard(t, "dark")
	b.Wait("document.querySelector('[data-plot=requests]')")
	const last = "document.querySelector('[data-plot=requests] .plot-at').textContent"
	moves := func() {
		t.Helper()
		before := b.Text(last)
		b.Wait(last + fmt.Sprintf(" !== %q", before))
	}
	moves()
	b.Wait("/^All is well at [0-9,]+ requests a second$/.test(" +
		"document.getElementById('sentence').textContent)")
	b.Wait("[...document.querySelectorAll('.services tbody tr')].some((r) => " +
		"r.innerText.startsWith('sequence') && parseFloat(r.cells[2].innerText) > 0)")
	// Paused, it stays as it is, though seconds pass.
	b.Click("#pause")
	before := b.Text(last)
	events := "performance.now()"
	at := b.Text(events)
	b.Wait(events + " > " + at + " + 2500")
	if now := b.Text(last); now != before {
		t.Errorf("paused at %s, and it shows %s", before, now)
	}
	b.Click("#pause")
	moves()
	// Zoom by the mouse and back.
	b.Drag("[data-plot=requests] .u-over", 0.2, 0.8)
	b.Wait("!document.querySelector('[data-plot=latency] .plot-back').hidden")
	b.Click("[data-plot=requests] .plot-back")
	b.Wait("document.querySelector('[data-plot=latency] .plot-back').hidden")
	// Other ranges, by the keyboard.
	b.Eval("document.querySelector('[name=range]').focus()")
	b.Eval("document.querySelector('[name=range][value=week]').click()")
	b.Wait("document.getElementById('history-state').textContent.startsWith('Nothing is known') || " +
		"document.querySelector('#plots canvas')")
	// The theme is remembered.
	b.Click("#theme")
	b.Wait("document.documentElement.dataset.theme === 'light'")
	b.Go("/ui/overview")
	b.Wait("document.documentElement.dataset.theme === 'light'")
	b.Clean()
}

// What a browser loads before it has painted the overview, compressed as it is sent.
func TestTheOverviewIsSmall(t *testing.T) {
	p, b := dashboard(t, "light")
	size := 0
	fetch := func(path string) string {
		t.Helper()
		r, err := http.NewRequest("GET", "http://"+p.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, answer.Status, err)
		}
		size += len(data) + 300 // its head
		return string(data)
	}
	b.Wait("document.querySelector('#plots canvas')")
	for _, url := range b.Asked() {
		if path, ok := strings.CutPrefix(url, "http://"+p.admin); ok && path != "/admin/events" &&
			path != "/" {
			fetch(path)
		}
	}
	if size > 100_000 {
		t.Errorf("the overview takes %d bytes", size)
	}
	t.Logf("the overview takes %d bytes", size)
}

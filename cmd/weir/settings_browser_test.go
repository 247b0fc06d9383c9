package main

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"weir/internal/server"
	"weir/internal/webui/webuitest"
)

// A setting is found, edited in place with its error at the field, saved, and undone; what is typed stays
// while others change the same, and the page shows what they do.
func TestTheConfigurationPageChangesSettings(t *testing.T) {
	p := serveHere(t, server.Config{Log: newLog(t.Output(), "text", slog.LevelInfo)},
		filepath.Join(t.TempDir(), "data"))
	b := webuitest.Open(t, "http://"+p.admin, 1280, 900, "light")
	b.Go("/ui/configuration")
	value := func(name string) string { return "document.getElementById('setting-" + name + "')?.value" }
	b.Wait(value("bandit-max-items") + " === '10000'")

	b.Fill("configuration-find", "filter-wait")
	b.Wait("document.querySelectorAll('.setting:not([hidden])').length === 1")
	b.Fill("configuration-find", "")

	b.Fill("setting-bandit-max-items", "0")
	b.Eval("document.getElementById('setting-bandit-max-items').focus()")
	b.Press("\r")
	b.Wait("document.getElementById('setting-bandit-max-items-wrong').textContent.includes('above 0')")
	b.Wait("document.getElementById('setting-bandit-max-items').getAttribute('aria-invalid') === 'true'")
	b.Fill("setting-bandit-max-items", "700")
	b.Eval("document.getElementById('setting-bandit-max-items').focus()")
	b.Press("\r")
	b.Wait("document.getElementById('configuration-said').textContent.includes('bandit-max-items is 700')")
	if now := p.settings("GET", "", "", 200, `"by":"page"`); now["bandit-max-items"] != "700" {
		t.Errorf("the server has %s", now["bandit-max-items"])
	}

	// While somebody types, others change the same setting and another one.
	b.Fill("setting-bandit-max-items", "900")
	p.settings(http.MethodPatch, "", `{"bandit-max-items":800,"bandit-max-events":50}`, 200)
	b.Wait(value("bandit-max-events") + " === '50'")
	b.Wait(value("bandit-max-items") + " === '900'")
	b.Wait("document.body.textContent.includes('It was set to 800 elsewhere meanwhile.')")
	b.Eval("document.getElementById('setting-bandit-max-items').focus()")
	b.Press("\x1b")
	b.Wait(value("bandit-max-items") + " === '800'")
	b.Wait("document.getElementById('connection-text').textContent === 'Live'")
	b.Look("configuration")
	b.Click("#configuration-undo")
	b.Wait(value("bandit-max-items") + " === '700' && " + value("bandit-max-events") + " === '10000'")
	b.Click("button[aria-label='Reset bandit-max-items to 10000']")
	b.Wait(value("bandit-max-items") + " === '10000'")
	b.Clean()
}

// Errors are shown by their cause and cleared; lines of the log come as they are written, and are filtered.
func TestTheErrorsPageShowsErrorsAndFollowsTheLog(t *testing.T) {
	dir := t.TempDir()
	lists := filepath.Join(dir, "feeds.weir")
	numbered(10, 5).write(t, lists, 900)
	p := serveHere(t, server.Config{Log: newLog(t.Output(), "text", slog.LevelInfo)}, filepath.Join(dir,
		"data"), "--feeds", lists, "--feeds-watch", "-1s")
	b := webuitest.Open(t, "http://"+p.admin, 1280, 900, "light")
	b.Go("/ui/errors")
	b.Wait("document.getElementById('errors-list').textContent.includes('No warnings and no errors')")
	b.Wait("document.getElementById('log-lines').textContent.includes('feed is open')")

	numbered(1, 5).write(t, lists) // too few users
	for range 3 {
		if status, text := ask(t, "POST", "http://"+p.admin+"/admin/feeds/reload", ""); status != 409 {
			t.Fatalf("%d %s", status, text)
		}
	}
	b.Wait("document.getElementById('log-lines').textContent.includes('are refused')")
	b.Wait("document.querySelector('.errors-message')?.textContent === 'feed reload'")
	b.Wait("document.querySelector('.errors-count').textContent.startsWith('3')")
	b.Click("#errors-list summary")
	b.Wait("document.querySelector('#errors-list details').open")
	b.Wait("document.getElementById('connection-text').textContent === 'Live'")
	b.Look("errors")

	b.Fill("log-text", "feed is open")
	b.Wait("document.querySelectorAll('.log-line').length === 1")
	b.Fill("log-text", "")
	b.Eval("document.getElementById('log-level').value = 'error'; " +
		"document.getElementById('log-level').dispatchEvent(new Event('input'))")
	b.Wait("[...document.querySelectorAll('.log-line .level')].every((e) => e.textContent === 'error')")

	b.Click("#errors-title ~ .actions button")
	b.Click("#errors-title ~ .actions button")
	b.Wait("document.getElementById('errors-list').textContent.includes('No warnings and no errors')")
	b.Clean()
}

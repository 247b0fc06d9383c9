package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
	"weir/internal/systest"
)

// settings asks the admin port for settings, or changes them.
func (p *ports) settings(method, path, body string, status int, says ...string) map[string]string {
	p.t.Helper()
	got, text := ask(p.t, method, "http://"+p.admin+"/admin/settings"+path, body)
	wantSays(p.t, method+" "+body, text, says...)
	if got != status {
		p.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, status)
	}
	var answer struct {
		Settings []struct{ Name, Value string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		p.t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range answer.Settings {
		values[s.Name] = s.Value
	}
	return values
}

// turnedAway says whether a second connection is one too many.
func (p *ports) turnedAway() bool {
	p.t.Helper()
	first, err := net.Dial("tcp", p.public)
	if err != nil {
		p.t.Fatal(err)
	}
	defer first.Close()
	second, err := net.Dial("tcp", p.public)
	if err != nil {
		p.t.Fatal(err)
	}
	defer second.Close()
	if err := second.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		p.t.Fatal(err)
	}
	second.Write([]byte("GET /version HTTP/1.1\r\nHost: weir\r\n\r\n")) //nolint:errcheck // reading says it
	answer := make([]byte, 20)
	n, _ := second.Read(answer)
	return strings.Contains(string(answer[:n]), " 503 ")
}

// limited waits until a second connection is one too many: those of before may count for a moment still.
func (p *ports) limited() {
	p.t.Helper()
	systest.Eventually(p.t, "a second connection is turned away", p.turnedAway)
}

func TestALimitIsChangedTakesEffectSurvivesAKillAndIsUndone(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--data", data, "--bandit=false", "--filter=false", "--max-connections", "500"}
	p := start(t, args...)
	if p.turnedAway() {
		t.Fatal("two connections of 500 are too many")
	}
	p.settings(http.MethodPatch, "", `{"max-connections":1,"log-level":"loud"}`, 422, "log-level",
		`"fields":{"log-level":"--log-level must be debug, info, warn or error, got`)
	p.settings(http.MethodPatch, "", `{"max-connections":0}`, 422, `"fields":{"max-connections":`,
		"must be above 0")
	p.settings(http.MethodPatch, "", `{"memory-ratio":2}`, 422, "from 0 to 1")
	p.settings(http.MethodPatch, "", `{"max-connections":[1]}`, 422, "must be a text, a number")
	p.settings(http.MethodPatch, "", `{"listen":":80"}`, 422, "no setting of this name")
	p.settings(http.MethodPatch, "", `["max-connections"]`, 400, "must be an object of settings")
	p.settings(http.MethodDelete, "/max-connections", "", 404, "has not been changed")
	if p.turnedAway() {
		t.Fatal("what was refused is in effect")
	}
	now := p.settings(http.MethodPatch, "", `{"max-connections":1,"shed-load":"4:8"}`, 200, `"by":"API"`)
	if now["max-connections"] != "1" || now["shed-load"] != "4:8" {
		t.Error(now)
	}
	p.limited()
	p.kill()

	p = start(t, args...)
	if now := p.settings(http.MethodGet, "", "", 200, `"flags":"500"`,
		`"source":"command line"`); now["max-connections"] != "1" {
		t.Error(now)
	}
	p.limited()
	if _, shed := ask(t, http.MethodGet, "http://"+p.admin+"/admin/shed", ""); !strings.Contains(shed,
		`"soft":4,"hard":8`) {
		t.Errorf("thresholds are %s", shed)
	}
	wantSays(t, "the log", p.logs.String(), "goes before flags", `"setting":"max-connections"`)
	if now := p.settings(http.MethodPost, "/undo", "", 200); now["max-connections"] != "500" ||
		p.turnedAway() {
		t.Errorf("%v, and the limit is not undone", now)
	}
	p.settings(http.MethodPost, "/undo", "", 409, "no change is left")
	p.kill()
}

func TestSettingsOfServicesTakeEffectAtOnce(t *testing.T) {
	dir := t.TempDir()
	lists := filepath.Join(dir, "feeds.weir")
	numbered(10, 5).write(t, lists, 900, 901)
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--feeds", lists, "--feeds-watch", "-1s",
		"--sequence-max-index", "100")
	call := func(method, path, body string, status int, says ...string) {
		t.Helper()
		got, text := ask(t, method, "http://"+p.public+path, body)
		if wantSays(t, path, text, says...); got != status {
			t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
		}
	}
	predict := func(status int) {
		t.Helper()
		call("POST", "/predict", `{"user":"ada","items":["a","b","c"]}`, status)
	}
	predict(200)
	call("GET", "/fib/60", "", 200)
	call("GET", "/next", "", 200)
	call("GET", "/next", "", 200)
	p.settings("PATCH", "", `{"sequence-max-index":1}`, 422, `"fields":{"sequence-max-index":`,
		"the index in")
	p.settings("PATCH", "", `{"bandit-max-items":2,"sequence-max-index":"50","feed-fallback":"bandit",
		"sync-interval":"10ms","filter-wait":"1s"}`, 200)
	predict(422)
	call("GET", "/fib/60", "", 422, "to 50")
	call("GET", "/feed/3?size=7", "", 200, "900", "901")
	p.settings("PATCH", "", `{"filter-memory":"1KiB"}`, 422, "--filter-memory")
	p.settings("PATCH", "", `{"filter-wait":"30s"}`, 422, "--filter-timeout must be longer than "+
		"--filter-wait")
	p.settings("PATCH", "", `{"filter-wait":"30s","filter-timeout":"40s"}`, 200)

	// Of half as many users the lists are refused, until they need not be as many.
	numbered(4, 5).write(t, lists)
	if status, text := ask(t, "POST", "http://"+p.admin+"/admin/feeds/reload", ""); status == 200 {
		t.Errorf("lists of fewer users are taken up: %s", text)
	}
	p.settings("PATCH", "", `{"feeds-min-share":0.4}`, 200)
	if status, text := ask(t, "POST", "http://"+p.admin+"/admin/feeds/reload", ""); status != 200 {
		t.Errorf("they are refused: %d %s", status, text)
	}
	// And the watcher begins to watch.
	p.settings("PATCH", "", `{"feeds-min-share":0,"feeds-watch":"1ms"}`, 200)
	numbered(1, 5).write(t, lists)
	systest.Eventually(t, "the lists of one user serve", func() bool {
		status, _ := p.get("/feed/2/position")
		return status == 404
	})
	p.settings("POST", "/undo", "", 200)
	p.settings("DELETE", "/bandit-max-items", "", 200)
	predict(200)
}

func TestErrorsAndTheLogAreShownAndCleared(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data", data, "--bandit=false")
	p.kill()
	if err := os.WriteFile(filepath.Join(data, "settings.json"),
		[]byte(`{"live":{"idle-timeout":{"value":"-3s"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, "--data", data, "--bandit=false")
	want := func(method, path string, status int, says ...string) {
		t.Helper()
		got, text := ask(t, method, "http://"+p.admin+path, "")
		if wantSays(t, path, text, says...); got != status {
			t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
		}
		if strings.Contains(text, filepath.Dir(data)) {
			t.Errorf("%s %s says where the data is: %s", method, path, text)
		}
	}
	const leftOut = "a setting that was changed while the server served is left out"
	want("GET", "/admin/errors", 200, leftOut, `"level":"warn"`, `"service":"kernel"`, `"count":1`,
		`{"name":"setting","value":"idle-timeout"}`)
	want("GET", "/admin/log?level=info&text=serving", 200, "weir is serving")
	want("GET", "/admin/log?service=sequence", 200, `"service":"sequence"`)
	want("GET", "/admin/log?level=loud", 422, "level must be")
	want("GET", "/admin/log?limit=-1", 422, "limit must be a whole number")
	_, text := ask(t, "GET", "http://"+p.admin+"/admin/errors", "")
	var errors struct{ Groups []struct{} } // some may be of this machine
	if err := json.Unmarshal([]byte(text), &errors); err != nil {
		t.Fatal(err)
	}
	want("DELETE", "/admin/errors", 200, fmt.Sprintf(`{"cleared":%d}`, len(errors.Groups)))
	want("GET", "/admin/errors", 200, `{"held":0,"groups":[]}`)
	want("GET", "/admin/log?level=warn", 200, leftOut)
	p.kill()
}

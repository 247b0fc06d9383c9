package main

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	if now := p.settings(http.MethodGet, "", "", 200, `"flags":"500"`, `"source":"command line"`); now["max-connections"] != "1" {
		t.Error(now)
	}
	p.limited()
	if _, shed := ask(t, http.MethodGet, "http://"+p.admin+"/admin/shed", ""); !strings.Contains(shed,
		`"soft":4,"hard":8`) {
		t.Errorf("thresholds are %s", shed)
	}
	wantSays(t, "the log", p.logs.String(), "goes before flags", `"setting":"max-connections"`)
	if now := p.settings(http.MethodPost, "/undo", "", 200); now["max-connections"] != "500" || p.turnedAway() {
		t.Errorf("%v, and the limit is not undone", now)
	}
	p.settings(http.MethodPost, "/undo", "", 409, "no change is left")
	p.kill()
}

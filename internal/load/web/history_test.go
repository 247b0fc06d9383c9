package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/load"
	"weir/internal/load/report"
)

// aResult is a small one.
func aResult(name string, started time.Time) *report.Result {
	p := load.Default()
	p.Name, p.URL = name, "http://127.0.0.1:9/next"
	f := newFake(p, 0)
	f.point(0)
	return f.result(started, "")
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	h, err := openHistory(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close() //nolint:errcheck
	begin := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	if err := h.save("by-hand", aResult("mine", begin.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		at := begin.Add(time.Duration(i) * time.Minute)
		if err := h.save(newID(at), aResult(fmt.Sprint("run ", i), at)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := h.list()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	// What a person put there is never removed.
	if got := strings.Join(names, ", "); got != "run 5, run 4, run 3, mine" {
		t.Errorf("the history has %s", got)
	}
	if e := entries[0]; e.Target != "http://127.0.0.1:9/next" || e.Mode != "constant" || e.P99 == 0 ||
		e.Requests == 0 || e.Served == 0 {
		t.Errorf("an entry is %+v", e)
	}
}

// Plans may hold secrets, and the folder may be one that others read.
func TestResultsAreTheirOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	h, err := openHistory(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close() //nolint:errcheck
	if err := h.save("mine", aResult("mine", time.Now())); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", err, files)
	}
	if info, err := files[0].Info(); err != nil || info.Name() != "mine.json" || runtime.GOOS != "windows" &&
		info.Mode() != 0o600 {
		t.Errorf("%v: %v", err, info)
	}
}

// Results that people put there may have any number: their comparison is still JSON.
func TestResultsWithHugeFiguresAreCompared(t *testing.T) {
	u := testUI(t)
	r := aResult("huge", time.Now())
	r.Rate.Served = 1e308
	for i := range 100 {
		r.Trace = append(r.Trace, report.Point{Measured: true, Seconds: 0.1, Served: float64(i) * 1e306})
	}
	if err := u.history.save("huge", r); err != nil {
		t.Fatal(err)
	}
	if err := u.history.save("usual", aResult("usual", time.Now())); err != nil {
		t.Fatal(err)
	}
	if w := ask(u, "GET", "/api/compare?a=usual&b=huge", ""); w.Code != 200 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("answered %d %.200s", w.Code, w.Body)
	}
}

func TestFilesThatAreNoResultsAreListedWithTheReason(t *testing.T) {
	u := testUI(t)
	dir := u.o.History
	for name, text := range map[string]string{"broken.json": `{"version":1,`, "old.json": `{"version":99}`,
		"empty.json": "", "notes.txt": "x", ".hidden.json": "{}", "..json": "{}", "a b.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := u.history.list()
	if err != nil || len(entries) != 3 {
		t.Fatalf("the history has %+v, %v", entries, err)
	}
	for _, e := range entries {
		if e.Broken == "" {
			t.Errorf("%s is listed as a result", e.ID)
		}
		if w := ask(u, "GET", "/api/history/"+e.ID, ""); w.Code != 500 ||
			!strings.Contains(w.Body.String(), "detail") {
			t.Errorf("%s is answered %d", e.ID, w.Code)
		}
	}
	// A file that changes is read again.
	if err := u.history.save("broken", aResult("mended", time.Now())); err != nil {
		t.Fatal(err)
	}
	if entries, err = u.history.list(); err != nil || entries[0].Name != "mended" {
		t.Errorf("after mending, the history has %+v, %v", entries, err)
	}
}

func TestIdsLeadNowhereElse(t *testing.T) {
	u := testUI(t)
	secret := filepath.Join(filepath.Dir(u.o.History), "secret.json")
	if err := u.history.save("inside", aResult("inside", time.Now())); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(u.o.History, "inside.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(secret) }) //nolint:errcheck
	if err := os.Symlink(secret, filepath.Join(u.o.History, "link.json")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	for _, id := range []string{"../secret", "..%2fsecret", "%2e%2e%2fsecret", "..%5csecret", "link", ".",
		"..", "", "a%00b", "inside%2f..%2finside",
		strings.Repeat("a", 300), "%c3%a9", "inside.json.json", "con%20", "-rf"} {
		for _, form := range []string{"", ".json", ".html"} {
			if w := ask(u, "GET", "/api/history/"+id+form, ""); w.Code == 200 && id+form != "" &&
				!strings.Contains(w.Body.String(), `"keep"`) {
				t.Errorf("%s%s is answered %d %.80s", id, form, w.Code, w.Body)
			}
		}
		// Which removes the link.
		if w := ask(u, "DELETE", "/api/history/"+id, ""); w.Code == 204 && id != "link" {
			t.Errorf("%s is deleted", id)
		}
		if w := ask(u, "GET", "/api/compare?a=inside&b="+id, ""); w.Code == 200 {
			t.Errorf("%s is compared", id)
		}
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
	if w := ask(u, "GET", "/api/history/inside.exe", ""); w.Code != 404 {
		t.Errorf("an unknown form is answered %d", w.Code)
	}
}

func TestResultsAreDownloadedInThreeForms(t *testing.T) {
	u := testUI(t)
	if err := u.history.save("one", aResult("</script><b>one", time.Now())); err != nil {
		t.Fatal(err)
	}
	for form, begin := range map[string]string{"json": "{", "csv": "", "html": "<!doctype html>"} {
		w := ask(u, "GET", "/api/history/one."+form, "")
		if w.Code != 200 || w.Body.Len() == 0 || !strings.HasPrefix(strings.ToLower(w.Body.String()), begin) {
			t.Errorf("%s is answered %d %.100s", form, w.Code, w.Body)
		}
		if got := w.Header().Get("Content-Disposition"); got != "attachment; filename=weir-load-one."+form {
			t.Errorf("%s has the disposition %q", form, got)
		}
		if strings.Contains(w.Body.String(), "</script><b>") {
			t.Errorf("%s has the name unescaped", form)
		}
	}
	if w := ask(u, "GET", "/api/compare?a=one&b=one", ""); w.Code != 200 {
		t.Errorf("a comparison is answered %d %s", w.Code, w.Body)
	}
	if w := ask(u, "DELETE", "/api/history/one", ""); w.Code != 204 {
		t.Errorf("deleting is answered %d", w.Code)
	}
	if w := ask(u, "GET", "/api/history/one", ""); w.Code != 404 {
		t.Errorf("what was deleted is answered %d", w.Code)
	}
}

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/admin"
	"weir/internal/server"
	"weir/internal/shed"
)

// No page of another site may use any of the admin port's routes, whichever service has it, and where there
// is a token nobody without it.
func TestEveryAdminRouteIsGuarded(t *testing.T) {
	const token = "0123456789abcdef0123"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := admin.OpenAccess("", path)
	if err != nil {
		t.Fatal(err)
	}
	overload := shed.Defaults()
	a, err := openGuarded(t, server.Config{Shed: &overload}, access, t.TempDir(), "--feeds", "")
	if err != nil {
		t.Fatal(err)
	}
	patterns := a.AdminRoutes()
	if len(patterns) < 20 {
		t.Fatalf("the admin port has the routes %q", patterns)
	}
	guarded := serveApp(t, a)
	public := serveHere(t, server.Config{Shed: &overload}, t.TempDir(), "--feeds", "")
	// What a browser needs to log in, and what asks whether the process is there.
	forEverybody := map[string]bool{"GET /login": true, "POST /admin/session": true,
		"DELETE /admin/session": true, "GET /health/live": true, "GET /ui/assets/{name...}": true}
	// Requests are not to go through, so they must not follow redirects and can be any.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(address, pattern string, change func(r *http.Request)) int {
		t.Helper()
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{", "", "...", "", "}", "").Replace(path)
		r, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(`{"all":true}`))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	field := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, pattern := range patterns {
		for name, c := range map[string]struct {
			change func(r *http.Request)
			want   int
		}{
			"another name": {func(r *http.Request) { r.Host = "evil.example" },
				http.StatusMisdirectedRequest},
			"another origin": {field("Origin", "http://evil.example"), http.StatusForbidden},
			"another site":   {field("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
			"a form":         {field("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		} {
			if name == "a form" && strings.HasPrefix(pattern, "GET ") {
				continue
			}
			for address, with := range map[string]func(r *http.Request){
				public.admin: func(*http.Request) {}, guarded.admin: field("Authorization", "Bearer "+token),
			} {
				got := ask(address, pattern, func(r *http.Request) { with(r); c.change(r) })
				if got != c.want {
					t.Errorf("%s from %s: %d, want %d", pattern, name, got, c.want)
				}
			}
		}
		if forEverybody[pattern] {
			continue
		}
		for name, change := range map[string]func(r *http.Request){
			"nobody":           func(*http.Request) {},
			"a wrong token":    field("Authorization", "Bearer "+token+"x"),
			"an older session": field("Cookie", "weir-session=ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
		} {
			want := http.StatusUnauthorized
			if pattern == "GET /" || pattern == "GET /ui/{page}" {
				want = http.StatusSeeOther
			}
			if got := ask(guarded.admin, pattern, change); got != want {
				t.Errorf("%s by %s: %d, want %d", pattern, name, got, want)
			}
		}
	}
	got := ask(guarded.admin, "GET /metrics", field("Authorization", "Bearer "+token))
	if got != http.StatusOK {
		t.Errorf("a scraper with the token is answered %d", got)
	}
}

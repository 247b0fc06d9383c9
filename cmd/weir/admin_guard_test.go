package main

import (
	"net/http"
	"strings"
	"testing"

	"weir/internal/server"
	"weir/internal/shed"
)

// No page of another site may use any of the admin port's routes, whichever service has it.
func TestEveryAdminRouteIsGuardedAgainstForeignPages(t *testing.T) {
	overload := shed.Defaults()
	a, err := openServer(t, server.Config{Shed: &overload}, t.TempDir(), "--feeds", "")
	if err != nil {
		t.Fatal(err)
	}
	patterns := a.AdminRoutes()
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if len(patterns) < 8 {
		t.Fatalf("the admin port has the routes %q", patterns)
	}
	p := serveHere(t, server.Config{Shed: &overload}, t.TempDir())
	for _, pattern := range patterns {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{", "", "...", "", "}", "").Replace(path)
		for name, c := range map[string]struct {
			change func(r *http.Request)
			want   int
		}{
			"another name": {func(r *http.Request) { r.Host = "evil.example" },
				http.StatusMisdirectedRequest},
			"another origin": {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
				http.StatusForbidden},
			"another site": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
				http.StatusForbidden},
			"a form": {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
				http.StatusUnsupportedMediaType},
		} {
			if name == "a form" && (method == http.MethodGet || method == http.MethodHead) {
				continue
			}
			r, err := http.NewRequest(method, "http://"+p.admin+path, strings.NewReader(`{"all":true}`))
			if err != nil {
				t.Fatal(err)
			}
			c.change(r)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != c.want {
				t.Errorf("%s from %s: %d, want %d", pattern, name, answer.StatusCode, c.want)
			}
		}
	}
}

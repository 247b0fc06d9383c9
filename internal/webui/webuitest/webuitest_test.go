package webuitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/webui"
)

// The console's words are what Clean goes by: it must hear of what a policy forbids, and of errors.
func TestWhatAPageComplainsOfIsHeard(t *testing.T) {
	refuse := func(w http.ResponseWriter, status int, detail string) { http.Error(w, detail, status) }
	site := httptest.NewServer(webui.Guard{Refuse: refuse}.Handler(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/main.js" {
				w.Header().Set("Content-Type", "text/javascript")
				fmt.Fprint(w, "document.documentElement.dataset.ready = 'yes'; nobody.knows()")
				return
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><title>x</title><p style="color: red">x</p><script src="/main.js"></script>`)
		})))
	t.Cleanup(site.Close)
	b := Open(t, site.URL, 800, 600, "light")
	for _, want := range []string{"Content Security Policy", "nobody is not defined"} {
		b.Wait("true")
		said := strings.Join(b.Said(), "\n")
		if !strings.Contains(said, want) {
			t.Errorf("the console says %q, and not of %q", said, want)
		}
	}
}

package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// logins answers like a service that wants a token from /login, and has a page that is sometimes wrong.
func logins(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/home")
		fmt.Fprint(w, `{"session":{"token":"a b&c"},"roles":["user"]}`)
	})
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a b&c" || r.URL.Query().Get("t") != "a b&c" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"name":"you"}`)
	})
	mux.HandleFunc("GET /odd", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"stock":0}`) })
	mux.HandleFunc("GET /gone", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/odd", http.StatusFound)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestAFileOfRequestsLogsInChecksAnswersAndCountsThemApart(t *testing.T) {
	s := logins(t)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	text := `{"name":"log in","method":"POST","url":"/login","expect":{"status":200,"json":{"roles.0":"user"}},"take":{"token":"json:session.token","next":"header:Location"}}
{"name":"me","url":"/me?t={{token}}","headers":{"Authorization":"Bearer {{token}}"},"expect":{"status":[200,204],"header":{"Content-Type":"text/plain"},"body":"you"}}
{"name":"odd","url":"/odd","expect":{"json":{"stock":7}}}
{"name":"gone","url":"/gone"}
{"name":"moved","url":"/moved"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Default()
	p.Requests, p.Target, p.Connections, p.Duration, p.NoCheck = file, s.URL, 2,
		Duration(500*time.Millisecond), true
	p.Headers = []string{"X-Api-Key: 123"}
	run, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Parts) != 5 {
		t.Fatalf("the parts are %+v", r.Parts)
	}
	for i, served := range []bool{true, true, false, false, true} {
		if q := r.Parts[i]; served != (q.Served > 0) || served != (q.Errors == 0) {
			t.Errorf("the part %s is %+v", q.Name, q)
		}
	}
	if r.Redirects == 0 || r.Redirects != r.Statuses["302"] || r.Statuses["404"] != r.Failures["status"] ||
		r.Failures["unexpected"] == 0 {
		t.Errorf("%d redirects, answers %v, failures %v", r.Redirects, r.Statuses, r.Failures)
	}
	said, _ := json.Marshal([]any{r.Samples, r.Marks})
	for _, want := range []string{"stock is 0, expected 7", `"kind":"404","request":"GET /gone"`,
		"were redirects"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("%s lacks %q", said, want)
		}
	}
}

func TestWrongExpectationsAreNamedByTheirLine(t *testing.T) {
	s := logins(t)
	for line, want := range map[string]string{
		`{"url":"/odd","expect":{"status":"ok"}}`:      ":1: expect: status: expected a code",
		`{"url":"/odd","expect":{"colour":1}}`:         "colour",
		`{"url":"/odd","take":{"a":"cookie:x"}}`:       ":1: take: expected names",
		`{"url":"/odd?x={{b}}","take":{"a":"json:x"}}`: "{{b}} is a variable",
		`{"url":"/odd","take":{"a":"json:x"}}` + "\n" +
			`{"url":"/me","take":{"a":"json:x"}}`: ":2: take: a is taken twice",
	} {
		file := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		p := Default()
		p.Requests, p.Target, p.Connections, p.NoCheck = file, s.URL, 1, true
		if _, err := New(t.Context(), p, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// Without whole answers the event loops count by status and by part as well.
func TestAMixIsCountedByItsParts(t *testing.T) {
	s := logins(t)
	file := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(file, []byte(`{"url":"/odd"}`+"\n"+`{"url":"/gone"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Default()
	p.Requests, p.Target, p.Rate, p.Duration, p.NoCheck = file, s.URL, "200/s",
		Duration(500*time.Millisecond), true
	run, err := New(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Parts) != 2 || r.Parts[0].Served != r.Served || r.Parts[1].Errors != r.Errors ||
		r.Parts[0].Mean <= 0 || r.Statuses["404"] == 0 {
		t.Errorf("the parts are %+v of %+v", r.Parts, r.Statuses)
	}
	if len(r.Samples) == 0 || r.Samples[0].Request != "GET /gone" {
		t.Errorf("the samples are %+v", r.Samples)
	}
}

package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/load"
)

// ask makes one request of a handler.
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8090"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// testUI is a UI whose runs are fakes that never end by themselves.
func testUI(t *testing.T, change ...func(*Options)) *UI {
	t.Helper()
	o := Options{New: fakeNew(time.Millisecond), History: t.TempDir()}
	for _, f := range change {
		f(&o)
	}
	u, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

const endless = `{"url": "http://127.0.0.1:9/", "duration": "1000h", "rate": "100/s"}`

func TestOtherSitesCannotMakeLoad(t *testing.T) {
	u := testUI(t)
	for _, c := range []struct {
		what    string
		headers []string
		status  int
	}{
		{"a name that was rebound", []string{"Host: evil.example"}, 421},
		{"such a name with the port", []string{"Host: evil.example:8090"}, 421},
		{"a name that looks like loopback", []string{"Host: 127.0.0.1.evil.example"}, 421},
		{"another name of localhost's", []string{"Host: localhost.evil.example:8090"}, 421},
		{"another machine's address", []string{"Host: 10.0.0.1:8090"}, 421},
		{"no host", []string{"Host: "}, 421},
		{"another site", []string{"Origin: https://evil.example"}, 403},
		{"another site, as browsers say",
			[]string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403},
		{"a page without an origin", []string{"Origin: null"}, 403},
		{"a neighbouring site", []string{"Origin: http://127.0.0.1:8080"}, 403},
		{"a neighbouring site, as browsers say", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"a form", []string{"Content-Type: text/plain"}, 415},
		{"another form", []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
	} {
		if w := ask(u, "POST", "/api/runs", endless, c.headers...); w.Code != c.status {
			t.Errorf("%s: the answer is %d %s, expected %d", c.what, w.Code, w.Body, c.status)
		}
		if w := ask(u, "DELETE", "/api/history/x", "", c.headers...); c.status != 415 && w.Code != c.status {
			t.Errorf("%s: deleting is answered %d, expected %d", c.what, w.Code, c.status)
		}
	}
	if s := u.live.get(); s.State != idle {
		t.Fatalf("a run is %s after requests that were refused", s.State)
	}
	// Reading is refused too, and so are streams.
	for _, path := range []string{"/api/run", "/api/events", "/api/history"} {
		if w := ask(u, "GET", path, "", "Sec-Fetch-Site: cross-site"); w.Code != 403 {
			t.Errorf("another site reads %s: %d", path, w.Code)
		}
	}
	for _, headers := range [][]string{
		nil, // not a browser
		{"Origin: http://127.0.0.1:8090", "Sec-Fetch-Site: same-origin"},
		{"Host: localhost:8090", "Origin: http://localhost:8090"},
		{"Host: [::1]:8090", "Origin: http://[::1]:8090"},
	} {
		w := ask(u, "POST", "/api/plan/check", endless, headers...)
		if w.Code != 200 {
			t.Errorf("%q: the answer is %d %s, expected 200", headers, w.Code, w.Body)
		}
	}
}

func TestPagesHaveAStrictPolicy(t *testing.T) {
	u := testUI(t)
	for _, path := range []string{"/", "/assets/", "/api/run",
		"/nothing", "/api/nothing"} {
		w := ask(u, "GET", path, "")
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			strings.Contains(csp, "unsafe") {
			t.Errorf("%s has the policy %q", path, csp)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", path)
		}
	}
	page := ask(u, "GET", "/", "").Body.String()
	for _, inline := range []string{"<style", " style=", "<script>", " onclick", "javascript:"} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %q, which its policy forbids", inline)
		}
	}
	etag := ask(u, "GET", "/", "").Header().Get("ETag")
	if w := ask(u, "GET", "/", "", "If-None-Match: "+etag); w.Code != 304 {
		t.Errorf("a page that is known is answered %d", w.Code)
	}
	if w := ask(u, "POST", "/", "{}"); w.Code != 405 {
		t.Errorf("POST / is answered %d", w.Code)
	}
}

func TestNothingGoesWithoutTheToken(t *testing.T) {
	const token = "sixteen-or-more-characters"
	u := testUI(t, func(o *Options) { o.Token = token })
	out := []string{"Host: box.example:8090"} // from anywhere
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/run", ""}, {"POST", "/api/runs", endless}, {"DELETE", "/api/run", ""},
		{"PUT", "/api/run/rate", `{"rate":1}`},
		{"GET", "/api/events", ""}, {"GET", "/api/history", ""}, {"GET", "/api/history/a.json", ""},
		{"DELETE", "/api/history/a", ""},
		{"GET", "/api/compare?a=a&b=b", ""}, {"POST", "/api/plan/check", endless}, {"GET", "/api/other", ""},
	} {
		for _, with := range []string{"X: y", "Authorization: Bearer wrong", "Authorization: Bearer ",
			"Cookie: weir-load=" + token, "Cookie: weir-load="} {
			if w := ask(u, c.method, c.path, c.body, append(out, with)...); w.Code != 401 {
				t.Errorf("%s %s with %q is answered %d, expected 401", c.method, c.path, with, w.Code)
			}
		}
	}
	if w := ask(u, "GET", "/api/run", "", append(out, "Authorization: Bearer "+token)...); w.Code != 200 {
		t.Errorf("the token is answered %d", w.Code)
	}
	if w := ask(u, "POST", "/api/session", `{"token":"wrong"}`, out...); w.Code != 401 ||
		w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token is answered %d %q", w.Code, w.Header().Get("Set-Cookie"))
	}
	w := ask(u, "POST", "/api/session", `{"token":"`+token+`"}`, out...)
	cookie := w.Header().Get("Set-Cookie")
	if w.Code != 204 || !strings.Contains(cookie, "HttpOnly") ||
		!strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, token) {
		t.Fatalf("the token gives %d and the cookie %q", w.Code, cookie)
	}
	pair, _, _ := strings.Cut(cookie, ";")
	if w := ask(u, "GET", "/api/run", "", append(out, "Cookie: "+pair)...); w.Code != 200 {
		t.Errorf("the cookie is answered %d", w.Code)
	}
	// It is of this process, and of this token.
	other := testUI(t, func(o *Options) { o.Token = token })
	if w := ask(other, "GET", "/api/run", "", append(out, "Cookie: "+pair)...); w.Code != 401 {
		t.Errorf("another process answers the cookie %d", w.Code)
	}
	if _, err := New(Options{New: u.o.New, History: t.TempDir(), Token: "short"}); err == nil {
		t.Error("a short token is accepted")
	}
}

func TestPlansAreConfined(t *testing.T) {
	var got load.Plan
	files := t.TempDir()
	record := func(o *Options) {
		fake := o.New
		o.New = func(ctx context.Context, p load.Plan) (Runner, error) { got = p; return fake(ctx, p) }
	}
	plain := testUI(t, record, func(o *Options) { o.Own = []string{"mine.example"} })
	if w := ask(plain, "POST", "/api/plan/check",
		`{"url":"http://127.0.0.1:9/","i_own_this_target":["yours.example"]}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(got.Own) != 1 || got.Own[0] != "mine.example" {
		t.Errorf("a plan makes its hosts %q", got.Own)
	}
	if w := ask(plain, "POST", "/api/plan/check",
		`{"scenario":"requests","requests":"/etc/passwd"}`); w.Code != 400 ||
		!strings.Contains(w.Body.String(), `"field":"requests"`) {
		t.Errorf("a file is answered %d %s", w.Code, w.Body)
	}
	for _, body := range []string{"@/etc/passwd", "@", "@x", "@@x"} {
		if w := ask(plain, "POST", "/api/plan/check", `{"url":"http://127.0.0.1:9/","body":"`+body+
			`"}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"body"`) {
			t.Errorf("the body %s is answered %d %s", body, w.Code, w.Body)
		}
	}
	confined := testUI(t, record, func(o *Options) { o.Files = files })
	for _, name := range []string{"/etc/passwd", "../x", "a/../../x", "", "~"} {
		body := `{"scenario":"requests","requests":"` + name + `","vars":"../../etc/passwd"}`
		if w := ask(confined, "POST", "/api/plan/check", body); w.Code != 400 {
			t.Errorf("%q is answered %d", body, w.Code)
		}
	}
	if w := ask(confined, "POST", "/api/plan/check",
		`{"url":"http://127.0.0.1:9/","body":"@../x"}`); w.Code != 400 {
		t.Errorf("a body from elsewhere is answered %d", w.Code)
	}
	// Results name the whole path, and are run again.
	for _, name := range []string{"r.jsonl", files + "/r.jsonl"} {
		if w := ask(confined, "POST", "/api/plan/check", `{"scenario":"requests","requests":"`+name+
			`"}`); w.Code != 200 || got.Requests != files+"/r.jsonl" {
			t.Errorf("%q is answered %d %s, and is the file %q", name, w.Code, w.Body, got.Requests)
		}
	}
}

func TestAPlanForAnothersHostIsToldWhichFieldAndWhoMayAllowIt(t *testing.T) {
	u := testUI(t, func(o *Options) {
		o.New = func(ctx context.Context, p load.Plan) (Runner, error) {
			_, err := load.New(ctx, p, load.Options{})
			return nil, err
		}
	})
	for plan, field := range map[string]string{
		`{"url":"http://192.0.2.1/","rate":"5/s"}`:                                                "url",
		`{"scenario":"feed","target":"http://192.0.2.1/","rate":"5/s"}`:                           "target",
		`{"scenario":"poll","target":"http://127.0.0.1:9/","feed_url":"http://192.0.2.1/{feed}"}`: "feed_url",
	} {
		for _, path := range []string{"/api/plan/check", "/api/runs"} {
			w := ask(u, "POST", path, plan)
			if text := w.Body.String(); w.Code != 400 || !strings.Contains(text, `"field":"`+field+`"`) ||
				!strings.Contains(text, "start weir load ui with --i-own-this-target 192.0.2.1") {
				t.Errorf("%s of %s is answered %d %s", path, plan, w.Code, text)
			}
		}
	}
}

// An agent is shown a token, and metrics are asked for from where the UI is, which may see more than who
// uses it.
func TestPlansNameNobodyThatTheUIWasNotStartedWith(t *testing.T) {
	var got load.Plan
	record := func(o *Options) {
		fake := o.New
		o.New = func(ctx context.Context, p load.Plan) (Runner, error) { got = p; return fake(ctx, p) }
	}
	none := testUI(t, record)
	named := testUI(t, record, func(o *Options) {
		o.Agents, o.Own = []string{"box1:8092", "box2:8092"}, []string{"mine.example", "yours.example:9100"}
	})
	for _, c := range []struct {
		ui           *UI
		plan, refuse string // the field, "" for none
	}{
		{none, `"agents":["evil.example:80"]`, "agents"},
		{none, `"agents":["127.0.0.1:8092"]`, "agents"},
		{named, `"agents":["box1:8092","evil.example:8092"]`, "agents"},
		{named, `"agents":["box1:8093"]`, "agents"},
		{named, `"agents":["box2:8092","BOX1:8092"]`, ""},
		{none, `"target_metrics":"http://169.254.169.254/metrics"`, "target_metrics"},
		{none, `"target_metrics":"http://mine.example/metrics"`, "target_metrics"},
		{none, `"target_metrics":"http://127.0.0.1.mine.example/metrics"`, "target_metrics"},
		{none, `"target_metrics":"http://a b/"`, "target_metrics"},
		{none, `"target_metrics":"http://127.0.0.1:8081/metrics"`, ""},
		{named, `"target_metrics":"http://mine.example:8081/metrics"`, ""},
		{named, `"target_metrics":"http://yours.example:9100/metrics"`, ""},
		{named, `"target_metrics":"http://yours.example:9101/metrics"`, "target_metrics"},
	} {
		got = load.Plan{}
		w := ask(c.ui, "POST", "/api/plan/check", `{"url":"http://127.0.0.1:9/","rate":"1/s",`+c.plan+`}`)
		if c.refuse == "" {
			if w.Code != 200 || got.URL == "" {
				t.Errorf("%s is answered %d %s", c.plan, w.Code, w.Body)
			}
			continue
		}
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+c.refuse+`"`) || got.URL != "" {
			t.Errorf("%s is answered %d %s", c.plan, w.Code, w.Body)
		}
	}
	if w := ask(named, "POST", "/api/plan/check",
		`{"url":"http://127.0.0.1:9/","agents":["x:1"]}`); !strings.Contains(w.Body.String(),
		"box1:8092, box2:8092") {
		t.Errorf("who names another agent is told %s", w.Body)
	}
	if _, err := New(Options{New: none.o.New, History: t.TempDir(), Agents: []string{"box1"}}); err == nil ||
		!strings.Contains(err.Error(), "--agents") {
		t.Errorf("an agent without a port: %v", err)
	}
}

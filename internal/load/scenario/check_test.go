package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// quiet serves without a log, as failing handshakes are meant to be.
func quiet(t *testing.T, h http.HandlerFunc, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s)
	t.Cleanup(s.Close)
	return s
}

func TestCheckAsksOnceForEachSort(t *testing.T) {
	var asked []string
	s := quiet(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		if r.Host != strings.TrimPrefix(r.Header.Get("X-Expect"), "http://") {
			t.Errorf("Host %q", r.Host)
		}
	}, (*httptest.Server).Start)
	sc := open(t, Spec{
		Scenario: "feed,predict,sequence,poll,requests", Target: s.URL, Users: 1, FirstUser: 4, Items: 1,
		MaxItem: 1, Headers: []string{"X-Expect: " + s.URL},
		Requests: "r", RequestsText: "{\"url\":\"/a\"}\n{\"url\":\"/b\",\"method\":\"PUT\",\"body\":\"x\"}",
		Feeds: 1, FeedURL: "/f",
	})
	if err := sc.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "GET /feed/4 ;POST /predict {\"user\":4,\"items\":[1]};GET /next ;GET /f ;GET /a ;PUT /b x"
	if got := strings.Join(asked, ";"); got != want {
		t.Errorf("asked %s\nexpected %s", got, want)
	}
}

func TestCheckSaysWhatAnAnswerMeans(t *testing.T) {
	s := quiet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/problem":
			w.WriteHeader(422)
			fmt.Fprint(w, `{"status":422,"detail":"size must be smaller"}`)
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusMovedPermanently)
		case "/login":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/html":
			w.WriteHeader(500)
			fmt.Fprint(w, "<html>long</html>")
		case "/secret":
			w.WriteHeader(401)
		case "/posted":
			w.WriteHeader(405)
		case "/busy":
			w.WriteHeader(503)
		case "/slow":
			w.WriteHeader(429)
		case "/cached":
			w.WriteHeader(304)
		default:
			http.Error(w, "no such page", 404)
		}
	}, (*httptest.Server).Start)
	for path, want := range map[string]string{
		"/problem": "GET " + s.URL +
			"/problem is answered 422 Unprocessable Entity (size must be smaller): is the URL right?",
		"/moved": "is answered 301 Moved Permanently, to /there: redirects are not followed, so ask for " +
			"that URL",
		"/html": "/html is answered 500 Internal Server Error: is the URL right?",
		"/none": "/none is answered 404 Not Found (no such page): is the URL right?",
		"/secret": "/secret is answered 401 Unauthorized: does it want a --header, as in 'Authorization: " +
			"Bearer ...'?",
		"/posted": "/posted is answered 405 Method Not Allowed: is the method right (--method)?",
		"/login":  "",
		"/busy":   "",
		"/slow":   "",
		"/cached": "",
	} {
		err := open(t, Spec{URL: s.URL + path}).Check(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", path, err, want)
		}
	}
	for scenario, want := range map[string]string{
		"feed":     "does this server serve feeds (weir serve --feeds FILE)?",
		"predict":  "does this server predict (weir serve, without --bandit=false)?",
		"sequence": "does this server have the sequence (weir serve, without --sequence=false)?",
		"poll": "is that where feeds are (--feed-url, --feed-urls), and do weir mock or another server " +
			"serve them?",
	} {
		if err := open(t, Spec{Scenario: scenario, Target: s.URL}).Check(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "404 Not Found (no such page): "+want) {
			t.Errorf("%s: %v, expected %q", scenario, err, want)
		}
	}
	err := open(t, Spec{Requests: "r", Target: s.URL,
		RequestsText: "{\"url\":\"/busy\"}\n\n{\"url\":\"/none\"}"}).Check(t.Context())
	if want := "is line 3 of r right?"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %q", err, want)
	}
}

func TestCheckSaysWhyNobodyAnswers(t *testing.T) {
	fine := func(http.ResponseWriter, *http.Request) {}
	plain := quiet(t, fine, (*httptest.Server).Start)
	secret := quiet(t, fine, (*httptest.Server).StartTLS)
	second := quiet(t, fine, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
	gone := quiet(t, fine, (*httptest.Server).Start)
	gone.Close()
	release := make(chan struct{})
	stuck := quiet(t, func(http.ResponseWriter, *http.Request) { <-release }, (*httptest.Server).Start)
	defer close(release)
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{URL: gone.URL}, "GET " + gone.URL + "/: the target cannot be reached: "},
		{Spec{URL: gone.URL}, "is the server running, and is its address right?"},
		{Spec{URL: secret.URL}, "the target's certificate is not believed: "},
		{Spec{URL: secret.URL}, "give --insecure to believe any"},
		{Spec{URL: secret.URL, Insecure: true}, ""},
		{Spec{URL: strings.Replace(secret.URL, "https", "http", 1)},
			"is answered 400 Bad Request (Client sent an HTTP request to an HTTPS server.)"},
		{Spec{URL: strings.Replace(plain.URL, "http", "https", 1)},
			"the target does not speak TLS: ask for http://127.0.0.1:"},
		{Spec{URL: plain.URL, HTTP2: true},
			"does the target speak HTTP/2 there? leave --http2 out for HTTP/1.1"},
		{Spec{URL: secret.URL, Insecure: true, HTTP2: true},
			"does the target speak HTTP/2 there? leave --http2 out for HTTP/1.1"},
		{Spec{URL: second.URL, Insecure: true, HTTP2: true}, ""},
		{Spec{URL: stuck.URL, Timeout: 20 * time.Millisecond},
			"there is no answer within 20ms: is the target stuck?"},
		{Spec{URL: raw(t, "")}, "the target closes the connection without an answer"},
		{Spec{URL: raw(t, "SSH-2.0-x\r\n")}, "does the target speak HTTP/1.1 there?"},
		{Spec{URL: raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")}, "its answer ends early"},
	} {
		err := open(t, c.spec).Check(t.Context())
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, expected %q", c.spec, err, c.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by hand")
	cancel(stopped)
	if err := open(t, Spec{URL: stuck.URL}).Check(ctx); !errors.Is(err, stopped) {
		t.Errorf("%v, expected %v", err, stopped)
	}
}

// raw answers every request on a connection with these bytes, and closes it.
func raw(t *testing.T, answer string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, answer)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

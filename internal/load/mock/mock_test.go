package mock

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
)

// client asks for nothing that a test does not say: no compression of its own, no redirects.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// stepped returns a mock whose clock only moves when it is told to, with defaults changed by name, value
// pairs.
func stepped(t testing.TB, knobs ...string) *Server {
	t.Helper()
	k := Defaults()
	for i := 0; i < len(knobs); i += 2 {
		if err := k.Set(knobs[i], knobs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{Knobs: &k, Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clocked returns a mock that takes the time from a clock which stands still, and cannot be moved by
// requests.
func clocked(t testing.TB, at time.Time) *Server {
	t.Helper()
	s, err := Open(Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ways are how requests reach a mock: by the kernel's event loops, by its adapter on net/http, and without
// a kernel.
func ways(t *testing.T, test func(t *testing.T, start func(*Server) (url string))) {
	for _, name := range []string{"kernel", "kernel on net/http", "handler"} {
		t.Run(name, func(t *testing.T) {
			test(t, func(s *Server) string {
				if name == "handler" {
					ts := httptest.NewServer(s)
					t.Cleanup(func() { s.Stop(); ts.Close() })
					return ts.URL
				}
				return onKernel(t, s, name != "kernel")
			})
		})
	}
}

// onKernel serves a mock until the test is over.
func onKernel(t testing.TB, s *Server, netHTTP bool) string {
	t.Helper()
	k, err := server.New(server.Config{Listen: "127.0.0.1:0", Loops: 1, NetHTTP: netHTTP}, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(ctx, s.Stop)
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + k.Addr().String()
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask makes a request with fields "Name: value".
func ask(t testing.TB, method, url, body string, fields ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(bufio.NewReader(resp.Body))
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func get(t testing.TB, url string, fields ...string) reply {
	t.Helper()
	return ask(t, "GET", url, "", fields...)
}

// want checks a status and parts of the body.
func (r reply) want(t testing.TB, status int, parts ...string) reply {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d; body %.300s", r.status, status, r.body)
	}
	for _, p := range parts {
		if !strings.Contains(r.body, p) {
			t.Errorf("the answer lacks %q: %.300s", p, r.body)
		}
	}
	return r
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	bad := Defaults()
	bad.Items = -1
	large := Defaults()
	large.Items, large.Body = 10_000, 100_000
	both := Defaults()
	both.Gzip, both.Brotli = Always, Always
	constant := Defaults()
	constant.Malformed = Damage(200)
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{Step: time.Millisecond}, "--step must be a duration from 1s to 24h"},
		{Options{CacheBytes: -1}, "--cache must not be negative"},
		{Options{Knobs: &bad}, "--items must be a whole number from 0 to 10000"},
		{Options{Knobs: &large}, "items times body must be at most"},
		{Options{Knobs: &both}, "cannot both be always"},
		{Options{Knobs: &constant}, "malformed must be off or one of"},
	} {
		if _, err := Open(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%+v) says %v, want %q", c.o, err, c.says)
		}
	}
	if err := stepped(t).SetKnobs(bad); err == nil {
		t.Error("SetKnobs takes -1 items")
	}
}

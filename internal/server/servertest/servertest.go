// Package servertest serves services to tests, on loopback ports that the system chooses, until the test
// ends. Only tests import it.
package servertest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
)

// Served is a server that runs. URL is that of the public port, Admin that of the admin port. A request of
// the client takes a minute at most.
type Served struct {
	URL, Admin string
	Client     *http.Client
	t          testing.TB
}

// Start serves services, by two loops and two workers each, and closes them when the test ends. ended, which
// may be nil, is called then with what Run has returned; without it an error fails the test.
func Start(t testing.TB, kernel server.Config, ended func(error), services ...server.Service) *Served {
	t.Helper()
	kernel.Listen, kernel.Admin = "127.0.0.1:0", "127.0.0.1:0"
	kernel.Loops, kernel.Workers = 2, 2
	k, err := server.New(kernel, services...)
	if err != nil {
		t.Fatal(err)
	}
	if ended == nil {
		ended = func(err error) {
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		ended(<-done)
	})
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	return &Served{"http://" + k.Addr().String(), "http://" + k.AdminAddr().String(), client, t}
}

// Try sends a request and returns its answer and the whole of its body; fields are pairs of a header field's
// name and value.
func (s *Served) Try(method, url, body string, fields ...string) (*http.Response, string, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := s.Client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// Do is Try that must not fail.
func (s *Served) Do(method, url, body string, fields ...string) (*http.Response, string) {
	s.t.Helper()
	resp, said, err := s.Try(method, url, body, fields...)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, said
}

// Lanes runs a test on the event loops and on net/http.
func Lanes(t *testing.T, test func(t *testing.T, kernel server.Config)) {
	t.Run("loops", func(t *testing.T) { test(t, server.Config{}) })
	t.Run("net/http", func(t *testing.T) { test(t, server.Config{NetHTTP: true}) })
}

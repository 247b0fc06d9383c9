package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/server"
)

// lanes runs a test on the event loops and on net/http.
func lanes(t *testing.T, test func(t *testing.T, cfg server.Config)) {
	t.Run("loops", func(t *testing.T) { test(t, server.Config{}) })
	t.Run("net-http", func(t *testing.T) { test(t, server.Config{NetHTTP: true}) })
}

// raw sends bytes over a connection of its own and returns the answer's head and body as they came.
func raw(t *testing.T, addr, request string) (head, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(string(resp), "\r\n\r\n")
	if !ok {
		t.Fatalf("no whole answer: %q", resp)
	}
	return head, body
}

// TestAnswersByteByByte pins down what goes over the wire.
func TestAnswersByteByByte(t *testing.T) {
	lanes(t, func(t *testing.T, cfg server.Config) {
		dir := t.TempDir()
		feeds := filepath.Join(dir, "feeds.weir")
		numbered(10, 20).write(t, feeds)
		p := serveHere(t, cfg, filepath.Join(dir, "data"), "--feeds", feeds)
		for _, c := range []struct{ request, status, kind, body string }{
			{"GET /feed/1?size=3", "200 OK", "application/json", "[21,22,23]"},
			{"POST /feed/1?size=2", "200 OK", "application/json", "[24,25]"},
			{"HEAD /feed/1?size=2", "200 OK", "application/json", ""},
			{"GET /feed/1/position", "200 OK", "application/json", ""},
			{"GET /feed/1?size=256", "422 Unprocessable Entity", "application/problem+json",
				`{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"size must be a whole number from 1 to 255; absent or 0 is 10","error":"size must be a whole number from 1 to 255; absent or 0 is 10"}`},
			{"GET /feed/99", "500 Internal Server Error", "application/problem+json",
				`{"type":"about:blank","title":"no feed items","status":500,"detail":"the user has no items left and there are no fallback items","error":"the user has no items left and there are no fallback items"}`},
		} {
			head, body := raw(t, p.public, c.request+" HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n")
			first, fields, _ := strings.Cut(head, "\r\n")
			if first != "HTTP/1.1 "+c.status {
				t.Errorf("%s: %s, want %s", c.request, first, c.status)
			}
			for _, field := range []string{"Content-Type: " + c.kind, "Cache-Control: no-store", "Date: ",
				"Content-Length: ", "Connection: close"} {
				if !strings.Contains(fields+"\r\n", field) {
					t.Errorf("%s: no %q in %q", c.request, field, fields)
				}
			}
			if c.body != "" && body != c.body || strings.HasPrefix(c.request, "HEAD") && body != "" {
				t.Errorf("%s: body %q, want %q", c.request, body, c.body)
			}
		}
	})
}

// TestItemsOverManyConnections checks the books of clients who share users.
func TestItemsOverManyConnections(t *testing.T) {
	lanes(t, func(t *testing.T, cfg server.Config) {
		const users, perList = 5, 3000
		dir := t.TempDir()
		feeds := filepath.Join(dir, "feeds.weir")
		l := numbered(users, perList)
		l.write(t, feeds)
		p := serveHere(t, cfg, filepath.Join(dir, "data"), "--feeds", feeds)
		var mu sync.Mutex
		given := make(lists)
		var load sync.WaitGroup
		for i := range 12 {
			load.Go(func() {
				f := newFeeder()
				defer f.close()
				for n := range 100 {
					user := uint64((n + i) % users)
					status, body, err := f.next(p.public, user, 1+(i*n)%10)
					if err != nil || status != 200 {
						t.Errorf("user %d: %d %s %v", user, status, body, err)
						return
					}
					mu.Lock()
					given[user] = append(given[user], items(t, body)...)
					mu.Unlock()
				}
			})
		}
		load.Wait()
		for user, got := range given {
			slices.Sort(got)
			if !slices.Equal(got, l[user][:len(got)]) {
				t.Errorf("user %d was given %d items that are not the first ones", user, len(got))
			}
			if pos := p.position(user); pos != len(got) {
				t.Errorf("user %d is at %d after %d items", user, pos, len(got))
			}
		}
	})
}

func TestHealthAndAdminPort(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--feeds", feeds)
	p.want("/health", 200, `{"status":"ready"`, `"feed":{"status":"ready","storage":{"durability":"a change`,
		`"lag_seconds":`)
	p.want("/metrics", 404)
	p.want("/version", 200, `"version":"dev"`)
	for path, says := range map[string]string{
		"/health/live": `{"status":"ok"}`, "/health/ready": `{"status":"ready"`, "/debug/pprof/": "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
	} {
		status, body := ask(t, "GET", "http://"+p.admin+path, "")
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		wantSays(t, path, body, says)
	}
	if status, body := ask(t, "GET", "http://"+p.admin+"/nowhere", ""); status != 404 ||
		!strings.Contains(body, `"status":404`) {
		t.Errorf("/nowhere: %d %s", status, body)
	}
	if status, _ := ask(t, "GET", "http://"+p.admin+"/feed/1", ""); status != 404 {
		t.Errorf("a feed on the admin port: %d", status)
	}
}

// TestWithoutFeedsTheServerIsUpAndSaysWhatIsOff is the start of somebody who has not read anything.
func TestWithoutFeedsTheServerIsUpAndSaysWhatIsOff(t *testing.T) {
	var log bytes.Buffer
	p := serveHere(t, server.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, t.TempDir())
	p.want("/health", 200)
	p.want("/feed/1", 404)
	wantSays(t, "the log", log.String(), "off", "--feeds")
}

// TestMetricsAreThereByTheirPromisedNames asks first, so that there is something to show.
func TestMetricsAreThereByTheirPromisedNames(t *testing.T) {
	lanes(t, func(t *testing.T, cfg server.Config) {
		dir := t.TempDir()
		feeds := filepath.Join(dir, "feeds.weir")
		numbered(4, 20).write(t, feeds, 1000, 1001)
		p := serveHere(t, cfg, filepath.Join(dir, "data"), "--feeds", feeds)
		for _, path := range []string{"/feed/1?size=20", "/feed/2?size=5", "/feed/2?size=0&peek=1",
			"/feed/3?size=22", "/feed/77?size=2", "/feed/x", "/nowhere"} {
			p.get(path)
		}
		for name, want := range map[string]float64{
			"weir_http_requests_total":       7,
			"weir_feed_items_total":          20 + 5 + 10 + 20,
			"weir_feed_fallback_items_total": 2 + 2,
			"weir_feed_exhausted_users":      2,
			"weir_feed_exhausted_ratio":      0.5,
			"weir_feed_users":                4,
			"weir_feed_generation":           1,
			"weir_feed_changed_in_place":     0,
			"weir_sync_poisoned":             0,
		} {
			if got, ok := p.metric(name); !ok || got != want {
				t.Errorf("%s is %v (there: %t), want %v", name, got, ok, want)
			}
		}
		for _, name := range []string{
			"weir_sync_lag_seconds", "weir_sync_seconds", "weir_progress_durability",
			"weir_feed_reloads_total",
			"weir_http_connections", "go_goroutines", "process_resident_memory_bytes", "go_build_info",
		} {
			if _, ok := p.metric(name); !ok {
				t.Errorf("there is no metric %s", name)
			}
		}
		p.reaches("weir_http_request_duration_seconds", 7) // observed when the answer has been sent
		p.reaches("weir_feed_warmed_ratio", 1)
	})
}

// TestTheTLSPortServesTheSameRoutesByHTTP2 also renews the certificate while it serves.
func TestTheTLSPortServesTheSameRoutesByHTTP2(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	cert, key := certificate(t, dir, "one")
	keys, err := openCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	p := serveHere(t, server.Config{TLS: keys.config()}, filepath.Join(dir, "data"), "--feeds", feeds)
	get := func(name string) {
		t.Helper()
		c := trusting(t, cert)
		defer c.CloseIdleConnections()
		resp, err := c.Get("https://" + p.tls + "/feed/1?size=2")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 || len(items(t, string(body))) != 2 {
			t.Errorf("%s %d %s %v", resp.Proto, resp.StatusCode, body, err)
		}
		if got := resp.TLS.PeerCertificates[0].Subject.CommonName; got != name {
			t.Errorf("the certificate is that of %s, want %s", got, name)
		}
	}
	get("one")
	certificate(t, dir, "two")
	// It is read again when told so and not before.
	if _, err := trusting(t, cert).Get("https://" + p.tls + "/health"); err == nil {
		t.Error("the new certificate is used before it was read")
	}
	if err := keys.load(); err != nil {
		t.Fatal(err)
	}
	get("two")
	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.load(); err == nil || !strings.Contains(err.Error(), cert) {
		t.Errorf("a broken certificate: %v", err)
	}
	// The public port without TLS knows the same positions.
	if pos := p.position(1); pos != 4 {
		t.Errorf("position %d, want 4", pos)
	}
}

// TestConnectionsMayLeaveForNetHTTP sends what only net/http can frame.
func TestConnectionsMayLeaveForNetHTTP(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--feeds", feeds)
	conn, err := net.Dial("tcp", p.public)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n, request := range []string{
		"GET /feed/1?size=1 HTTP/1.1\r\nHost: weir\r\n\r\n",
		"POST /feed/1?size=1 HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"GET /feed/1?size=1 HTTP/1.1\r\nHost: weir\r\n\r\n",
	} {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if want := fmt.Sprintf("[%d]", 21+n); err != nil || string(body) != want {
			t.Errorf("request %d: %s %v, want %s", n, body, err, want)
		}
	}
}

func TestOpenAppClosesWhatItHasOpened(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := server.Defaults()
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Listen = listener.Addr().String()
	for range 2 { // the second time the directory must not be locked
		_, err := openApp(context.Background(), cfg, nil, filepath.Join(dir, "data"), nil)
		if err == nil || !strings.Contains(err.Error(), "--listen "+cfg.Listen) ||
			strings.Contains(err.Error(), "in use by") && !strings.Contains(err.Error(), "address") {
			t.Fatalf("a taken port: %v", err)
		}
	}
	p := serveHere(t, server.Config{}, filepath.Join(dir, "data"), "--feeds", feeds)
	p.want("/health", 200)
}

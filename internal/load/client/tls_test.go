package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/measure"
)

func TestTLSAndHTTP2GoByNetHTTP(t *testing.T) {
	for _, test := range []struct {
		name     string
		tls, two bool
		want     string
	}{
		{"TLS", true, false, "HTTP/1.1"},
		{"TLS and HTTP/2", true, true, "HTTP/2.0"},
		{"HTTP/2 in clear", false, true, "HTTP/2.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var other atomic.Value
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != test.want || r.Host != "target" || r.URL.Path != "/path" ||
					r.Header.Get("X-Sent") != "yes" {
					other.Store(fmt.Sprintf("%s %s %s %v", r.Proto, r.Host, r.URL, r.Header))
				}
				w.Header().Set("Etag", `"e"`)
				w.Header().Set("Last-Modified", "now")
			}))
			s.Config.ErrorLog = quiet // Start only connects
			s.EnableHTTP2 = true
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetHTTP2(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			if test.tls {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			source := &numbered{targets: 1, heard: map[uint64]int{}, etags: map[string]int{},
				status: map[int]int{},
				wire:   "GET /path HTTP/1.1\r\nHost: target\r\nX-Sent: yes\r\n\r\n"}
			// Few requests: to a busy machine's queue, connections that are being made add still more to do.
			o := Options{Targets: []Target{targetOf(t, s.URL)}, HTTP2: test.two, Insecure: true, Threads: 1,
				Timeout: time.Minute}
			e := start(t, o, func(int, int) Source { return source })
			if err := e.SetRate(30); err != nil {
				t.Fatal(err)
			}
			w := measure.NewWindow()
			await(t, e, w, requests(30))
			finish(t, e, w)
			if w.Served != w.Done() || uint64(source.etags[`"e"now`]) != w.Served {
				t.Errorf("served %d of %d, failed %v, heard %v", w.Served, w.Done(), w.Failed, source.etags)
			}
			if got := other.Load(); got != nil {
				t.Errorf("the server got %v", got)
			}
			if w.In == 0 || w.Out == 0 {
				t.Errorf("%d bytes in, %d out", w.In, w.Out)
			}
		})
	}
}

func TestACertificateThatNobodyKnowsIsRefused(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()
	e := start(t, Options{Targets: []Target{targetOf(t, s.URL)}, Threads: 1, Timeout: time.Minute}, get)
	if err := e.SetRate(10); err != nil {
		t.Fatal(err)
	}
	w := measure.NewWindow()
	await(t, e, w, requests(3))
	finish(t, e, w)
	if w.Failed[measure.Refused] != w.Done() {
		t.Errorf("of %d, served %d, failed %v", w.Done(), w.Served, w.Failed)
	}
}

func TestResolveKeepsLoadOnThisMachine(t *testing.T) {
	for _, test := range []struct {
		url   string
		owned []string
		want  string // the address, or the error
	}{
		{"http://127.0.0.1:8080/path", nil, "127.0.0.1:8080"},
		{"http://127.9.9.9", nil, "127.9.9.9:80"},
		{"https://[::1]", nil, "[::1]:443"},
		{"http://localhost:81", nil, "127.0.0.1:81"},
		{"http://10.0.0.1:8080", nil, "--i-own-this-target 10.0.0.1"},
		{"http://10.0.0.1:8080", []string{"10.0.0.2"}, "--i-own-this-target"},
		{"http://10.0.0.1:8080", []string{"10.0.0.1"}, "10.0.0.1:8080"},
		{"http://10.0.0.1:8080", []string{"10.0.0.1:8080"}, "10.0.0.1:8080"},
		{"http://10.0.0.1:8080", []string{"10.0.0.1:80"}, "--i-own-this-target"},
		{"http://[2001:db8::1]:8080", []string{"[2001:db8::1]"}, "[2001:db8::1]:8080"},
		{"http://0.0.0.0:80", nil, "--i-own-this-target"},
		{"http://[::ffff:10.0.0.1]:80", nil, "--i-own-this-target"},
		{"127.0.0.1:8080", nil, "expected a URL"},
		{"ftp://127.0.0.1", nil, "expected a URL of http or https"},
		{"http://", nil, "has no host"},
		{"http://me:secret@127.0.0.1", nil, "Authorization"},
		{"http://127.0.0.1:0", nil, "port"},
		{"http://127.0.0.1:65536", nil, "port"},
		{"http://%zz", nil, "no URL"},
	} {
		got, err := Resolve(context.Background(), test.url, test.owned)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s owning %q: %v, want %s", test.url, test.owned, err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
		case got.Addr.String() != test.want:
			t.Errorf("%s owning %q: got %v, want %s", test.url, test.owned, got.Addr, test.want)
		}
	}
}

// Requests that find no connection do not each begin a handshake of their own.
func TestFewTLSHandshakesAreMadeAtOnce(t *testing.T) {
	var now, most atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		for n := now.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond) // so that many would be in it at once
		now.Add(-1)
		return nil, nil
	}}
	s.StartTLS()
	defer s.Close()
	e := start(t, Options{Targets: []Target{targetOf(t, s.URL)}, Insecure: true, Threads: 2}, get)
	if err := e.SetRate(2000); err != nil {
		t.Fatal(err)
	}
	w := measure.NewWindow()
	await(t, e, w, func(w *measure.Window) bool { return w.Served > 100 })
	if err := e.SetRate(0); err != nil {
		t.Fatal(err)
	}
	finish(t, e, w)
	if n := most.Load(); n > mostHandshakes || n < 8 {
		t.Errorf("%d handshakes at once, want some and at most %d", n, mostHandshakes)
	}
}

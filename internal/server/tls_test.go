package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// selfSigned returns a certificate for 127.0.0.1 and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTheTLSPortSpeaksHTTP2AndHTTP1WithTheSameRoutes(t *testing.T) {
	cert, pool := selfSigned(t)
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.TLSListen, cfg.TLS = "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}
		s := start(t, cfg, &echo{})
		dial(t, s).passed()
		for proto, h2 := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
			hc := &http.Client{Transport: transport, Timeout: patient}
			do := func(method, path, body string, status int, want string) {
				req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.TLSAddr().String()+
					path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := hc.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != status || resp.Proto != proto || want != "" &&
					string(got) != want {
					t.Errorf("%s %s %s: got %s %d %q, %v", proto, method, path, resp.Proto, resp.StatusCode,
						got, err)
				}
			}
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					do("GET", "/fast/%C3%A9?a=%20b", "", 200, "GET é a= b ")
					do("POST", "/fast/a", "body", 200, "POST a body")
					do("GET", "/offloaded/a", "", 200, "GET a ")
					do("POST", "/handed/a", "body", 200, "POST handed a  body")
					do("POST", "/either/a?handoff", "body", 200, "POST handed a handoff body")
					do("GET", "/either/a", "", 200, "GET a ")
					do("GET", "/big/300000", "", 200, strings.Repeat("x", 300_000))
					do("GET", "/nowhere", "", 404, "")
					do("DELETE", "/fast/a", "", 405, "")
					do("GET", "/panic", "", 500, "")
					do("POST", "/fast/a", strings.Repeat("b", 1<<20+1), 413, "")
				})
			}
			wg.Wait()
			transport.CloseIdleConnections()
		}
	})
}

func TestTLSConnectionsCountTowardsTheBound(t *testing.T) {
	cert, pool := selfSigned(t)
	s := start(t, Config{MaxConnections: 1, TLSListen: "127.0.0.1:0",
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}, &echo{})
	first, err := tls.Dial("tcp", s.TLSAddr().String(), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.Dial("tcp", s.TLSAddr().String(), &tls.Config{RootCAs: pool}); err == nil {
		t.Error("a connection beyond the bound was taken")
	}
	first.Close()
	await(t, "the place to become free", func() bool { return s.connections.Load() == 0 })
	dial(t, s).passed()
}

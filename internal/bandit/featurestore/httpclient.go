package featurestore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// httpClient posts JSON to a store that speaks HTTP. It follows no redirects: whoever redirects is not the
// store.
type httpClient struct {
	client    *http.Client
	transport *http.Transport
}

// newHTTPClient returns a client that keeps up to conns idle connections for as long as idle.
func newHTTPClient(o *Options, conns int, idle time.Duration) (*httpClient, error) {
	tlsConfig, err := o.tls()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     tlsConfig,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		IdleConnTimeout:     idle,
		DisableCompression:  true,
	}
	return &httpClient{transport: t, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// jsonHeader returns the header of all requests.
func jsonHeader() http.Header {
	return http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		// Is not sent, and lets a request that met a connection being closed be sent again.
		"Idempotency-Key": nil,
	}
}

// post returns the response, without its body, and the body: up to limit bytes of an answer, the first of
// an error.
func (c *httpClient) post(ctx context.Context, to string, header http.Header, body []byte,
	limit int64) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	res, err := c.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // errors name the store already
		}
		return nil, nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		const longestError = 16 << 10
		said, _ := io.ReadAll(io.LimitReader(res.Body, longestError))
		return res, said, nil
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(answer)) > limit {
		return nil, nil, badAnswer("longer than %d bytes", limit)
	}
	return res, answer, nil
}

func (c *httpClient) close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// tls returns the configuration of encrypted connections.
func (o *Options) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("--bandit-store-ca: %w", err)
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--bandit-store-ca: %s holds no certificate in PEM form", o.CA)
	}
	return c, nil
}

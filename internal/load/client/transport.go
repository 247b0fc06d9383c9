package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// hostPort is what a transport dials for u.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// mostHandshakes bounds the TLS handshakes that all threads make at once. With one for every request that
// finds no connection, 10,000 requests a second left no processor for anything else, and each handshake
// took so long that more were begun.
const mostHandshakes = 64

func (c *callers) newTransport(addrs map[string]string) *http.Transport {
	var dialer net.Dialer
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if known, ok := addrs[addr]; ok {
				addr = known
			}
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, &unreachable{err}
			}
			c.open.Add(1)
			return &countedConn{Conn: conn, c: c}, nil
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: c.o.Insecure},
		TLSHandshakeTimeout: c.o.Timeout,
		DisableCompression:  true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: c.most,
		// Closes what a lowered number of connections leaves over. CloseIdleConnections would also cut
		// requests whose answer has no body: their connections count as idle before the answer is handed out.
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHead,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         4 << 10,
		Protocols:              new(http.Protocols),
	}
	places := make(chan struct{}, max(mostHandshakes/c.o.Threads, 1))
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := t.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		config := t.TLSClientConfig.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
		config.NextProtos = []string{map[bool]string{false: "http/1.1", true: "h2"}[c.o.HTTP2]}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
	if c.o.HTTP2 {
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
	}
	return t
}

type unreachable struct{ error }

func (u *unreachable) Unwrap() error { return u.error }

type countedConn struct {
	net.Conn
	c      *callers
	closed atomic.Bool
}

func (n *countedConn) Read(p []byte) (int, error) {
	m, err := n.Conn.Read(p)
	n.c.in.Add(uint64(m))
	return m, err
}

func (n *countedConn) Write(p []byte) (int, error) {
	m, err := n.Conn.Write(p)
	n.c.out.Add(uint64(m))
	return m, err
}

func (n *countedConn) Close() error {
	if !n.closed.Swap(true) {
		n.c.open.Add(-1)
	}
	return n.Conn.Close()
}

// Package fetch asks servers that nobody vouches for: the HTTP client behind feeds whose addresses strangers
// typed in.
//
// A Client is an http.RoundTripper for GET and HEAD. It makes one request, follows no redirect and keeps no
// cookie, so whoever follows a redirect through it has every hop checked anew. What it promises:
//
//   - It connects to public unicast addresses only. The check is made of the address that is dialed, after
//     the name was resolved, so a name that resolves to something else the second time gains nothing.
//     Options.Allow opens networks, Options.Ports the ports. Proxies named by the environment are not used.
//   - It asks a host for Options.PerHost things at a time, and all hosts together for Options.Concurrency. A
//     host that answers 429 or 503 with Retry-After, or cannot be reached several times in a row, is left
//     alone for a while: requests fail at once with a *BackoffError.
//   - Time to connect, to the first byte and to the last, the bytes of the header and of the body, and how
//     much a compressed body may grow are all bounded. Bodies of gzip, deflate, br and zstd come decoded,
//     and Content-Encoding and Content-Length are then gone from the header.
//   - No Cookie, Referer or proxy credentials are sent, whatever the request has, and no Set-Cookie is
//     returned.
//
// Errors wrap ErrRefused, ErrTooLarge or *BackoffError where these apply. All methods are safe for
// concurrent use.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

var (
	// ErrRefused is an address, port or scheme that is not fetched from.
	ErrRefused = errors.New("refused")
	// ErrTooLarge is a body that is longer than Options.MaxBody, or grows by more than Options.MaxRatio.
	ErrTooLarge = errors.New("the body is too large")
)

// Options of a Client. What is zero has the default that its comment names.
type Options struct {
	Allow       []netip.Prefix // networks beyond the public ones
	Ports       []int          // 80, 443, 8080 and 8443
	Resolver    *net.Resolver  // the system's
	UserAgent   string         // for requests that have none; "weir"
	Concurrency int            // requests at a time; 64
	PerHost     int            // requests at a time to one host; 2
	Dial        time.Duration  // to connect, TLS included; 10 s
	FirstByte   time.Duration  // from the request to the header of the response; 20 s
	Timeout     time.Duration  // from the start to the last byte, waiting for a turn included; 60 s
	MaxHeader   int64          // bytes of a header; 64 KiB
	MaxBody     int64          // bytes of a body, both as sent and decoded; 32 MiB
	MaxRatio    int64          // decoded bytes for each that was sent; 200
	Backoff     time.Duration  // the longest that a host is left alone; 24 h
}

func (o *Options) setDefaults() {
	set(&o.UserAgent, "weir")
	set(&o.Concurrency, 64)
	set(&o.PerHost, 2)
	set(&o.Dial, 10*time.Second)
	set(&o.FirstByte, 20*time.Second)
	set(&o.Timeout, time.Minute)
	set(&o.MaxHeader, 64<<10)
	set(&o.MaxBody, 32<<20)
	set(&o.MaxRatio, 200)
	set(&o.Backoff, 24*time.Hour)
	if len(o.Ports) == 0 {
		o.Ports = []int{80, 443, 8080, 8443}
	}
}

func set[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Client is described by the package.
type Client struct {
	o         Options
	transport *http.Transport
	hosts     hosts
}

// New returns a client.
func New(o Options) *Client {
	o.setDefaults()
	c := &Client{o: o, hosts: newHosts(o)}
	dialer := &net.Dialer{Timeout: o.Dial, Resolver: o.Resolver, ControlContext: o.control}
	c.transport = &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    o.Dial,
		ResponseHeaderTimeout:  o.FirstByte,
		MaxResponseHeaderBytes: o.MaxHeader,
		MaxIdleConns:           o.Concurrency,
		MaxIdleConnsPerHost:    1,
		MaxConnsPerHost:        o.PerHost,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true, // decode knows more encodings, and bounds them
		ForceAttemptHTTP2:      true,
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// notSent are the request headers that no upstream is shown.
var notSent = []string{"Cookie", "Referer", "Proxy-Authorization", "Proxy-Connection", "Connection", "Te",
	"Trailer", "Upgrade"}

// RoundTrip implements http.RoundTripper. The caller closes the body, which gives the host's turn back.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.check(r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), c.o.Timeout,
		fmt.Errorf("%w: not done after %v", context.DeadlineExceeded, c.o.Timeout))
	host := r.URL.Hostname()
	release, err := c.hosts.enter(ctx, host)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("fetch %s: %w", r.URL.Redacted(), err)
	}
	end := func() { release(); cancel() }

	r = r.Clone(ctx)
	for _, name := range notSent {
		r.Header.Del(name)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", c.o.UserAgent)
	}
	r.Header.Set("Accept-Encoding", acceptEncoding)
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			err = context.Cause(ctx)
		}
		// What was given up by the caller or forbidden here says nothing about the host.
		if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrRefused) {
			c.hosts.failed(host, err)
		}
		end()
		return nil, fmt.Errorf("fetch %s: %w", r.URL.Redacted(), err)
	}
	c.hosts.answered(host, resp)
	resp.Header.Del("Set-Cookie")
	if resp.Body, err = c.decode(resp, end); err != nil {
		return nil, fmt.Errorf("fetch %s: %w", r.URL.Redacted(), err)
	}
	return resp, nil
}

// check refuses what can be refused without asking anybody.
func (c *Client) check(r *http.Request) error {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != "":
		return fmt.Errorf("%w: the method %s", ErrRefused, r.Method)
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("%w: the scheme %q; feeds are fetched by http and https", ErrRefused, r.URL.Scheme)
	case r.URL.Hostname() == "":
		return fmt.Errorf("%w: a URL without a host", ErrRefused)
	}
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme]
	}
	if n, err := strconv.Atoi(port); err != nil || !c.o.allowsPort(n) {
		return fmt.Errorf("%w: port %s is not one of %v", ErrRefused, port, c.o.Ports)
	}
	return nil
}

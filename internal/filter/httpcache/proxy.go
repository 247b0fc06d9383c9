package httpcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/disk"
)

// name is what the proxy calls itself in Via, Cache-Status and Surrogate-Capability.
const name = "weir"

// sign adds to a request what a proxy says of itself.
func (p *Proxy) sign(h http.Header) {
	h.Add("Via", "1.1 "+name)
	if p.c.o.Surrogate != "" {
		h.Add("Surrogate-Capability", p.c.o.Surrogate+`="Surrogate/1.0"`)
	}
}

// Proxy puts a cache before an origin: a reverse proxy, with net/http on the side of its clients. Conditions
// and ranges of clients are answered here; upstream only whole responses are asked for. What is neither GET
// nor HEAD is passed on, and invalidates what RFC 9111, section 4.4 says.
type Proxy struct {
	c        *Cache
	upstream *url.URL
	pass     *httputil.ReverseProxy
}

// NewProxy returns a proxy before the origin at upstream, an absolute URL whose path is put before those of
// requests.
func NewProxy(c *Cache, upstream *url.URL) *Proxy {
	p := &Proxy{c: c, upstream: upstream}
	p.pass = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			p.sign(r.Out.Header)
		},
		Transport:      c.o.Fetch,
		ModifyResponse: p.passed,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
		ErrorLog:       slog.NewLogLogger(c.o.Log.Handler(), slog.LevelDebug),
	}
	return p
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	if in.Method != http.MethodGet && in.Method != http.MethodHead {
		p.pass.ServeHTTP(w, in)
		return
	}
	h := in.Header.Clone()
	p.sign(h)
	r := p.c.newRequest(p.target(in.URL), h)
	if in.Method == http.MethodHead && !p.c.has(r) {
		p.pass.ServeHTTP(w, in)
		return
	}
	e, err := p.c.do(in.Context(), r)
	if err != nil {
		fail(w, err)
		return
	}
	defer e.Release()
	if err := disk.Guard(func() error { write(w, in, e); return nil }); err != nil {
		p.c.o.Log.Error("an answer was cut off", "url", in.URL, "error", err)
		panic(http.ErrAbortHandler) // so that the client does not take it for whole
	}
}

// target returns the URL upstream of a URL here.
func (p *Proxy) target(u *url.URL) *url.URL {
	to := *p.upstream
	to.Path = strings.TrimSuffix(to.Path, "/") + u.Path
	to.RawPath = strings.TrimSuffix(p.upstream.EscapedPath(), "/") + u.EscapedPath()
	to.RawQuery, to.ForceQuery = u.RawQuery, u.ForceQuery
	return &to
}

// write writes an entry as the answer to a request. Conditions and ranges are net/http's business.
func write(w http.ResponseWriter, in *http.Request, e *Entry) {
	h := w.Header()
	for name, values := range e.Header {
		h[name] = values
	}
	if h.Get("Content-Type") == "" {
		h["Content-Type"] = nil // and no guess
	}
	if e.Cached {
		h.Set("Age", strconv.FormatInt(int64(e.Age/time.Second), 10))
	}
	h.Add("Cache-Status", status(e))
	if e.Status == http.StatusOK {
		h.Del("Content-Length")
		modified, _ := http.ParseTime(e.Header.Get("Last-Modified")) // or none
		http.ServeContent(w, in, "", modified, bytes.NewReader(e.Body()))
		return
	}
	if len(e.Body()) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(e.Body())))
	}
	w.WriteHeader(e.Status)
	if in.Method != http.MethodHead {
		w.Write(e.Body()) //nolint:errcheck // the client has gone
	}
}

// status returns the Cache-Status of an entry (RFC 9211).
func status(e *Entry) string {
	if !e.Cached {
		return name + "; fwd=miss"
	}
	return fmt.Sprintf("%s; hit; ttl=%d", name, int64(e.Fresh/time.Second))
}

// fail answers for an upstream that has not.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	if errors.Is(err, ErrNotStored) || errors.Is(err, context.DeadlineExceeded) {
		code = http.StatusGatewayTimeout
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Cache-Status", name+"; fwd=miss")
	http.Error(w, http.StatusText(code), code)
}

// passed looks at the response to what was passed on.
func (p *Proxy) passed(resp *http.Response) error {
	withoutHop(resp.Header)
	switch resp.Request.Method {
	case http.MethodGet, http.MethodOptions, http.MethodTrace:
		return nil
	case http.MethodHead:
		p.c.freshenByHead(p.c.newRequest(resp.Request.URL, resp.Request.Header), resp)
		return nil
	}
	if resp.StatusCode >= 400 {
		return nil
	}
	u := resp.Request.URL
	p.c.invalidate(u)
	for _, name := range []string{"Location", "Content-Location"} {
		text := resp.Header.Get(name)
		if to, err := u.Parse(text); text != "" && err == nil && (to.Host == u.Host || to.Host == "") {
			p.c.invalidate(to)
		}
	}
	return nil
}

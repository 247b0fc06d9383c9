package httpcache

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/zeebo/xxh3"
)

const maxRedirects = 5

// request is a GET.
type request struct {
	url        *url.URL // without user and fragment
	header     http.Header
	key        string
	directives directives
}

// notAsked are the fields that are the cache's own business, besides those of a connection.
var notAsked = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
	"Range",
	"Content-Length", "Host", "Expect"}

// newRequest returns a request with a header of its own.
func (c *Cache) newRequest(u *url.URL, h http.Header) *request {
	r := &request{url: u, header: h.Clone()}
	if r.header == nil {
		r.header = make(http.Header)
	}
	withoutHop(r.header)
	for _, name := range notAsked {
		r.header.Del(name)
	}
	r.directives = parseDirectives(r.header.Values("Cache-Control"))
	r.key = u.String()
	if secret := r.header.Get("Authorization"); c.o.Poller && secret != "" {
		sum := xxh3.HashString128(secret).Bytes()
		r.key += " " + hex.EncodeToString(sum[:]) // no URL has a space
	}
	return r
}

// follow calls do with the request for a URL, and again where its response leads to.
func (c *Cache) follow(text string, h http.Header, do func(*request) (*Entry, error)) (*Entry, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	h = h.Clone()
	if h == nil {
		h = make(http.Header)
	}
	if u.User != nil && h.Get("Authorization") == "" {
		password, _ := u.User.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(
			[]byte(u.User.Username()+":"+password)))
	}
	moved := true // as long as all redirects are permanent
	var movedTo string
	for range maxRedirects + 1 {
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("get %s: %w", u.Redacted(), ErrRedirects)
		}
		clean := *u
		clean.User, clean.Fragment, clean.RawFragment = nil, "", ""
		if clean.Path == "" {
			clean.Path = "/"
		}
		e, err := do(c.newRequest(&clean, h))
		if err != nil {
			return nil, err
		}
		location := e.Header.Get("Location")
		if !slices.Contains([]int{301, 302, 303, 307, 308}, e.Status) || location == "" {
			e.URL, e.MovedTo = clean.String(), movedTo
			return e, nil
		}
		moved = moved && (e.Status == 301 || e.Status == 308)
		e.Release()
		to, err := u.Parse(location)
		if err != nil {
			return nil, fmt.Errorf("get %s: %w: %w", u.Redacted(), ErrRedirects, err)
		}
		if to.Scheme != u.Scheme || to.Host != u.Host {
			h.Del("Authorization")
		}
		u = to
		if moved {
			to.User = nil
			movedTo = to.String()
		}
	}
	return nil, fmt.Errorf("get %s: %w", u.Redacted(), ErrRedirects)
}

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrNotOwned says that a target is neither on this machine nor named as one's own.
var ErrNotOwned = errors.New("load goes to this machine only")

// ParseURL reads an absolute URL of http or https.
func ParseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		return nil, fmt.Errorf("expected a URL, as in http://127.0.0.1:8080, got %q", text)
	}
	u, err := url.Parse(text)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("%q is no URL: %w", text, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("expected a URL of http or https, as in http://127.0.0.1:8080, got %q", text)
	case u.Hostname() == "":
		return nil, fmt.Errorf("the URL %q has no host: expected one as in http://127.0.0.1:8080", text)
	case u.User != nil:
		return nil, fmt.Errorf("the URL of %s has a user and password in it, which are not sent: use a "+
			"header, as in \"Authorization: Basic ...\"", u.Host)
	}
	return u, nil
}

// Resolve looks the origin of a URL up. A host that is not loopback, by every address it has, is refused
// with ErrNotOwned unless it is in owned, as a host or as host:port.
func Resolve(ctx context.Context, rawURL string, owned []string) (Target, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return Target{}, err
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return Target{}, fmt.Errorf("target %q: the port must be from 1 to 65535", rawURL)
		}
	}
	addrs, err := lookUp(ctx, u.Hostname())
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", rawURL, err)
	}
	own := slices.ContainsFunc(owned, func(o string) bool {
		return strings.EqualFold(o, u.Host) || strings.EqualFold(strings.Trim(o, "[]"), u.Hostname())
	})
	if !own && slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsLoopback() }) {
		return Target{}, fmt.Errorf("%w: %s is elsewhere; if it is yours to load, say --i-own-this-target %s",
			ErrNotOwned, u.Hostname(), u.Hostname())
	}
	return Target{URL: u.Scheme + "://" + u.Host, Host: u.Host,
		Addr: netip.AddrPortFrom(addrs[0], uint16(port))}, nil
}

// lookUp returns a host's addresses, those of IPv4 first: servers that listen on one family only mostly do
// on that.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs, nil
}

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

// Resolve looks the origin of a URL up. A host that is not loopback, by every address it has, is refused
// with ErrNotOwned unless it is in owned, as a host or as host:port.
func Resolve(ctx context.Context, rawURL string, owned []string) (Target, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return Target{}, fmt.Errorf("target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return Target{}, fmt.Errorf("target %q: write it as http://host:port or https://host:port", rawURL)
	case u.Hostname() == "":
		return Target{}, fmt.Errorf("target %q names no host: write it as http://host:port", rawURL)
	case u.User != nil:
		return Target{}, errors.New(
			"target: a user and password in the URL are not sent; use --header 'Authorization: ...'")
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

// Package access says who may make load from this machine, for all that can be asked to make some: whoever is on it, and
// beyond it those with the token. And it keeps what is asked of others to the addresses that were given.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Listen listens on address. Where other machines can reach that it wants a token.
func Listen(address, token string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	if token == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		l.Close() //nolint:errcheck // nothing was accepted
		return nil, fmt.Errorf("%s can be reached from other machines, whose users could make load from here: listen on 127.0.0.1, or set --token", address)
	}
	return l, nil
}

// LoopbackHost says whether a Host field names this machine in a way that no other site can.
func LoopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// Same compares secrets in a time that does not depend on where they differ.
func Same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// CheckAgent refuses what is not the address of an agent.
func CheckAgent(address string) error {
	if u, err := url.Parse("//" + address); err != nil || u.Port() == "" || u.Host != address {
		return fmt.Errorf("--agents takes host:port, got %q", address)
	}
	return nil
}

// NoRedirect is the CheckRedirect of a client that asks only where it was told to: what it sends, a token for one, is for nobody else.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

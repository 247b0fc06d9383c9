package server

import (
	"bytes"
	"net/http"
	"net/netip"
)

var slash = []byte{'/'}

// otherForm sets the path, with the query, of a target that is not a path: an absolute URI, or "*" in
// OPTIONS (RFC 9112, 3.2).
func (h *head) otherForm() *parseError {
	if h.method == http.MethodConnect {
		return errConnect
	}
	if len(h.target) == 1 && h.target[0] == '*' {
		if h.method != http.MethodOptions {
			return errAsterisk
		}
		return nil
	}
	scheme, rest, ok := bytes.Cut(h.target, []byte("://"))
	if !ok || !equalFold(scheme, "http") && !equalFold(scheme, "https") {
		return errTargetForm
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if host := rest[:end]; len(host) == 0 || host[0] == ':' || !isHost(host) {
		return errTargetHost
	}
	h.path = rest[end:]
	switch {
	case end == len(rest):
		h.path = slash
	case rest[end] != '/':
		h.path = append([]byte{'/'}, rest[end:]...)
	}
	return nil
}

// isTarget reports whether a target has only bytes that one may have. Nothing is said of its form.
func isTarget(target string) bool {
	for i := range len(target) {
		if classes[target[i]]&inTarget == 0 {
			return false
		}
	}
	return true
}

// isHost reports whether b is a host as RFC 3986 has it, a name, an IPv4 address or an IPv6 address in
// brackets, perhaps with a port.
func isHost(b []byte) bool {
	if len(b) == 0 || b[0] == ':' {
		return false // no http URI is without a host (RFC 9110, section 4.2.1)
	}
	if b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return false
		}
		if ip, err := netip.ParseAddr(string(b[1:end])); err != nil || !ip.Is6() || ip.Zone() != "" {
			return false
		}
		b = b[end+1:]
	} else {
		for len(b) > 0 && b[0] != ':' {
			switch {
			case classes[b[0]]&inHost != 0:
				b = b[1:]
			case b[0] == '%' && len(b) > 2 && unhex(b[1]) <= 15 && unhex(b[2]) <= 15:
				b = b[3:]
			default:
				return false
			}
		}
	}
	for i, c := range b {
		if i == 0 && c != ':' || i > 0 && !isDigit(c) {
			return false
		}
	}
	return true
}

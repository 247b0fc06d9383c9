// Package webui keeps web pages of other origins away from what only this machine's people may use: an
// admin port, the load UI.
//
// A browser sends requests for any page that it shows, with the addresses that are reachable from its
// machine. So a handler that trusts its network has to look at what only the browser says: Host, which a
// page that rebinds its own name to this machine cannot choose; Sec-Fetch-Site and Origin, which tell whose
// page it is; and Content-Type, which a page may set to JSON only after a preflight that nobody here
// answers. Programs that are no browsers send none of it but Host, and are let through.
package webui

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// policy lets pages load what comes from here, and nothing else. No script and no style is inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " +
	"'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Guard refuses requests of foreign pages.
type Guard struct {
	// AnyHost takes every Host, not only names of loopback: for what is meant to be reached by other names.
	AnyHost bool
	// Open says which requests pages of other origins may link to; nil is none.
	Open func(r *http.Request) bool
	// Refuse answers with a status and what was wrong.
	Refuse func(w http.ResponseWriter, status int, detail string)
}

// Handler returns next behind the guard. Its answers forbid to be framed, sniffed and shared with other
// origins.
func (g Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		open := g.Open != nil && g.Open(r)
		switch {
		case !g.AnyHost && !LoopbackHost(r.Host):
			g.Refuse(w, http.StatusMisdirectedRequest,
				"this address is for loopback names, like 127.0.0.1 and localhost")
		case !(open && safe(r.Method)) && foreign(r):
			g.Refuse(w, http.StatusForbidden, "pages of other sites may not use this")
		case !safe(r.Method) && r.ContentLength != 0 && !mayBeJSON(r):
			g.Refuse(w, http.StatusUnsupportedMediaType, "send application/json")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// foreign says whether a browser makes the request for a page of another origin. Reading counts as well: a
// stream of events opened from elsewhere takes a connection.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: typed by a person
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

// mayBeJSON reports whether a body is said to be JSON, or nothing is said of it, which browsers do only for
// requests that tell their origin.
func mayBeJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.TrimSpace(kind)
	return kind == "" || strings.EqualFold(kind, "application/json")
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

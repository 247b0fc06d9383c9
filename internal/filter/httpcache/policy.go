package httpcache

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxDelta     = 1 << 31            // seconds; larger numbers mean this (RFC 9111, section 1.2.2)
	maxHeuristic = 7 * 24 * time.Hour // fresh without being told so
	movedFor     = 24 * time.Hour     // a permanent redirect without a lifetime, for a Poller
	always       = 100 * 365 * 24 * time.Hour
)

// directives are what Cache-Control says, by names in lower case. Of one that comes twice the first counts.
type directives map[string]string

// parseDirectives reads the lines of a Cache-Control header. What is no directive is skipped.
func parseDirectives(lines []string) directives {
	d := make(directives)
	for _, part := range splitList(strings.Join(lines, ",")) {
		name, value, valued := strings.Cut(part, "=")
		name = strings.ToLower(name)
		if !isToken(name) {
			continue
		}
		if valued && len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = unquote(value[1 : len(value)-1])
		}
		if _, twice := d[name]; !twice {
			d[name] = value
		}
	}
	return d
}

// splitList splits at commas outside quoted strings and trims white space; empty elements are left out.
func splitList(text string) (parts []string) {
	quoted, escaped, from := false, false, 0
	add := func(part string) {
		if part = strings.Trim(part, " \t"); part != "" {
			parts = append(parts, part)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			add(text[from:i])
			from = i + 1
		}
	}
	add(text[from:])
	return parts
}

// controlOf returns what a response says of its freshness: Cache-Control and Expires, or what
// Surrogate-Control says to the surrogate of that name, which hides both (Edge Architecture, W3C Note of
// 2001).
func controlOf(h http.Header, surrogate string) (d directives, expires []string) {
	if surrogate != "" {
		d = parseDirectives(h.Values("Surrogate-Control"))
		for name, value := range d {
			if value, target, targeted := strings.Cut(value, ";"); targeted && target != surrogate {
				delete(d, name)
			} else {
				d[name] = value
			}
		}
		if d.has("max-age") || d.has("no-store") {
			return d, nil
		}
	}
	return parseDirectives(h.Values("Cache-Control")), h.Values("Expires")
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (d directives) has(name string) bool { _, ok := d[name]; return ok }

// seconds returns a directive that is a number of seconds. One that is there without a number is bad.
func (d directives) seconds(name string) (value time.Duration, ok, bad bool) {
	text, ok := d[name]
	if !ok {
		return 0, false, false
	}
	value, valid := parseSeconds(text)
	return value, valid, !valid
}

func parseSeconds(text string) (time.Duration, bool) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxDelta {
		n = maxDelta
	}
	return time.Duration(n) * time.Second, true
}

// policy is what decides about a stored response: all that a lookup needs.
type policy struct {
	status         int
	received       time.Time     // when it, or the 304 that validated it, came
	age            time.Duration // it had then
	lifetime       time.Duration
	whileStale     time.Duration // stale-while-revalidate
	ifError        time.Duration // stale-if-error
	noCache        bool          // is validated before each use
	mustRevalidate bool          // is never used stale
	vary           []field
}

// field is a header field of the request that a response was chosen by.
type field struct{ Name, Value string }

// understood are the final status codes whose caching rules are followed here.
var understood = []int{200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 429,
	451, 500, 501, 502, 503, 504}

// heuristic are the status codes that may be fresh without being told so (RFC 9110, section 15.1).
var heuristic = []int{200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501}

// storable says whether a shared cache may store a response to a GET (RFC 9111, section 3).
func storable(request, header http.Header, status int, surrogate string) bool {
	d, expires := controlOf(header, surrogate)
	switch {
	case status < 200 || status == http.StatusPartialContent || status == http.StatusNotModified:
		return false
	case d.has("must-understand") && !slices.Contains(understood, status):
		return false
	case d.has("no-store") && !d.has("must-understand"):
		return false
	case parseDirectives(request.Values("Cache-Control")).has("no-store"):
		return false
	case d.has("private"):
		return false
	case request.Get("Authorization") != "" && !d.has("public") && !d.has("s-maxage") &&
		!d.has("must-revalidate"):
		return false
	case slices.Contains(varyNames(header), "*"):
		return false
	}
	explicit := d.has("public") || d.has("max-age") || d.has("s-maxage") || len(expires) > 0 ||
		d.has("no-cache")
	return explicit || slices.Contains(heuristic, status)
}

// policyOf returns what decides about a response that was asked for at requested and came at received.
func policyOf(header http.Header, status int, requested, received time.Time, surrogate string) policy {
	d, expires := controlOf(header, surrogate)
	p := policy{status: status, received: received, noCache: d.has("no-cache") && d["no-cache"] == ""}
	_, shared := d["s-maxage"]
	p.mustRevalidate = d.has("must-revalidate") || d.has("proxy-revalidate") || shared

	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		date = received
	}
	p.age = max(received.Sub(date), 0)
	if lines := header.Values("Age"); len(lines) > 0 {
		age, ok := parseSeconds(strings.Join(lines, ","))
		if !ok {
			return p // an age that cannot be read may be any: it is stale
		}
		p.age = max(p.age, age+received.Sub(requested))
	}

	p.whileStale, _, _ = d.seconds("stale-while-revalidate")
	p.ifError, _, _ = d.seconds("stale-if-error")
	for _, name := range []string{"s-maxage", "max-age"} {
		if lifetime, ok, bad := d.seconds(name); ok || bad {
			p.lifetime = lifetime // of a bad one 0
			return p
		}
	}
	if len(expires) > 0 {
		if at, err := http.ParseTime(expires[0]); err == nil {
			p.lifetime = max(0, at.Sub(date))
		}
		return p
	}
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	if err == nil && modified.Before(date) && (slices.Contains(heuristic, status) || d.has("public")) {
		p.lifetime = min(date.Sub(modified)/10, maxHeuristic)
	}
	return p
}

// withoutUnvalidated removes the fields that no-cache="..." says are not to be used unless validated.
func withoutUnvalidated(h http.Header) {
	for _, name := range splitList(parseDirectives(h.Values("Cache-Control"))["no-cache"]) {
		h.Del(name)
	}
}

// ageAt returns the age of the response.
func (p *policy) ageAt(now time.Time) time.Duration { return p.age + max(0, now.Sub(p.received)) }

// use is what may be done with a stored response.
type use uint8

const (
	fetchFirst use = iota // it is validated or replaced before it is used
	useStale              // it is used and validated in the background
	useFresh              // it is used
)

// usable decides whether the response may be used for a request with these directives now.
func (p *policy) usable(request directives, now time.Time) use {
	if request.has("no-cache") || request.has("no-store") || p.noCache {
		return fetchFirst
	}
	age := p.ageAt(now)
	if limit, ok, bad := request.seconds("max-age"); bad || ok && age > limit || ok && limit == 0 {
		return fetchFirst
	}
	left := p.lifetime - age
	spare, _, _ := request.seconds("min-fresh")
	if left > spare || left > 0 && left == spare {
		return useFresh
	}
	if p.mustRevalidate {
		return fetchFirst
	}
	if request.has("max-stale") {
		limit, ok, _ := request.seconds("max-stale")
		if !ok && request["max-stale"] == "" || ok && -left <= limit {
			return useFresh
		}
	}
	if left <= 0 && -left < p.whileStale {
		return useStale
	}
	return fetchFirst
}

// usableAfter decides whether the response may be used because it could not be validated.
func (p *policy) usableAfter(request directives, now time.Time) bool {
	if p.mustRevalidate || p.noCache {
		return false
	}
	limit, _, _ := request.seconds("stale-if-error")
	return p.ageAt(now)-p.lifetime < max(limit, p.ifError)
}

// varyNames returns the request fields that a response was chosen by, in lower case and order.
func varyNames(h http.Header) []string {
	names := splitList(strings.ToLower(strings.Join(h.Values("Vary"), ",")))
	slices.Sort(names)
	return slices.Compact(names)
}

// varyOf returns these fields with the values of the request.
func varyOf(request, response http.Header) (fields []field) {
	for _, name := range varyNames(response) {
		fields = append(fields, field{name, normalize(request, name)})
	}
	return fields
}

// matches says whether a request has the fields that the response was chosen by.
func (p *policy) matches(request http.Header) bool {
	return !slices.ContainsFunc(p.vary, func(f field) bool { return normalize(request, f.Name) != f.Value })
}

// normalize returns the value of a field, its lines joined and white space around commas left out. One that
// is absent differs from one that is empty.
func normalize(h http.Header, name string) string {
	lines, ok := h[http.CanonicalHeaderKey(name)]
	if !ok {
		return "-"
	}
	value := "+" + strings.Join(splitList(strings.Join(lines, ",")), ",")
	if name == "accept-language" {
		value = strings.ToLower(value)
	}
	return value
}

// hopByHop are the fields that belong to a connection (RFC 9110, section 7.6.1), and those of RFC 9111,
// section 3.1.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding",
	"Upgrade", "Trailer",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization"}

// withoutHop removes what belongs to a connection from a header.
func withoutHop(h http.Header) {
	for _, name := range splitList(strings.Join(h.Values("Connection"), ",")) {
		h.Del(name)
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// notUpdated are the fields of a stored response that a 304 leaves as they are (RFC 9111, section 3.2).
var notUpdated = []string{"Content-Encoding", "Content-Length", "Content-Range", "Content-Md5", "Etag"}

// update returns the header of a stored response after a 304.
func update(stored, fresh http.Header) http.Header {
	merged := stored.Clone()
	for name, values := range fresh {
		if !slices.Contains(notUpdated, name) {
			merged[name] = values
		}
	}
	if fresh.Get("Age") == "" {
		merged.Del("Age")
	}
	return merged
}

// validates says whether a 304 is about the stored response, not about another one that the server has.
func validates(stored, fresh http.Header) bool {
	tag := fresh.Get("Etag")
	return tag == "" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(stored.Get("Etag"), "W/")
}

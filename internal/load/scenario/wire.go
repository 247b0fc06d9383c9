package scenario

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type field struct{ name, value string }

// ours are fields that no one gives but the generator, and why.
var ours = map[string]string{
	"host":              "Host is what the URL says: put the name into the URL",
	"content-length":    "Content-Length is counted: leave it out",
	"transfer-encoding": "Transfer-Encoding cannot be set: bodies are sent with their length",
	"connection":        "Connection cannot be set: connections are kept by the generator",
	"keep-alive":        "Keep-Alive cannot be set: connections are kept by the generator",
	"upgrade":           "Upgrade cannot be set: only HTTP/1.1 and, with --http2, HTTP/2 are spoken",
	"expect":            "Expect cannot be set: bodies are sent at once",
	"te":                "TE cannot be set: trailers are not asked for",
	"trailer":           "Trailer cannot be set: bodies are sent with their length",
}

func parseFields(lines []string) ([]field, error) {
	var fields []field
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("expected \"Name: value\", got %q", line)
		}
		f := field{name, strings.Trim(value, " \t")}
		if err := f.check(); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func (f field) check() error {
	if !isToken(f.name) {
		return fmt.Errorf("%q is no name of a header: expected letters, digits and dashes, as in \"Accept: "+
			"text/html\"", f.name)
	}
	if why, ok := ours[strings.ToLower(f.name)]; ok {
		return errors.New(why)
	}
	if at := badInValue(f.value); at >= 0 {
		return fmt.Errorf("the value of %s holds a control character, %q, at byte %d: leave it out", f.name,
			f.value[at], at+1)
	}
	return nil
}

// badInValue returns where in the value of a field a byte is that must not be there, -1 when there is none.
func badInValue[T string | []byte](value T) int {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
	}
	return -1
}

// isToken says whether s is what RFC 9110 calls a token.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// checkMethod refuses what is no method, or one that is no plain request.
func checkMethod(method string) error {
	switch {
	case !isToken(method):
		return fmt.Errorf("%q is no method: expected GET, POST, PUT, DELETE or the like", method)
	case method != strings.ToUpper(method):
		return fmt.Errorf("methods are written in capitals: %s, not %s", strings.ToUpper(method), method)
	case method == "CONNECT" || method == "TRACE":
		return fmt.Errorf("%s cannot be used: expected GET, POST, PUT, DELETE or the like", method)
	}
	return nil
}

// checkHost refuses a Host field that would not be one.
func checkHost(host string) error {
	for i := range len(host) {
		if host[i] <= ' ' || host[i] >= 0x7f {
			return fmt.Errorf("the host %q holds a character that a Host field cannot: write it in ASCII",
				host)
		}
	}
	return nil
}

func has(fields []field, name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) })
}

// with returns fields with more in front, those of them that fields does not have.
func with(fields []field, more ...field) []field {
	more = slices.DeleteFunc(more, func(f field) bool { return has(fields, f.name) })
	return append(more, fields...)
}

// appendFields appends the rest of a request line, Host and fields, but no empty line.
func appendFields(b []byte, host string, fields []field) []byte {
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	for _, f := range fields {
		b = append(append(append(append(b, f.name...), ": "...), f.value...), "\r\n"...)
	}
	return b
}

// requestTarget is u's path and query as they stand in a request line: with everything encoded that cannot.
func requestTarget(u *url.URL) string {
	target := u.RequestURI()
	if strings.IndexFunc(target, mustEncode) < 0 {
		return target
	}
	var b strings.Builder
	for i := range len(target) {
		if c := target[i]; mustEncode(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// mustEncode says of a byte whether a URL has to encode it.
func mustEncode(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>\\^`{|}#", c) }

// unused returns a word that is not in text, of which a URL encodes nothing. No part of it is both its
// beginning and its end, so it can be found again in whatever stands around it.
func unused(text string) string {
	word := "wv"
	for strings.Contains(text, word) {
		word += "z"
	}
	return word
}

// appendLength appends Content-Length and the end of a head.
func appendLength(b []byte, n int) []byte {
	b = append(b, "Content-Length: "...)
	return append(strconv.AppendInt(b, int64(n), 10), "\r\n\r\n"...)
}

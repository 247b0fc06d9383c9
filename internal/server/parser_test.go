package server

import (
	"bufio"
	"bytes"
	"cmp"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// parse parses a whole head, as the event loop does once headEnd has found its end.
func parse(t testing.TB, raw string) (head, *parseError) {
	t.Helper()
	if size := headEnd([]byte(raw), 0); size != len(raw) {
		t.Fatalf("%q is not exactly one head: its end is at %d of %d", raw, size, len(raw))
	}
	var h head
	err := parseHead([]byte(raw), &h)
	return h, err
}

func TestHeadsThatFollowRFC9112AreAccepted(t *testing.T) {
	for _, c := range []struct {
		name, raw                   string
		method, target, path, query string
		length                      int
		flags                       headFlags
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"query", "GET /a?b=c?d HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/a?b=c?d", "/a", "b=c?d", 0, 0},
		{"empty query", "GET /a? HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/a?", "/a", "", 0, 0},
		{"escapes", "GET /%2f%C3%A9 HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/%2f%C3%A9",
			"/%2f%C3%A9", "", 0, 0},
		{"escape malformed in the query is the handler's", "GET /a?%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET",
			"/a?%zz", "/a", "%zz", 0, 0},
		{"unknown method", "M-SEARCH /a HTTP/1.1\r\nHost: a\r\n\r\n", "M-SEARCH", "/a", "/a", "", 0, 0},
		{"no space after the colon", "GET / HTTP/1.1\r\nHost:a\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"white space around a value", "GET / HTTP/1.1\r\nHost:\t a \t\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"host with port", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"empty value", "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"obs-text and tabs in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: caf\xe9\t\xff end\r\n\r\n", "GET",
			"/", "/", "", 0, 0},
		{"any token as a name", "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09Az: x\r\n\r\n", "GET", "/",
			"/", "", 0, 0},
		{"length", "POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 007 \r\n\r\n", "POST", "/", "/", "", 7, 0},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", "POST", "/", "/", "",
			0, chunked},
		{"chunked, with white space around it",
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\t chunked \r\n\r\n", "POST", "/", "/", "", 0,
			chunked},
		{"expect", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "POST",
			"/", "/", "", 3, expects},
		{"empty expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect:\r\nContent-Length: 3\r\n\r\n", "POST",
			"/", "/", "", 3, 0},
		{"upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "GET", "/",
			"/", "", 0, 0},
		{"close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: foo , CLOSE\r\n\r\n", "GET", "/", "/", "",
			0, connClose},
		{"close on a second line",
			"GET / HTTP/1.1\r\nHost: a\r\nConnection: foo\r\nConnection: close\r\n\r\n", "GET", "/", "/", "",
			0, connClose},
		{"no close in a longer word", "GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, disclose\r\n\r\n",
			"GET", "/", "/", "", 0, 0},
		{"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "GET", "/", "/", "", 0, http10 | connClose},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "GET", "/", "/", "", 0,
			http10 | keepAlive},
		{"HTTP/1.0 that stays and closes", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "GET",
			"/", "/", "", 0, http10 | connClose},
		{"keep-alive is how HTTP/1.1 is", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
			"GET", "/", "/", "", 0, 0},
		{"expectations of HTTP/1.0 are ignored",
			"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "POST", "/", "/", "", 3,
			http10 | connClose},
		{"a later minor version is HTTP/1.1", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"absolute form", "GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "http://a/b?c",
			"/b", "c", 0, 0},
		{"absolute form of another host", "GET HTTPS://a.b:8080/ HTTP/1.1\r\nHost: c\r\n\r\n", "GET",
			"HTTPS://a.b:8080/", "/", "", 0, 0},
		{"absolute form of an address", "GET http://[2001:db8::1]:80/b HTTP/1.1\r\nHost: a\r\n\r\n", "GET",
			"http://[2001:db8::1]:80/b", "/b", "", 0, 0},
		{"absolute form without a path", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "http://a",
			"/", "", 0, 0},
		{"absolute form with a query alone", "GET http://a?b=c HTTP/1.1\r\nHost: a\r\n\r\n", "GET",
			"http://a?b=c", "/", "b=c", 0, 0},
		{"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS", "*", "*", "", 0, 0},
		{"host with escapes", "GET / HTTP/1.1\r\nHost: %61.b\r\n\r\n", "GET", "/", "/", "", 0, 0},
		{"host with sub-delimiters", "GET / HTTP/1.1\r\nHost: a_b~!$&'()*+,;=-.c:0\r\n\r\n", "GET", "/",
			"/", "", 0, 0},
		{"host with an empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "GET", "/", "/", "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := parse(t, c.raw)
			if err != nil {
				t.Fatalf("refused: %d %v", err.status, err)
			}
			if h.method != c.method || string(h.target) != c.target || string(h.path) != c.path ||
				string(h.query) != c.query {
				t.Errorf("got %s %q = %q ? %q", h.method, h.target, h.path, h.query)
			}
			if h.contentLength != c.length || h.flags != c.flags || h.size != len(c.raw) {
				t.Errorf("got length %d, flags %b, size %d; want %d, %b, %d", h.contentLength, h.flags,
					h.size, c.length, c.flags, len(c.raw))
			}
		})
	}
}

// refusedHeads are requests that must be refused, by what is wrong with them.
var refusedHeads = []struct {
	name, raw string
	status    int
}{
	{"empty method", " / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"method that is no token", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"tab after the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"space at the end of the line", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
	{"no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"empty target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no version", "GET /\r\nHost: a\r\n\r\n", 400},
	{"version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
	{"version with another letter", "GET / HTTQ/1.1\r\nHost: a\r\n\r\n", 400},
	{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
	{"HTTP/3.1", "GET / HTTP/3.1\r\nHost: a\r\n\r\n", 505},
	{"a later minor version without Host", "GET / HTTP/1.9\r\n\r\n", 400},
	{"HTTP/2.0", "PRI / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
	{"control byte in the target", "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"byte above ASCII in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"escape cut off", "GET /a%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"escape without digits", "GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"line feed without CR after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
	{"CR without line feed after the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n", 400},
	{"line feed without CR in a header", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
	{"CR without line feed in a header", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n", 400},
	{"two CRs before a line feed", "GET / HTTP/1.1\r\nHost: a\r\r\nX: b\r\n\r\n", 400},
	{"NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400},
	{"DEL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n", 400},
	{"space before a colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
	{"tab before a colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 3\r\n\r\n", 400},
	{"name missing", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
	{"colon missing", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400},
	{"name that is no token", "GET / HTTP/1.1\r\nHost: a\r\nX(: b\r\n\r\n", 400},
	{"name above ASCII", "GET / HTTP/1.1\r\nHost: a\r\nX\xe9: b\r\n\r\n", 400},
	{"folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400},
	{"line folded by a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n", 400},
	{"white space before the first header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
	{"no Host", "GET / HTTP/1.1\r\nX: a\r\n\r\n", 400},
	{"no header at all", "GET / HTTP/1.1\r\n\r\n", 400},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400},
	{"Host without a name", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
	{"Host with a port alone", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
	{"Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"two equal lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
		400},
	{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
	{"list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n", 400},
	{"length with a plus", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", 400},
	{"negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", 400},
	{"hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n", 400},
	{"empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", 400},
	{"length with a space inside", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 2\r\n\r\n", 400},
	{"length that overflows", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551619\r\n\r\n",
		400},
	{"length and coding",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"coding and length",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
	{"two codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n", 400},
	{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"Host whose port is no number", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400},
	{"Host with two ports", "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", 400},
	{"Host with an open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
	{"Host with a closing bracket", "GET / HTTP/1.1\r\nHost: ::1]\r\n\r\n", 400},
	{"Host with an address without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", 400},
	{"Host with no address in brackets", "GET / HTTP/1.1\r\nHost: [a]\r\n\r\n", 400},
	{"Host with an IPv4 address in brackets", "GET / HTTP/1.1\r\nHost: [1.2.3.4]\r\n\r\n", 400},
	{"Host with a zone", "GET / HTTP/1.1\r\nHost: [fe80::1%eth0]\r\n\r\n", 400},
	{"Host with a word behind the bracket", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400},
	{"Host with a malformed escape", "GET / HTTP/1.1\r\nHost: %zz\r\n\r\n", 400},
	{"Host with an escape cut off", "GET / HTTP/1.1\r\nHost: a%2\r\n\r\n", 400},
	{"Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
	{"Host with a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
	{"absolute form without a host", "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form with a port alone", "GET http://:80/a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form with a user", "GET http://b@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form with an invalid port", "GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form with an open bracket", "GET http://[::1/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form of another scheme", "GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form with a fragment", "GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"absolute form without Host", "GET http://a/ HTTP/1.1\r\n\r\n", 400},
	{"path without a slash", "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"query without a path", "GET ?b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"asterisk in GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"asterisk and more", "OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"authority in GET", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
	{"CONNECT to a path", "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", 501},
	{"unknown expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n", 417},
	{"expectation in a list",
		"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\nContent-Length: 1\r\n\r\n", 417},
	{"coding that is not chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400},
	{"list of codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400},
	{"chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400},
	{"chunked with a prefix", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400},
	{"chunked after a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
		400},
	{"chunked, then another", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400},
	{"comma before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\n\r\n", 400},
	{"comma after chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", 400},
	{"folded coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", 400},
	{"chunked with a parameter", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n", 400},
	{"quoted coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 400},
	{"length and coding in HTTP/1.0",
		"POST / HTTP/1.0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"empty coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400},
}

func TestHeadsThatBreakRFC9112AreRefused(t *testing.T) {
	for _, c := range refusedHeads {
		t.Run(c.name, func(t *testing.T) {
			h, err := parse(t, c.raw)
			if err == nil {
				t.Fatalf("accepted as %s %q, length %d, flags %b", h.method, h.target, h.contentLength,
					h.flags)
			}
			if err.status != c.status || err.detail == "" {
				t.Errorf("got %d %q, want %d and a detail", err.status, err.detail, c.status)
			}
		})
	}
}

// What the parser accepts, http.ReadRequest must read the same way: a request that two readers
// frame or route differently is how requests are smuggled.
func FuzzParseHead(f *testing.F) {
	f.Add([]byte("GET /feed/1?size=3 HTTP/1.1\r\nHost: weir:80\r\nAccept: */*\r\nX:\ta\t\xff \r\n\r\n"))
	f.Add([]byte("POST //a;b/%2F?%zz#? HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 0012\r\n\r\n"))
	f.Add(
		[]byte("PUT /\"{}|^` HTTP/1.1\r\nHost:\r\nTransfer-Encoding:chunked\r\nConnection: a,close\r\n\r\n"))
	f.Add([]byte("CONNECT /a HTTP/1.0\r\nPragma: no-cache\r\nExpect: x\r\nTrailer: Content-Length\r\n\r\n"))
	f.Add([]byte("POST /a HTTP/1.1\r\nHost:\r\nContent-Length: 1\r\ncontent-encoding: Identity \r\n" +
		"Content-Encoding:\tgzip\r\n\r\n"))
	f.Add([]byte("GET http://a.b:80?c=d HTTP/1.0\r\nConnection: x,keep-alive\r\n\r\n"))
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-Continue\r\n\r\n"))
	for _, c := range refusedHeads {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		size := headEnd(raw, 0)
		if size == 0 {
			return
		}
		var h head
		if err := parseHead(raw[:size], &h); err != nil {
			if err.status < 400 || err.detail == "" {
				t.Fatalf("refused by status %d, detail %q", err.status, err.detail)
			}
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw[:size])))
		if err != nil {
			t.Fatalf("accepted what http.ReadRequest refuses: %v", err)
		}
		if h.method != want.Method || string(h.target) != want.RequestURI {
			t.Fatalf("read %s %q, http.ReadRequest %s %q", h.method, h.target, want.Method, want.RequestURI)
		}
		if string(h.query) != want.URL.RawQuery {
			t.Fatalf("query %q, http.ReadRequest %q", h.query, want.URL.RawQuery)
		}
		if path := want.URL.EscapedPath(); want.URL.Host != "" && string(h.path) != cmp.Or(path, "/") &&
			!strings.ContainsAny(path, "\\\"<>^`{|}[]") {
			t.Fatalf("path %q, http.ReadRequest %q", h.path, path)
		}
		length := want.ContentLength
		isChunked := len(want.TransferEncoding) == 1 && want.TransferEncoding[0] == "chunked"
		if isChunked {
			length = 0
		}
		if got := h.flags&chunked != 0; got != isChunked {
			t.Fatalf("chunked %t, http.ReadRequest %t", got, isChunked)
		}
		if int64(h.contentLength) != length {
			t.Fatalf("content length %d, http.ReadRequest %d", h.contentLength, want.ContentLength)
		}
		if close := h.flags&connClose != 0; close != want.Close {
			t.Fatalf("close %t, http.ReadRequest %t", close, want.Close)
		}
		if got := h.flags&coded != 0; length > 0 && got != isCoded(want) {
			t.Fatalf("coded %t for the Content-Encoding %q", got, want.Header["Content-Encoding"])
		}
		r := Request{header: h.header}
		if host := r.Header("host"); want.URL.Host == "" && string(host) != want.Host {
			t.Fatalf("host %q, http.ReadRequest %q", host, want.Host)
		}
		for name, values := range want.Header {
			if name == "Cache-Control" {
				continue // http.ReadRequest makes one of Pragma
			}
			if got := r.Header(name); string(got) != values[0] {
				t.Fatalf("header %s is %q, http.ReadRequest %q", name, got, values[0])
			}
		}
	})
}

// A head found piece by piece must end where the whole one does, and what is refused early must
// be something the whole is refused for.
func FuzzHeadInPieces(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest\r\n\r\n"), uint64(1))
	f.Add([]byte("GET / HTTP/1.1\nHost: a\r\n\r\n"), uint64(2))
	f.Add([]byte("\r\r\n\n\r\n\r\r\n\r\n"), uint64(3))
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		want := headEnd(raw, 0)
		scanned, refused := 0, false
		for n := 0; n < len(raw); {
			n += 1 + rnd.IntN(len(raw)-n)
			size := headEnd(raw[:n], scanned)
			if size > 0 {
				if size != want {
					t.Fatalf("the head ends at %d, found whole at %d", size, want)
				}
				break
			}
			if want > 0 && n >= want {
				t.Fatalf("the end at %d was missed with %d bytes there, %d scanned before", want, n, scanned)
			}
			if checkPartial(raw[:n], scanned) != nil {
				refused = true
				break
			}
			scanned = n
		}
		if bare := bareLineFeed(raw[:max(want, 0)]); refused && want > 0 && !bare {
			t.Fatal("refused early, but nothing is wrong with it")
		}
		if refused && want > 0 {
			var h head
			if err := parseHead(raw[:want], &h); err == nil {
				t.Fatal("refused early, accepted whole")
			}
		}
	})
}

func bareLineFeed(b []byte) bool {
	return strings.Contains(strings.ReplaceAll(string(b), "\r\n", ""), "\n")
}

// The event loop goes on with scanned = size while a body is coming: the end of the head must be
// found again then, whatever the body holds.
func TestHeadEndIsFoundAgainWhileTheBodyComes(t *testing.T) {
	head := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n"
	for scanned := range len(head) {
		if got := headEnd([]byte(head+"\r\n\r\nbody"), scanned); got != len(head) {
			t.Fatalf("with %d of %d bytes scanned the head ends at %d", scanned, len(head), got)
		}
	}
}

func TestLengthsBeyondAnIntAreRefused(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{{"0", true}, {"1048576", true}, {"922337203685477580", true}, {"9223372036854775808", false},
		{strings.Repeat("9", 400), false}} {
		n, ok := parseLength([]byte(c.in))
		if ok != c.ok || ok && strconv.Itoa(n) != c.in {
			t.Errorf("%s: got %d, %t", c.in, n, ok)
		}
	}
}

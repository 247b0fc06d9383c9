package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
)

// head is a parsed request head. Its slices point into the buffer it was parsed from.
type head struct {
	method        string // interned for the registered methods
	target        []byte
	path, query   []byte // of the target; the path is "*" in OPTIONS *
	header        []byte // field lines with their CRLFs, without the empty line
	size          int    // of the head, the empty line included
	contentLength int    // 0 when absent
	flags         headFlags
}

type headFlags uint8

const (
	// connClose: the connection ends with the answer, by the client's wish or because HTTP/1.0 does so.
	connClose headFlags = 1 << iota
	// keepAlive: an HTTP/1.0 client asked for the connection to stay open, and must be told that it does.
	keepAlive
	// chunked: the body is chunked; else contentLength is its length.
	chunked
	// expects: the client may wait for 100 (Continue) before it sends the body.
	expects
	// coded: the body, if there is one, has a content coding.
	coded
	// http10: the request is in HTTP/1.0.
	http10
)

// answerKeepAlive says in the answer to an HTTP/1.0 request that the connection stays open, if the client
// asked for that.
func (h *head) answerKeepAlive(w *Response) {
	if h.flags&keepAlive != 0 {
		w.Field("Connection", "keep-alive")
	}
}

// appendFramed appends the head as net/http gets it, with what says where the request ends and what becomes
// of the connection left out and said anew. So there is one way only to read it.
func (h *head) appendFramed(dst []byte, length int) []byte {
	dst = append(dst, h.method...)
	dst = append(dst, ' ')
	dst = append(dst, h.target...)
	if h.flags&http10 != 0 {
		dst = append(dst, " HTTP/1.0\r\n"...) // its answer must not be chunked
	} else {
		dst = append(dst, " HTTP/1.1\r\n"...)
	}
	for rest := h.header; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if name := rest[:bytes.IndexByte(rest, ':')]; !slices.ContainsFunc(framingFields,
			func(f string) bool { return equalFold(name, f) }) {
			dst = append(dst, rest[:end]...)
		}
		rest = rest[end:]
	}
	if length > 0 {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(length), 10)
		dst = append(dst, "\r\n"...)
	}
	switch {
	case h.flags&connClose != 0:
		dst = append(dst, "Connection: close\r\n"...)
	case h.flags&keepAlive != 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// framingFields say where a request ends, or what becomes of the connection.
var framingFields = []string{"connection", "content-length", "transfer-encoding", "trailer",
	"expect", "upgrade"}

// parseError is a request the parser refuses: a status and what is wrong.
type parseError struct {
	status int
	detail string
}

func (e *parseError) Error() string { return e.detail }

func bad(detail string) *parseError { return &parseError{http.StatusBadRequest, detail} }

var (
	errRequestLine = bad("the request line must be: method, space, target, space, HTTP/1.1")
	errTarget      = bad("the request target holds a byte that must be percent-encoded")
	errTargetForm  = bad("the request target must be a path, or http:// or https:// with a host and a path")
	errTargetHost  = bad(
		"the host of the request target must be a name or an address, and perhaps a colon and a port")
	errAsterisk = bad("the request target * is for OPTIONS alone")
	errConnect  = &parseError{http.StatusNotImplemented,
		"there are no tunnels here: CONNECT is not implemented"}
	errEscape  = bad("a percent-escape in the path is not followed by two hexadecimal digits")
	errVersion = &parseError{http.StatusHTTPVersionNotSupported,
		"only HTTP/1.1 and HTTP/1.0 are spoken here; HTTP/2 on the TLS port"}
	errFold        = bad("a header line begins with white space (obsolete line folding)")
	errName        = bad("a header name is empty, holds a forbidden byte, or is followed by white space")
	errValue       = bad("a header value holds a control byte")
	errLineEnd     = bad("a line must end with CR LF, and CR stand nowhere else")
	errHostMissing = bad("an HTTP/1.1 request needs a Host header")
	errHostTwice   = bad("more than one Host header")
	errHost        = bad("the Host header must be a name or an address, and perhaps a colon and a port")
	errLengthTwice = bad("more than one Content-Length header")
	errLength      = bad("Content-Length must be a decimal number")
	errLengthAndTE = bad("both Content-Length and Transfer-Encoding")
	errTETwice     = bad("more than one Transfer-Encoding header")
	errTE          = bad("Transfer-Encoding must be exactly: chunked")
	errExpect      = &parseError{http.StatusExpectationFailed,
		"the only expectation met here is 100-continue"}
	errTEVersion = bad("Transfer-Encoding in an HTTP/1.0 request")
	// errRequestTimeout is the event loop's and net/http's to find.
	errRequestTimeout = &parseError{http.StatusRequestTimeout, "the request did not arrive in time"}
	errHeaderTooLong  = &parseError{http.StatusRequestHeaderFieldsTooLarge,
		"the request line and headers are too long"}
	errTargetTooLong = &parseError{http.StatusRequestURITooLong, "the request line is too long"}
	errEmptyLines    = bad("too many empty lines before a request")
	errEnd           = bad("the connection ended before the request did")
)

var crlfcrlf = []byte("\r\n\r\n")

// headEnd returns the size of the head at the start of buf, its empty line included, or 0 when
// it has not wholly arrived. scanned is how much of buf an earlier call has seen, so that a head
// that comes byte by byte is scanned once.
func headEnd(buf []byte, scanned int) int {
	from := max(scanned-3, 0)
	i := bytes.Index(buf[from:], crlfcrlf)
	if i < 0 {
		return 0
	}
	return from + i + 4
}

// checkPartial refuses early what can never become a valid head: a line feed without its
// carriage return, after which the empty line would be waited for in vain.
func checkPartial(buf []byte, scanned int) *parseError {
	for i := scanned; i < len(buf); {
		j := bytes.IndexByte(buf[i:], '\n')
		if j < 0 {
			return nil
		}
		if i += j; i == 0 || buf[i-1] != '\r' {
			return errLineEnd
		}
		i++
	}
	return nil
}

// headTooLong returns what is wrong with a head that does not end within the first most bytes of buf.
func headTooLong(buf []byte, most int) *parseError {
	switch start := buf[:min(most, len(buf))]; {
	case bytes.IndexByte(start, '\n') >= 0:
		return errHeaderTooLong
	case bytes.IndexByte(start, ' ') >= 0:
		return errTargetTooLong
	default:
		return errRequestLine // not even the method ends
	}
}

// parseHead parses a whole head, which ends with an empty line. It accepts nothing that
// http.ReadRequest refuses, and less: see RFC 9112 sections 2.2, 3, 5 and 6.3.
func parseHead(buf []byte, h *head) *parseError {
	h.size = len(buf)
	h.flags = 0
	h.contentLength = 0

	// Request line.
	eol := bytes.IndexByte(buf, '\r')
	if eol < 0 || buf[eol+1] != '\n' {
		return errLineEnd
	}
	line := buf[:eol]
	sp := bytes.IndexByte(line, ' ')
	if sp <= 0 {
		return errRequestLine
	}
	if h.method = methodName(line[:sp]); h.method == "" {
		return errRequestLine
	}
	line = line[sp+1:]
	// The version is the last nine bytes: SP "HTTP/1.1".
	n := len(line) - len(" HTTP/1.1")
	if n < 1 || line[n] != ' ' {
		return errRequestLine
	}
	switch binary.LittleEndian.Uint64(line[n+1:]) {
	case versionHTTP11:
	case versionHTTP10:
		h.flags |= http10
	default:
		v := line[n+1:]
		if string(v[:5]) != "HTTP/" || !isDigit(v[5]) || v[6] != '.' || !isDigit(v[7]) {
			return errRequestLine
		}
		if v[5] != '1' { // a later minor version is to be taken for the last that is known (RFC 9110, 2.5)
			return errVersion
		}
	}
	h.target = line[:n]
	h.path, h.query = h.target, nil
	if line[0] != '/' || h.method == http.MethodConnect {
		if err := h.otherForm(); err != nil {
			return err
		}
	}
	for i, c := range h.path {
		switch class := classes[c]; {
		case class&inTarget == 0:
			return errTarget
		case c == '%' && h.query == nil:
			if i+2 >= len(h.path) || unhex(h.path[i+1]) > 15 || unhex(h.path[i+2]) > 15 {
				return errEscape
			}
		case c == '?' && h.query == nil:
			h.query = h.path[i+1:]
		}
	}
	if h.query != nil {
		h.path = h.path[:len(h.path)-len(h.query)-1]
	}

	// Field lines.
	h.header = buf[eol+2 : len(buf)-2]
	hosts, lengths, codings := 0, 0, 0
	for rest := h.header; len(rest) > 0; {
		name := 0
		for classes[rest[name]]&inToken != 0 {
			name++ // ends at the latest at the line's CR, which is no token byte
		}
		if name == 0 || rest[name] != ':' {
			if c := rest[0]; c == ' ' || c == '\t' {
				return errFold
			}
			return errName
		}
		end := valueEnd(rest, name+1)
		if rest[end] != '\r' {
			return errValue
		}
		if rest[end+1] != '\n' {
			return errLineEnd
		}
		// The few fields that matter for framing, told apart by length first.
		switch name {
		case len("host"):
			if equalFold(rest[:name], "host") {
				if hosts++; hosts > 1 {
					return errHostTwice
				}
				if !isHost(trimOWS(rest[name+1 : end])) {
					return errHost
				}
			}
		case len("expect"):
			if value := trimOWS(rest[name+1 : end]); len(value) > 0 && h.flags&http10 == 0 &&
				equalFold(rest[:name], "expect") {
				if !equalFold(value, "100-continue") {
					return errExpect
				}
				h.flags |= expects
			}
		case len("connection"):
			if equalFold(rest[:name], "connection") {
				value := rest[name+1 : end]
				if hasToken(value, "close") {
					h.flags |= connClose
				}
				if h.flags&http10 != 0 && hasToken(value, "keep-alive") {
					h.flags |= keepAlive
				}
			}
		case len("content-length"):
			if equalFold(rest[:name], "content-length") {
				if lengths++; lengths > 1 {
					return errLengthTwice
				}
				length, ok := parseLength(trimOWS(rest[name+1 : end]))
				if !ok {
					return errLength
				}
				h.contentLength = length
			}
		case len("content-encoding"):
			if equalFold(rest[:name], "content-encoding") && isCoding(trimOWS(rest[name+1:end])) {
				h.flags |= coded
			}
		case len("transfer-encoding"):
			if equalFold(rest[:name], "transfer-encoding") {
				if codings++; codings > 1 {
					return errTETwice
				}
				if !equalFold(trimOWS(rest[name+1:end]), "chunked") {
					return errTE
				}
				h.flags |= chunked
			}
		}
		rest = rest[end+2:]
	}
	switch {
	case hosts == 0 && h.flags&http10 == 0:
		return errHostMissing
	case codings > 0 && lengths > 0:
		return errLengthAndTE
	case codings > 0 && h.flags&http10 != 0:
		return errTEVersion
	}
	if h.flags&connClose != 0 || h.flags&(http10|keepAlive) == http10 {
		h.flags = h.flags&^keepAlive | connClose
	}
	return nil
}

// valueEnd returns the index of the first byte from i on that may not stand in a field value: a control byte
// other than the tab. A head ends with CR LF, so there is always one.
func valueEnd(b []byte, i int) int {
	for i < len(b) && classes[b[i]]&inValue != 0 {
		i++
	}
	return i
}

// parseLength reads a Content-Length. One that an int does not hold is refused, as
// http.ReadRequest does.
func parseLength(b []byte) (int, bool) {
	if len(b) == 0 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		if n > (math.MaxInt-9)/10 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// isCoding reports whether the value of a Content-Encoding field is one that changes the body.
func isCoding(value []byte) bool { return len(value) > 0 && !equalFold(value, "identity") }

// hasToken reports whether a comma-separated list holds the token.
func hasToken(list []byte, token string) bool {
	for item := range bytes.SplitSeq(list, []byte{','}) {
		if equalFold(trimOWS(item), token) {
			return true
		}
	}
	return false
}

// methodName returns the method as a string, without allocating for the registered ones, or ""
// when it is no token.
func methodName(b []byte) string {
	switch string(b) {
	case http.MethodGet:
		return http.MethodGet
	case http.MethodPost:
		return http.MethodPost
	case http.MethodHead:
		return http.MethodHead
	case http.MethodPut:
		return http.MethodPut
	case http.MethodDelete:
		return http.MethodDelete
	case http.MethodOptions:
		return http.MethodOptions
	case http.MethodPatch:
		return http.MethodPatch
	}
	for _, c := range b {
		if classes[c]&inToken == 0 {
			return ""
		}
	}
	return string(b)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

const (
	versionHTTP11 = uint64('H') | 'T'<<8 | 'T'<<16 | 'P'<<24 | '/'<<32 | '1'<<40 | '.'<<48 | '1'<<56
	versionHTTP10 = uint64('H') | 'T'<<8 | 'T'<<16 | 'P'<<24 | '/'<<32 | '1'<<40 | '.'<<48 | '0'<<56
)

// Byte classes: RFC 9110 tokens, and what RFC 3986 lets stand in a target and in a host.
const (
	inToken = 1 << iota
	inTarget
	inHost
	inValue
)

var classes, lower = func() (classes, lower [256]byte) {
	for c := range 256 {
		lower[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			lower[c] = byte(c) + 'a' - 'A'
		}
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if alphanumeric || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0 {
			classes[c] |= inToken
		}
		// Browsers send a few bytes raw that RFC 3986 wants escaped ("|^`{}\""<>); they are
		// harmless and net/http takes them too.
		if c > ' ' && c < 0x7f && c != '#' {
			classes[c] |= inTarget
		}
		if c >= ' ' && c != 0x7f || c == '\t' {
			classes[c] |= inValue
		}
		if alphanumeric || bytes.IndexByte([]byte("-._~!$&'()*+,;="), byte(c)) >= 0 {
			classes[c] |= inHost
		}
	}
	return classes, lower
}()

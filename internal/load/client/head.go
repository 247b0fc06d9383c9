package client

import "bytes"

// The lengths of bodies that no Content-Length tells.
const (
	lengthChunked = -1
	lengthToEnd   = -2 // of the connection
)

// maxHead bounds the head of an answer, interim ones before it included.
const maxHead = 64 << 10

// malformed is why an answer is none by RFC 9112.
type malformed string

func (m malformed) Error() string { return string(m) }

const (
	errStatusLine = malformed("the status line is not HTTP/1.1 or HTTP/1.0 and three digits")
	errField      = malformed("a header field has no name, a name that is no token, or no colon")
	errFieldValue = malformed("a header field's value has a control character")
	errLineEnd    = malformed("a line of the head does not end in CR LF")
	errLength     = malformed("Content-Length is no number, or comes twice")
	errCoding     = malformed(
		"the Transfer-Encoding is not chunked alone, is beside a Content-Length, or in HTTP/1.0")
	errTrailer  = malformed("Trailer announces a field of the framing")
	errSwitch   = malformed("101 without having been asked to switch")
	errLongHead = malformed("the head is longer than 64 KiB")
)

// head is what the head of an answer says. The bytes of etag and lastModified are the head's own.
type head struct {
	status             int
	length             int64 // of the body, or lengthChunked or lengthToEnd
	close              bool  // no request may follow on the connection
	etag, lastModified []byte
}

// The classes of bytes.
const (
	isToken = 1 << iota // of field names
	isValue             // of field values and reason phrases
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z',
			bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0:
			t[c] = isToken | isValue
		case c == '\t', ' ' <= c && c != 0x7f:
			t[c] = isValue
		}
	}
	return t
}()

var headEnd = []byte("\r\n\r\n")

// parseHead reads the head that p begins with and that ends where p ends. toHEAD says that the request was
// one, so that there is no body whatever the fields say.
func parseHead(p []byte, toHEAD bool) (h head, err error) {
	// HTTP/1.1 200 OK
	if len(p) < 14 || string(p[:7]) != "HTTP/1." || p[7]&^1 != '0' || p[8] != ' ' {
		return h, errStatusLine
	}
	old := p[7] == '0'
	for _, c := range p[9:12] {
		if c < '0' || c > '9' {
			return h, errStatusLine
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 || p[12] != ' ' && p[12] != '\r' {
		return h, errStatusLine
	}
	_, rest, err := line(p[12:])
	if err != nil {
		return h, err
	}
	var (
		length     int64 = lengthToEnd
		chunked    bool
		keep, shut bool
	)
	for len(rest) > 2 {
		colon := 0
		for colon < len(rest) && classes[rest[colon]]&isToken != 0 {
			colon++
		}
		if colon == 0 || colon == len(rest) || rest[colon] != ':' {
			return h, errField
		}
		name := rest[:colon]
		var value []byte
		if value, rest, err = line(rest[colon+1:]); err != nil {
			return h, err
		}
		// The names that matter, by length first: a switch on bytes would compare with each.
		switch len(name) {
		case 4:
			if equalFold(name, "etag") {
				h.etag = trim(value)
			}
		case 7:
			if equalFold(name, "trailer") && announcesFraming(value) {
				return h, errTrailer
			}
		case 10:
			if equalFold(name, "connection") {
				for option := range elements(value) {
					shut = shut || equalFold(option, "close")
					keep = keep || equalFold(option, "keep-alive")
				}
			}
		case 13:
			if equalFold(name, "last-modified") {
				h.lastModified = trim(value)
			}
		case 14:
			if equalFold(name, "content-length") {
				if length >= 0 {
					return h, errLength
				}
				if length, err = decimal(trim(value)); err != nil {
					return h, err
				}
			}
		case 17:
			if equalFold(name, "transfer-encoding") {
				if chunked || old || !equalFold(trim(value), "chunked") {
					return h, errCoding
				}
				chunked = true
			}
		}
	}
	if chunked && length >= 0 {
		return h, errCoding
	}
	h.close = shut || old && !keep
	switch {
	case h.status == 101:
		return h, errSwitch
	case toHEAD, h.status < 200, h.status == 204, h.status == 304:
		h.length = 0
	case chunked:
		h.length = lengthChunked
	default:
		h.length = length
		h.close = h.close || length == lengthToEnd
	}
	return h, nil
}

// line returns p up to its first CR, which a LF must follow, and what comes after. Nothing in it is a
// control character.
func line(p []byte) (l, rest []byte, err error) {
	for i, c := range p {
		if classes[c]&isValue != 0 {
			continue
		}
		if c != '\r' {
			if c == '\n' {
				return nil, nil, errLineEnd
			}
			return nil, nil, errFieldValue
		}
		if i+1 == len(p) || p[i+1] != '\n' {
			return nil, nil, errLineEnd
		}
		return p[:i], p[i+2:], nil
	}
	return nil, nil, errLineEnd
}

func equalFold(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func trim(p []byte) []byte { return bytes.Trim(p, " \t") }

func elements(p []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for more := true; more; {
			var e []byte
			e, p, more = bytes.Cut(p, comma)
			if e = trim(e); len(e) > 0 && !yield(e) {
				return
			}
		}
	}
}

var comma = []byte{','}

// announcesFraming says whether a Trailer field names one that a trailer must not have.
func announcesFraming(value []byte) bool {
	for name := range elements(value) {
		if equalFold(name, "content-length") || equalFold(name, "transfer-encoding") ||
			equalFold(name, "trailer") {
			return true
		}
	}
	return false
}

// decimal reads digits and nothing else, up to 18 of them.
func decimal(p []byte) (n int64, err error) {
	if len(p) == 0 || len(p) > 18 {
		return 0, errLength
	}
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, errLength
		}
		n = 10*n + int64(c-'0')
	}
	return n, nil
}

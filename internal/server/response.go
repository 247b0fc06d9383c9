package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Response is what a handler fills in. The kernel owns it and its memory; a handler appends
// to Body and sets the rest before it returns.
type Response struct {
	// Status is 200 unless set.
	Status int
	// ContentType is application/json unless set.
	ContentType string
	// Body is appended to.
	Body []byte

	header  []byte // further field lines, each with its CRLF
	pieces  [][]byte
	release func()
	unmade  int // bytes of the body of a HEAD's answer that were not made
}

const jsonType = "application/json"

// reset makes w ready for the next request, keeping its memory.
func (w *Response) reset() {
	w.Status = http.StatusOK
	w.ContentType = jsonType
	w.Body = w.Body[:0]
	w.header = w.header[:0]
	w.pieces, w.release, w.unmade = nil, nil, 0
}

// Pieces adds slices to the body, behind Body, that are sent as they are, without being copied together. They
// must not change until release is called, once: when they are sent, or nobody is there to get them. It may
// be called on an event loop.
func (w *Response) Pieces(release func(), pieces ...[]byte) { w.pieces, w.release = pieces, release }

// Unmade says how long the body of the answer to a HEAD would be, besides what was made of it.
func (w *Response) Unmade(bytes int) { w.unmade = bytes }

// length returns the length of the body.
func (w *Response) length() int {
	n := len(w.Body) + w.unmade
	for _, p := range w.pieces {
		n += len(p)
	}
	return n
}

// drop lets go of the pieces, which are not to be sent or have been.
func (w *Response) drop() {
	if w.release != nil {
		w.release()
	}
	w.pieces, w.release, w.unmade = nil, nil, 0
}

// Field adds a header field. Name and value must be valid and free of secrets; Content-Type,
// Content-Length, Date and Connection are the kernel's.
func (w *Response) Field(name, value string) {
	w.header = append(w.header, name...)
	w.header = append(w.header, ": "...)
	w.header = append(w.header, value...)
	w.header = append(w.header, "\r\n"...)
}

// Fields adds header fields that are rendered already, each with its CRLF.
func (w *Response) Fields(lines []byte) { w.header = append(w.header, lines...) }

// FieldInt is Field for a number, and allocates as little.
func (w *Response) FieldInt(name string, n int) {
	w.header = append(w.header, name...)
	w.header = append(w.header, ": "...)
	w.header = strconv.AppendInt(w.header, int64(n), 10)
	w.header = append(w.header, "\r\n"...)
}

// JSON appends a value that can be marshalled to the body.
func (w *Response) JSON(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: an answer that cannot be marshalled: " + err.Error())
	}
	w.Body = append(w.Body, text...)
}

// Clear takes back what was answered so far.
func (w *Response) Clear() {
	w.drop()
	w.reset()
}

// Problem replaces the answer by a problem document (RFC 9457). The detail says what to change
// and holds nothing internal.
func (w *Response) Problem(status int, detail string) {
	w.ProblemTitle(status, http.StatusText(status), detail)
}

// ProblemTitle is Problem with a title of its own.
func (w *Response) ProblemTitle(status int, title, detail string) {
	w.problem(status, title, detail, 1)
}

// problem is ProblemTitle for those who should come again after as many seconds, if the status says that.
func (w *Response) problem(status int, title, detail string, retryAfter int) {
	w.Status = status
	w.ContentType = problemType
	w.header = w.header[:0]
	w.drop()
	w.Body = AppendProblem(w.Body[:0], status, title, detail)
	w.Field("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.FieldInt("Retry-After", retryAfter)
	}
}

// Extend adds a member to the problem document that is the answer, and replaces none of its own.
func (w *Response) Extend(name string, v any) {
	w.Body = appendJSONString(append(w.Body[:len(w.Body)-1], ','), name)
	w.Body = append(w.Body, ':')
	w.JSON(v)
	w.Body = append(w.Body, '}')
}

// Write sends the answer by net/http: for HTTP handlers that share their code with a fast one. A
// Response of theirs is the zero one.
func (w *Response) Write(to http.ResponseWriter, r *http.Request) {
	w.write(to, r.Method != http.MethodHead)
}

func (w *Response) write(to http.ResponseWriter, body bool) {
	h := to.Header()
	for rest := string(w.header); rest != ""; {
		line, tail, _ := strings.Cut(rest, "\r\n")
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
		rest = tail
	}
	status, contentType := cmp.Or(w.Status, http.StatusOK), cmp.Or(w.ContentType, jsonType)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(w.length()))
	}
	to.WriteHeader(status)
	if body {
		to.Write(w.Body) //nolint:errcheck // the client may be gone
		for _, p := range w.pieces {
			to.Write(p) //nolint:errcheck // as above
		}
	}
	w.drop()
}

const problemType = "application/problem+json"

// AppendProblem appends a problem document (RFC 9457) to dst. The type is about:blank: the status says all a
// program needs, the detail is for people. It is there as error, too, which is where clients of the Open
// Inference Protocol look, of whatever went wrong.
func AppendProblem(dst []byte, status int, title, detail string) []byte {
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = appendJSONString(dst, title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"detail":`...)
	from := len(dst)
	dst = appendJSONString(dst, detail)
	quoted := dst[from:]
	dst = append(dst, `,"error":`...)
	return append(append(dst, quoted...), '}')
}

// appendJSONString is off the hot path: encoding/json knows how to quote.
func appendJSONString(dst []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a string that cannot be marshalled: " + err.Error())
	}
	return append(dst, quoted...)
}

// WriteProblem answers a request on net/http with a problem document.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	var p Response
	p.Problem(status, detail)
	p.write(w, true)
}

// heads renders response heads. The head of nearly every answer, a 200 with JSON, is kept
// rendered up to the digits of its Content-Length and rebuilt once a second for its Date.
type heads struct {
	second int64 // of the Date rendered
	date   []byte
	okJSON []byte
}

// tick refreshes the Date; it is to be called whenever a clock has been read anyway.
func (h *heads) tick(now time.Time) {
	if s := now.Unix(); s != h.second || h.date == nil {
		h.second = s
		h.date = append(now.UTC().AppendFormat(append(h.date[:0], "Date: "...), http.TimeFormat), "\r\n"...)
		h.okJSON = append(h.okJSON[:0], "HTTP/1.1 200 OK\r\n"...)
		h.okJSON = append(h.okJSON, h.date...)
		h.okJSON = append(h.okJSON, "Content-Type: "+jsonType+"\r\nContent-Length: "...)
	}
}

// append appends the whole answer in w to dst: head and, unless the request was a HEAD, body without its
// pieces.
func (h *heads) append(dst []byte, w *Response, headOnly, closing bool) []byte {
	if w.Status == http.StatusOK && w.ContentType == jsonType {
		dst = append(dst, h.okJSON...)
	} else {
		dst = append(dst, "HTTP/1.1 "...)
		dst = strconv.AppendInt(dst, int64(w.Status), 10)
		dst = append(dst, ' ')
		dst = append(dst, http.StatusText(w.Status)...)
		dst = append(dst, "\r\n"...)
		dst = append(dst, h.date...)
		if w.Status == http.StatusNoContent || w.Status == http.StatusNotModified {
			dst = append(dst, w.header...)
			return appendEnd(dst, closing)
		}
		dst = append(dst, "Content-Type: "...)
		dst = append(dst, w.ContentType...)
		dst = append(dst, "\r\nContent-Length: "...)
	}
	dst = strconv.AppendUint(dst, uint64(w.length()), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, w.header...)
	dst = appendEnd(dst, closing)
	if headOnly {
		return dst
	}
	return append(dst, w.Body...)
}

func appendEnd(dst []byte, closing bool) []byte {
	if closing {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

package server

import (
	"bytes"
	"net/http"
	"time"
)

// NotModified says which version of a thing an answer has, by a quoted tag, "" for none, and by when it was
// modified, the zero time for unknown. When the client has that version already it makes the answer a 304 and
// returns true (RFC 9110, 13.1.2 and 13.1.3).
func NotModified(w *Response, r *Request, tag string, modified time.Time) bool {
	if tag != "" {
		w.Field("ETag", tag)
	}
	if !modified.IsZero() {
		w.Field("Last-Modified", modified.UTC().Format(http.TimeFormat))
	}
	if !Has(r, tag, modified) {
		return false
	}
	w.Status = http.StatusNotModified
	return true
}

// Has says whether the client has what is answered already, by its conditions (RFC 9110, section 13).
func Has[T string | []byte](r *Request, tag T, modified time.Time) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	asked := false
	for field := range r.HeaderValues("If-None-Match") {
		asked = true
		for one := range bytes.SplitSeq(field, []byte{','}) {
			one = trimOWS(one)
			if string(one) == "*" || len(tag) > 0 &&
				string(bytes.TrimPrefix(one, weak)) == string(bytes.TrimPrefix([]byte(tag), weak)) {
				return true
			}
		}
	}
	if asked || modified.IsZero() {
		return false
	}
	since, err := http.ParseTime(string(r.Header("If-Modified-Since")))
	return err == nil && !modified.Truncate(time.Second).After(since)
}

var weak = []byte("W/")

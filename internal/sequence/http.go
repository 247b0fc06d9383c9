package sequence

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/server"
)

// Routes implements server.Service.
func (s *Sequence) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /current", Fast: s.fastStep(stay), HTTP: s.lentStep(stay)},
		{Pattern: "GET /next", Fast: s.fastStep(forward), HTTP: s.lentStep(forward)},
		{Pattern: "GET /previous", Fast: s.fastStep(back), HTTP: s.lentStep(back)},
		{Pattern: "GET /fib/{n}", Fast: s.fastValue, HTTP: http.HandlerFunc(s.lentValue)},
		{Pattern: "GET /fib", HTTP: http.HandlerFunc(s.values), Class: server.Low},
		{Pattern: "PUT /current", Admin: true, HTTP: http.HandlerFunc(s.putCurrent)},
		{Pattern: "GET /debug/cache", Admin: true, HTTP: http.HandlerFunc(s.getCache)},
	}
}

const (
	notSaved  = "the index cannot be saved at the moment, so it does not move"
	immutable = "public, max-age=31536000, immutable"
)

func (s *Sequence) atEnd() string {
	return "the index is at its maximum, " + strconv.FormatUint(s.cfg.MaxIndex, 10) + ", and has not moved"
}

// fastStep answers GET /current, /next and /previous where the value is at hand, and lends the
// request where it is not. A HEAD moves nothing.
func (s *Sequence) fastStep(step step) server.Handler {
	return func(w *server.Response, r *server.Request) {
		for {
			at := s.at()
			to, err := s.target(at, step)
			if err != nil {
				w.Problem(http.StatusConflict, s.atEnd())
				return
			}
			h, ok := s.find(to)
			if !ok {
				w.Low() // it will be computed
				w.Lend()
				return
			}
			if r.Method != http.MethodHead {
				moved, err := s.move(at, to)
				if err != nil {
					h.drop()
					w.Problem(http.StatusServiceUnavailable, notSaved)
					return
				}
				if !moved {
					h.drop()
					continue
				}
			}
			w.Field("Cache-Control", "no-store")
			w.Body = s.give(w.Body, &h, object, r.Stripe)
			return
		}
	}
}

// fastValue answers GET /fib/{n} where the value is at hand, or the client has it.
func (s *Sequence) fastValue(w *server.Response, r *server.Request) {
	n, ok := parseIndex(string(r.Param(0)), s.cfg.MaxIndex)
	if !ok {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("n", 0))
		return
	}
	format := object
	for q := r.Query; ; {
		key, value, rest, more, ok := r.NextQuery(q)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, wrongQuery)
			return
		}
		if !more {
			break
		}
		q = rest
		if string(key) == "format" {
			if format, ok = parseFormat(string(value)); !ok {
				w.Problem(http.StatusUnprocessableEntity, wrongFormat)
				return
			}
		}
	}
	if format == text && (r.Header("Range") != nil || r.Header("If-Match") != nil) { // http.ServeContent's
		w.Lend()
		return
	}
	var memory [64]byte
	tag := appendTag(memory[:0], n, format)
	if match := r.Header("If-None-Match"); match != nil && matches(match, tag) {
		w.Status = http.StatusNotModified
		w.Field("Etag", string(tag))
		w.Field("Cache-Control", immutable)
		return
	}
	h, ok := s.find(n)
	if !ok {
		w.Low() // it will be computed
		w.Lend()
		return
	}
	if format == text {
		w.ContentType = textType
		w.Field("Accept-Ranges", "bytes")
	}
	w.Field("Etag", string(tag))
	w.Field("Cache-Control", immutable)
	w.Body = s.give(w.Body, &h, format, r.Stripe)
}

const (
	textType    = "text/plain; charset=utf-8"
	wrongFormat = "format must be json or text"
	wrongQuery  = "the query holds a malformed percent-escape"
)

// wrongIndex is the detail about a parameter that is no index, or below the least it may be.
func (s *Sequence) wrongIndex(name string, least uint64) string {
	return fmt.Sprintf("%s must be a whole number from %d to %d", name, least, s.cfg.MaxIndex)
}

func parseFormat(v string) (format, bool) {
	switch v {
	case "json":
		return object, true
	case "text":
		return text, true
	}
	return 0, false
}

// appendTag appends the ETag of a value, which never changes.
func appendTag(dst []byte, n uint64, format format) []byte {
	dst = append(dst, `"fib-`...)
	dst = strconv.AppendUint(dst, n, 10)
	if format == text {
		return append(dst, `-text"`...)
	}
	return append(dst, `-json"`...)
}

// matches says whether an If-None-Match field names the tag (RFC 9110, 13.1.2).
func matches(field, tag []byte) bool {
	for one := range bytes.SplitSeq(field, []byte{','}) {
		one = bytes.TrimPrefix(bytes.Trim(one, " \t"), []byte("W/"))
		if string(one) == "*" || bytes.Equal(one, tag) {
			return true
		}
	}
	return false
}

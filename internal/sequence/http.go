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
		{Pattern: "GET /current", Handler: s.answerStep(stay), Stream: s.lentStep(stay)},
		{Pattern: "GET /next", Handler: s.answerStep(forward), Stream: s.lentStep(forward)},
		{Pattern: "GET /previous", Handler: s.answerStep(back), Stream: s.lentStep(back)},
		{Pattern: "GET /fib/{n}", Handler: s.answerValue, Stream: http.HandlerFunc(s.lentValue)},
		{Pattern: "GET /fib", Stream: http.HandlerFunc(s.values), Class: server.Low},
		{Pattern: "PUT /current", Admin: true, MaxBody: 4 << 10, Handler: s.putCurrent},
		{Pattern: "GET /debug/cache", Admin: true, Handler: s.getCache},
	}
}

const (
	notSaved  = "the index cannot be saved at the moment, so it does not move"
	immutable = "public, max-age=31536000, immutable"
)

func (s *Sequence) atEnd() string {
	return "the index is at its maximum, " + strconv.FormatUint(s.cfg.MaxIndex, 10) + ", and has not moved"
}

// answerStep answers GET /current, /next and /previous where the value is at hand, and lends the
// request where it is not. A HEAD moves nothing.
func (s *Sequence) answerStep(step step) server.Handler {
	return func(w *server.Response, r *server.Request) server.Outcome {
		for {
			at := s.at()
			to, err := s.target(at, step)
			if err != nil {
				w.Problem(http.StatusConflict, s.atEnd())
				return server.Done
			}
			h, ok := s.find(to)
			if !ok {
				if !r.Admit(server.Low) { // it will be computed
					return server.Done
				}
				return server.NetHTTP
			}
			if r.Method != http.MethodHead {
				moved, err := s.move(at, to)
				if err != nil {
					h.drop()
					w.Problem(http.StatusServiceUnavailable, notSaved)
					return server.Done
				}
				if !moved {
					h.drop()
					continue
				}
			}
			w.Field("Cache-Control", "no-store")
			w.Body = s.give(w.Body, &h, object, r.Stripe)
			return server.Done
		}
	}
}

// answerValue answers GET /fib/{n} where the value is at hand, or the client has it.
func (s *Sequence) answerValue(w *server.Response, r *server.Request) server.Outcome {
	n, ok := parseIndex(string(r.Param(0)), s.cfg.MaxIndex)
	if !ok {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("n", 0))
		return server.Done
	}
	format := object
	for q := r.Query; ; {
		key, value, rest, more, ok := r.NextQuery(q)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, wrongQuery)
			return server.Done
		}
		if !more {
			break
		}
		q = rest
		if string(key) == "format" {
			if format, ok = parseFormat(string(value)); !ok {
				w.Problem(http.StatusUnprocessableEntity, wrongFormat)
				return server.Done
			}
		}
	}
	if format == text && (r.Header("Range") != nil || r.Header("If-Match") != nil) { // http.ServeContent's
		return server.NetHTTP
	}
	var memory [64]byte
	tag := appendTag(memory[:0], n, format)
	if match := r.Header("If-None-Match"); match != nil && matches(match, tag) {
		w.Status = http.StatusNotModified
		w.Field("Etag", string(tag))
		w.Field("Cache-Control", immutable)
		return server.Done
	}
	h, ok := s.find(n)
	if !ok {
		if !r.Admit(server.Low) { // it will be computed
			return server.Done
		}
		return server.NetHTTP
	}
	if format == text {
		w.ContentType = textType
		w.Field("Accept-Ranges", "bytes")
	}
	w.Field("Etag", string(tag))
	w.Field("Cache-Control", immutable)
	w.Body = s.give(w.Body, &h, format, r.Stripe)
	return server.Done
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

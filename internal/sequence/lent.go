package sequence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/internal/sequence/decimal"
	"weir/internal/server"
	"weir/internal/strictjson"
)

// lentStep answers GET /current, /next and /previous off the event loops: the request is admitted, then the
// index moves, then the value is waited for.
func (s *Sequence) lentStep(step step) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for {
			at := s.at()
			to, err := s.target(at, step)
			if err != nil {
				server.WriteProblem(w, http.StatusConflict, s.atEnd())
				return
			}
			if r.Method == http.MethodHead {
				w.Header().Set("Cache-Control", "no-store")
				writeValue(w, to, nil)
				return
			}
			t, err := s.computations.admit(to, 0)
			if err != nil {
				refuse(w, err)
				return
			}
			moved, err := s.move(at, to)
			if err != nil {
				t.giveBack()
				server.WriteProblem(w, http.StatusServiceUnavailable, notSaved)
				return
			}
			if !moved {
				t.giveBack()
				continue
			}
			defer t.giveBack()
			p, ok := s.await(w, r, t, "; the index is "+strconv.FormatUint(to, 10))
			if ok {
				w.Header().Set("Cache-Control", "no-store")
				writeValue(w, to, p.f)
			}
			return
		}
	}
}

// await waits for a ticket's value. It answers by itself and returns false when there is none.
func (s *Sequence) await(w http.ResponseWriter, r *http.Request, t ticket, moved string) (pair, bool) {
	p, how, err := t.wait(r.Context())
	if err == nil {
		s.given[how].Add(0, 1)
		return p, true
	}
	forget(w)
	switch {
	case r.Context().Err() != nil: // nobody is there to be answered
		panic(http.ErrAbortHandler)
	case errors.Is(err, errStopped):
		server.WriteProblem(w, http.StatusServiceUnavailable, err.Error()+moved)
	default:
		server.WriteProblem(w, http.StatusInternalServerError, "the value could not be computed; the reason has been logged"+moved)
	}
	return pair{}, false
}

// refuse answers a request that was not admitted.
func refuse(w http.ResponseWriter, err error) {
	server.WriteProblem(w, http.StatusServiceUnavailable, err.Error())
}

// writeValue answers with F(n) as a JSON object, or with the head of that when digits is nil.
func writeValue(w http.ResponseWriter, n uint64, digits []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(valueLength(n, object)))
	if digits == nil {
		return
	}
	for _, part := range [][]byte{appendBodyStart(nil, n), digits, []byte(bodyEnd)} {
		if _, err := w.Write(part); err != nil {
			return // the client has gone
		}
	}
}

// lentValue answers GET /fib/{n}.
func (s *Sequence) lentValue(w http.ResponseWriter, r *http.Request) {
	n, ok := parseIndex(r.PathValue("n"), s.cfg.MaxIndex)
	if !ok {
		server.WriteProblem(w, http.StatusUnprocessableEntity, s.wrongIndex("n", 0))
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		server.WriteProblem(w, http.StatusUnprocessableEntity, wrongQuery)
		return
	}
	format := object
	if query.Has("format") {
		values := query["format"]
		if format, ok = parseFormat(values[len(values)-1]); !ok {
			server.WriteProblem(w, http.StatusUnprocessableEntity, wrongFormat)
			return
		}
	}
	if !forever(w, r, string(appendTag(nil, n, format))) {
		return
	}
	if r.Method == http.MethodHead {
		if format == object {
			writeValue(w, n, nil)
		} else {
			serveText(w, r, lengthOnly(decimal.Digits(n)))
		}
		return
	}
	t, err := s.computations.admit(n, 0)
	if err != nil {
		forget(w)
		refuse(w, err)
		return
	}
	defer t.giveBack()
	p, ok := s.await(w, r, t, "")
	switch {
	case !ok:
	case format == object:
		writeValue(w, n, p.f)
	default:
		serveText(w, r, bytes.NewReader(p.f))
	}
}

// serveText answers with digits, or the ranges of them that are asked for.
func serveText(w http.ResponseWriter, r *http.Request, digits io.ReadSeeker) {
	w.Header().Set("Content-Type", textType)
	if r.Method == http.MethodHead {
		r.Header.Del("Range") // is for GET alone: RFC 9110, 14.2
	}
	http.ServeContent(&rangeWriter{ResponseWriter: w}, r, "", time.Time{}, digits)
}

// rangeWriter makes a problem document of http.ServeContent's refusals.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if w.refused = status >= 400; w.refused {
		w.Header().Del("X-Content-Type-Options")
		forget(w.ResponseWriter)
		server.WriteProblem(w.ResponseWriter, status, "the Range or If-Match field asks for what this value does not have: "+
			"ranges are of its digits, as in bytes=0-99 for the first hundred")
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// lengthOnly stands for digits that nobody will read.
func lengthOnly(n int) io.ReadSeeker {
	return io.NewSectionReader(nothing{}, 0, int64(n))
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

// forever says that an answer never changes. It returns false when the client has it, and was told so.
func forever(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("Etag", tag)
	w.Header().Set("Cache-Control", immutable)
	for _, field := range r.Header.Values("If-None-Match") {
		if matches([]byte(field), []byte(tag)) {
			w.WriteHeader(http.StatusNotModified)
			return false
		}
	}
	return true
}

// forget takes back what forever has said, for an error.
func forget(w http.ResponseWriter) {
	w.Header().Del("Etag")
	w.Header().Del("Cache-Control")
}

// values answers GET /fib?from=A&to=B.
func (s *Sequence) values(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		server.WriteProblem(w, http.StatusUnprocessableEntity, wrongQuery)
		return
	}
	index := func(name string, least uint64) (uint64, bool) {
		n, ok := parseIndex(query.Get(name), s.cfg.MaxIndex)
		if !ok || n < least {
			server.WriteProblem(w, http.StatusUnprocessableEntity, s.wrongIndex(name, least))
			return 0, false
		}
		return n, true
	}
	from, ok := index("from", 0)
	if !ok {
		return
	}
	to, ok := index("to", from)
	if !ok {
		return
	}
	length, fits := rangeLength(from, to, s.cfg.RangeBytes)
	if !fits {
		server.WriteProblem(w, http.StatusUnprocessableEntity, "to must be nearer to from: the answer would be longer than "+
			strconv.FormatInt(s.cfg.RangeBytes, 10)+" bytes; ask for the values in several requests")
		return
	}
	tag := `"fib-` + strconv.FormatUint(from, 10) + "-" + strconv.FormatUint(to, 10) + `-json"`
	if !forever(w, r, tag) {
		return
	}
	head := func() {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	}
	if r.Method == http.MethodHead {
		head()
		return
	}
	t, err := s.computations.admit(from, 3*int64(decimal.Digits(to)))
	if err != nil {
		forget(w)
		refuse(w, err)
		return
	}
	defer t.giveBack()
	p, ok := s.await(w, r, t, "")
	if !ok {
		return
	}
	head()
	separator := []byte{'['}
	line := make([]byte, 0, 32)
	err = p.values(r.Context(), to-from, func(n uint64, digits []byte) error {
		line = appendBodyStart(append(line[:0], separator...), n)
		separator = []byte{','}
		for _, part := range [][]byte{line, digits, []byte(bodyEnd)} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		w.Write([]byte{']'}) //nolint:errcheck // the client may be gone
	}
}

// rangeLength returns how long the array of F(from) to F(to) is; false when it is longer than limit.
func rangeLength(from, to uint64, limit int64) (int64, bool) {
	length := int64(1) // brackets and commas are one more than values
	if int64(to-from+1) > limit/int64(valueLength(from, object)) {
		return 0, false // and not worth adding up
	}
	for n := from; n <= to; n++ {
		if length += int64(valueLength(n, object)) + 1; length > limit {
			return 0, false
		}
	}
	return length, true
}

// putCurrent answers PUT /current of the admin port.
func (s *Sequence) putCurrent(w *server.Response, r *server.Request) server.Outcome {
	var body struct {
		Index *uint64 `json:"index"`
	}
	err := strictjson.Read(bytes.NewReader(r.Body), &body)
	if err == nil && body.Index == nil {
		err = errors.New("index must be there")
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, fmt.Sprintf(`the body must be {"index":N}, N a whole number from 0 to %d: %v`, s.cfg.MaxIndex, err))
		return server.Done
	}
	n := *body.Index
	if n > s.cfg.MaxIndex {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("index", 0))
		return server.Done
	}
	err = errStopped
	s.alive(func() { err = s.set(n) })
	if err != nil {
		w.Problem(http.StatusServiceUnavailable, notSaved)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(strconv.AppendUint(append(w.Body, `{"index":`...), n, 10), '}')
	return server.Done
}

// getCache answers GET /debug/cache of the admin port.
func (s *Sequence) getCache(w *server.Response, _ *server.Request) server.Outcome {
	pairs, size := s.cache.size()
	w.Field("Cache-Control", "no-store")
	w.JSON(struct {
		Direct uint64 `json:"direct"`
		Close  uint64 `json:"close"`
		Miss   uint64 `json:"miss"`
		Pairs  int    `json:"pairs"`
		Bytes  int64  `json:"bytes"`
		Limit  int64  `json:"limit"`
	}{s.given[direct].Value(), s.given[near].Value(), s.given[miss].Value(), pairs, size, s.cache.limit})
	return server.Done
}

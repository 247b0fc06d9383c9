package sequence

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"weir/internal/sequence/decimal"
	"weir/internal/server"
)

// answerPart answers a request for parts of the digits of F(n), or for them on a condition, by
// http.ServeContent.
func (s *Sequence) answerPart(w *server.Response, r *server.Request, n uint64, tag string) server.Outcome {
	asked := &http.Request{Method: r.Method, Header: make(http.Header)}
	for _, name := range []string{"Range", "If-Range", "If-Match", "If-Unmodified-Since"} {
		for value := range r.HeaderValues(name) {
			asked.Header.Add(name, string(value))
		}
	}
	if r.Method == http.MethodHead {
		asked.Header.Del("Range") // is for GET alone: RFC 9110, 14.2
		serveContent(w, asked, tag, lengthOnly(decimal.Digits(n)))
		return server.Done
	}
	t, err := s.admit(r, n, 0)
	if err != nil {
		return refuse(w, err)
	}
	return s.await(r, t, "", func(_ context.Context, w *server.Response, p pair) {
		defer t.giveBack()
		serveContent(w, asked, tag, bytes.NewReader(p.f))
	})
}

func serveContent(w *server.Response, r *http.Request, tag string, digits io.ReadSeeker) {
	w.Clear()
	http.ServeContent(&contentWriter{w, http.Header{"Content-Type": {textType}, "Etag": {tag},
		"Cache-Control": {immutable}}},
		r, "", time.Time{}, digits)
}

// contentWriter makes a Response of what http.ServeContent answers, and a problem document of its refusals.
type contentWriter struct {
	w      *server.Response
	header http.Header
}

func (c *contentWriter) Header() http.Header { return c.header }

func (c *contentWriter) WriteHeader(status int) {
	if status >= 400 {
		c.w.Problem(status, "the Range or If-Match field asks for what this value does not have: "+
			"ranges are of its digits, as in bytes=0-99 for the first hundred")
		if at := c.header.Get("Content-Range"); at != "" {
			c.w.Field("Content-Range", at)
		}
		return
	}
	c.w.Status, c.w.ContentType = status, c.header.Get("Content-Type")
	for _, name := range []string{"Etag", "Cache-Control", "Accept-Ranges", "Content-Range"} {
		if value := c.header.Get(name); value != "" {
			c.w.Field(name, value)
		}
	}
	if n, err := strconv.Atoi(c.header.Get("Content-Length")); err == nil && status == http.StatusOK {
		c.w.Unmade(n)
	}
}

func (c *contentWriter) Write(p []byte) (int, error) {
	if c.w.Status < 400 {
		c.w.Unmade(0)
		c.w.Body = append(c.w.Body, p...)
	}
	return len(p), nil
}

// lengthOnly stands for digits that nobody will read.
func lengthOnly(n int) io.ReadSeeker {
	return io.NewSectionReader(nothing{}, 0, int64(n))
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

package server

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pieced has routes whose answers are three pieces of a size, on each lane, and counts how often they are
// released.
func pieced(released *atomic.Int64) routes {
	answer := func(w *Response, size int) {
		w.Body = append(w.Body, "head "...)
		pieces := make([][]byte, 3)
		for i := range pieces {
			pieces[i] = bytes.Repeat([]byte{"abc"[i]}, size)
		}
		w.Pieces(func() { released.Add(1) }, pieces...)
	}
	size := func(r *Request) (n int) {
		fmt.Sscan(string(r.Param(0)), &n)
		return n
	}
	return routes{
		{Pattern: "GET /inline/{size}", Handler: done(func(w *Response, r *Request) { answer(w, size(r)) })},
		{Pattern: "GET /worker/{size}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			answer(w, size(r))
			return Done
		}},
		{Pattern: "GET /pending/{size}", Handler: func(_ *Response, r *Request) Outcome {
			n := size(r)
			r.Pend().Go(func(_ context.Context, w *Response) { answer(w, n) })
			return Pending
		}},
		{Pattern: "GET /failed/{size}", Handler: func(w *Response, r *Request) Outcome {
			answer(w, size(r))
			panic("on purpose")
		}},
	}
}

func TestPiecesAreSentBehindEachOtherAndReleasedOnce(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		var released atomic.Int64
		s := start(t, cfg, &echo{}, pieced(&released))
		for _, lane := range []string{"inline", "worker", "pending"} {
			for _, size := range []int{0, 10, 5 << 20} { // the last is more than a socket takes at once
				released.Store(0)
				path := fmt.Sprintf("/%s/%d", lane, size)
				want := "head " + strings.Repeat("a", size) + strings.Repeat("b", size) +
					strings.Repeat("c", size)
				c := dial(t, s)
				c.send(get("/fast/a") + get(path) + head_(path) + get(path) + get("/fast/b"))
				c.expect("GET", 200, "GET a ")
				c.expect("GET", 200, want)
				if resp := c.expect("HEAD", 200, ""); resp.ContentLength != int64(len(want)) {
					t.Errorf("HEAD %s has a Content-Length of %d, want %d", path, resp.ContentLength,
						len(want))
				}
				c.expect("GET", 200, want)
				c.expect("GET", 200, "GET b ")
				await(t, "all to be released", func() bool { return released.Load() == 3 })
			}
		}
		released.Store(0)
		c := dial(t, s)
		c.send(get("/failed/10"))
		if resp, body := c.response("GET"); resp.StatusCode != 500 || strings.Contains(body, "aaa") ||
			released.Load() != 1 {
			t.Errorf("after a panic: %d %s, released %d times", resp.StatusCode, body, released.Load())
		}
	})
}

func TestPiecesAreReleasedWhenTheClientGoes(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		var released atomic.Int64
		s := start(t, cfg, &echo{}, pieced(&released))
		for i, lane := range []string{"inline", "worker", "pending"} {
			c := dial(t, s)
			c.send(get("/" + lane + "/20000000"))
			c.r.Peek(1)
			c.SetLinger(0)
			c.Close()
			await(t, "the pieces to be released", func() bool { return released.Load() == int64(i+1) })
		}
	})
}

func TestWhatTheClientHasIsNotSentAgain(t *testing.T) {
	modified := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		fields string
		tag    string
		want   bool
	}{
		{"", `"a"`, false},
		{"If-None-Match: \"a\"\r\n", `"a"`, true},
		{"If-None-Match: W/\"a\"\r\n", `"a"`, true},
		{"If-None-Match: \"a\"\r\n", `W/"a"`, true},
		{"If-None-Match: \"b\" ,\"a\"\r\n", `"a"`, true},
		{"If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n", `"a"`, true},
		{"If-None-Match: *\r\n", `"a"`, true},
		{"If-None-Match: \"b\"\r\n", `"a"`, false},
		{"If-None-Match: a\r\n", `"a"`, false},
		{"If-None-Match:\r\n", "", false},
		{"If-Modified-Since: Fri, 01 May 2026 12:00:00 GMT\r\n", "", true},
		{"If-Modified-Since: Fri, 01 May 2026 11:59:59 GMT\r\n", "", false},
		{"If-Modified-Since: yesterday\r\n", "", false},
		// A tag goes before a time.
		{"If-None-Match: \"b\"\r\nIf-Modified-Since: Fri, 01 May 2026 12:00:00 GMT\r\n", `"a"`, false},
	} {
		for method, may := range map[string]bool{"GET": true, "HEAD": true, "POST": false} {
			var w Response
			w.reset()
			r := &Request{Method: method, header: []byte(c.fields)}
			if got := NotModified(&w, r, c.tag, modified); got != (c.want && may) ||
				got != (w.Status == 304) {
				t.Errorf("%s with %q of %s: %t with status %d, want %t", method, c.fields, c.tag, got,
					w.Status, c.want && may)
			}
			if !strings.Contains(string(w.header), "Last-Modified: Fri, 01 May 2026 12:00:00 GMT\r\n") {
				t.Errorf("the fields are %q", w.header)
			}
		}
	}
}

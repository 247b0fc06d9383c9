package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// verdict is what a framer makes of bytes.
type verdict struct {
	status             int
	close              bool
	used               int
	done               bool
	err                error
	etag, lastModified string
}

// frame feeds p in pieces as long as next says, and the end of the connection if it comes to that.
func frame(f *framer, p []byte, toHEAD bool, next func() int) (v verdict) {
	f.begin(toHEAD)
	for v.used < len(p) && !v.done && v.err == nil {
		piece := bytes.Clone(p[v.used:min(v.used+next(), len(p))]) // and none of it is there afterwards
		var n int
		if n, v.done, v.err = f.feed(piece); v.err == nil && !v.done && n < len(piece) {
			v.err = fmt.Errorf("BUG: took %d of %d bytes", n, len(piece))
		}
		v.used += n
		clear(piece)
	}
	if v.err != nil {
		return verdict{err: v.err}
	}
	if !v.done {
		v.done = f.end()
	}
	v.status, v.close, v.etag, v.lastModified = f.status, f.head.close, string(f.etag), string(f.lastModified)
	return v
}

func whole() int { return 1 << 30 }
func one() int   { return 1 }

var answers = []struct {
	name   string
	text   string
	toHEAD bool
	more   string // what is not the answer's any more
	status int
	close  bool
}{
	{name: "Content-Length", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		more: "HTTP", status: 200},
	{name: "nothing", text: "HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", more: "x", status: 200},
	{name: "chunked", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" +
		"A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", more: "0", status: 200},
	{name: "trailer", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nTrailer: X\r\n\r\n1\r\nh\r\n" +
		"000\r\nX: y\r\nZ:\r\n\r\n", more: "0", status: 200},
	{name: "204", text: "HTTP/1.1 204 No Content\r\n\r\n", more: "x", status: 204},
	{name: "304", text: "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"a\"\r\n\r\n",
		more: "x", status: 304},
	{name: "HEAD", text: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", toHEAD: true,
		more: "x", status: 200},
	{name: "HEAD of chunks", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", toHEAD: true,
		more: "x", status: 200},
	{name: "interim", text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 " +
		"200 OK\r\nContent-Length: 1\r\n\r\n1", more: "2", status: 200},
	{name: "to the end", text: "HTTP/1.1 200 OK\r\n\r\nall there is", status: 200, close: true},
	{name: "HTTP/1.0", text: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, close: true},
	{name: "HTTP/1.0 kept", text: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
		more: "x", status: 200},
	{name: "close", text: "HTTP/1.1 503 Busy\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nno",
		status: 503, close: true},
	{name: "no reason", text: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", status: 200},
}

func TestTheEndOfAnAnswerIsFoundHoweverItComes(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			want := verdict{status: a.status, close: a.close, used: len(a.text), done: true}
			p := []byte(a.text + a.more)
			for _, cache := range []*headCache{nil, {}} {
				f := framer{cache: cache}
				for range 2 { // the second time out of the cache
					if got := frame(&f, p, a.toHEAD, whole); got != want {
						t.Errorf("at once: got %+v, want %+v", got, want)
					}
				}
				if got := frame(&f, p, a.toHEAD, one); got != want {
					t.Errorf("byte by byte: got %+v, want %+v", got, want)
				}
				for i := range len(a.text) {
					first := i + 1
					got := frame(&f, p, a.toHEAD, func() int { n := first; first = 1 << 30; return n })
					if got != want {
						t.Errorf("cut after %d bytes: got %+v, want %+v", i+1, got, want)
					}
				}
			}
		})
	}
}

// A head whose lines end in LF alone has no end that could be waited for.
func TestLinesWithoutCRAreNotWaitedFor(t *testing.T) {
	for _, size := range []func() int{whole, one} {
		got := frame(new(framer), []byte("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), false, size)
		if got.err == nil || got.done {
			t.Errorf("got %+v", got)
		}
	}
}

// An answer that is cut off is never taken for whole.
func TestACutAnswerIsNotOver(t *testing.T) {
	for _, a := range answers {
		if a.name == "to the end" {
			continue
		}
		for i := range len(a.text) {
			if got := frame(new(framer), []byte(a.text[:i]), a.toHEAD, whole); got.done || got.err != nil {
				t.Errorf("%s: the first %d of %d bytes: %+v", a.name, i, len(a.text), got)
			}
		}
	}
}

func TestMalformedAnswersAreRefused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunks = ok + "Transfer-Encoding: chunked\r\n\r\n"
	for text, want := range map[string]error{
		"garbage\r\n\r\n":                                       errStatusLine,
		"HTTQ":                                                  errStatusLine,
		"HTTP/2.0 200 OK\r\n\r\n":                               errStatusLine,
		"HTTP/1.1  200 OK\r\n\r\n":                              errStatusLine,
		"HTTP/1.1 20 OK\r\n\r\n":                                errStatusLine,
		"HTTP/1.1 099 OK\r\n\r\n":                               errStatusLine,
		"HTTP/1.1 2000 OK\r\n\r\n":                              errStatusLine,
		"HTTP/1.1 101 Switching\r\n\r\n":                        errSwitch,
		"HTTP/1.1 200 OK\nA: b\r\n\r\n":                         errLineEnd,
		ok + "A: b\rC: d\r\n\r\n":                               errLineEnd,
		ok + "A: b\n\r\n\r\n":                                   errLineEnd,
		ok + "A: \x00\r\n\r\n":                                  errFieldValue,
		ok + "A: \x7f\r\n\r\n":                                  errFieldValue,
		ok + "no colon\r\n\r\n":                                 errField,
		ok + ": no name\r\n\r\n":                                errField,
		ok + "Space : b\r\n\r\n":                                errField,
		ok + "A: b\r\n folded\r\n\r\n":                          errField,
		ok + "Content-Length: -1\r\n\r\n":                       errLength,
		ok + "Content-Length: 1, 1\r\n\r\n":                     errLength,
		ok + "Content-Length: 0x1\r\n\r\n":                      errLength,
		ok + "Content-Length:\r\n\r\n":                          errLength,
		ok + "Content-Length: 9223372036854775808\r\n\r\n":      errLength,
		ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n":   errLength,
		ok + "Transfer-Encoding: gzip, chunked\r\n\r\n":         errCoding,
		ok + "Transfer-Encoding: identity\r\n\r\n":              errCoding,
		chunks[:len(chunks)-2] + "Content-Length: 1\r\n\r\n":    errCoding,
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n": errCoding,
		ok + "Trailer: Content-Length\r\n\r\n":                  errTrailer,
		ok + "A: " + strings.Repeat("b", maxHead):               errLongHead,
		strings.Repeat("HTTP/1.1 100 Go on\r\n\r\n", 4000):      errLongHead,
	} {
		for name, next := range map[string]func() int{"at once": whole, "byte by byte": one} {
			if got := frame(new(framer), []byte(text), false, next); got.err != want {
				t.Errorf("%.80q %s: got %+v, want the error %q", text, name, got, want)
			}
		}
	}
}

func TestBrokenChunksAreRefused(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	const size, trailer, overhead = "must begin with its size", "a trailer must be", "more chunk extensions"
	for text, want := range map[string]string{
		"\r\n":                                   size,
		"g\r\n":                                  size,
		"1 1\r\n":                                size,
		"1234567890123456\r\n":                   size,
		"1\nx":                                   size,
		"1;\x01\r\n":                             "a chunk extension must be",
		"1\r\nxy":                                "content must have as many bytes",
		"0\r\nbad trailer\r\n":                   trailer,
		"0\r\nA: \x01\r\n":                       trailer,
		"0\r\nA: b\rc":                           trailer,
		"0\r\n\rx":                               trailer,
		"1;" + strings.Repeat("b", 32<<10):       overhead,
		"0\r\nA: " + strings.Repeat("b", 32<<10): overhead,
	} {
		for name, next := range map[string]func() int{"at once": whole, "byte by byte": one} {
			got := frame(new(framer), []byte(chunks+text), false, next)
			if got.err == nil || !strings.Contains(got.err.Error(), want) {
				t.Errorf("%.80q %s: got %+v, want an error with %q", text, name, got, want)
			}
		}
	}
}

func TestAListenerGetsTheValidators(t *testing.T) {
	text := []byte("HTTP/1.1 200 OK\r\nETag:  W/\"x\"\t\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n" +
		"Content-Length: 3\r\n\r\nabc")
	none := []byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
	f := framer{keep: true, cache: new(headCache)}
	for range 2 {
		for _, next := range []func() int{whole, one} {
			if got := frame(&f, text, false, next); got.etag != `W/"x"` ||
				got.lastModified != "Thu, 01 Jan 1970 00:00:00 GMT" {
				t.Errorf("got %+v", got)
			}
			if got := frame(&f, none, false, next); got.etag != "" || got.lastModified != "" {
				t.Errorf("an answer without validators got those of the one before: %+v", got)
			}
		}
	}
}

// reference reads the answer that p begins with by net/http. The connection ends after p.
func reference(p []byte, toHEAD bool) (v verdict) {
	method := http.MethodGet
	if toHEAD {
		method = http.MethodHead
	}
	in := bytes.NewReader(p)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		a, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return verdict{err: err}
		}
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			return verdict{err: err}
		}
		if a.StatusCode >= 200 || a.StatusCode == 101 {
			return verdict{status: a.StatusCode, close: a.Close, used: len(p) - in.Len() - r.Buffered(),
				done: true}
		}
	}
}

// FuzzFramer compares with net/http, which never refuses what is accepted here nor sees another end, and
// pieces with the whole.
func FuzzFramer(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.text+a.more), a.toHEAD, uint64(1))
	}
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nETag: \"1\"\r\nContent-Length: " +
			"3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b;c\r\nabc\r\n0;d\r\nA: b\r\n\r\n",
		"HTTP/1.1 404 \r\nA:\t\r\nContent-Length: 18\r\n\r\n",
	} {
		f.Add([]byte(text), false, uint64(7))
	}
	cache := new(headCache)
	f.Fuzz(func(t *testing.T, p []byte, toHEAD bool, seed uint64) {
		got := frame(&framer{keep: true}, p, toHEAD, whole)
		random := rand.New(rand.NewPCG(seed, 0))
		for name, f := range map[string]*framer{"parsed": {keep: true},
			"cached": {keep: true, cache: cache}} {
			if again := frame(f, p, toHEAD, func() int { return 1 + random.IntN(8) }); again != got {
				t.Fatalf("%s, in pieces %+v, whole %+v", name, again, got)
			}
			if again := frame(f, p, toHEAD, whole); again != got {
				t.Fatalf("%s, once more %+v, first %+v", name, again, got)
			}
		}
		if got.err != nil || !got.done {
			return
		}
		want := reference(p, toHEAD)
		if want.err != nil {
			if strings.Contains(want.err.Error(), "chunked encoding contains too much non-data") {
				return // a matter of taste
			}
			t.Fatalf("accepted %+v, which net/http refuses: %v", got, want.err)
		}
		got.etag, got.lastModified = "", ""
		if got != want {
			t.Fatalf("got %+v, net/http %+v", got, want)
		}
	})
}

func TestErrorsOfAnswersSayWhatIsWrong(t *testing.T) {
	var m malformed
	if got := frame(new(framer), []byte("HTTP/1.1 20"+"x"+" OK\r\n\r\n"), false, whole); !errors.As(got.err,
		&m) || !strings.Contains(m.Error(), "status line") {
		t.Errorf("got %v", got.err)
	}
}

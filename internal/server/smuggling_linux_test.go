package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// smuggled follows every request below that must be refused: whoever answers it has taken the
// refused one for something else.
var smuggled = get("/fast/smuggled")

// refusedWith sends raw and checks that the only answer is a refusal with that status, after
// which the connection ends without a reset.
func refusedWith(t *testing.T, s *Server, raw string, status int) {
	t.Helper()
	c := dial(t, s)
	c.send(raw)
	resp, body := c.response("GET")
	if resp.StatusCode != status || !resp.Close || resp.Header.Get("Content-Type") != problemType {
		t.Errorf("got %d %s, close %t: %s; want a problem %d and close", resp.StatusCode,
			resp.Header.Get("Content-Type"), resp.Close, body, status)
	}
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		t.Errorf("after the refusal came %q, %v; want a clean end", rest, err)
	}
}

func TestWhatBreaksTheProtocolIsRefusedAndNothingAfterItAnswered(t *testing.T) {
	s := start(t, Config{}, &echo{})
	for _, c := range refusedHeads {
		t.Run(c.name, func(t *testing.T) { refusedWith(t, s, c.raw+smuggled, c.status) })
	}
	if n := s.counter(s.unrouted, http.StatusBadRequest).Value(); n == 0 {
		t.Error("no refusal was counted")
	}
}

func TestRequestsThatTwoReadersWouldFrameDifferentlyAreRefused(t *testing.T) {
	s := start(t, Config{}, &echo{})
	chunks := "5\r\nhello\r\n0\r\n\r\n"
	for name, c := range map[string]struct {
		headers, body string
		status        int
	}{
		"CL.TE":                  {"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG", 400},
		"TE.CL":                  {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunks, 400},
		"CL.CL":                  {"Content-Length: 0\r\nContent-Length: 44\r\n", "", 400},
		"CL, in one list":        {"Content-Length: 0, 44\r\n", "", 400},
		"CL.CL, one folded":      {"Content-Length: 0\r\n 44\r\n", "", 400},
		"CL, space before colon": {"Content-Length : 44\r\n", "", 400},
		"CL, hidden by bare CR":  {"X: a\rContent-Length: 44\r\n", "", 400},
		"CL, hidden by bare LF":  {"X: a\nContent-Length: 44\r\n", "", 400},
		"CL, hidden by NUL":      {"X: a\x00\r\nContent-Length: 0\r\n", "", 400},
		"CL, padded with FF":     {"Content-Length:\x0c0\r\n", "", 400},
		"CL, full-width digit":   {"Content-Length: \xef\xbc\x94\r\n", "", 400},
		"CL, underscore":         {"Content-Length: 1_0\r\n", "", 400},
		"TE, tab before colon":   {"Transfer-Encoding\t: chunked\r\n", chunks, 400},
		"TE, twice": {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
			chunks, 400},
		"TE, identity and CL":     {"Transfer-Encoding: identity\r\nContent-Length: 4\r\n", "body", 400},
		"TE, quoted":              {"Transfer-Encoding: \"chunked\"\r\n", chunks, 400},
		"TE, list ends otherwise": {"Transfer-Encoding: chunked, identity\r\n", chunks, 400},
		"TE, with a parameter":    {"Transfer-Encoding: chunked;q=1\r\n", chunks, 400},
		"TE, trailing comma":      {"Transfer-Encoding: chunked,\r\n", chunks, 400},
		"TE, folded":              {"Transfer-Encoding:\r\n chunked\r\n", chunks, 400},
		"TE, ends in NUL":         {"Transfer-Encoding: chunked\x00\r\n", chunks, 400},
		"TE, ends in NBSP":        {"Transfer-Encoding: chunked\xa0\r\n", chunks, 400},
		"head ends in LF LF":      {"X: a\n\n", "", 400},
		"head ends in LF CR LF":   {"X: a\n\r\n", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			raw := "POST /fast/a HTTP/1.1\r\nHost: weir\r\n" + c.headers + "\r\n" + c.body + smuggled
			refusedWith(t, s, raw, c.status)
			// Behind a good request, in the same segment.
			cl := dial(t, s)
			cl.send(get("/fast/good") + raw)
			cl.expect("GET", 200, "GET good ")
			resp, _ := cl.response("POST")
			if resp.StatusCode != c.status {
				t.Errorf("behind a good request: got %d, want %d", resp.StatusCode, c.status)
			}
			cl.expectClosed()
		})
	}
}

func TestMalformedChunksEndTheConnection(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		for _, chunks := range []string{"x\r\nhello\r\n0\r\n\r\n", "5\r\nhello", "-1\r\n\r\n",
			"5\r\nhelloo\r\n0\r\n\r\n", "ffffffffffffffff1\r\n", "5;\nhello\r\n0\r\n\r\n"} {
			c := dial(t, s)
			c.send("POST /fast/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n" +
				chunks + smuggled)
			c.CloseWrite()
			all, err := io.ReadAll(c.r)
			if err != nil || strings.Count(string(all), "HTTP/1.1 ") != 1 ||
				!strings.HasPrefix(string(all), "HTTP/1.1 400 ") {
				t.Errorf("%q: got %q, %v; want one 400", chunks, all, err)
			}
		}
	})
}

// Bytes that can never become a request are refused without waiting for its end.
func TestNonsenseIsRefusedBeforeItsEnd(t *testing.T) {
	s := start(t, Config{}, &echo{})
	for _, raw := range []string{"GET / HTTP/1.1\n", "\n", "GET / HTTP/1.1\r\nHost: a\n",
		"\x16\x03\x01\x02\x00\x01\x00\n"} {
		refusedWith(t, s, raw, 400)
	}
}

func TestEmptyLinesBeforeARequestAreSkipped(t *testing.T) {
	s := start(t, Config{}, &echo{})
	c, other := dial(t, s), dial(t, s)
	c.send("\r\n\r\n" + get("/fast/a") + "\r\n" + get("/handed/b") + "\r")
	c.expect("GET", 200, "GET a ")
	c.expect("GET", 200, "GET handed b  ")
	other.passed()
	c.send("\n")
	other.passed()
	c.send(get("/fast/c"))
	c.expect("GET", 200, "GET c ")
}

func TestHeadersUpToTheBoundAreReadAndBeyondRefused(t *testing.T) {
	s := start(t, Config{MaxHeader: 1000}, &echo{})
	padded := func(size int) string {
		raw := "GET /fast/a HTTP/1.1\r\nHost: weir\r\nX: \r\n\r\n"
		return strings.Replace(raw, "X: ", "X: "+strings.Repeat("x", size-len(raw)), 1)
	}
	other := dial(t, s)
	for _, pieces := range []int{1, 100, 1000} {
		for size, status := range map[int]int{999: 200, 1000: 200, 1001: 431, 3000: 431, 100_000: 431} {
			c := dial(t, s)
			raw := padded(size)
			for i := 0; i < min(len(raw), 1002); i += pieces {
				c.send(raw[i:min(i+pieces, len(raw))])
				if pieces < 1000 {
					other.passed()
				}
			}
			if resp, _ := c.response("GET"); resp.StatusCode != status {
				t.Errorf("%d bytes in pieces of %d: got %d, want %d", size, pieces, resp.StatusCode, status)
			}
		}
	}
}

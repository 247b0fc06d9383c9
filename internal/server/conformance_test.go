package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Whatever way a request is cut into segments, it is the same request.
func TestARequestMayComeInAnyTwoPieces(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c, other := dial(t, s), dial(t, s)
		for _, r := range []struct{ raw, method, answer string }{
			{get("/fast/a?b=c"), "GET", "GET a b=c "},
			{get("/handed/a"), "GET", "GET handed a  "},
			{get("/offloaded/a"), "GET", "GET a "},
			{head_("/fast/a"), "HEAD", ""},
			// A body that looks like the end of a head, and like another request.
			{post("/fast/a", "x\r\n\r\n"+get("/fast/b")), "POST", "POST a x\r\n\r\n" + get("/fast/b")},
			{post("/handed/a", "\r\n\r\n"+get("/handed/b")), "POST", "POST handed a  \r\n\r\n" +
				get("/handed/b")},
		} {
			for i := 1; i < len(r.raw); i++ {
				c.send(r.raw[:i])
				other.passed()
				c.send(r.raw[i:])
				c.expect(r.method, 200, r.answer)
			}
		}
	})
}

func TestARequestMayComeByteByByte(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c, other := dial(t, s), dial(t, s)
		for _, b := range []byte(post("/fast/slow", "body\r\n\r\n") + get("/handed/slow") +
			post("/offloaded/slow", "body")) {
			c.send(string(b))
			other.passed()
		}
		c.expect("POST", 200, "POST slow body\r\n\r\n")
		c.expect("GET", 200, "GET handed slow  ")
		c.response("POST")
	})
}

// The pipelined request after the cut must not be touched by it, wherever the cut is.
func TestPipelinedRequestsMayBeCutAnywhere(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c, other := dial(t, s), dial(t, s)
		all := post("/fast/a", "1\r\n\r\n2") + post("/handed/b", "3") + get("/fast/c") + post("/fast/d", "4")
		for i := 1; i < len(all); i++ {
			c.send(all[:i])
			other.passed()
			c.send(all[i:])
			c.expect("POST", 200, "POST a 1\r\n\r\n2")
			c.expect("POST", 200, "POST handed b  3")
			c.expect("GET", 200, "GET c ")
			c.expect("POST", 200, "POST d 4")
		}
	})
}

func TestHeadAnswersWithTheHeadOfGet(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		for _, path := range []string{"/fast/a", "/handed/a", "/offloaded/a", "/nowhere", "/big/70000"} {
			c.send(get(path))
			want, _ := c.response("GET")
			c.send(head_(path))
			got, _ := c.response("HEAD")
			length := want.ContentLength
			if strings.HasSuffix(path, "/a") {
				length++ // these echo the method, one letter longer
			}
			if got.StatusCode != want.StatusCode || got.ContentLength != length ||
				got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
				t.Errorf("%s: HEAD says %d, %d bytes of %s; GET %d, %d of %s", path,
					got.StatusCode, got.ContentLength, got.Header.Get("Content-Type"),
					want.StatusCode, length, want.Header.Get("Content-Type"))
			}
		}
	})
}

func TestEveryAnswerCarriesADateAndItsLength(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		for _, path := range []string{"/fast/a", "/handed/a", "/offloaded/a", "/nowhere", "/panic",
			"/handed/panic", "/health"} {
			c.send(get(path))
			resp, body := c.response("GET")
			if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
				t.Errorf("%s: Date %q: %v", path, resp.Header.Get("Date"), err)
			}
			if resp.ContentLength != int64(len(body)) {
				t.Errorf("%s: Content-Length %d for %d bytes", path, resp.ContentLength, len(body))
			}
			if len(resp.Header["Date"]) != 1 || len(resp.Header["Content-Type"]) != 1 {
				t.Errorf("%s: fields are there twice: %v", path, resp.Header)
			}
		}
	})
}

// Chunked bodies are answered in their place of a pipeline, however it is cut.
func TestChunkedRequestsAreAnsweredInOrder(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		chunked := func(path string) string { return streamed(cfg, path, "body!!") }
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		other := dial(t, s)
		all := get("/fast/a") + chunked("/fast/b") + get("/handed/c") + chunked("/handed/d") +
			chunked("/either/e?offloaded") + post("/fast/f", "x")
		for i := 1; i <= len(all); i++ {
			c.send(all[:i])
			if i < len(all) {
				other.passed()
				c.send(all[i:])
			}
			c.expect("GET", 200, "GET a ")
			c.expect("POST", 200, "POST b body!!")
			c.expect("GET", 200, "GET handed c  ")
			c.expect("POST", 200, "POST handed d  body!!")
			c.expect("POST", 200, "POST handed e offloaded body!!")
			c.expect("POST", 200, "POST f x")
		}
	})
}

func TestExpectIsAnsweredByContinue(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		for _, path := range []string{"/fast/a", "/handed/a"} {
			c := dial(t, s)
			c.send("POST " + path +
				" HTTP/1.1\r\nHost: weir\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			line, err := c.r.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%s: got %q, %v", path, line, err)
			}
			if line, err = c.r.ReadString('\n'); err != nil || line != "\r\n" {
				t.Fatalf("%s: got %q, %v", path, line, err)
			}
			c.send("body" + get("/fast/next"))
			if resp, body := c.response("POST"); resp.StatusCode != 200 || !strings.HasSuffix(body, "body") {
				t.Fatalf("%s: got %d %q", path, resp.StatusCode, body)
			}
			c.expect("GET", 200, "GET next ")
		}
	})
}

func TestHTTP10IsAnsweredAndClosed(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		for path, want := range map[string]string{"/fast/a": "GET a ", "/handed/a": "GET handed a  ",
			"/offloaded/a": "GET a "} {
			c := dial(t, s)
			c.send("GET " + path + " HTTP/1.0\r\n\r\n")
			c.expect("GET", 200, want)
			c.expectClosed()
		}
		c := dial(t, s)
		c.send("GET /fast/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		c.expect("GET", 200, "GET a ")
		c.send("GET /fast/b HTTP/1.0\r\n\r\n")
		c.expect("GET", 200, "GET b ")
		c.expectClosed()
	})
}

func TestAnUpgradeNobodyOffersIsIgnored(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send("GET /fast/a HTTP/1.1\r\nHost: weir\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " +
			"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + get("/fast/b"))
		c.expect("GET", 200, "GET a ")
		c.expect("GET", 200, "GET b ")
	})
}

func TestAbsoluteTargetsAreRouted(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send("GET http://weir/fast/a?b=c HTTP/1.1\r\nHost: weir\r\n\r\n" +
			"GET http://weir/handed/a HTTP/1.1\r\nHost: weir\r\n\r\n" +
			"POST http://weir/fast/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 1\r\n\r\nb" + get("/fast/z"))
		c.expect("GET", 200, "GET a b=c ")
		c.expect("GET", 200, "GET handed a  ")
		c.expect("POST", 200, "POST a b")
		c.expect("GET", 200, "GET z ")
		c.send("GET * HTTP/1.1\r\nHost: weir\r\n\r\n")
		if resp, _ := c.response("GET"); resp.StatusCode != 404 && resp.StatusCode != 400 {
			t.Errorf("GET *: got %d", resp.StatusCode)
		}
	})
}

func TestConnectionCloseIsAnsweredThenClosedCleanly(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		for path, want := range map[string]string{"/fast/a": "GET a ", "/handed/a": "GET handed a  ",
			"/offloaded/a": "GET a "} {
			c := dial(t, s)
			// What follows is discarded, and must not make the end a reset.
			c.send("GET " + path + " HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n" +
				strings.Repeat(get("/fast/after"), 100))
			resp := c.expect("GET", 200, want)
			if !resp.Close {
				t.Errorf("%s: the answer does not say that it is the last", path)
			}
			c.expectClosed()
		}
	})
}

func TestBodiesUpToTheirRoutesBoundAreTakenAndBeyondRefused(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.MaxBody = 10_000
		e := &echo{}
		s := start(t, cfg, e,
			routes{{Pattern: "POST /long/{word}", Stream: http.HandlerFunc(e.handed), MaxBody: 50_000}})
		for _, c := range []struct {
			path   string
			size   int
			status int
		}{
			{"/fast/a", 9_999, 200}, {"/fast/a", 10_000, 200}, {"/fast/a", 10_001, 413},
			{"/fast/a", 300_000, 413},
			{"/handed/a", 10_000, 200}, {"/handed/a", 10_001, 413}, {"/long/a", 50_000, 200},
			{"/long/a", 50_001, 413},
			{"/nowhere", 10_000, 404}, {"/nowhere", 10_001, 413},
		} {
			for _, chunked := range []bool{false, true} {
				cl := dial(t, s)
				body := strings.Repeat("b", c.size)
				raw := post(c.path, body)
				if chunked {
					raw = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n"+
						"%x\r\n%s\r\n0\r\n\r\n", c.path, c.size, body)
				}
				go io.WriteString(cl, raw) //nolint:errcheck // refused, it may be cut off
				resp, got := cl.response("POST")
				if resp.StatusCode != c.status || c.status == 200 && !strings.HasSuffix(got, body) {
					t.Errorf("%s, %d bytes, chunked %t: got %d with %d bytes, want %d", c.path, c.size,
						chunked, resp.StatusCode, len(got), c.status)
				}
				if c.status == 413 && resp.Header.Get("Content-Type") != problemType {
					t.Errorf("%s, %d bytes: the refusal is %s", c.path, c.size,
						resp.Header.Get("Content-Type"))
				}
			}
		}
	})
}

// A body that nobody decodes would be called malformed by whoever reads it.
func TestBodiesWithAContentCodingAreRefused(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		coded := func(target, coding, framed string) {
			c.send("POST " + target + " HTTP/1.1\r\nHost: weir\r\ncontent-encoding: " + coding +
				"\r\n" + framed)
		}
		const four, chunked, none = "Content-Length: 4\r\n\r\nbody",
			"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "\r\n"
		for _, target := range []string{"/fast/a", "/handed/a", "/either/a?handoff", "http://weir/fast/a"} {
			for _, coding := range []string{"gzip", "identity, br", "identity\r\nContent-Encoding: deflate"} {
				coded(target, coding, four)
				resp, body := c.response("POST")
				if resp.StatusCode != 415 || resp.Header.Get("Content-Type") != problemType ||
					resp.Header.Get("Accept-Encoding") != "identity" ||
					!strings.Contains(body, "uncompressed") {
					t.Fatalf("%s, %s: got %d, Accept-Encoding %q, %s", target, coding, resp.StatusCode,
						resp.Header.Get("Accept-Encoding"), body)
				}
			}
		}
		coded("/fast/a", "Identity", four)
		c.expect("POST", 200, "POST a body")
		coded("/handed/a", "", four)
		c.expect("POST", 200, "POST handed a  body")
		coded("/fast/a", "gzip", none)
		c.expect("POST", 200, "POST a ")
		coded("/nowhere", "gzip", four)
		if resp, body := c.response("POST"); resp.StatusCode != 404 {
			t.Fatalf("got %d, %s", resp.StatusCode, body)
		}
		c.passed()
		coded("/fast/a", "gzip", chunked)
		if resp, body := c.response("POST"); resp.StatusCode != 415 {
			t.Fatalf("chunked: got %d, %s", resp.StatusCode, body)
		}
	})
}

func TestManyConnectionsAtOnceGetTheirOwnAnswers(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.Loops, cfg.Workers = 2, 2
		s := start(t, cfg, &echo{})
		errs := make(chan error)
		const clients = 50
		for i := range clients {
			c := dial(t, s)
			go func() { errs <- talk(c, i) }()
		}
		for range clients {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// talk has one conversation over all lanes and checks that every answer is its own.
func talk(c *client, id int) error {
	r := bufio.NewReader(c)
	for n := range 20 {
		word := fmt.Sprintf("c%d-%d", id, n)
		raw, want := "", []string{}
		for _, lane := range []string{"fast", "handed", "offloaded"} {
			raw += get("/" + lane + "/" + word)
		}
		want = append(want, "GET "+word+" ", "GET handed "+word+"  ", "GET "+word+" ")
		if _, err := io.WriteString(c, raw); err != nil {
			return err
		}
		for _, want := range want {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			if string(got) != want {
				return fmt.Errorf("connection %d got %q, want %q", id, got, want)
			}
		}
	}
	return nil
}

// routes is a service of nothing but routes.
type routes []Route

func (routes) Name() string      { return "routes" }
func (r routes) Routes() []Route { return r }
func (routes) Health() Health    { return Ready() }
func (routes) Close() error      { return nil }

package feed

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
)

// escape makes any text a part of a request target, and leaves what it may be made of as it is,
// percent signs included.
func escape(s, reserved string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"<>\^{|}#`+"`"+reserved, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzRequestsAlwaysGetAnAnswerInJSON sends whatever user ids and queries over a connection to feeds of
// numbers and of names. Whatever they are the answer is JSON of a status that a request may have, the
// connection stays usable, and no handler has panicked.
func FuzzRequestsAlwaysGetAnAnswerInJSON(f *testing.F) {
	for _, id := range []string{"1", "007", "anna", "", "%", "%zz", "%31", "\xff", "18446744073709551616",
		"1/position", strings.Repeat("9", 300)} {
		for _, query := range []string{"", "size=5", "size=256&meta=1", "from=1&list=0123456789ab",
			"peek=1&&=&size", "%zz=1", "size=%2", "list=%00&from=0", "meta=1&size=255"} {
			f.Add(id, query)
		}
	}
	type side struct {
		*served
		conn net.Conn
		r    *bufio.Reader
	}
	var sides []*side
	for as, name := range []string{"numbers", "", "names"} {
		if name == "" {
			continue
		}
		dir := f.TempDir()
		demo().write(f, filepath.Join(dir, "feeds.weir"), shape(as), as == 2, 1, 2, 3)
		sides = append(sides, &side{served: serveFeed(f, dir, server.Config{MaxHeader: 1 << 20})})
	}
	f.Fuzz(func(t *testing.T, id, query string) {
		for _, s := range sides {
			s.t = t
			if s.conn == nil {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				s.conn, s.r = conn, bufio.NewReader(conn)
			}
			if err := s.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(s.conn, "GET /feed/%s?%s HTTP/1.1\r\nHost: weir\r\n\r\n", escape(id, "?"),
				escape(query, ""))
			resp, err := http.ReadResponse(s.r, &http.Request{Method: http.MethodGet})
			if err != nil {
				t.Fatalf("%q, %q: no answer: %v", id, query, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("%q, %q: %v", id, query, err)
			}
			if !json.Valid(body) {
				t.Errorf("%q, %q: %q is not JSON", id, query, body)
			}
			switch resp.StatusCode {
			case 200, 404, 409, 422, 500:
				if resp.StatusCode == 500 && !strings.Contains(string(body), "no feed items") {
					t.Errorf("%q, %q: %s", id, query, body)
				}
				if resp.Close {
					t.Errorf("%q, %q: the connection is closed after %d %s", id, query, resp.StatusCode, body)
				}
			case 400, 431: // the kernel's: the target is malformed or too long
				s.conn.Close()
				s.conn = nil
			default:
				t.Errorf("%q, %q: %d %s", id, query, resp.StatusCode, body)
			}
			if n := s.value("weir_http_handler_panics_total"); n != 0 {
				t.Fatalf("%q, %q: a handler panicked: %s", id, query, &s.logged)
			}
		}
	})
}

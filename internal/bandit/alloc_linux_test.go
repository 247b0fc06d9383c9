//go:build !race

package bandit

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
)

// wire is a client on one connection that allocates nothing.
type wire struct {
	t      testing.TB
	conn   net.Conn
	buffer []byte
	body   []byte // of the last answer
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
)

// round sends a request and reads its answer.
func (w *wire) round(request []byte) {
	if _, err := w.conn.Write(request); err != nil {
		w.t.Fatal(err)
	}
	for n := 0; ; {
		m, err := w.conn.Read(w.buffer[n:])
		if err != nil {
			w.t.Fatal(err)
		}
		n += m
		end, at := bytes.Index(w.buffer[:n], headEnd), bytes.Index(w.buffer[:n], contentLength)
		if end < 0 || at < 0 {
			continue
		}
		length := 0
		for _, c := range w.buffer[at+len(contentLength) : end] {
			if c < '0' || c > '9' {
				break
			}
			length = 10*length + int(c-'0')
		}
		if n >= end+4+length {
			w.body = w.buffer[end+4 : end+4+length]
			return
		}
	}
}

// TestAllocPredictionsAllocateNothing counts what a process allocates in which both ends of a connection
// are: the whole way of a request, by the event loop or a worker.
func TestAllocPredictionsAllocateNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	var all []arm
	for i := range 1000 {
		all = append(all, arm{item: fmt.Sprint(i), alpha: 2, beta: 3},
			arm{user: "u1", item: fmt.Sprint(3 * i), alpha: 4, beta: 5},
			arm{segment: "young", item: fmt.Sprint(5 * i), alpha: 6, beta: 7},
			arm{item: fmt.Sprint("name ", i), alpha: 2, beta: 3})
	}
	writeArms(t, path, all, "u1", "young", "u2", "young")
	var names, quoted []string
	var numbers []uint64
	for i := range 400 {
		names, quoted, numbers = append(names, fmt.Sprint("name ", i)),
			append(quoted, fmt.Sprintf("%q", fmt.Sprint("name ", i))), append(numbers, uint64(i))
	}
	json := func(path, body string) []byte {
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	tensors := func(datatype string, n int, raw string) []byte {
		head := fmt.Sprintf(
			`{"inputs":[%s,%s],"outputs":[{"name":"scores","parameters":{"binary_data":true}}]}`,
			input("user", "BYTES", "[1]", 6), input("items", datatype, fmt.Sprintf("[%d]", n), len(raw)))
		return fmt.Appendf(nil, "POST /v2/models/bandit/infer HTTP/1.1\r\nHost: weir\r\n"+
			"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n%s%s%s",
			len(head), len(head)+6+len(raw), head, bytesElements("u1"), raw)
	}
	for _, learned := range []bool{false, true} {
		f := open(t, t.TempDir(), func(c *Config) {
			if c.Arms = path; learned {
				c.HalfLife = time.Hour
			}
		})
		if learned {
			var list []event
			for i := range 500 {
				list = append(list, event{user: []byte("u1"), item: strconv.AppendInt(nil, int64(i), 10),
					reward: 1})
			}
			if _, err := f.accept(list); err != nil {
				t.Fatal(err)
			}
		}
		s := serve(t, f, server.Config{})
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for name, request := range map[string][]byte{
			"10 items":  json("/predict", `{"user":"u1","items":`+list(0, 10)+`}`),
			"400 items": json("/predict", `{"user":"u1","items":`+list(0, 400)+`}`),
			"400 names": json("/predict", `{"user":"u2","items":[`+
				strings.Join(quoted, ",")+`]}`),
			"the best 10 of 400":    json("/predict", `{"user":"u2","items":`+list(0, 400)+`,"top":10}`),
			"400 items with a seed": json("/predict", `{"items":`+list(0, 400)+`,"seed":7}`),
			"10 items of a segment": json("/predict", `{"segment":"young","items":`+list(0, 10)+`}`),
			"a user and a segment": json("/predict",
				`{"user":"u1","segment":"a segment with a name that is rather long, and nobody knows it","items":`+list(0, 10)+`}`),
			"400 items nobody knows": json("/predict", `{"user":"nobody","items":`+list(100_000, 400)+`}`),
			"tensors of 400 INT64":   tensors("INT64", 400, words64(numbers...)),
			"tensors of 400 UINT64":  tensors("UINT64", 400, words64(numbers...)),
			"tensors of 400 BYTES":   tensors("BYTES", 400, bytesElements(names...)),
			"tensors of 10 INT32":    tensors("INT32", 10, words32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
			"400 items, tensors, JSON": json("/v2/models/bandit/infer",
				`{"inputs":[{"name":"items","shape":[400],"datatype":"INT64","data":`+list(0, 400)+`}]}`),
		} {
			w := &wire{t: t, conn: conn, buffer: make([]byte, 64<<10)}
			if n := testing.AllocsPerRun(300, func() { w.round(request) }); n != 0 {
				t.Errorf("%s, with events: %t: %v allocations a request", name, learned, n)
			}
			if len(w.body) < 80 || bytes.Contains(w.body, []byte("detail")) {
				t.Errorf("%s: %.200s", name, w.body)
			}
		}
	}
}

package fetch

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// FuzzDecode: no body does harm, none grows beyond its bounds, and the host's turn ends once.
func FuzzDecode(f *testing.F) {
	f.Add("gzip", []byte(
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x4b\x04\x00\x43\xbe\xb7\xe8\x01\x00\x00\x00"))
	f.Add("deflate", []byte("\x78\x9c\x4b\x04\x00\x00\x62\x00\x62"))
	f.Add("deflate", []byte("\x4b\x04\x00"))
	f.Add("br", []byte("\x0b\x00\x80\x61\x03"))
	f.Add("zstd, gzip", []byte("\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x61"))
	f.Add(" , identity", []byte("a"))
	f.Fuzz(func(t *testing.T, encoding string, data []byte) {
		c := New(Options{MaxBody: 1 << 20, MaxRatio: 50})
		resp := &http.Response{Body: io.NopCloser(bytes.NewReader(data)),
			Header:        http.Header{"Content-Encoding": {encoding}},
			ContentLength: -1, Request: &http.Request{Method: http.MethodGet}}
		ends := 0
		body, err := c.decode(resp, func() { ends++ })
		if err == nil {
			got, _ := io.ReadAll(body) // or what there is of it
			if limit := max(len(data), freeGrowth+50*len(data)); len(got) > limit || len(got) > 1<<20 {
				t.Errorf("%d bytes have become %d", len(data), len(got))
			}
			body.Close() //nolint:errcheck // in memory
			body.Close() //nolint:errcheck // in memory
		}
		if ends != 1 {
			t.Errorf("its turn ended %d times", ends)
		}
	})
}

package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	acceptEncoding = "gzip, deflate, br, zstd"
	maxEncodings   = 2         // of one body, one over the other
	freeGrowth     = 256 << 10 // decoded bytes that are not held against the ratio
	zstdWindow     = 8 << 20   // what RFC 9659 allows in HTTP
)

// decode returns the body of a response without its encodings, within bounds. Closing it calls end once, and
// so does failing.
func (c *Client) decode(resp *http.Response, end func()) (_ io.ReadCloser, err error) {
	b := &bodyReader{sent: resp.Body, end: sync.OnceFunc(end), o: &c.o}
	defer func() {
		if err != nil {
			b.Close() //nolint:errcheck // the body is given up
		}
	}()
	if resp.ContentLength > c.o.MaxBody {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, resp.ContentLength,
			c.o.MaxBody)
	}
	b.decoded = io.Reader((*sentReader)(b))
	encodings := strings.FieldsFunc(
		strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")),
		func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	encodings = slices.DeleteFunc(encodings, func(e string) bool { return e == "identity" })
	if len(encodings) == 0 || resp.StatusCode == http.StatusNotModified ||
		resp.Request.Method == http.MethodHead {
		return b, nil
	}
	if len(encodings) > maxEncodings {
		return nil, fmt.Errorf("the body has %d encodings, one over the other; %d are taken",
			len(encodings), maxEncodings)
	}
	for _, encoding := range slices.Backward(encodings) {
		if err := b.add(encoding); err != nil {
			return nil, fmt.Errorf("decode %s: %w", encoding, err)
		}
	}
	b.ratio = true
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
	return b, nil
}

// bodyReader reads a body within bounds.
type bodyReader struct {
	o       *Options
	sent    io.ReadCloser
	decoded io.Reader
	close   []func()
	end     func()
	in, out int64 // bytes that were sent, and read
	ratio   bool  // the body grows
}

// add decodes what b.decoded gives. The decoder is made when the body is first read, as some read at once.
func (b *bodyReader) add(encoding string) error {
	from := b.decoded
	var open func() (io.Reader, error)
	switch encoding {
	case "gzip", "x-gzip":
		open = func() (io.Reader, error) { return gzip.NewReader(from) }
	case "br":
		open = func() (io.Reader, error) {
			r := brotlis.Get().(*brotli.Reader)
			b.close = append(b.close, func() {
				r.Reset(nil) //nolint:errcheck // it never fails
				brotlis.Put(r)
			})
			return r, r.Reset(from)
		}
	case "zstd":
		open = func() (io.Reader, error) {
			d, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1),
				zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
			if err == nil {
				b.close = append(b.close, d.Close)
			}
			return d, err
		}
	case "deflate": // zlib by the RFC; some servers leave its header out
		open = func() (io.Reader, error) {
			r := bufio.NewReader(from)
			head, err := r.Peek(2)
			if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
				return zlib.NewReader(r)
			}
			return flate.NewReader(r), nil
		}
	default:
		return errors.New("the encoding is not known")
	}
	b.decoded = &lazyReader{open: open}
	return nil
}

// brotlis are decoders; one takes about 100 KB for a feed.
var brotlis = sync.Pool{New: func() any { return new(brotli.Reader) }}

// lazyReader opens a reader at the first Read.
type lazyReader struct {
	open func() (io.Reader, error)
	r    io.Reader
	err  error
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.r == nil && l.err == nil {
		l.r, l.err = l.open()
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.r.Read(p)
}

// sentReader reads a body as it was sent.
type sentReader bodyReader

func (s *sentReader) Read(p []byte) (int, error) {
	n, err := s.sent.Read(p)
	if s.in += int64(n); s.in > s.o.MaxBody {
		return 0, fmt.Errorf("%w: more than %d bytes were sent", ErrTooLarge, s.o.MaxBody)
	}
	return n, err
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.decoded.Read(p)
	b.out += int64(n)
	switch {
	case b.out > b.o.MaxBody:
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.o.MaxBody)
	case b.ratio && b.out > freeGrowth+b.o.MaxRatio*b.in:
		return 0, fmt.Errorf("%w: %d bytes have grown to more than %d times as many", ErrTooLarge, b.in,
			b.o.MaxRatio)
	}
	return n, err
}

// Close implements io.Closer.
func (b *bodyReader) Close() error {
	b.decoded = bytes.NewReader(nil) // who reads on must not do so with a decoder that is another's
	for _, f := range b.close {
		f()
	}
	b.close = nil
	err := b.sent.Close()
	b.end()
	return err
}

package mock

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/zeebo/xxh3"
)

// coding is a content coding (RFC 9110, 8.4.1).
type coding uint8

const (
	identity coding = iota
	gzipped
	brotlied
	pretended // says gzip, and is not
	codingKinds
)

var codingNames = [codingKinds]string{"identity", "gzip", "br", "gzip"}

// rendered is a page's bytes, and what their header says. It is never changed.
type rendered struct {
	body         []byte
	tag          string // without quotes
	lastModified string
	modified     int64 // the same, in Unix seconds
	contentType  string
}

var contentTypes = [formats]string{"application/rss+xml", "application/atom+xml", "application/feed+json"}

func (s *Server) render(p page) *rendered {
	step := s.clock.length.Seconds()
	body := feed(p, step)
	switch p.damage {
	case mislabelled:
	case invalid:
		body = p.charset.encodeInvalid(body, firstTitle(body, p.format))
	default:
		body = p.charset.encode(body)
	}
	body = p.damage.spoil(body, p.format)
	switch p.coding {
	case gzipped:
		body = compressGzip(body)
	case brotlied:
		body = compressBrotli(body)
	}
	modified := row{p.seed, p.churn, step}.came(p.newest)
	r := &rendered{
		body:         slices.Clip(body),
		tag:          strconv.FormatUint(xxh3.Hash(body), 36),
		lastModified: modified.Format("Mon, 02 Jan 2006 15:04:05 GMT"),
		modified:     modified.Unix(),
		contentType:  contentTypes[p.format],
	}
	if p.format != JSON {
		r.contentType += "; charset=" + charsets[p.charset].name
	}
	switch p.damage {
	case html:
		r.contentType = "text/html; charset=utf-8"
	case mistyped:
		r.contentType = "application/octet-stream"
	}
	return r
}

func (s *Server) page(q *query, damage Damage, step int64, c coding) page {
	k := &q.knobs
	p := page{seed: q.seed, churn: k.Churn, items: int32(k.Items), body: int32(k.Body), format: q.format,
		damage: damage, coding: c}
	p.newest = row{seed: q.seed, churn: k.Churn}.newest(step)
	switch q.format {
	case JSON:
		if !damages[damage].json {
			p.damage = undamaged
		}
	case RSS:
		p.minutes = int32((k.TTL + time.Minute - 1) / time.Minute)
		fallthrough
	default:
		p.charset = k.Charset
		if damage == mislabelled {
			p.charset = 0 // as it says
		}
	}
	if p.damage == miscoded {
		p.coding = pretended
	}
	return p
}

func (s *Server) keep(p page, r *rendered) {
	if len(r.body) <= s.largest {
		s.pages.Set(p, r)
	}
}

// Compressors have hundreds of kilobytes of tables, so they are used again.
var (
	gzipWriters   = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}
	brotliWriters = sync.Pool{New: func() any { return brotli.NewWriterLevel(io.Discard, 4) }}
)

func compressGzip(body []byte) []byte {
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	return compress(w, body)
}

func compressBrotli(body []byte) []byte {
	w := brotliWriters.Get().(*brotli.Writer)
	defer brotliWriters.Put(w)
	return compress(w, body)
}

func compress(w interface {
	io.WriteCloser
	Reset(io.Writer)
}, body []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(body)/3 + 64)
	w.Reset(&out)
	if _, err := w.Write(body); err != nil {
		panic("BUG: compressing into memory: " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("BUG: compressing into memory: " + err.Error())
	}
	return out.Bytes()
}

// negotiate chooses the coding of an answer by Accept-Encoding (RFC 9110, 12.5.3): the one the client likes
// best, br before gzip. Always does so for any client.
func (k *Knobs) negotiate(accept []byte) coding {
	switch {
	case k.Gzip == Always:
		return gzipped
	case k.Brotli == Always:
		return brotlied
	case len(accept) == 0 || k.Gzip == Never && k.Brotli == Never:
		return identity
	}
	likes := [codingKinds]int{gzipped: -1, brotlied: -1} // thousandths; -1 is not named
	anything := 0
	for len(accept) > 0 {
		var one []byte
		one, accept, _ = bytes.Cut(accept, []byte{','})
		name, weight, weighed := bytes.Cut(one, []byte{';'})
		q := 1000
		if weighed {
			q = quality(bytes.TrimSpace(weight))
		}
		switch name = bytes.TrimSpace(name); {
		case bytes.EqualFold(name, []byte("gzip")), bytes.EqualFold(name, []byte("x-gzip")):
			likes[gzipped] = q
		case bytes.EqualFold(name, []byte("br")):
			likes[brotlied] = q
		case bytes.EqualFold(name, []byte("identity")):
			likes[identity] = q
		case string(name) == "*":
			anything = q
		}
	}
	best, most := identity, likes[identity]
	for _, c := range [...]struct {
		coding coding
		on     Coding
	}{{gzipped, k.Gzip}, {brotlied, k.Brotli}} {
		q := likes[c.coding]
		if q < 0 {
			q = anything
		}
		if c.on == Auto && q > 0 && q >= most {
			best, most = c.coding, q
		}
	}
	return best
}

// quality reads "q=0.5" as thousandths; what it cannot read is 0.
func quality(weight []byte) int {
	v, ok := bytes.CutPrefix(bytes.ToLower(weight), []byte("q="))
	if !ok {
		return 0
	}
	q, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return int(q * 1000)
}

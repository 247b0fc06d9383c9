package client

import (
	"bytes"

	"weir/internal/server"
)

// framer finds the end of an answer in bytes that come in pieces of any size. It keeps what is incomplete
// of a head and nothing of a body. The zero framer waits for an answer.
type framer struct {
	toHEAD bool
	keep   bool // ETag and Last-Modified, for a Listener
	phase  phase
	rest   int64 // bytes of the body
	seen   int   // bytes of the head, interim heads included
	chunks server.ChunkScanner

	partial []byte // of a head
	scanned int    // of partial, without the end of a head

	head               // of the answer, etag and lastModified aside
	etag, lastModified []byte

	cache *headCache // shared with others on the same thread, or nil
}

// phase is what comes next.
type phase uint8

const (
	inHead phase = iota
	inBody       // of rest bytes
	toEnd        // of the connection
	inChunks
	answered
)

// begin makes f wait for the next answer, keeping its memory.
func (f *framer) begin(toHEAD bool) {
	f.toHEAD = toHEAD
	f.phase = inHead
	f.seen = 0
	f.partial = f.partial[:0]
	f.scanned = 0
	f.status = 0
}

// fresh says that nothing of the answer has come.
func (f *framer) fresh() bool { return f.phase == inHead && f.seen == 0 && len(f.partial) == 0 }

// skippable returns how many bytes may be taken from the connection without being shown to feed; see skip.
func (f *framer) skippable() int64 {
	if f.phase == inBody {
		return f.rest
	}
	return 0
}

// skip says that n bytes were taken, at most skippable, and returns whether the answer is over.
func (f *framer) skip(n int64) (done bool) {
	if f.rest -= n; f.rest == 0 {
		f.phase = answered
	}
	return f.phase == answered
}

// feed takes what has come and returns how much of it belongs to the answer, which is all unless the answer
// is over.
func (f *framer) feed(p []byte) (n int, done bool, err error) {
	for n < len(p) && f.phase != answered {
		var used int
		switch f.phase {
		case inHead:
			used, err = f.feedHead(p[n:])
		case inBody:
			used = int(min(f.rest, int64(len(p)-n)))
			f.skip(int64(used))
		case toEnd:
			used = len(p) - n
		case inChunks:
			var whole bool
			if used, whole, err = f.chunks.Scan(p[n:]); whole {
				f.phase = answered
			}
		}
		if n += used; err != nil {
			return n, false, err
		}
	}
	return n, f.phase == answered, nil
}

// end says that the connection has, and returns whether the answer has, too.
func (f *framer) end() bool {
	if f.phase == toEnd {
		f.phase = answered
	}
	return f.phase == answered
}

func (f *framer) feedHead(p []byte) (n int, err error) {
	whole := p
	if len(f.partial) == 0 {
		if h, size, ok := f.cache.find(p, f.toHEAD); ok && size <= maxHead-f.seen {
			f.head = h
			return size, f.begun(size)
		}
		if n = bytes.Index(p, headEnd); n >= 0 {
			n += len(headEnd)
			whole = p[:n]
		}
	} else {
		old := len(f.partial)
		f.partial = append(f.partial, p[:min(len(p), maxHead+1-old)]...)
		whole = f.partial
		from := max(f.scanned-len(headEnd)+1, 0)
		if n = bytes.Index(whole[from:], headEnd); n >= 0 {
			whole = whole[:from+n+len(headEnd)]
			n = len(whole) - old
		}
	}
	if n < 0 {
		if len(f.partial) == 0 {
			f.partial = append(f.partial, p...)
		}
		if err := canBeHead(f.partial, f.scanned); err != nil {
			return len(p), err
		}
		if f.scanned = len(f.partial); f.seen+f.scanned > maxHead {
			return len(p), errLongHead
		}
		return len(p), nil
	}
	if err := canBeHead(whole, f.scanned); err != nil {
		return n, err
	}
	if f.seen+len(whole) > maxHead {
		return n, errLongHead
	}
	if f.head, err = parseHead(whole, f.toHEAD); err != nil {
		return n, err
	}
	f.cache.keep(whole, f.head, f.toHEAD)
	err = f.begun(len(whole))
	f.partial, f.scanned = f.partial[:0], 0
	return n, err
}

// canBeHead finds what cannot become a head, and is not waited for: no status line, or lines that end in LF
// alone. The bytes before from have been looked at. It comes first for whole heads, too, so that what is
// said does not depend on how they come in.
func canBeHead(p []byte, from int) error {
	if i := min(len(p), len("HTTP/1.")); string(p[:i]) != "HTTP/1."[:i] {
		return errStatusLine
	}
	for {
		n := bytes.IndexByte(p[from:], '\n')
		if n < 0 {
			return nil
		}
		if at := from + n; at == 0 || p[at-1] != '\r' {
			return errLineEnd
		}
		from += n + 1
	}
}

// begun goes on to what follows f.head, which was size bytes long.
func (f *framer) begun(size int) error {
	f.seen += size
	if f.status < 200 {
		return nil // the head of the answer itself is still to come
	}
	if f.keep {
		f.etag = append(f.etag[:0], f.head.etag...)
		f.lastModified = append(f.lastModified[:0], f.head.lastModified...)
	}
	f.head.etag, f.head.lastModified = nil, nil
	switch f.rest = f.length; f.length {
	case 0:
		f.phase = answered
	case lengthChunked:
		f.phase, f.chunks = inChunks, server.ChunkScanner{}
	case lengthToEnd:
		f.phase = toEnd
	default:
		f.phase = inBody
	}
	return nil
}

// headCache remembers the latest head of a thread's answers: servers say the same over and over, but for
// Date, once a second. A nil headCache remembers nothing, which parses every head.
type headCache struct {
	bytes  []byte
	head   head
	toHEAD bool
}

// find returns the remembered head if p begins with it, and how long it is.
func (k *headCache) find(p []byte, toHEAD bool) (h head, size int, ok bool) {
	if k == nil || len(k.bytes) == 0 || toHEAD != k.toHEAD || !bytes.HasPrefix(p, k.bytes) {
		return head{}, 0, false
	}
	return k.head, len(k.bytes), true
}

// keep remembers a head that was parsed without an error.
func (k *headCache) keep(p []byte, h head, toHEAD bool) {
	if k == nil || len(p) > 4<<10 {
		return
	}
	// h's bytes are p's, which are gone soon.
	k.bytes = append(k.bytes[:0], p...)
	k.head, k.toHEAD = h, toHEAD
	k.head.etag, k.head.lastModified = k.own(p, h.etag), k.own(p, h.lastModified)
}

// own returns part, which is within p, within k.bytes.
func (k *headCache) own(p, part []byte) []byte {
	if len(part) == 0 {
		return nil
	}
	at := cap(p) - cap(part)
	return k.bytes[at : at+len(part)]
}

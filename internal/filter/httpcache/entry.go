package httpcache

import (
	"net/http"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

// Entry is a response. It holds its file until Release, also if that is replaced or the cache closed.
type Entry struct {
	URL     string // what it is the response to, after redirects
	MovedTo string // where permanent redirects have led to, "" if there were none
	Status  int
	Header  http.Header   // as the upstream sent it, without what belongs to a connection; not to be changed
	Version uint64        // changes with the body, the status or the content type, and survives restarts
	Fetched time.Time     // when the body came
	Checked time.Time     // when it, or the 304 that validated it last, came
	Age     time.Duration // by RFC 9111, when it was got
	Fresh   time.Duration // how long it was still fresh then; below 0 for how long it was stale
	Cached  bool          // it was stored, and not fetched or validated for this request
	Stale   bool          // it was given although it was stale
	Err     error         // why it is stale: the fetch that failed; nil while one goes on

	body    []byte
	meta    *meta
	release func()
}

// Body returns the body, without content encodings if Options.Fetch removes them. It is valid until Release,
// mostly mapped memory, which is read under disk.Guard or in a handler of the server, and never written.
func (e *Entry) Body() []byte { return e.body }

// Release gives the body up. It must be called once at least.
func (e *Entry) Release() { e.release() }

// newEntry returns the entry of a mapped response. release is called once.
func newEntry(m *meta, p *policy, mapping *disk.Mapping, body []byte, checksum uint64, now time.Time,
	release func()) *Entry {
	return &Entry{
		URL: m.Key, Status: m.Status, Header: m.Header,
		Version: xxh3.HashStringSeed(m.Header.Get("Content-Type"), checksum+uint64(m.Status)),
		Fetched: m.Fetched, Checked: m.Received, Age: p.ageAt(now), Fresh: p.lifetime - p.ageAt(now),
		body: body, meta: m,
		release: sync.OnceFunc(func() {
			mapping.Close() //nolint:errcheck // there is nothing to do about it
			release()
		}),
	}
}

// Package httpcache is a shared HTTP cache on disk (RFC 9111, RFC 5861) in front of whoever answers GET.
//
// What it promises:
//
//   - A response is used as long as it is fresh, validated when it is not, used while that goes on or fails
//     where stale-while-revalidate and stale-if-error allow it, and otherwise not given.
//   - Requests for one URL under way share one fetch. It outlives them: whoever gives up, the fetch goes on
//     within Options.Timeout and its response is stored.
//   - A file holds one response, header and body, and is there as a whole or not at all, however the process
//     ends. Open finds what is there. What power failures or others do to a file is found out by its
//     checksums before it is used, and costs a fetch.
//   - Files have at most Options.MaxBytes together. What was used least recently goes first, and nothing
//     goes that an Entry holds or a fetch is about to validate.
//
// A Poller relaxes what may be stored, for a service that asks without credentials of its users, and gives
// old content rather than none: see Options.Poller.
//
// Sizes are in bytes. Errors of Get wrap what Options.Fetch returned, ErrUnsolicited, ErrTooLarge,
// ErrNotStored or ErrClosed. All methods are safe for concurrent use.
package httpcache

import (
	"bytes"
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the cache is closed")
	// ErrNotStored is what a request with only-if-cached gets where nothing can be used.
	ErrNotStored = errors.New("nothing is stored that may be used")
	// ErrUnsolicited is a 304 to a request without conditions.
	ErrUnsolicited = errors.New("304 Not Modified in answer to a request without conditions")
	// ErrTooLarge is a body of more than Options.MaxBody bytes.
	ErrTooLarge = errors.New("the body is too large")
	// ErrRedirects is a chain of more than maxRedirects redirects, or one to no HTTP URL.
	ErrRedirects = errors.New("redirected too often or to no HTTP URL")
)

// Options of a Cache. What is zero has the default that its comment names.
type Options struct {
	Fetch    http.RoundTripper // asks upstream; must be given
	MaxBytes int64             // of all files; 1 GiB
	MaxBody  int64             // of one body; 32 MiB
	Timeout  time.Duration     // of a fetch, its body included; 90 s
	Log      *slog.Logger      // the default one
	// StaleIfError is for how long a response is used after it was fresh where the upstream cannot be
	// reached or answers 500 and above, unless it says that itself or forbids it; 0 is not at all.
	StaleIfError time.Duration
	// Surrogate is the name by which Surrogate-Control may address the cache, which then prefers it to
	// Cache-Control; none if empty.
	Surrogate string

	// Poller makes the cache that of a service that polls and answers from what it has. It stores whatever a
	// request is answered with, also what is private, no-store or asked for with Authorization, which is
	// part of the key then; the response is stale at once, unless it says otherwise. A stored response is
	// used whenever the upstream fails, which answers from 400 on are, but for 410 Gone.
	Poller bool
	// MinFresh is how long a Poller's responses are fresh at least.
	MinFresh time.Duration
}

// Cache is described by the package.
type Cache struct {
	o      Options
	dir    string
	lock   *disk.DirLock
	ctx    context.Context // of fetches
	cancel context.CancelFunc
	work   sync.WaitGroup // fetches; begins no more once closed

	files sync.Mutex // held while files are renamed, appended to or removed; taken before mu

	mu      sync.Mutex
	closed  bool
	byKey   map[string][]*object // responses to one URL, the latest last
	used    *list.List           // of *object, the least recently used first
	bytes   int64                // of their files
	flights map[string]*flight
	stats   Stats
}

// Stats counts what has happened since Open, and says what is there.
type Stats struct {
	Entries, Pinned int   // responses that are stored, and how many of them are held
	Bytes           int64 // of their files
	Fetching        int

	Hits, Misses uint64 // requests that were answered without waiting for a fetch, or not
	Validated    uint64 // fetches answered by 304
	Stale        uint64 // requests answered by a stale response
	Failures     uint64 // fetches that failed
	Evicted      uint64 // responses that were removed to make room
	Damaged      uint64 // files that were removed as they could not be used
}

// Open returns the cache in a directory, which is made if need be and is this process's alone until Close.
func Open(dir string, o Options) (*Cache, error) {
	if o.Fetch == nil {
		return nil, errors.New("BUG: a cache without Options.Fetch")
	}
	set(&o.MaxBytes, 1<<30)
	set(&o.MaxBody, 32<<20)
	set(&o.Timeout, 90*time.Second)
	set(&o.Log, slog.Default())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	lock, err := disk.LockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c := &Cache{o: o, dir: dir, lock: lock, byKey: make(map[string][]*object), used: list.New(),
		flights: make(map[string]*flight)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open cache: %w", err), lock.Close())
	}
	return c, nil
}

func set[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Close ends all fetches and gives the directory free. Entries stay valid until they are released.
func (c *Cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	return c.lock.Close()
}

// Stats returns what there is to count, also after Close.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Bytes, s.Fetching = c.used.Len(), c.bytes, len(c.flights)
	for e := c.used.Front(); e != nil; e = e.Next() {
		if e.Value.(*object).pins > 0 {
			s.Pinned++
		}
	}
	return s
}

// Get returns the response to a GET of a URL, with redirects followed. Of h the fields that describe what is
// wanted are sent upstream, conditions and ranges are not; Cache-Control has its meaning of RFC 9111,
// section 5.2.1. User and password in the URL are sent as Authorization; no Authorization is carried to
// another origin. The caller releases the entry.
//
// An upstream that fails is an error, or an entry that is Stale with Err set where an older response may be
// used. Any status is an answer.
func (c *Cache) Get(ctx context.Context, url string, h http.Header) (*Entry, error) {
	return c.follow(url, h, func(r *request) (*Entry, error) { return c.do(ctx, r) })
}

// Peek returns the response that is stored for a GET of a URL, fresh or not, with redirects followed. It
// fetches nothing and waits for nothing but the disk. The caller releases the entry.
func (c *Cache) Peek(url string) (*Entry, bool) {
	e, err := c.follow(url, nil, c.stored)
	return e, err == nil
}

// stored returns the response to a request that is stored, fresh or not.
func (c *Cache) stored(r *request) (*Entry, error) {
	c.mu.Lock()
	o := c.find(r)
	if o != nil {
		o.pins++
	}
	c.mu.Unlock()
	if o == nil {
		return nil, ErrNotStored
	}
	e, err := c.open(o)
	if err == nil {
		e.Cached, e.Stale = true, e.Fresh <= 0
	}
	return e, err
}

// maxExport is the size of what Export returns at most.
const maxExport = 8 << 20

// Export returns the stored response to a GET of a URL, with the redirects that lead to it, for Import into
// another cache. It fails with ErrNotStored, or with ErrTooLarge beyond 8 MiB.
func (c *Cache) Export(url string) ([]byte, error) {
	var all bytes.Buffer
	e, err := c.follow(url, nil, func(r *request) (*Entry, error) {
		e, err := c.stored(r)
		if err != nil {
			return nil, err
		}
		if all.Len()+len(e.body) > maxExport {
			e.Release()
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxExport)
		}
		frame, err := appendFrame(nil, headerSize+int64(len(e.body)), e.meta)
		if err != nil {
			e.Release()
			return nil, err
		}
		n := headerSize + len(e.body) + len(frame)
		all.Write(binary.AppendUvarint(nil, uint64(n)))
		all.Write(appendHeader(nil, int64(len(e.body)), xxh3.Hash(e.body)))
		all.Write(e.body)
		all.Write(frame)
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	e.Release()
	return all.Bytes(), nil
}

// Import stores what Export has returned, in the place of what is stored for the same URLs.
func (c *Cache) Import(data []byte) error {
	for len(data) > 0 {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return fmt.Errorf("import: %w", errCorrupt)
		}
		file := data[size : size+int(n)]
		data = data[size+int(n):]
		body, checksum, m, _, err := parseFile(file)
		if err == nil && xxh3.Hash(body) != checksum {
			err = errCorrupt
		}
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		o, err := c.put(m, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		c.unpin(o)
	}
	return nil
}

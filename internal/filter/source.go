package filter

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/httpcache"
	"weir/internal/filter/pieces"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
	"weir/internal/metrics"
)

// source is a feed that filters read: one that is fetched, or one that is composed of such for one filter.
type source struct {
	url     string
	filters []*filter // that read it, guarded by Service.mu

	version atomic.Uint64           // of the content that serves, 0 until there is some
	current atomic.Pointer[content] // nil when it is not in memory
	asked   atomic.Int64            // when it was last, in Unix seconds
	state   atomic.Pointer[state]   // nil for a composed one
	known   atomic.Pointer[known]   // nil until it was read
	later   atomic.Int64            // before, it is not fetched in the background; in Unix milliseconds
	alone   atomic.Int64            // when it is fetched without a lease if none is to be had; 0 for not yet

	making sync.Mutex // held while the content is read, parsed or put together
	looked bool       // what the cache has was looked at; guarded by making

	mu       sync.Mutex
	fetching chan struct{} // closed when the fetch under way is over; nil while there is none

	parts []*source // of a composed one
}

func newSource(url string) *source { return &source{url: url} }

// state is how fetching went, and what of it answers have. It does not change.
type state struct {
	store.Fetch
	checked time.Time // when the content was last known to be that of the source
	fields  []byte    // Cache-Control, and Weir-Stale while fetching fails
}

// newState returns the state of a source after a fetch.
func (s *Service) newState(f store.Fetch, checked time.Time) *state {
	st := &state{Fetch: f, checked: checked}
	if st.checked.IsZero() {
		st.checked = f.Succeeded
	}
	if st.stale() {
		st.fields = fmt.Appendf(nil, "Cache-Control: public, max-age=60\r\nWeir-Stale: the source has failed "+
			"since %s; failures: %d\r\n", f.Succeeded.UTC().Format(time.RFC3339), f.Failures)
	} else {
		st.fields = fmt.Appendf(nil, "Cache-Control: public, max-age=%d\r\n",
			int(s.live.Load().Interval.Seconds()))
	}
	return st
}

// stale says whether there is content, and fetching it has failed since.
func (st *state) stale() bool { return st.Failures > 0 && !st.Succeeded.IsZero() }

// basis says what an answer is made of: the version of the source, or of all that a composed one has.
func (src *source) basis() uint64 {
	if src.parts == nil {
		return src.version.Load()
	}
	var memory [32 * 16]byte
	b := memory[:0]
	some := false
	for _, part := range src.parts {
		v := part.version.Load()
		some = some || v != 0
		b = binary.LittleEndian.AppendUint64(b, v)
		if st := part.state.Load(); st.Failures > 0 {
			b = binary.LittleEndian.AppendUint64(b, xxh3.HashString(st.Error)|1)
		} else {
			b = append(b, 0)
		}
	}
	if !some {
		return 0
	}
	return xxh3.Hash(b) | 1
}

// touch remembers that a source is asked for.
func (src *source) touch(now time.Time) {
	if src.parts == nil {
		if at := now.Unix(); src.asked.Load() != at {
			src.asked.Store(at)
		}
		return
	}
	for _, part := range src.parts {
		part.touch(now)
	}
}

// worst returns the state that readers are told of: that of a part that fails, or the one checked first.
func (src *source) worst() *state {
	if src.parts == nil {
		return src.state.Load()
	}
	var worst *state
	for _, part := range src.parts {
		st := part.state.Load()
		if worst == nil || !worst.stale() && (st.stale() || st.checked.Before(worst.checked)) {
			worst = st
		}
	}
	return worst
}

// view is a format in which a content can be answered.
type view uint8

// native is the format of the source.
const native view = 255

// viewCount is how many formats there are; a view below it is a syndication.Format.
const viewCount = 4

// views are the names of the formats that may be asked for.
var views = map[string]view{
	"": native, "rss": view(syndication.RSS), "atom": view(syndication.Atom), "json": view(syndication.JSON),
}

// content is a version of a source in memory. Whoever uses it has acquired it.
type content struct {
	version  uint64
	modified time.Time
	body     []byte           // of the source
	entry    *httpcache.Entry // that body is of; nil for a composed one
	kind     string           // the content type of the upstream
	url      string           // where it was found; "" of a composed one

	documents [viewCount]atomic.Pointer[document]

	refs atomic.Int64 // one is current's while it is in memory
	used atomic.Bool  // since residents looked last
	size atomic.Int64
}

// document is a content in one format.
type document struct {
	*pieces.Document
	contentType string
	linked      bool // the URL of the answer can take the place of the source's own
}

// acquire returns the content that serves, nil if it is not in memory. The caller releases it.
func (src *source) acquire() *content {
	for {
		c := src.current.Load()
		if c == nil {
			return nil
		}
		n := c.refs.Load()
		if n == 0 {
			continue // it is being replaced
		}
		if c.refs.CompareAndSwap(n, n+1) {
			if !c.used.Load() {
				c.used.Store(true)
			}
			return c
		}
	}
}

// release gives up an acquired content.
func (c *content) release() {
	if c.refs.Add(-1) == 0 && c.entry != nil {
		c.entry.Release()
	}
}

// maxResident contents are in memory: each has its file mapped, and Linux lets a process have 65,530 mappings
// (vm.max_map_count).
const maxResident = 40_000

// residents are the contents in memory, evicted by a clock when they are too many, or take more than limit:
// one that was used since the hand passed stays for another round.
type residents struct {
	limit   atomic.Int64
	bytes   atomic.Int64
	evicted *metrics.Counter

	mu   sync.Mutex
	ring []*source
	hand int
}

// put makes c, which the caller holds, what serves a source.
func (r *residents) put(src *source, c *content) {
	c.refs.Add(1)
	c.used.Store(true) // who asked for it is to find it
	r.mu.Lock()
	before := src.current.Swap(c)
	r.bytes.Add(c.size.Load())
	if before != nil {
		r.bytes.Add(-before.size.Load())
	} else {
		r.ring = append(r.ring, src)
	}
	r.mu.Unlock()
	if before != nil {
		before.release()
	}
	r.shrink(src)
}

// grow adds to what a content takes.
func (r *residents) grow(src *source, c *content, n int) {
	r.mu.Lock()
	c.size.Add(int64(n))
	if src.current.Load() == c {
		r.bytes.Add(int64(n))
	}
	r.mu.Unlock()
	r.shrink(src)
}

// shrink evicts contents, but not that of a source, until they take no more than they may. One that is being
// sent goes when it is sent.
func (r *residents) shrink(but *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for (r.bytes.Load() > r.limit.Load() || len(r.ring) > maxResident) && len(r.ring) > 1 {
		r.hand %= len(r.ring)
		src := r.ring[r.hand]
		if c := src.current.Load(); src == but || c != nil && c.used.Swap(false) {
			r.hand++
			continue
		}
		r.evict(r.hand)
	}
}

// clear evicts everything.
func (r *residents) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ring) > 0 {
		r.evict(len(r.ring) - 1)
	}
}

// drop takes a source that is no longer read out of memory.
func (src *source) drop(r *residents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ring {
		if r.ring[i] == src {
			r.evict(i)
			return
		}
	}
}

// evict drops the content of the i-th source. The lock is held.
func (r *residents) evict(i int) {
	src := r.ring[i]
	last := len(r.ring) - 1
	r.ring[i], r.ring[last] = r.ring[last], nil
	r.ring = r.ring[:last]
	if c := src.current.Swap(nil); c != nil {
		r.bytes.Add(-c.size.Load())
		r.evicted.Add(0, 1)
		c.release()
	}
}

package httpcache

import (
	"bytes"
	"container/list"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

const suffix = ".response"

// maxVariants are the responses kept for one URL, which differ by what Vary names.
const maxVariants = 16

// object is a stored response. The cache's lock guards all but key, name and what was set before it was
// added.
type object struct {
	key, name string
	policy    policy
	size      int64         // of the file
	checked   bool          // the body's checksum was found right, or it was written by this process
	pins      int           // it is not evicted while above 0
	used      *list.Element // nil: it is not in the index any more
	retry     time.Time     // before, a Poller does not ask again
	failed    error         // why
}

// nameOf returns the name of a response's file.
func nameOf(m *meta) string {
	h := xxh3.New()
	h.WriteString(m.Key) //nolint:errcheck // never fails
	for _, f := range m.Vary {
		fmt.Fprintf(h, "\n%q %q", f.Name, f.Value)
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:]) + suffix
}

// newObject returns the object of what a file says.
func (c *Cache) newObject(m *meta, name string, size int64) *object {
	o := &object{key: m.Key, name: name, size: size, policy: policyOf(m.Header, m.Status, m.Requested,
		m.Received, c.o.Surrogate)}
	o.policy.vary = m.Vary
	if o.policy.ifError == 0 {
		o.policy.ifError = c.o.StaleIfError
	}
	if c.o.Poller {
		moved := m.Status == http.StatusMovedPermanently || m.Status == http.StatusPermanentRedirect
		if moved && o.policy.lifetime == 0 {
			o.policy.lifetime = movedFor
		}
		o.policy.noCache, o.policy.mustRevalidate, o.policy.ifError = false, false, always
		o.policy.lifetime = max(o.policy.lifetime, o.policy.age+c.o.MinFresh)
	}
	return o
}

// load indexes what is in the directory.
func (c *Cache) load() error {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var all []*object
	for _, entry := range names {
		name := entry.Name()
		path := filepath.Join(c.dir, name)
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") {
			err = errors.Join(err, remove(path))
			continue
		}
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		o, oerr := c.read(path, name)
		if oerr != nil {
			c.o.Log.Warn("a file of the cache is removed", "file", path, "error", oerr)
			c.stats.Damaged++
			err = errors.Join(err, remove(path))
			continue
		}
		all = append(all, o)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *object) int { return a.policy.received.Compare(b.policy.received) })
	for _, o := range all {
		c.add(o)
	}
	c.files.Lock()
	defer c.files.Unlock()
	c.evict()
	return nil
}

// read returns the object of a file.
func (c *Cache) read(path, name string) (o *object, err error) {
	mapping, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	defer mapping.Close() //nolint:errcheck // it was only read
	err = disk.Guard(func() error {
		_, _, m, _, err := parseFile(mapping.Bytes())
		if err == nil && nameOf(m) != name {
			err = fmt.Errorf("%w: it holds the response that belongs to %s", errCorrupt, nameOf(m))
		}
		if err == nil {
			o = c.newObject(m, name, int64(len(mapping.Bytes())))
		}
		return err
	})
	return o, err
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// add puts an object into the index, in the place of the one whose file it has replaced. The lock is held,
// or nobody else knows the cache.
func (c *Cache) add(o *object) {
	all := c.byKey[o.key]
	if i := slices.IndexFunc(all, func(x *object) bool { return x.name == o.name }); i >= 0 {
		c.drop(all[i])
	}
	c.byKey[o.key] = append(c.byKey[o.key], o)
	o.used = c.used.PushBack(o)
	c.bytes += o.size
}

// drop takes an object out of the index. The lock is held.
func (c *Cache) drop(o *object) {
	if o.used == nil {
		return
	}
	c.used.Remove(o.used)
	o.used = nil
	c.bytes -= o.size
	all := slices.DeleteFunc(slices.Clone(c.byKey[o.key]), func(x *object) bool { return x == o })
	if c.byKey[o.key] = all; len(all) == 0 {
		delete(c.byKey, o.key)
	}
}

// find returns the response to a request that is stored, the latest of several. The lock is held.
func (c *Cache) find(r *request) *object {
	for _, o := range slices.Backward(c.byKey[r.key]) {
		if o.policy.matches(r.header) {
			return o
		}
	}
	return nil
}

// evict removes what was used least recently, until the rest is within bounds. A file that cannot be
// removed, or is gone already, holds nothing up. c.files is held.
func (c *Cache) evict() {
	for {
		c.mu.Lock()
		var victim *object
		if c.bytes > c.o.MaxBytes {
			for e := c.used.Front(); e != nil && victim == nil; e = e.Next() {
				if o := e.Value.(*object); o.pins == 0 {
					victim = o
				}
			}
		}
		if victim != nil {
			c.drop(victim)
			c.stats.Evicted++
		}
		c.mu.Unlock()
		if victim == nil {
			return
		}
		if err := remove(c.path(victim)); err != nil {
			c.o.Log.Warn("a file of the cache cannot be removed", "error", err)
		}
	}
}

func (c *Cache) path(o *object) string { return filepath.Join(c.dir, o.name) }

func (c *Cache) unpin(o *object) {
	c.mu.Lock()
	o.pins--
	c.mu.Unlock()
}

// open returns the entry of an object that was pinned for it. A file that is gone or damaged leaves the
// index, and the error is errLost.
func (c *Cache) open(o *object) (e *Entry, err error) {
	mapping, err := mapFile(c.path(o))
	if err == nil {
		err = disk.Guard(func() error {
			body, checksum, m, _, err := parseFile(mapping.Bytes())
			if err != nil {
				return err
			}
			c.mu.Lock()
			checked := o.checked
			c.mu.Unlock()
			if m.Key != o.key || !checked && xxh3.Hash(body) != checksum {
				return fmt.Errorf("%w: the checksum of its body is wrong", errCorrupt)
			}
			c.mu.Lock()
			o.checked = true
			p := o.policy
			c.mu.Unlock()
			e = newEntry(m, &p, mapping, body, checksum, time.Now(), func() { c.unpin(o) })
			return nil
		})
		if err != nil {
			mapping.Close() //nolint:errcheck // it was only read
		}
	}
	if err == nil {
		return e, nil
	}
	c.unpin(o)
	var fault *disk.Fault
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errCorrupt) && !errors.As(err, &fault) {
		return nil, err // too many open files, for one
	}
	c.o.Log.Warn("a response of the cache is lost", "key", o.key, "error", err)
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	lost := o.used != nil
	if lost {
		c.drop(o)
		c.stats.Damaged++
	}
	c.mu.Unlock()
	if lost {
		err = errors.Join(err, remove(c.path(o)))
	}
	return nil, fmt.Errorf("%w: %w", errLost, err)
}

var errLost = errors.New("the stored response is lost")

// file is what a response is written to.
type file interface {
	io.Writer
	io.WriterAt
}

// writer writes a response to a file: the body through Write, then finish.
type writer struct {
	file
	n   int64
	max int64
	sum hash.Hash64
}

// newWriter begins a response.
func newWriter(f file, limit int64) (*writer, error) {
	_, err := f.Write(make([]byte, headerSize))
	return &writer{file: f, max: limit, sum: xxh3.New()}, err
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	if w.n += int64(len(b)); w.n > w.max {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, w.max)
	}
	w.sum.Write(b) //nolint:errcheck // never fails
	return w.file.Write(b)
}

// finish writes what surrounds the body, and returns the size of the file.
func (w *writer) finish(m *meta) (size int64, err error) {
	frame, err := appendFrame(nil, headerSize+w.n, m)
	if err == nil {
		_, err = w.file.Write(frame)
	}
	if err == nil {
		_, err = w.file.WriteAt(appendHeader(nil, w.n, w.sum.Sum64()), 0)
	}
	return headerSize + w.n + int64(len(frame)), err
}

// put writes a response and returns its object, pinned.
func (c *Cache) put(m *meta, body io.Reader) (*object, error) {
	name := nameOf(m)
	f, err := disk.CreateAtomic(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Abort() //nolint:errcheck // the first error is the one to report
	size, err := c.write(f, m, body)
	if err != nil {
		return nil, err
	}
	o := c.newObject(m, name, size)
	o.checked, o.pins = true, 1
	c.files.Lock()
	defer c.files.Unlock()
	if err := f.CommitUnsynced(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.add(o)
	if all := c.byKey[o.key]; len(all) > maxVariants && all[0].pins == 0 {
		defer remove(c.path(all[0])) //nolint:errcheck // Open finds it again
		c.drop(all[0])
	}
	c.mu.Unlock()
	c.evict()
	return o, nil
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (c *Cache) write(f file, m *meta, body io.Reader) (size int64, err error) {
	w, err := newWriter(f, c.o.MaxBody)
	if err != nil {
		return 0, err
	}
	room := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(room)
	if _, err := io.CopyBuffer(w, body, room[:]); err != nil {
		return 0, err
	}
	return w.finish(m)
}

// pass returns the entry of a response that is not stored. Its file has no name.
func (c *Cache) pass(m *meta, body io.Reader) (e *Entry, err error) {
	f, err := disk.CreateTemp(c.dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing of it is needed
	if _, err := c.write(f, m, body); err != nil {
		return nil, err
	}
	mapping, err := disk.MapReadOnly(f.File)
	if err != nil {
		return nil, err
	}
	err = disk.Guard(func() error {
		body, checksum, _, _, err := parseFile(mapping.Bytes())
		if err == nil {
			p := policyOf(m.Header, m.Status, m.Requested, m.Received, c.o.Surrogate)
			e = newEntry(m, &p, mapping, body, checksum, time.Now(), func() {})
		}
		return err
	})
	return e, err
}

// freshen notes that an object, which is pinned, was validated by a 304 with which its header is as given.
// ok is false if it was replaced meanwhile.
func (c *Cache) freshen(o *object, header http.Header, requested time.Time) (ok bool, err error) {
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	gone := o.used == nil
	c.mu.Unlock()
	if gone {
		return false, nil
	}
	mapping, err := mapFile(c.path(o))
	if err != nil {
		return false, err
	}
	defer mapping.Close() //nolint:errcheck // it was only read
	body, _, m, end, err := parseFile(mapping.Bytes())
	if err != nil {
		return false, err
	}
	m.Header, m.Requested, m.Received = header, requested, time.Now()
	size, err := c.append(o, m, body, end)
	if err != nil {
		return false, err
	}
	fresh := c.newObject(m, o.name, size)
	c.mu.Lock()
	c.bytes += size - o.size
	o.policy, o.size, o.failed, o.retry = fresh.policy, size, nil, time.Time{}
	all := c.byKey[o.key]
	i := slices.Index(all, o)
	c.byKey[o.key] = append(slices.Delete(slices.Clone(all), i, i+1), o) // the latest last
	c.used.MoveToBack(o.used)
	c.mu.Unlock()
	c.evict()
	return true, nil
}

// append appends new metadata to the file of an object, or writes it anew where it has grown, and returns
// its size. c.files is held.
func (c *Cache) append(o *object, m *meta, body []byte, end int64) (size int64, err error) {
	if end-headerSize-int64(len(body)) > maxFrames {
		f, err := disk.CreateAtomic(c.path(o))
		if err != nil {
			return 0, err
		}
		defer f.Abort() //nolint:errcheck // the first error is the one to report
		if size, err = c.write(f, m, bytes.NewReader(body)); err != nil {
			return 0, err
		}
		return size, f.CommitUnsynced()
	}
	frame, err := appendFrame(nil, end, m)
	if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(c.path(o), os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // what is not written is found out by its checksum
	if _, err := f.WriteAt(frame, end); err != nil {
		return 0, err // the torn frame is overwritten by the next
	}
	return end + int64(len(frame)), nil
}

// has says whether a request can be answered without asking upstream.
func (c *Cache) has(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.find(r)
	return o != nil && o.policy.usable(r.directives, time.Now()) != fetchFirst
}

// invalidate removes what is stored for a URL.
func (c *Cache) invalidate(u *url.URL) {
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	all := c.byKey[c.newRequest(u, nil).key]
	for _, o := range all {
		c.drop(o)
	}
	c.mu.Unlock()
	for _, o := range all {
		if err := remove(c.path(o)); err != nil {
			c.o.Log.Warn("a file of the cache cannot be removed", "error", err)
		}
	}
}

// freshenByHead has the response to a HEAD update the stored response that it describes, or invalidate
// another (RFC 9111, section 4.3.5).
func (c *Cache) freshenByHead(r *request, resp *http.Response) {
	c.mu.Lock()
	o := c.find(r)
	if o == nil || resp.StatusCode != o.policy.status {
		c.mu.Unlock()
		return
	}
	o.pins++
	c.mu.Unlock()
	e, err := c.open(o)
	if err != nil {
		return
	}
	defer e.Release()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Length"} {
		if is := resp.Header.Get(name); is != "" && is != e.Header.Get(name) {
			c.invalidate(r.url)
			return
		}
	}
	header := update(e.Header, resp.Header)
	if _, err := c.freshen(o, header, time.Now()); err != nil {
		c.o.Log.Warn("a response of the cache is not updated", "error", err)
		return
	}
	for name, values := range header {
		resp.Header[name] = values
	}
}

package filter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/httpcache"
	"weir/internal/filter/pieces"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
)

// parseBytes is how much of sources is parsed at a time; a source that is larger is parsed alone.
const parseBytes = 32 << 20

// reading is what was read of a source.
type reading struct {
	feed *syndication.Feed
	rhythm
}

// errNothing means that there is no content, and the source has to be fetched.
var errNothing = errors.New("there is nothing yet")

// parse reads a body within the bounds of what is parsed at a time. The feed has slices of the body.
func (s *Service) parse(ctx context.Context, body []byte, kind string) (*syndication.Feed, error) {
	weight := min(int64(len(body))+1, parseBytes)
	if err := s.parsing.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer s.parsing.Release(weight)
	defer s.compute()()
	return syndication.Parse(body, syndication.Options{ContentType: kind, MaxBytes: int(s.cfg.MaxBody)})
}

// compute waits until this goroutine may compute for milliseconds, and returns what ends that. Of many that
// do so at once, each for a scheduler's turn of 10 ms, an event loop that wakes up would have to wait for
// all.
func (s *Service) compute() (end func()) {
	s.computing <- struct{}{}
	return func() { <-s.computing }
}

// read reads what was fetched.
func (s *Service) read(ctx context.Context, entry *httpcache.Entry) (*reading, error) {
	feed, err := s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	return &reading{feed, rhythm{feed.TTL, feed.SkipHours, feed.SkipDays}}, nil
}

// take makes what was fetched what serves. It releases the entry, or keeps it with the content. A read of nil
// means that nothing has changed.
func (s *Service) take(src *source, entry *httpcache.Entry, read *reading) {
	src.making.Lock()
	defer src.making.Unlock()
	src.looked = true
	if read == nil {
		entry.Release()
		return
	}
	s.serve(src, entry, read.feed).release()
}

// serve makes a content of a feed and has it serve a source. The caller releases it.
func (s *Service) serve(src *source, entry *httpcache.Entry, feed *syndication.Feed) *content {
	c := &content{version: max(entry.Version, 1), modified: entry.Fetched, body: entry.Body(), entry: entry,
		kind: entry.Header.Get("Content-Type")}
	s.fill(c, feed)
	s.resident.put(src, c)
	src.version.Store(c.version)
	return c
}

// fill makes the document of a content in its own format.
func (s *Service) fill(c *content, feed *syndication.Feed) {
	c.native, c.items = view(feed.Format), len(feed.Items)
	d := s.newDocument(feed)
	c.documents[c.native].Store(d)
	c.size.Store(int64(d.Memory()) + 512)
	if c.entry == nil {
		c.size.Add(int64(len(c.body)))
	}
}

func (s *Service) newDocument(feed *syndication.Feed) *document {
	defer s.compute()()
	d, err := pieces.New(feed)
	if err != nil {
		panic("BUG: " + err.Error()) // sources are bounded by far less
	}
	// A charset of which ASCII is no part has URLs written otherwise.
	wide := strings.HasPrefix(feed.Charset, "utf-16") || strings.HasPrefix(feed.Charset, "utf-32")
	return &document{d, feed.Format.ContentType() + "; charset=" + feed.Charset, !wide &&
		len(feed.SelfLinks) > 0}
}

// content returns the content of a source, made of what the cache has if it is not in memory. It fails with
// errNothing when the source has to be fetched first. The caller releases it.
func (s *Service) content(ctx context.Context, src *source) (*content, error) {
	if c := src.acquire(); c != nil {
		return c, nil
	}
	src.making.Lock()
	defer src.making.Unlock()
	if c := src.acquire(); c != nil {
		return c, nil
	}
	if src.looked && src.version.Load() == 0 {
		return nil, errNothing
	}
	src.looked = true
	entry, ok := s.cache.Peek(src.url)
	if !ok {
		src.version.Store(0)
		return nil, errNothing
	}
	if entry.Status == http.StatusOK {
		read, err := s.read(ctx, entry)
		if err == nil {
			src.keepRhythm(read)
			return s.serve(src, entry, read.feed), nil
		}
		if ctx.Err() != nil {
			src.looked = false
			entry.Release()
			return nil, err
		}
	}
	entry.Release()
	src.version.Store(0)
	return nil, errNothing
}

// document returns a content in a format, converted if it is not its own and has not been before.
func (s *Service) document(ctx context.Context, src *source, c *content, v view) (*document, error) {
	if v == native {
		v = c.native
	}
	if d := c.documents[v].Load(); d != nil {
		return d, nil
	}
	src.making.Lock()
	defer src.making.Unlock()
	if d := c.documents[v].Load(); d != nil {
		return d, nil
	}
	feed, err := s.parse(ctx, c.body, c.kind)
	if err != nil {
		return nil, err
	}
	text := feed.Convert(nil, syndication.Format(v), feed.Refs(nil, everything(len(feed.Items))), "")
	converted, err := s.parse(ctx, text, "")
	if err != nil || len(converted.Items) != len(feed.Items) {
		return nil, fmt.Errorf("BUG: %d items in another format are %v, %w", len(feed.Items), converted, err)
	}
	d := s.newDocument(converted)
	c.documents[v].Store(d)
	s.resident.grow(src, c, d.Memory()+len(text))
	return d, nil
}

func everything(items int) syndication.Bits {
	b := syndication.NewBits(items)
	for i := range items {
		b.Set(i)
	}
	return b
}

// decision is which items stay in an answer, and its validators. It does not change.
type decision struct {
	basis    uint64 // of the source
	global   uint64 // of the global rules
	until    int64  // when the age of an item changes it, in Unix seconds; 0 is never
	content  uint64 // version of the content that keep is of
	keep     syndication.Bits
	native   view
	modified time.Time
	tags     [2]string   // ETags in the filter's format: plain, and gzip
	tail     pieces.Tail // in the filter's format
}

// holds says whether a decision is still the one.
func (d *decision) holds(basis, global uint64, now time.Time) bool {
	return d != nil && d.basis == basis && d.global == global && (d.until == 0 || now.Unix() < d.until)
}

// decide makes the decision of a filter about the content that serves, and the document in its format.
func (s *Service) decide(ctx context.Context, f *filter, now time.Time) error {
	stored, err := s.store.Get(ctx, f.id)
	if err != nil {
		return err
	}
	set, err := s.set(stored.Spec)
	if err != nil {
		return err
	}
	o, err := options(stored.Spec)
	if err != nil {
		return err
	}
	d := &decision{global: s.global.Load().hash}
	var c *content
	if f.source.parts == nil {
		if c, err = s.content(ctx, f.source); err != nil {
			return err
		}
		defer c.release()
		d.basis, d.content = c.version, c.version
		feed, err := s.parse(ctx, c.body, c.kind)
		if err != nil {
			return err
		}
		verdict := set.Decide(feed, now)
		d.keep = choose(feed, verdict.Keep, o)
		d.until = seconds(verdict.Until)
	} else {
		var until time.Time
		basis := f.source.basis() // what changes while it is put together is taken up by the next request
		if c, until, err = s.compose(ctx, f, stored.Spec, set, now); err != nil {
			return err
		}
		defer c.release()
		d.basis, d.content = basis, c.version
		d.keep = everything(c.items)
		d.until = seconds(until)
	}
	d.native, d.modified = c.native, c.modified
	if stored.Changed.After(d.modified) {
		d.modified = stored.Changed
	}
	doc, err := s.document(ctx, f.source, c, f.format)
	if err != nil {
		return err
	}
	d.sign(f.format)
	d.tail = doc.Tail(d.keep, s.self(nil, f.id, native, doc))
	f.decision.Store(d)
	return nil
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// sign makes the ETags: of the content, and of which items stay.
func (d *decision) sign(format view) {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), d.content)
	for _, word := range d.keep {
		text = binary.LittleEndian.AppendUint64(text, word)
	}
	for i := range d.tags {
		d.tags[i] = tag(xxh3.Hash(text), format, d.native, i == 1)
	}
}

// tag returns an ETag. Each format and encoding has its own.
func tag(hash uint64, format, of view, zipped bool) string {
	if format == native {
		format = of
	}
	text := fmt.Appendf(nil, `"%016x%d`, hash, format)
	if zipped {
		text = append(text, 'z')
	}
	return string(append(text, '"'))
}

// tag returns the ETag of an answer in a format other than the filter's.
func (d *decision) tag(format view, zipped bool) string {
	text := []byte(d.tags[0])
	text = fmt.Appendf(text[:17], "%d", format)
	if zipped {
		text = append(text, 'z')
	}
	return string(append(text, '"'))
}

// self returns the URL of an answer as its document has it in the place of the source's own; nil leaves that.
// It is appended to dst.
func (s *Service) self(dst []byte, id store.ID, format view, doc *document) []byte {
	if s.cfg.Base == "" || !doc.linked {
		return nil
	}
	dst = append(append(append(dst, s.cfg.Base...), s.cfg.Path...), '/')
	dst = append(dst, id.String()...)
	if format != native {
		dst = append(append(dst, '.'), syndication.Format(format).String()...)
	}
	return dst
}

package filter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/filter/httpcache"
	"weir/internal/filter/pieces"
	"weir/internal/filter/syndication"
)

// parseBytes is how much of sources is parsed at a time; a source that is larger is parsed alone.
const parseBytes = 32 << 20

// errNothing means that there is no content, and the source has to be fetched.
var errNothing = errors.New("there is nothing yet")

// parse reads a body, of which HTTP said kind, within the bounds of what is parsed at a time. The feed has
// slices of the body.
func (s *Service) parse(ctx context.Context, body []byte, kind, url string) (*syndication.Feed, error) {
	weight := min(int64(len(body))+1, parseBytes)
	if err := s.parsing.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer s.parsing.Release(weight)
	defer s.compute()()
	s.parsed.Add(0, 1)
	return syndication.Parse(body, syndication.Options{URL: url, ContentType: kind,
		MaxBytes: int(s.cfg.MaxBody)})
}

// compute waits until this goroutine may compute for milliseconds, and returns what ends that. Of many that
// do so at once, each for a scheduler's turn of 10 ms, an event loop that wakes up would have to wait for
// all.
func (s *Service) compute() (end func()) {
	s.computing <- struct{}{}
	return func() { <-s.computing }
}

// take makes what was fetched what serves, and decides for all filters of the source, so that readers find it
// done. It releases the entry, or keeps it with the content. A feed of nil means that nothing has changed.
func (s *Service) take(ctx context.Context, src *source, entry *httpcache.Entry,
	feed *syndication.Feed) {
	src.making.Lock()
	src.looked = true
	if feed == nil {
		src.making.Unlock()
		entry.Release()
		return
	}
	o := opened{src.newContent(entry), feed}
	defer o.release()
	// One that nobody has read lately need not be in memory.
	wanted := src.version.Load() == 0 || src.current.Load() != nil
	if wanted {
		s.fill(o.content, o.feed)
	}
	src.version.Store(o.version)
	if wanted {
		s.resident.put(src, o.content)
	}
	for more := true; more; {
		var err error
		if more, err = s.decideSome(ctx, src, o, nil, atFetch, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("decisions about a source could not be made", "source", redact(src.url), "error", err)
		}
		src.making.Unlock() // readers come between
		src.making.Lock()
	}
	src.making.Unlock()
}

// opened is a content that is held, and what was read of it.
type opened struct {
	*content
	feed *syndication.Feed
}

func (o *opened) release() {
	if o.content != nil {
		o.content.release()
	}
	*o = opened{}
}

// newContent returns a content, held once, of what the cache has.
func (src *source) newContent(entry *httpcache.Entry) *content {
	modified := entry.Fetched
	if st := src.state.Load(); st.Version == entry.Version {
		modified = st.Modified // which is the same on all nodes, also if they fetched it at different times
	}
	c := &content{version: max(entry.Version, 1), modified: modified, body: entry.Body(), entry: entry,
		kind: entry.Header.Get("Content-Type"), url: entry.URL}
	c.refs.Store(1)
	return c
}

// fill makes the document of a content in its own format.
func (s *Service) fill(c *content, feed *syndication.Feed) {
	d := s.newDocument(feed)
	c.documents[feed.Format].Store(d)
	c.size.Store(int64(d.Memory()) + 512)
	if c.entry == nil {
		c.size.Add(int64(len(c.body)))
	}
}

func (s *Service) newDocument(feed *syndication.Feed) *document {
	defer s.compute()()
	s.drawn.Add(0, 1)
	d, err := pieces.New(feed)
	if err != nil {
		panic("BUG: " + err.Error()) // sources are bounded by far less
	}
	// A charset of which ASCII is no part has URLs written otherwise.
	wide := strings.HasPrefix(feed.Charset, "utf-16") || strings.HasPrefix(feed.Charset, "utf-32")
	return &document{d, feed.Format.ContentType() + "; charset=" + feed.Charset, !wide &&
		len(feed.SelfLinks) > 0}
}

// open has o hold the content of a source that serves, and the feed in it: of what is in memory, or else of
// what the cache has. It fails with errNothing when the source has to be fetched first. src.making is held.
func (s *Service) open(ctx context.Context, src *source, o *opened) error {
	if o.content != nil && o.feed != nil && o.version == src.version.Load() {
		return nil
	}
	o.release()
	if o.content = src.acquire(); o.content == nil {
		if src.looked && src.version.Load() == 0 || src.parts != nil {
			return errNothing
		}
		src.looked = true
		entry, ok := s.cache.Peek(src.url)
		if !ok {
			src.version.Store(0)
			return errNothing
		}
		if o.content = src.newContent(entry); entry.Status != http.StatusOK {
			src.version.Store(0)
			o.release()
			return errNothing
		}
	}
	var err error
	if o.feed, err = s.parse(ctx, o.body, o.kind, o.url); err == nil {
		if src.parts == nil {
			src.version.Store(o.version)
			if src.known.Load() == nil {
				src.know(o.feed)
			}
		}
		return nil
	}
	o.release()
	if ctx.Err() != nil {
		src.looked = false
		return err
	}
	src.version.Store(0)
	return errNothing
}

// feed has o hold what open does, for who does not hold src.making.
func (s *Service) feed(ctx context.Context, src *source, o *opened) error {
	src.making.Lock()
	defer src.making.Unlock()
	return s.open(ctx, src, o)
}

// document makes the content that serves be in memory in a format, converted if that is not its own.
// src.making is held.
func (s *Service) document(ctx context.Context, src *source, o *opened, v view) error {
	if err := s.open(ctx, src, o); err != nil {
		return err
	}
	if c := src.current.Load(); c != o.content {
		s.fill(o.content, o.feed)
		s.resident.put(src, o.content)
	}
	if v == native {
		v = view(o.feed.Format)
	}
	if o.documents[v].Load() != nil {
		return nil
	}
	text := o.feed.Convert(nil, syndication.Format(v), o.feed.Refs(nil, everything(len(o.feed.Items))), "")
	converted, err := s.parse(ctx, text, "", "")
	if err != nil || len(converted.Items) != len(o.feed.Items) {
		return fmt.Errorf("BUG: %d items in another format are %v, %w", len(o.feed.Items), converted, err)
	}
	d := s.newDocument(converted)
	o.documents[v].Store(d)
	s.resident.grow(src, o.content, d.Memory()+len(text))
	return nil
}

func everything(items int) syndication.Bits {
	b := syndication.NewBits(items)
	for i := range items {
		b.Set(i)
	}
	return b
}

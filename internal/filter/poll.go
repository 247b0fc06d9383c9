package filter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"weir/internal/filter/fetch"
	"weir/internal/filter/httpcache"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
)

const (
	maxFetches   = 256         // under way at once, in the background or for readers
	pollInterval = time.Second // how often is looked what is due
	// After a failure, unless sources are asked more often; doubled each time.
	firstPause   = time.Minute
	longestPause = 24 * time.Hour     // between two fetches, whatever a source says or however it fails
	longestRetry = 7 * 24 * time.Hour // that a server may ask for by Retry-After
)

// accept is what is asked for.
const accept = "application/rss+xml, application/atom+xml, application/feed+json, application/rdf+xml, " +
	"application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"

// poll fetches what is due and asked for, until ctx ends.
func (s *Service) poll(ctx context.Context) {
	ticker := time.NewTicker(min(pollInterval, s.live.Load().Interval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			idle := now.Add(-s.live.Load().Idle).Unix()
			for _, src := range s.all() {
				if s.fetching.Load() >= maxFetches {
					break
				}
				if st := src.state.Load(); !st.Gone && !now.Before(st.Next) && src.asked.Load() > idle &&
					now.UnixMilli() >= src.later.Load() {
					s.refresh(src, false)
				}
			}
		}
	}
}

// refresh fetches a source, unless that is under way; anew although it is fresh if that is asked for. The
// channel is closed when it is done.
func (s *Service) refresh(src *source, anew bool) <-chan struct{} {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.fetching == nil {
		done := make(chan struct{})
		src.fetching = done
		s.fetching.Add(1)
		s.background.Go("fetch", func(ctx context.Context) {
			defer func() {
				s.fetching.Add(-1)
				src.mu.Lock()
				src.fetching = nil
				src.mu.Unlock()
				close(done)
			}()
			if s.common != nil {
				s.fetchCommon(ctx, src, anew)
			} else {
				s.fetch(ctx, src, anew, nil)
			}
		})
	}
	return src.fetching
}

// fetch asks for a source and takes up what has changed. turn is the lease of the source, nil where there is
// none. It is false if another node has fetched the source as well, and that counts.
func (s *Service) fetch(ctx context.Context, src *source, anew bool, turn *shared.Turn) (counts bool) {
	before := src.state.Load()
	f := before.Fetch
	f.Fetched, f.Attempt = time.Now().UTC(), store.Attempt{}
	f.Tried++
	header := http.Header{"Accept": {accept}}
	if anew {
		header.Set("Cache-Control", "no-cache")
	}
	entry, err := s.cache.Get(ctx, src.url, header)
	f.Took = time.Since(f.Fetched)
	if ctx.Err() != nil {
		if err == nil {
			entry.Release()
		}
		if turn != nil {
			turn.Cancel()
		}
		return true // the server stops
	}
	if err == nil {
		err = entry.Err
		if err == nil && entry.Status != http.StatusOK {
			err = &httpcache.StatusError{Status: entry.Status, Header: entry.Header}
		}
	}
	var feed *syndication.Feed // nil where nothing has changed
	checked := f.Fetched
	if err == nil {
		f.Status, checked = entry.Status, entry.Checked
		if entry.Version != src.version.Load() || src.known.Load() == nil {
			feed, err = s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"), entry.URL)
		}
	}
	if err != nil {
		f.Detail = detail(err, src.url, entry)
		s.failed(src, before, &f, err)
		if entry != nil {
			entry.Release()
		}
		return s.publish(ctx, src, turn, nil)
	}
	f.Succeeded, f.Failures, f.Error, f.Gone = f.Fetched, 0, "", false
	f.Bytes, f.Same = int64(len(entry.Body())), entry.Version == src.version.Load()
	if f.Version != entry.Version {
		f.Version, f.Modified = entry.Version, entry.Fetched.UTC()
	}
	if feed != nil {
		k, fresh := src.know(feed)
		f.Items = k.items
		s.items.Add(fresh)
		f.Title = strings.Clone(shorten(feed.Title, maxLabel))
	}
	f.Next = s.next(f.Fetched, entry.Fresh, src.known.Load())
	s.polls[0].Add(0, 1)
	src.state.Store(s.newState(f, checked)) // before answers show it
	counts = s.publish(ctx, src, turn, entry)
	s.take(ctx, src, entry, feed)
	s.store.Fetched(src.url, f)
	if before.Failures > 0 {
		s.log.Info("a source answers again", "source", redact(src.url), "failures", before.Failures)
	}
	return counts
}

// failed takes down that a fetch has failed.
func (s *Service) failed(src *source, before *state, f *store.Fetch, err error) {
	s.polls[1].Add(0, 1)
	f.Failures++
	f.Status, f.Error = 0, plain(err)
	pause := min(min(firstPause, s.live.Load().Interval)<<min(f.Failures-1, 20), longestPause)
	if status, ok := errors.AsType[*httpcache.StatusError](err); ok {
		f.Status = status.Status
		f.Gone = status.Status == http.StatusGone
		if asked, ok := fetch.RetryAfter(status.Header, f.Fetched); ok {
			pause = min(max(pause, asked), longestRetry)
		}
	}
	if backoff, ok := errors.AsType[*fetch.BackoffError](err); ok {
		pause = min(max(pause, time.Until(backoff.Until)), longestRetry)
	}
	f.Next = f.Fetched.Add(jitter(pause))
	src.state.Store(s.newState(*f, before.checked))
	s.store.Fetched(src.url, *f)
	if before.Failures == 0 || f.Gone && !before.Gone {
		s.log.Warn("a source cannot be fetched", "source", redact(src.url), "error", f.Error, "next", f.Next)
	}
}

// next returns when a source is fetched again that was fetched at a time and is fresh for some more.
func (s *Service) next(at time.Time, fresh time.Duration, k *known) time.Time {
	pause := max(s.live.Load().Interval, min(max(fresh, k.ttl), longestPause))
	next := at.Add(jitter(pause))
	for range 24 * 7 {
		hour, day := next.Hour(), next.Weekday()
		always := k.skipHours&(1<<24-1) == 1<<24-1 || k.skipDays&127 == 127 // says nothing
		if k.skipHours>>hour&1 == 0 && k.skipDays>>day&1 == 0 || always {
			break
		}
		next = next.Truncate(time.Hour).Add(time.Hour)
	}
	return next
}

// jitter keeps what began together from going on so: up to a tenth longer.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// plain says what went wrong, without what readers or owners have no use for.
func plain(err error) string {
	var dns *net.DNSError
	var status *httpcache.StatusError
	var limit *syndication.LimitError
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("it answered %d %s", status.Status, http.StatusText(status.Status))
	case errors.Is(err, syndication.ErrNoFeed):
		return "it is no feed"
	case errors.As(err, &limit):
		return limit.Error()
	case errors.Is(err, fetch.ErrRefused), errors.Is(err, fetch.ErrTooLarge),
		errors.Is(err, httpcache.ErrTooLarge),
		errors.Is(err, httpcache.ErrRedirects), errors.Is(err, httpcache.ErrUnsolicited):
		return bare(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "it did not answer in time"
	case errors.As(err, &dns):
		return "its name cannot be looked up: " + dns.Err
	}
	return bare(err)
}

// bare says what went wrong without the URL of the request, which is shown beside it.
func bare(err error) string {
	text := err.Error()
	for _, doing := range []string{"get ", "fetch "} {
		if rest, ok := strings.CutPrefix(text, doing); ok {
			if _, why, ok := strings.Cut(rest, ": "); ok {
				text = why
			}
		}
	}
	return text
}

// detail says what is known of a fetch that failed beyond what plain says.
func detail(err error, url string, entry *httpcache.Entry) string {
	var text string
	status, answered := errors.AsType[*httpcache.StatusError](err)
	if why := bare(err); !answered && !strings.Contains(plain(err), why) {
		text = "; " + why
	}
	if entry != nil && entry.URL != url {
		text += "; it was redirected to " + redact(entry.URL)
	}
	if answered {
		if after := status.Header.Get("Retry-After"); after != "" {
			text += "; Retry-After: " + after
		}
	} else if entry != nil && entry.Err == nil {
		text += fmt.Sprintf("; what came are %d bytes of %q", len(entry.Body()),
			entry.Header.Get("Content-Type"))
	}
	return shorten(strings.TrimPrefix(text, "; "), 1000)
}

// shorten cuts a text off.
func shorten(text string, bytes int) string {
	return strings.ToValidUTF8(text[:min(len(text), bytes)], "")
}

// redact hides the password in a URL.
func redact(text string) string {
	u, err := parseURL(text)
	if err != nil {
		return "a URL that is none"
	}
	return u.Redacted()
}

package filter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
)

// options returns what is selected of the items that rules keep.
func options(spec store.Spec) (o selection.Options, err error) {
	o.Limit = spec.Limit
	if spec.Sort != "" {
		err = o.Sort.UnmarshalText([]byte(spec.Sort))
	}
	return o, errors.Join(err, o.Dedup.UnmarshalText([]byte(strings.Join(spec.Dedup, ","))))
}

// choose takes from what the rules keep of one feed what occurs twice, and what is beyond the limit.
func choose(feed *syndication.Feed, keep syndication.Bits, o selection.Options) syndication.Bits {
	if o.Dedup == 0 && o.Limit == 0 {
		return keep
	}
	chosen := syndication.NewBits(len(feed.Items))
	for _, ref := range selection.Select(feed.Refs(nil, keep), o) {
		chosen.Set(ref.Item)
	}
	return chosen
}

// compose puts a filter's answer together anew, of the items that stay of all its sources. What cannot be
// had is left out as long as there is something. The caller holds making of the filter's source, and releases
// what is returned.
func (s *Service) compose(ctx context.Context, f *filter, stored *store.Filter, set *rules.Set,
	now time.Time) (made opened, until time.Time, err error) {
	spec := stored.Spec
	c := &content{}
	o, err := options(spec)
	if err != nil {
		return made, until, err
	}
	if len(f.source.parts) > 1 {
		o.Sort = selection.Newest
	}
	var reports []syndication.Ref
	var items []syndication.Ref
	var first *syndication.Feed
	matched, count := make([]int, set.Len()), 0
	for _, part := range f.source.parts {
		var of opened
		err := s.feed(ctx, part, &of)
		if errors.Is(err, errNothing) && len(f.source.parts) > 1 && part.state.Load().Failures > 0 {
			if spec.Report {
				reports = append(reports, report(part, stored.Created)...)
			}
			continue
		}
		if err != nil {
			return made, until, err
		}
		defer of.release()
		verdict := set.Decide(of.feed, now)
		for i, n := range verdict.Matched {
			matched[i] += n
		}
		count += len(of.feed.Items)
		items = of.feed.Refs(items, verdict.Keep)
		first = cmp.Or(first, of.feed)
		if until.IsZero() || !verdict.Until.IsZero() && verdict.Until.Before(until) {
			until = verdict.Until
		}
		if of.modified.After(c.modified) {
			c.modified = of.modified
		}
		if spec.Report {
			reports = append(reports, report(part, stored.Created)...)
		}
	}
	if first == nil {
		return made, until, errNothing
	}
	s.remember(f.source, stored, matched, count, now)
	parts, charset := first.Arrange(nil, append(reports, selection.Select(items, o)...), "")
	c.body = bytes.Join(parts, nil)
	c.version = xxh3.Hash(c.body) | 1
	c.kind = first.Format.ContentType() + "; charset=" + charset
	composed, err := s.parse(ctx, c.body, c.kind, "")
	if err != nil {
		return made, until, fmt.Errorf("BUG: what was composed is no feed: %w", err)
	}
	c.refs.Store(1)
	s.fill(c, composed)
	s.resident.put(f.source, c)
	return opened{c, composed}, until, nil
}

// report returns an item that says that a source fails, nothing while it works. since is when it was new.
func report(src *source, since time.Time) []syndication.Ref {
	st := src.state.Load()
	if st.Failures == 0 {
		return nil
	}
	u, err := parseURL(src.url)
	if err != nil {
		return nil
	}
	if !st.Succeeded.IsZero() {
		since = st.Succeeded
	}
	feed, err := syndication.Parse(fmt.Appendf(nil, `<rss version="2.0"><channel><title>weir</title><item>`+
		`<title>The source %s cannot be fetched</title><description>%s</description>`+
		`<guid isPermaLink="false">weir-failure-%016x-%d</guid><pubDate>%s</pubDate></item></channel></rss>`,
		html.EscapeString(u.Host), html.EscapeString(st.Error), xxh3.HashString(src.url), since.Unix(),
		since.UTC().Format(time.RFC1123Z)), syndication.Options{})
	if err != nil {
		panic("BUG: a report is no feed: " + err.Error())
	}
	return []syndication.Ref{{Feed: feed, Item: 0}}
}

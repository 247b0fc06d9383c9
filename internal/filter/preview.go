package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/filter/httpcache"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
	"weir/internal/server"
)

// Preview is what a filter would make of its sources now.
type Preview struct {
	Kept    int           `json:"kept"`
	Dropped int           `json:"dropped"`
	Items   []PreviewItem `json:"items"`
	Notes   []Note        `json:"notes,omitempty"`
	Damage  []string      `json:"damage,omitempty"` // of the sources: what was mended
	Feeds   []Found       `json:"feeds,omitempty"`  // where a URL is that of a page: the feeds it links to
}

// PreviewItem is an item, and the rule that has decided about it, if one has.
type PreviewItem struct {
	Title  string     `json:"title"`
	URL    string     `json:"url,omitempty"`
	GUID   string     `json:"guid,omitempty"`
	Date   *time.Time `json:"date,omitempty"`
	Kept   bool       `json:"kept"`
	Rule   string     `json:"rule,omitempty"`
	Reason string     `json:"reason,omitempty"` // where it was none: it occurs twice, or is beyond the limit
}

// Found is a feed or icon that a page links to.
type Found struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
	Type  string `json:"type,omitempty"`
	Icon  bool   `json:"icon,omitempty"`
}

// postPreview answers POST /admin/filters/preview.
func (s *Service) postPreview(w *server.Response, r *server.Request) server.Outcome {
	var in Input
	if !read(w, r, &in) {
		return server.Done
	}
	var spec store.Spec
	err := in.apply(&spec)
	var set *rules.Set
	if err == nil {
		set, err = s.set(spec)
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	answer, err := s.preview(r.Context(), spec, set)
	if err != nil {
		return s.refuseUpstream(w, err)
	}
	answer.Notes = append(s.notes(spec), answer.Notes...)
	return answerJSON(w, http.StatusOK, answer)
}

// preview reads the sources of a specification and says what becomes of their items.
func (s *Service) preview(ctx context.Context, spec store.Spec, set *rules.Set) (*Preview, error) {
	answer := &Preview{Items: []PreviewItem{}}
	now := time.Now()
	o, err := options(spec)
	if err != nil {
		return nil, err
	}
	if len(spec.URLs) > 1 {
		o.Sort = selection.Newest
	}
	var kept []syndication.Ref
	type decided struct {
		feed *syndication.Feed
		rules.Decision
	}
	var all []decided
	matches := newMatches(len(set.Rules))
	for _, link := range spec.URLs {
		entry, err := s.ask(ctx, link)
		if err != nil {
			return nil, err
		}
		defer entry.Release()
		feed, err := s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"), entry.URL)
		if errors.Is(err, syndication.ErrNoFeed) {
			answer.Feeds = append(answer.Feeds, found(entry)...)
		}
		if err != nil {
			if len(answer.Feeds) > 0 {
				continue
			}
			return nil, fmt.Errorf("%s: %w", redact(link), err)
		}
		verdict := set.Decide(feed, now)
		countMatches(matches, verdict)
		all = append(all, decided{feed, verdict})
		kept = feed.Refs(kept, verdict.Keep)
		for _, d := range feed.Damage {
			if !slices.Contains(answer.Damage, d) {
				answer.Damage = append(answer.Damage, strings.Clone(d))
			}
		}
	}
	by := make(map[syndication.Ref]*rules.Rule)
	var others []syndication.Ref
	for _, d := range all {
		for i := range d.feed.Items {
			ref := syndication.Ref{Feed: d.feed, Item: i}
			if by[ref] = d.By[i]; !d.Keep.Has(i) {
				others = append(others, ref)
			}
		}
	}
	stay := selection.Select(slices.Clone(kept), o)
	inside := make(map[syndication.Ref]bool, len(stay))
	for _, ref := range stay {
		inside[ref] = true
	}
	for _, ref := range stay {
		answer.show(ref, true, by[ref], "")
	}
	for _, ref := range kept {
		if !inside[ref] {
			answer.show(ref, false, by[ref], "it occurs twice, or is beyond the limit")
		}
	}
	for _, ref := range others {
		answer.show(ref, false, by[ref], "")
	}
	answer.Notes = unmatched(matches, len(answer.Items))
	return answer, nil
}

func (p *Preview) show(ref syndication.Ref, kept bool, by *rules.Rule, reason string) {
	it := &ref.Feed.Items[ref.Item]
	shown := PreviewItem{Title: it.Title, URL: it.URL, GUID: it.GUID, Kept: kept, Reason: reason}
	if at := it.Date(); !at.IsZero() {
		shown.Date = &at
	}
	if by != nil {
		shown.Rule = by.String()
	}
	if p.Items = append(p.Items, shown); kept {
		p.Kept++
	} else {
		p.Dropped++
	}
}

// ask fetches a URL for an owner, who waits. The caller releases the entry.
func (s *Service) ask(ctx context.Context, link string) (*httpcache.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.live.Load().Wait)
	defer cancel()
	entry, err := s.cache.Get(ctx, link, http.Header{"Accept": {accept}})
	if err != nil {
		return nil, err
	}
	if entry.Status != http.StatusOK {
		defer entry.Release()
		return nil, &httpcache.StatusError{Status: entry.Status, Header: entry.Header}
	}
	return entry, nil
}

// refuseUpstream answers a request of an owner for which something could not be fetched or read.
func (s *Service) refuseUpstream(w *server.Response, err error) server.Outcome {
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	w.Problem(status, "the source cannot be read: "+plain(err))
	return server.Done
}

// found returns the feeds and icons that a page links to.
func found(entry *httpcache.Entry) (all []Found) {
	base, err := url.Parse(entry.URL)
	if err != nil {
		return nil
	}
	for _, link := range syndication.Discover(entry.Body(), base) {
		all = append(all, Found{strings.Clone(link.URL), strings.Clone(link.Title),
			strings.Clone(link.Type), link.Icon})
	}
	return all
}

// postDiscover answers POST /admin/filters/discover with the feeds that a page links to, or the feed itself.
func (s *Service) postDiscover(w *server.Response, r *server.Request) server.Outcome {
	var in struct {
		URL string `json:"url"`
	}
	if !read(w, r, &in) {
		return server.Done
	}
	u, err := parseURL(in.URL)
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	entry, err := s.ask(r.Context(), u.String())
	if err != nil {
		return s.refuseUpstream(w, err)
	}
	defer entry.Release()
	answer := struct {
		Feeds []Found `json:"feeds"`
	}{}
	feed, err := s.parse(r.Context(), entry.Body(), entry.Header.Get("Content-Type"), entry.URL)
	switch {
	case err == nil:
		answer.Feeds = []Found{{URL: entry.URL, Title: strings.Clone(feed.Title),
			Type: feed.Format.ContentType()}}
	case errors.Is(err, syndication.ErrNoFeed):
		answer.Feeds = append([]Found{}, found(entry)...)
	default:
		return s.refuseUpstream(w, err)
	}
	return answerJSON(w, http.StatusOK, answer)
}

// getIcon answers GET /admin/filters/{id}/icon with the picture that a filter's source, or its site, has.
func (s *Service) getIcon(w *server.Response, r *server.Request) server.Outcome {
	f, err := s.stored(r)
	if err != nil {
		return s.refuse(w, err)
	}
	for _, link := range s.icons(r.Context(), f.URLs[0]) {
		entry, err := s.ask(r.Context(), link)
		if err != nil {
			continue
		}
		kind := http.DetectContentType(entry.Body()) // never what scripts can be in
		if body := entry.Body(); strings.HasPrefix(kind, "image/") && len(body) <= 1<<20 {
			w.ContentType = kind
			w.Field("Cache-Control", "private, max-age=86400")
			w.Body = append(w.Body, body...)
			entry.Release()
			return server.Done
		}
		entry.Release()
	}
	w.Problem(http.StatusNotFound, "neither the feed nor its site has an icon")
	return server.Done
}

// icons returns where the icon of a source may be.
func (s *Service) icons(ctx context.Context, link string) (links []string) {
	site := link
	if entry, err := s.ask(ctx, link); err == nil {
		if feed, err := s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"), entry.URL); err == nil {
			for _, icon := range []string{feed.Icon, feed.Image} {
				if icon != "" {
					links = append(links, strings.Clone(icon))
				}
			}
			if feed.Link != "" {
				site = strings.Clone(feed.Link)
			}
		}
		entry.Release()
	}
	base, err := url.Parse(link)
	if err != nil {
		return links
	}
	u, err := base.Parse(site)
	if err != nil {
		return links
	}
	if entry, err := s.ask(ctx, u.String()); err == nil {
		if bytes.Contains(entry.Body()[:min(len(entry.Body()), 4096)], []byte("<")) {
			for _, f := range found(entry) {
				if f.Icon {
					links = append(links, f.URL)
				}
			}
		}
		entry.Release()
	}
	if favicon, err := u.Parse("/favicon.ico"); err == nil {
		links = append(links, favicon.String())
	}
	return links
}

package filter

import (
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

// shownItems is how many items that stay, and as many that do not, a preview shows.
const shownItems = 500

// previewAge is how old what a preview is of may be where nobody reads the source.
const previewAge = time.Hour

// Preview is what a filter would make of its sources now.
type Preview struct {
	Title   string        `json:"title,omitempty"` // of the first source
	Kept    int           `json:"kept"`
	Dropped int           `json:"dropped"`
	Items   []PreviewItem `json:"items"` // up to 500 that stay, then up to 500 that do not
	Rules   []PreviewRule `json:"rules"` // the filter's own
	// Wrong is what is the matter with rules that cannot be read, of which nothing was tried: usual while
	// somebody types.
	Wrong  *WrongRule `json:"wrong,omitempty"`
	Notes  []Note     `json:"notes,omitempty"`
	Damage []string   `json:"damage,omitempty"` // of the sources: what was mended
	Feeds  []Found    `json:"feeds,omitempty"`  // where a URL is that of a page: the feeds it links to
}

// PreviewItem is an item, and the rule that has decided about it, if one has.
type PreviewItem struct {
	Title  string     `json:"title"`
	URL    string     `json:"url,omitempty"`
	GUID   string     `json:"guid,omitempty"`
	Date   *time.Time `json:"date,omitempty"`
	Kept   bool       `json:"kept"`
	Rule   string     `json:"rule,omitempty"`
	Number int        `json:"number,omitempty"` // of the rule among the filter's own, from 1; 0 of a global one
	Reason string     `json:"reason,omitempty"` // where it was none: it occurs twice, or it is beyond the limit
}

// WrongRule is where rules cannot be read, and why.
type WrongRule struct {
	Text   string `json:"text"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// PreviewRule is what a rule does to the items that there are.
type PreviewRule struct {
	Line    int    `json:"line"` // where it begins in the text it came in
	Text    string `json:"text"`
	Matched int    `json:"matched"` // items, whether it has decided about them or not
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
	if syntax, ok := errors.AsType[*rules.SyntaxError](err); ok {
		return answerJSON(w, http.StatusOK, Preview{Items: []PreviewItem{}, Rules: []PreviewRule{},
			Wrong: &WrongRule{strings.TrimPrefix(err.Error(), "rules: "), syntax.Line, syntax.Column}})
	}
	if err != nil {
		return s.refuse(w, err)
	}
	set := &rules.Set{Global: s.global.Load().set}
	if set.Rules, err = in.rules(); err == nil {
		err = set.Mode.UnmarshalText([]byte(spec.Mode))
	}
	if err != nil {
		return s.refuse(w, err)
	}
	answer, err := s.preview(r.Context(), spec, set)
	if err != nil {
		return s.refuseUpstream(w, err)
	}
	for _, p := range set.Problems() {
		answer.Notes = append(answer.Notes, Note{p.Rule + 1, p.String()})
	}
	return answerJSON(w, http.StatusOK, answer)
}

// preview reads the sources of a specification and says what becomes of their items.
func (s *Service) preview(ctx context.Context, spec store.Spec, set *rules.Set) (*Preview, error) {
	answer := &Preview{Items: []PreviewItem{}, Rules: []PreviewRule{}}
	numbers := make(map[*rules.Rule]int, len(set.Rules))
	for i, rule := range set.Rules {
		numbers[rule] = i + 1
		answer.Rules = append(answer.Rules, PreviewRule{Line: rule.Place().Line, Text: rule.String()})
	}
	now := time.Now()
	o, err := options(spec)
	if err != nil {
		return nil, err
	}
	if len(spec.URLs) > 1 {
		o.Sort = selection.Newest
	}
	type decided struct {
		feed *syndication.Feed
		rules.Decision
	}
	var all []decided
	matches := newMatches(len(set.Rules))
	var kept []syndication.Ref
	for _, link := range spec.URLs {
		entry, err := s.ready(ctx, link)
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
		if len(all) == 0 {
			answer.Title = feed.Title
		}
		verdict := set.Decide(feed, now)
		countMatches(matches, verdict)
		all = append(all, decided{feed, verdict})
		kept = feed.Refs(kept, verdict.Keep)
		for _, d := range feed.Damage {
			if !slices.Contains(answer.Damage, d) {
				answer.Damage = append(answer.Damage, d)
			}
		}
	}
	by := make(map[syndication.Ref]*rules.Rule)
	for _, d := range all {
		for i, rule := range d.By {
			by[syndication.Ref{Feed: d.feed, Item: i}] = rule
		}
	}
	show := func(ref syndication.Ref, to *int, shown PreviewItem) {
		if *to++; *to > shownItems {
			return
		}
		it := &ref.Feed.Items[ref.Item]
		shown.Title, shown.URL, shown.GUID = it.PlainTitle(), it.URL, it.GUID
		if at := it.Date(); !at.IsZero() {
			shown.Date = &at
		}
		if rule := by[ref]; rule != nil {
			shown.Rule, shown.Number = rule.String(), numbers[rule]
		}
		answer.Items = append(answer.Items, shown)
	}
	limit := o.Limit
	o.Limit = 0
	chosen := selection.Select(kept, o)
	if limit == 0 {
		limit = len(chosen)
	}
	place := make(map[syndication.Ref]int, len(chosen))
	for i, ref := range chosen {
		place[ref] = i
		if i < limit {
			show(ref, &answer.Kept, PreviewItem{Kept: true})
		}
	}
	for _, d := range all {
		for i := range d.feed.Items {
			ref, reason := syndication.Ref{Feed: d.feed, Item: i}, ""
			at, once := place[ref]
			switch {
			case once && at < limit:
				continue
			case once:
				reason = "it is beyond the limit"
			case d.Keep.Has(i):
				reason = "it occurs twice"
			}
			show(ref, &answer.Dropped, PreviewItem{Reason: reason})
		}
	}
	for i, m := range matches {
		answer.Rules[i].Matched = m.Items
	}
	answer.Notes = unmatched(matches, len(by))
	return answer, nil
}

// errKnown is a failure of a source that is not repeated for a preview.
type errKnown string

func (e errKnown) Error() string { return string(e) }

// ready returns what there is of a URL, and fetches it only where that is nothing, or old: who types a rule
// asks many times. The caller releases the entry.
func (s *Service) ready(ctx context.Context, link string) (*httpcache.Entry, error) {
	src := s.source(link)
	if entry, ok := s.cache.Peek(link); ok {
		if entry.Status == http.StatusOK && (src != nil || time.Since(entry.Checked) < previewAge) {
			return entry, nil
		}
		entry.Release()
	}
	if src != nil {
		if st := src.state.Load(); st.Failures > 0 && time.Now().Before(st.Next) {
			return nil, errKnown(st.Error)
		}
	}
	return s.ask(ctx, link)
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
	w.Extend("fields", map[string]string{"url": plain(err)})
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

// Discovery is what a URL leads to: the feed that it is of itself, or those that a page links to.
type Discovery struct {
	Page  bool    `json:"page"`
	Feeds []Found `json:"feeds"`
}

// postDiscover answers POST /admin/filters/discover with a Discovery.
func (s *Service) postDiscover(w *server.Response, r *server.Request) server.Outcome {
	var in struct {
		URL string `json:"url"`
	}
	if !read(w, r, &in) {
		return server.Done
	}
	u, err := parseURL(in.URL)
	if err != nil {
		return s.refuse(w, &FieldError{"url", err})
	}
	entry, err := s.ask(r.Context(), u.String())
	if err != nil {
		return s.refuseUpstream(w, err)
	}
	defer entry.Release()
	var answer Discovery
	feed, err := s.parse(r.Context(), entry.Body(), entry.Header.Get("Content-Type"), entry.URL)
	switch {
	case err == nil:
		answer.Feeds = []Found{{URL: entry.URL, Title: strings.Clone(feed.Title),
			Type: feed.Format.ContentType()}}
	case errors.Is(err, syndication.ErrNoFeed):
		answer = Discovery{true, append([]Found{}, found(entry)...)}
	default:
		return s.refuseUpstream(w, err)
	}
	return answerJSON(w, http.StatusOK, answer)
}

package filter

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/rules"
	"weir/internal/filter/store"
)

// Bounds of what a filter may say.
const (
	maxURLs   = 32
	maxURL    = 4 << 10
	maxRules  = 200
	maxLabel  = 500 // bytes of a title, folder or tag
	maxTags   = 50
	maxUserKB = 256 // of a request to the admin port that holds one filter
)

// Input is what an owner says of a filter; what is nil is left as it was.
type Input struct {
	URL    *string          `json:"url"`
	URLs   *[]string        `json:"urls"`
	Title  *string          `json:"title"`
	Mode   *string          `json:"mode"`
	Rules  *json.RawMessage `json:"rules"`
	Tags   *[]string        `json:"tags"`
	Folder *string          `json:"folder"`
	Limit  *int             `json:"limit"`
	Sort   *string          `json:"sort"`
	Dedup  *[]string        `json:"dedup"`
	Format *string          `json:"format"`
	Report *bool            `json:"report_failures"`
}

// FieldError says which member of an Input is wrong.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FieldError) Unwrap() error { return e.Err }

func wrong(field, format string, a ...any) error { return &FieldError{field, fmt.Errorf(format, a...)} }

// apply changes a specification as the input says. Its error is a FieldError.
func (in *Input) apply(spec *store.Spec) error {
	if in.URL != nil && in.URLs != nil {
		return wrong("url", "url and urls mean the same: give one of them")
	}
	if in.URL != nil {
		spec.URLs = []string{*in.URL}
	}
	set(&spec.URLs, in.URLs)
	set(&spec.Title, in.Title)
	set(&spec.Mode, in.Mode)
	set(&spec.Tags, in.Tags)
	set(&spec.Folder, in.Folder)
	set(&spec.Limit, in.Limit)
	set(&spec.Sort, in.Sort)
	set(&spec.Dedup, in.Dedup)
	set(&spec.Format, in.Format)
	set(&spec.Report, in.Report)
	list, err := in.rules()
	if err != nil {
		return err
	}
	if list != nil {
		spec.Rules = nil
		for _, rule := range list {
			spec.Rules = append(spec.Rules, rule.String())
		}
	}
	return check(spec)
}

// rules returns the rules of the input, nil if it says nothing of them.
func (in *Input) rules() (rules.Rules, error) {
	if in.Rules == nil {
		return nil, nil
	}
	list, err := readRules(*in.Rules)
	if err == nil && list == nil {
		list = rules.Rules{}
	}
	return list, err
}

// readRules reads the rules of a request.
func readRules(text json.RawMessage) (list rules.Rules, err error) {
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, &FieldError{"rules", fmt.Errorf("rules: %w", err)}
	}
	if len(list) > maxRules {
		return nil, wrong("rules", "rules: there may be %d", maxRules)
	}
	return list, nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check returns what is wrong with a specification, a FieldError, and brings its URLs into one form.
func check(spec *store.Spec) error {
	if len(spec.URLs) == 0 || len(spec.URLs) > maxURLs {
		return wrong("urls", "a filter has from 1 to %d URLs", maxURLs)
	}
	for i, text := range spec.URLs {
		u, err := parseURL(text)
		if err != nil {
			return &FieldError{"urls", err}
		}
		spec.URLs[i] = u.String()
		if slices.Contains(spec.URLs[:i], spec.URLs[i]) {
			return wrong("urls", "%.100q is there twice", text)
		}
	}
	if spec.Mode == "" {
		spec.Mode = rules.Drop.String()
	}
	if new(rules.Mode).UnmarshalText([]byte(spec.Mode)) != nil {
		return wrong("mode", "mode must be keep or drop")
	}
	if _, err := options(store.Spec{Sort: spec.Sort}); err != nil {
		return &FieldError{"sort", err}
	}
	if _, err := options(store.Spec{Dedup: spec.Dedup}); err != nil {
		return &FieldError{"dedup", err}
	}
	_, known := views[spec.Format]
	switch {
	case !known:
		return wrong("format", "format must be rss, atom or json, or empty for that of the source")
	case spec.Limit < 0 || spec.Limit > 10_000:
		return wrong("limit", "limit must be from 1 to 10000, or 0 for none")
	case len(spec.Rules) > maxRules:
		return wrong("rules", "there may be %d rules", maxRules)
	case len(spec.Tags) > maxTags:
		return wrong("tags", "there may be %d tags", maxTags)
	case len(spec.Title) > maxLabel:
		return wrong("title", "the title may have %d bytes", maxLabel)
	case len(spec.Folder) > maxLabel:
		return wrong("folder", "the folder may have %d bytes", maxLabel)
	}
	for _, tag := range spec.Tags {
		if len(tag) > maxLabel || strings.TrimSpace(tag) == "" || strings.Contains(tag, ",") {
			return wrong("tags", "a tag has up to %d bytes, not only blanks, and no comma", maxLabel)
		}
	}
	return nil
}

// parseURL reads the URL of a source.
func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("a URL may have %d bytes", maxURL)
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%.100q is no URL that begins with http:// or https:// and names a host", text)
	}
	u.Fragment, u.RawFragment = "", ""
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// set returns what a specification and the global rules decide by.
func (s *Service) set(spec store.Spec) (*rules.Set, error) { return parseSet(spec, s.global.Load()) }

func parseSet(spec store.Spec, global *globalRules) (*rules.Set, error) {
	set := &rules.Set{Global: global.set}
	if err := set.Mode.UnmarshalText([]byte(spec.Mode)); err != nil {
		return nil, err
	}
	for _, text := range spec.Rules {
		rule, err := rules.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("a stored rule: %w", err)
		}
		set.Rules = append(set.Rules, rule)
	}
	return set, nil
}

// globalSetting is the setting with the global rules, as JSON.
const globalSetting = "rules"

// parseGlobal reads the global rules as they are stored; "" is none.
func parseGlobal(text string, items int64) (*globalRules, error) {
	g := &globalRules{hash: xxh3.HashString(text)}
	if text == "" {
		return g, nil
	}
	var set rules.Set
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, err
	}
	if len(set.Rules) > 0 {
		g.set = &set
		g.matched = make([]atomic.Int64, len(set.Rules))
		for i := range g.matched {
			g.matched[i].Store(items)
		}
	}
	return g, nil
}

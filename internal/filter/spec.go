package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

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

// apply changes a specification as the input says, and returns what is wrong with it.
func (in *Input) apply(spec *store.Spec) error {
	if in.URL != nil && in.URLs != nil {
		return errors.New("url and urls mean the same: give one of them")
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
	if in.Rules != nil {
		var list rules.Rules
		if err := json.Unmarshal(*in.Rules, &list); err != nil {
			return fmt.Errorf("rules: %w", err)
		}
		spec.Rules = nil
		for _, rule := range list {
			spec.Rules = append(spec.Rules, rule.String())
		}
	}
	return check(spec)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check returns what is wrong with a specification, and brings its URLs into one form.
func check(spec *store.Spec) error {
	if len(spec.URLs) == 0 || len(spec.URLs) > maxURLs {
		return fmt.Errorf("a filter has from 1 to %d URLs", maxURLs)
	}
	for i, text := range spec.URLs {
		u, err := parseURL(text)
		if err != nil {
			return err
		}
		spec.URLs[i] = u.String()
		if slices.Contains(spec.URLs[:i], spec.URLs[i]) {
			return fmt.Errorf("%.100q is there twice", text)
		}
	}
	if spec.Mode == "" {
		spec.Mode = rules.Drop.String()
	}
	if new(rules.Mode).UnmarshalText([]byte(spec.Mode)) != nil {
		return errors.New("mode must be keep or drop")
	}
	if _, err := options(*spec); err != nil {
		return err
	}
	_, known := views[spec.Format]
	switch {
	case !known:
		return errors.New("format must be rss, atom or json, or empty for that of the source")
	case spec.Limit < 0 || spec.Limit > 10_000:
		return errors.New("limit must be from 1 to 10000, or 0 for none")
	case len(spec.Rules) > maxRules:
		return fmt.Errorf("there may be %d rules", maxRules)
	case len(spec.Tags) > maxTags:
		return fmt.Errorf("there may be %d tags", maxTags)
	}
	for _, label := range append([]string{spec.Title, spec.Folder}, spec.Tags...) {
		if len(label) > maxLabel {
			return fmt.Errorf("title, folder and tags may each have %d bytes", maxLabel)
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
func parseGlobal(text string) (*globalRules, error) {
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
	}
	return g, nil
}

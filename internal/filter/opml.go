package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/opml"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/store"
	"weir/internal/server"
)

// folderSeparator stands between the names of nested folders.
const folderSeparator = "/"

// Imported says what became of the feeds of a list.
type Imported struct {
	Added   int       `json:"added"` // or would be
	Skipped int       `json:"skipped"`
	Filters []Taken   `json:"filters"` // up to 1000 that were added
	Reasons []Skipped `json:"reasons"` // up to 1000 that were not
}

// Taken is a feed of a list that became a filter, or would.
type Taken struct {
	ID     string `json:"id,omitempty"`
	Title  string `json:"title,omitempty"`
	URL    string `json:"url"`
	Folder string `json:"folder,omitempty"`
	Rules  int    `json:"rules"`
}

// Skipped is a feed of a list that did not become a filter.
type Skipped struct {
	Title  string `json:"title,omitempty"`
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// postOPML answers POST /admin/filters/opml: a filter for each feed of a list that can be one and is not
// there yet; the store takes all of these or none, a cluster those before a failure. With dry_run it only
// says what it would do.
func (s *Service) postOPML(w *server.Response, r *server.Request) server.Outcome {
	var in struct {
		OPML   string `json:"opml"`
		DryRun bool   `json:"dry_run"`
	}
	if !read(w, r, &in) {
		return server.Done
	}
	feeds, err := opml.Read(strings.NewReader(in.OPML))
	if err != nil {
		return s.refuse(w, &FieldError{"opml", fmt.Errorf("opml: %w", err)})
	}
	there, err := s.present(r.Context())
	if err != nil {
		return s.refuse(w, err)
	}
	answer := Imported{Filters: []Taken{}, Reasons: []Skipped{}}
	now := time.Now().UTC().Truncate(time.Second)
	var filters []store.Filter
	for _, feed := range feeds {
		f := store.Filter{ID: store.NewID(), Created: now, Changed: now, Spec: specOf(feed)}
		reason := ""
		if err := check(&f.Spec); err != nil {
			reason = err.Error()
		} else if s.cfg.Base != "" && strings.HasPrefix(f.URLs[0], s.cfg.Base+s.cfg.Path+"/") {
			reason = "it is a filtered feed of this server"
		} else if there[decides(f.Spec)] || plainSpec(f.Spec) && there[reads(f.Spec)] {
			reason = "there is such a filter"
		}
		if reason != "" {
			if answer.Skipped++; answer.Skipped <= listed {
				answer.Reasons = append(answer.Reasons, Skipped{feed.Title, feed.URL, reason})
			}
			continue
		}
		there[decides(f.Spec)], there[reads(f.Spec)] = true, true
		filters = append(filters, f)
		taken := Taken{f.ID.String(), f.Title, redact(f.URLs[0]), f.Folder, len(f.Rules)}
		if in.DryRun {
			taken.ID = ""
		}
		if len(answer.Filters) < listed {
			answer.Filters = append(answer.Filters, taken)
		}
	}
	answer.Added = len(filters)
	if in.DryRun {
		return answerJSON(w, http.StatusOK, answer)
	}
	if err := s.rows.Add(r.Context(), filters...); err != nil {
		return s.refuse(w, err)
	}
	return answerJSON(w, http.StatusCreated, answer)
}

// present returns hashes of what the filters that there are decide, and of what they read.
func (s *Service) present(ctx context.Context) (map[uint64]bool, error) {
	all := make(map[uint64]bool, 2*s.filters.count())
	for f, err := range s.store.All(ctx) {
		if err != nil {
			return nil, err
		}
		all[decides(f.Spec)], all[reads(f.Spec)] = true, true
	}
	return all, nil
}

// decides returns a hash that two filters have in common that do the same.
func decides(spec store.Spec) uint64 {
	spec.Title, spec.Folder, spec.Tags, spec.Report = "", "", nil, false
	text, _ := json.Marshal(spec) //nolint:errcheck // it was stored so
	return xxh3.Hash(text)
}

// reads returns a hash that two filters have in common that have the same sources.
func reads(spec store.Spec) uint64 { return xxh3.HashString(strings.Join(spec.URLs, " ")) }

// plainSpec says whether a filter leaves its source as it is.
func plainSpec(spec store.Spec) bool {
	return len(spec.Rules) == 0 && spec.Limit == 0 && spec.Sort == "" && spec.Dedup == nil && spec.Format == ""
}

func specOf(feed opml.Feed) store.Spec {
	spec := store.Spec{URLs: feed.Sources, Title: feed.Title,
		Folder: strings.Join(feed.Folder, folderSeparator),
		Tags:   feed.Tags, Mode: feed.Rules.Mode.String(), Limit: feed.Selection.Limit, Format: feed.Format}
	if len(spec.URLs) == 0 {
		spec.URLs = []string{feed.URL}
	}
	for _, rule := range feed.Rules.Rules {
		spec.Rules = append(spec.Rules, rule.String())
	}
	if feed.Selection.Sort != selection.AsFound {
		spec.Sort = feed.Selection.Sort.String()
	}
	if feed.Selection.Dedup != 0 {
		spec.Dedup = strings.Split(feed.Selection.Dedup.String(), ",")
	}
	return spec
}

// getOPML answers GET /admin/filters/opml with all filters; readers subscribe to what they answer if
// Config.Base says where that is, and else to the sources.
func (s *Service) getOPML(w *server.Response, r *server.Request) server.Outcome {
	var feeds []opml.Feed
	for f, err := range s.store.All(r.Context()) {
		if err != nil {
			return s.refuse(w, err)
		}
		o, err := options(f.Spec)
		if err != nil {
			return s.refuse(w, err)
		}
		set, err := s.set(f.Spec)
		if err != nil {
			return s.refuse(w, err)
		}
		feed := opml.Feed{URL: f.URLs[0], Sources: f.URLs, Title: f.Title, Tags: f.Tags, Selection: o,
			Format: f.Format,
			Rules:  rules.Set{Mode: set.Mode, Rules: set.Rules}}
		if s.cfg.Base != "" {
			feed.URL = s.cfg.Base + s.cfg.Path + "/" + f.ID.String()
		}
		if f.Folder != "" {
			feed.Folder = strings.Split(f.Folder, folderSeparator)
		}
		feeds = append(feeds, feed)
	}
	var text bytes.Buffer
	if err := opml.Write(&text, "Filters", time.Now(), feeds); err != nil {
		return s.refuse(w, err)
	}
	w.ContentType = "text/x-opml; charset=utf-8"
	w.Field("Cache-Control", "no-store")
	w.Body = append(w.Body, text.Bytes()...)
	return server.Done
}

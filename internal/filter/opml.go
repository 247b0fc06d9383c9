package filter

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/filter/opml"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/store"
	"weir/internal/server"
)

// folderSeparator stands between the names of nested folders.
const folderSeparator = "/"

// postOPML answers POST /admin/filters/opml: a filter for each feed of a list, all of them or none.
func (s *Service) postOPML(w *server.Response, r *server.Request) server.Outcome {
	var in struct {
		OPML string `json:"opml"`
	}
	if !read(w, r, &in) {
		return server.Done
	}
	feeds, err := opml.Read(strings.NewReader(in.OPML))
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, "opml: "+err.Error())
		return server.Done
	}
	now := time.Now().UTC().Truncate(time.Second)
	var filters []store.Filter
	for _, feed := range feeds {
		f := store.Filter{ID: store.NewID(), Created: now, Changed: now, Spec: specOf(feed)}
		if err := check(&f.Spec); err != nil {
			w.Problem(http.StatusUnprocessableEntity,
				fmt.Sprintf("opml: the feed %.100q: %v", feed.Title, err))
			return server.Done
		}
		filters = append(filters, f)
	}
	if err := s.add(r.Context(), filters...); err != nil {
		return s.refuse(w, err)
	}
	return answerJSON(w, http.StatusCreated, struct {
		Added int `json:"added"`
	}{len(filters)})
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

package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/filter/opml"
	"weir/internal/filter/rules"
	"weir/internal/filter/store"
	"weir/internal/server"
	"weir/internal/strictjson"
)

// Routes implements server.Service.
func (s *Service) Routes() []server.Route {
	admin := func(pattern string, h server.Handler) server.Route {
		return server.Route{Pattern: pattern, Admin: true, MaxBody: maxUserKB << 10, Handler: h}
	}
	list := admin("POST /admin/filters/opml", s.postOPML)
	list.MaxBody = 2 * opml.MaxBytes // as JSON
	return append(s.publicRoutes(),
		admin("POST /admin/filters", s.postFilter),
		admin("GET /admin/filters", s.getFilters),
		admin("GET /admin/filters/{id}", s.getFilter),
		admin("PATCH /admin/filters/{id}", s.patchFilter),
		admin("DELETE /admin/filters/{id}", s.deleteFilter),
		admin("GET /admin/filters/{id}/icon", s.getIcon),
		admin("POST /admin/filters/preview", s.postPreview),
		admin("POST /admin/filters/discover", s.postDiscover),
		admin("GET /admin/filters/sources", s.getSources),
		admin("GET /admin/filters/rules", s.getRules),
		admin("PUT /admin/filters/rules", s.putRules),
		admin("GET /admin/filters/opml", s.getOPML),
		list,
		server.Route{Pattern: "GET /admin/filters/backup", Admin: true,
			Stream: http.HandlerFunc(s.streamBackup)},
	)
}

// Shown is a filter as the admin port shows it.
type Shown struct {
	store.Filter
	Path   string  `json:"path"`
	Source []State `json:"sources,omitempty"`
	// Matches has an element for each rule.
	Matches []Match `json:"matches,omitempty"`
	Notes   []Note  `json:"notes,omitempty"`
}

// State is a source as the admin port shows it.
type State struct {
	URL       string     `json:"url"`
	Filters   int        `json:"filters"`
	Fetched   *time.Time `json:"fetched,omitempty"`
	Succeeded *time.Time `json:"succeeded,omitempty"`
	Next      *time.Time `json:"next,omitempty"`
	Failures  int        `json:"failures"`
	Status    int        `json:"status,omitempty"`
	Error     string     `json:"error,omitempty"`
	Gone      bool       `json:"gone,omitempty"`
	Items     int64      `json:"items"` // that were new, ever
}

// Note is something that its owner should know of a rule.
type Note struct {
	Rule int    `json:"rule"` // counted from 1, of the filter's own
	Text string `json:"text"`
}

func (s *Service) show(f store.Filter) Shown {
	return Shown{Filter: f, Path: s.cfg.Path + "/" + f.ID.String()}
}

func (s *Service) state(src *source) State {
	st := src.state.Load()
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	s.mu.Lock()
	users := len(src.filters)
	s.mu.Unlock()
	return State{redact(src.url), users, at(st.Fetched), at(st.Succeeded), at(st.Next),
		st.Failures, st.Status, st.Error, st.Gone, st.Items}
}

// read reads the body of a request to the admin port; false means that it is answered.
func read(w *server.Response, r *server.Request, v any) bool {
	if err := strictjson.Read(bytes.NewReader(r.Body), v); err != nil {
		w.Problem(http.StatusUnprocessableEntity, "the body is not as it must be: "+err.Error())
		return false
	}
	return true
}

// refuse answers a request of the admin port that has failed.
func (s *Service) refuse(w *server.Response, err error) server.Outcome {
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.Problem(http.StatusNotFound, noFilter)
	case errors.Is(err, store.ErrChanged):
		w.Problem(http.StatusConflict, err.Error())
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrLocked):
		w.Problem(http.StatusServiceUnavailable, err.Error())
	default:
		s.log.Error("a change of filters has failed", "error", err)
		w.Problem(http.StatusInternalServerError, "the store has failed; the reason has been logged")
	}
	return server.Done
}

func answerJSON(w *server.Response, status int, v any) server.Outcome {
	w.Status = status
	w.Field("Cache-Control", "no-store")
	w.JSON(v)
	return server.Done
}

// postFilter answers POST /admin/filters.
func (s *Service) postFilter(w *server.Response, r *server.Request) server.Outcome {
	var in Input
	if !read(w, r, &in) {
		return server.Done
	}
	now := time.Now().UTC().Truncate(time.Second)
	f := store.Filter{ID: store.NewID(), Created: now, Changed: now}
	if err := in.apply(&f.Spec); err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	if err := s.add(r.Context(), f); err != nil {
		return s.refuse(w, err)
	}
	shown := s.show(f)
	shown.Notes = s.notes(f.Spec)
	w.Field("Location", "/admin/filters/"+f.ID.String())
	return answerJSON(w, http.StatusCreated, shown)
}

// add stores new filters and takes them up.
func (s *Service) add(ctx context.Context, filters ...store.Filter) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.store.Add(ctx, filters...); err != nil {
		return err
	}
	for _, f := range filters {
		s.enter(f)
	}
	return nil
}

// notes says what may be wrong with a filter's rules by themselves.
func (s *Service) notes(spec store.Spec) (notes []Note) {
	set, err := s.set(spec)
	if err != nil {
		return []Note{{0, err.Error()}}
	}
	for _, p := range set.Problems() {
		notes = append(notes, Note{p.Rule + 1, p.String()})
	}
	return notes
}

// listed is how many filters an answer to GET /admin/filters has at most.
const listed = 1000

// getFilters answers GET /admin/filters?tag=&folder=&after=&limit=.
func (s *Service) getFilters(w *server.Response, r *server.Request) server.Outcome {
	given := map[string]string{}
	for q := r.Query; ; {
		key, value, rest, more, ok := r.NextQuery(q)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, "the query holds a malformed percent-escape")
			return server.Done
		}
		if !more {
			break
		}
		given[string(key)] = string(value)
		q = rest
	}
	limit := listed
	if text, ok := given["limit"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > listed {
			w.Problem(http.StatusUnprocessableEntity, fmt.Sprintf("limit must be a whole number from 1 to %d",
				listed))
			return server.Done
		}
		limit = n
	}
	answer := struct {
		Filters []Shown `json:"filters"`
		After   string  `json:"after,omitempty"` // is to be asked for to get more
	}{Filters: []Shown{}}
	after, _ := store.ParseID(given["after"])
	for f, err := range s.store.All(r.Context()) {
		if err != nil {
			return s.refuse(w, err)
		}
		if given["after"] != "" && bytes.Compare(f.ID[:], after[:]) <= 0 ||
			given["tag"] != "" && !slices.Contains(f.Tags, given["tag"]) ||
			given["folder"] != "" && f.Folder != given["folder"] {
			continue
		}
		if len(answer.Filters) == limit {
			answer.After = answer.Filters[limit-1].ID.String()
			break
		}
		answer.Filters = append(answer.Filters, s.show(f))
	}
	return answerJSON(w, http.StatusOK, answer)
}

// stored returns the filter that a request names.
func (s *Service) stored(r *server.Request) (store.Filter, error) {
	id, ok := store.ParseID(r.Param(0))
	if !ok {
		return store.Filter{}, store.ErrNotFound
	}
	return s.store.Get(r.Context(), id)
}

// getFilter answers GET /admin/filters/{id}: also how its sources are, and what its rules do.
func (s *Service) getFilter(w *server.Response, r *server.Request) server.Outcome {
	f, err := s.stored(r)
	if err != nil {
		return s.refuse(w, err)
	}
	shown := s.show(f)
	for _, url := range f.URLs {
		if src := s.source(url); src != nil {
			shown.Source = append(shown.Source, s.state(src))
		}
	}
	items := 0
	shown.Matches, items = s.matches(r.Context(), &f)
	shown.Notes = append(s.notes(f.Spec), unmatched(shown.Matches, items)...)
	return answerJSON(w, http.StatusOK, shown)
}

func (s *Service) source(url string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[url]
}

// patchFilter answers PATCH /admin/filters/{id}.
func (s *Service) patchFilter(w *server.Response, r *server.Request) server.Outcome {
	var in Input
	if !read(w, r, &in) {
		return server.Done
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	f, err := s.stored(r)
	if err != nil {
		return s.refuse(w, err)
	}
	changed := f
	changed.URLs = slices.Clone(f.URLs)
	if err := in.apply(&changed.Spec); err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	changed.Changed = time.Now().UTC().Truncate(time.Second)
	if err := s.store.Update(r.Context(), f, changed.Spec, changed.Changed); err != nil {
		return s.refuse(w, err)
	}
	s.enter(changed)
	s.forget(r.Context(), f.URLs)
	shown := s.show(changed)
	shown.Notes = s.notes(changed.Spec)
	return answerJSON(w, http.StatusOK, shown)
}

// deleteFilter answers DELETE /admin/filters/{id}.
func (s *Service) deleteFilter(w *server.Response, r *server.Request) server.Outcome {
	s.writing.Lock()
	defer s.writing.Unlock()
	f, err := s.stored(r)
	if err == nil {
		err = s.store.Delete(r.Context(), f.ID)
	}
	if err != nil {
		return s.refuse(w, err)
	}
	s.remove(f.ID)
	s.forget(r.Context(), f.URLs)
	w.Status = http.StatusNoContent
	return server.Done
}

// forget removes what is known of sources that no filter has any more.
func (s *Service) forget(ctx context.Context, urls []string) {
	urls = slices.DeleteFunc(slices.Clone(urls), func(url string) bool { return s.source(url) != nil })
	if len(urls) == 0 {
		return
	}
	if err := s.store.Forget(ctx, urls...); err != nil {
		s.log.Warn("what is known of sources without filters could not be removed", "error", err)
	}
}

// getSources answers GET /admin/filters/sources: those that fail first, the longest first.
func (s *Service) getSources(w *server.Response, _ *server.Request) server.Outcome {
	all := s.all()
	slices.SortFunc(all, func(a, b *source) int {
		x, y := a.state.Load(), b.state.Load()
		if x.Failures != y.Failures {
			return y.Failures - x.Failures
		}
		return strings.Compare(a.url, b.url)
	})
	answer := struct {
		Sources []State `json:"sources"`
		Total   int     `json:"total"`
		Failing int     `json:"failing"`
	}{Sources: []State{}, Total: len(all)}
	for _, src := range all {
		st := s.state(src)
		if st.Failures > 0 {
			answer.Failing++
		}
		if len(answer.Sources) < listed {
			answer.Sources = append(answer.Sources, st)
		}
	}
	return answerJSON(w, http.StatusOK, answer)
}

// getRules answers GET /admin/filters/rules, the global ones.
func (s *Service) getRules(w *server.Response, _ *server.Request) server.Outcome {
	set := s.global.Load().set
	if set == nil {
		set = &rules.Set{Rules: rules.Rules{}}
	}
	return answerJSON(w, http.StatusOK, set)
}

// putRules answers PUT /admin/filters/rules.
func (s *Service) putRules(w *server.Response, r *server.Request) server.Outcome {
	var in struct {
		Mode  rules.Mode      `json:"mode"`
		Rules json.RawMessage `json:"rules"`
	}
	if !read(w, r, &in) {
		return server.Done
	}
	set := rules.Set{Mode: in.Mode}
	if err := json.Unmarshal(in.Rules, &set.Rules); err != nil || len(set.Rules) > maxRules {
		if err == nil {
			err = fmt.Errorf("there may be %d", maxRules)
		}
		w.Problem(http.StatusUnprocessableEntity, "rules: "+err.Error())
		return server.Done
	}
	text, err := json.Marshal(set)
	if err != nil {
		return s.refuse(w, err)
	}
	global, err := parseGlobal(string(text))
	if err != nil {
		return s.refuse(w, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.store.Set(r.Context(), globalSetting, string(text)); err != nil {
		return s.refuse(w, err)
	}
	s.global.Store(global)
	return answerJSON(w, http.StatusOK, set)
}

// streamBackup answers GET /admin/filters/backup with the store's file.
func (s *Service) streamBackup(w http.ResponseWriter, r *http.Request) {
	dir, err := os.MkdirTemp("", "weir-backup-")
	if err == nil {
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, StoreFile)
		if err = s.store.Backup(r.Context(), path); err == nil {
			var f *os.File
			if f, err = os.Open(path); err == nil {
				defer f.Close()
				w.Header().Set("Content-Type", "application/vnd.sqlite3")
				w.Header().Set("Cache-Control", "no-store")
				io.Copy(w, f) //nolint:errcheck // the client may be gone
				return
			}
		}
	}
	s.log.Error("the filters could not be backed up", "error", err)
	server.WriteProblem(w, http.StatusInternalServerError,
		"the backup has failed; the reason has been logged")
}

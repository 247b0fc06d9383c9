package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
		admin("POST /admin/filters/{id}/fetch", s.postFetch),
		admin("GET /admin/filters/{id}/icon", s.getIcon),
		admin("GET /admin/filters/labels", s.getLabels),
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
	URL    string  `json:"url,omitempty"`  // where readers get it, if Config.Base says so
	Icon   string  `json:"icon,omitempty"` // its path on the admin port; "" if it is known that there is none
	Source []State `json:"sources,omitempty"`
	// Matches has an element for each rule.
	Matches []Match `json:"matches,omitempty"`
	Notes   []Note  `json:"notes,omitempty"`
}

// Note is something that its owner should know of a rule.
type Note struct {
	Rule int    `json:"rule"` // counted from 1, of the filter's own
	Text string `json:"text"`
}

func (s *Service) show(f store.Filter) Shown {
	shown := Shown{Filter: f, Path: s.cfg.Path + "/" + f.ID.String()}
	if s.cfg.Base != "" {
		shown.URL = s.cfg.Base + shown.Path
	}
	if !s.noIcon(f.URLs[0]) {
		shown.Icon = "/admin/filters/" + f.ID.String() + "/icon"
	}
	for _, url := range f.URLs {
		state := State{URL: redact(url)}
		if src := s.source(url); src != nil {
			state = s.state(src)
		}
		shown.Source = append(shown.Source, state)
	}
	return shown
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
	field, isField := errors.AsType[*FieldError](err)
	syntax, isSyntax := errors.AsType[*rules.SyntaxError](err)
	switch {
	case isField:
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		w.Extend("fields", map[string]string{field.Field: err.Error()})
		if isSyntax {
			w.Extend("place", map[string]int{"line": syntax.Line, "column": syntax.Column})
		}
	case errors.Is(err, store.ErrNotFound):
		w.Problem(http.StatusNotFound, noFilter)
	case errors.Is(err, store.ErrChanged):
		w.Problem(http.StatusConflict, err.Error())
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrLocked):
		w.Problem(http.StatusServiceUnavailable, err.Error())
	case ofCluster(err):
		w.Problem(http.StatusServiceUnavailable, "the cluster has not confirmed the change: "+err.Error())
		w.Field("Retry-After", "2")
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
		return s.refuse(w, err)
	}
	if err := s.rows.Add(r.Context(), f); err != nil {
		return s.refuse(w, err)
	}
	shown := s.show(f)
	shown.Notes = s.notes(f.Spec)
	w.Field("Location", "/admin/filters/"+f.ID.String())
	return answerJSON(w, http.StatusCreated, shown)
}

// notes says what may be wrong with a filter's rules by themselves.
func (s *Service) notes(spec store.Spec) (notes []Note) {
	set, err := s.set(spec)
	if err != nil {
		return []Note{{0, err.Error()}}
	}
	return problems(set)
}

func problems(set *rules.Set) (notes []Note) {
	for _, p := range set.Problems() {
		notes = append(notes, Note{p.Rule + 1, p.String()})
	}
	return notes
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
	shown, err := s.showWhole(r.Context(), f)
	if err != nil {
		return s.refuse(w, err)
	}
	return answerJSON(w, http.StatusOK, shown)
}

func (s *Service) source(url string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[url]
}

// patchTries is how often a change is tried while others change the filter.
const patchTries = 8

// patchFilter answers PATCH /admin/filters/{id}.
func (s *Service) patchFilter(w *server.Response, r *server.Request) server.Outcome {
	var in Input
	if !read(w, r, &in) {
		return server.Done
	}
	var changed store.Filter
	err := store.ErrChanged
	for try := 0; try < patchTries && errors.Is(err, store.ErrChanged); try++ {
		var f store.Filter
		if f, err = s.stored(r); err != nil {
			break
		}
		changed = f
		changed.URLs = slices.Clone(f.URLs)
		if err = in.apply(&changed.Spec); err != nil {
			break
		}
		changed.Changed = time.Now().UTC().Truncate(time.Second)
		err = s.rows.Update(r.Context(), f, changed)
	}
	if err != nil {
		return s.refuse(w, err)
	}
	shown := s.show(changed)
	shown.Notes = s.notes(changed.Spec)
	return answerJSON(w, http.StatusOK, shown)
}

// deleteFilter answers DELETE /admin/filters/{id}.
func (s *Service) deleteFilter(w *server.Response, r *server.Request) server.Outcome {
	f, err := s.stored(r)
	if err == nil {
		err = s.rows.Delete(r.Context(), f)
	}
	if err != nil {
		return s.refuse(w, err)
	}
	w.Status = http.StatusNoContent
	return server.Done
}

// getRules answers GET /admin/filters/rules, the global ones.
func (s *Service) getRules(w *server.Response, _ *server.Request) server.Outcome {
	return answerJSON(w, http.StatusOK, s.showRules())
}

// GlobalRules are the rules that come before those of each filter.
type GlobalRules struct {
	*rules.Set
	Text  string `json:"text"` // of the rules, one a line
	Notes []Note `json:"notes,omitempty"`
}

func (s *Service) showRules() GlobalRules {
	g := s.global.Load()
	set := g.set
	if set == nil {
		set = &rules.Set{Rules: rules.Rules{}}
	}
	return GlobalRules{set, set.Rules.String(), g.notes(s.items.Load())}
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
	list, err := readRules(in.Rules)
	if err != nil {
		return s.refuse(w, err)
	}
	set := &rules.Set{Mode: in.Mode, Rules: list}
	text, err := json.Marshal(set)
	if err != nil {
		return s.refuse(w, err)
	}
	if _, err := parseGlobal(string(text), 0); err != nil {
		return s.refuse(w, err)
	}
	if err := s.rows.Set(r.Context(), globalSetting, string(text)); err != nil {
		return s.refuse(w, err)
	}
	return answerJSON(w, http.StatusOK, s.showRules())
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

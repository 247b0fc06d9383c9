package feed

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"weir/internal/feed/snapshot"
	"weir/internal/progress"
	"weir/internal/server"
)

// getState answers GET /admin/feeds.
func (f *Feed) getState(w *server.Response, r *server.Request) server.Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(f.state(r.Stripe))
	return server.Done
}

// getSurvey answers GET /admin/feeds/survey.
func (f *Feed) getSurvey(w *server.Response, _ *server.Request) server.Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(f.survey.state())
	return server.Done
}

// postSurvey answers POST /admin/feeds/survey: a survey that is under way goes on.
func (f *Feed) postSurvey(w *server.Response, r *server.Request) server.Outcome {
	f.beginSurvey()
	return f.getSurvey(w, r)
}

// getUser answers GET /admin/feeds/users/{userId}.
func (f *Feed) getUser(w *server.Response, r *server.Request) server.Outcome {
	if r.Inline() {
		return server.Offload
	}
	ask, err := parseInspection(r)
	if err != nil {
		return conclude(w, err)
	}
	for {
		seen, err := f.inspect(bytes.Clone(r.Param(0)), r.Stripe, ask)
		switch {
		case err == progress.ErrSuperseded:
			continue
		case err != nil:
			return conclude(w, err)
		}
		w.Field("Cache-Control", "no-store")
		w.JSON(seen)
		return server.Done
	}
}

// parseInspection reads the parameters of a look at a user.
func parseInspection(r *server.Request) (inspection, error) {
	ask := inspection{from: -1, limit: 100, size: defaultSize}
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !ok {
			return ask, &valueError{"the query holds a malformed percent-escape"}
		}
		if !more {
			return ask, nil
		}
		rest = tail
		n, number := parseNumber(value)
		switch string(key) {
		case "from":
			if !number || n > snapshot.MaxListLen {
				return ask, &valueError{"from must be a whole number from 0 to 65535"}
			}
			ask.from = int(n)
		case "limit":
			if !number || n < 1 || n > maxInspected {
				return ask, &valueError{fmt.Sprintf("limit must be a whole number from 1 to %d", maxInspected)}
			}
			ask.limit = int(n)
		case "size":
			if !number || n < 1 || n > maxSize {
				return ask, &valueError{fmt.Sprintf("size must be a whole number from 1 to %d", maxSize)}
			}
			ask.size = int(n)
		}
	}
}

// deleteUser answers DELETE /admin/feeds/users/{userId}: it may have to look through all keys.
func (f *Feed) deleteUser(w *server.Response, r *server.Request) server.Outcome {
	if r.Inline() {
		return server.Offload
	}
	id := r.Param(0)
	if len(id) > snapshot.MaxUserName {
		return conclude(w, &valueError{fmt.Sprintf("userId must be of 1 to %d bytes", snapshot.MaxUserName)})
	}
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	forgotten, err := g.positions.Forget(f.background.Context(), userOf(g.lists, id))
	if err != nil {
		f.log.Error("a user could not be forgotten", "error", err)
		return conclude(w, err)
	}
	w.JSON(struct {
		Forgotten bool `json:"forgotten"`
	}{forgotten})
	return server.Done
}

// postReload answers POST /admin/feeds/reload.
func (f *Feed) postReload(w *server.Response, r *server.Request) server.Outcome {
	force := false
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if more && ok && string(key) == "force" {
			force, ok = parseSwitch(value)
		}
		if !ok {
			return conclude(w, &valueError{"force must be 1 or 0"})
		}
		if !more {
			break
		}
		rest = tail
	}
	if err := f.reloadBy(f.background.Context(), force); err != nil {
		w.Problem(http.StatusConflict, f.withoutPath(err))
		return server.Done
	}
	g := f.pin(r.Stripe)
	defer g.unpin(r.Stripe)
	s := g.lists.Stats()
	w.JSON(struct {
		Generation uint64 `json:"generation"`
		Users      uint64 `json:"users"`
		Items      uint64 `json:"items"`
	}{g.number, s.Users, s.Items})
	return server.Done
}

// withoutPath is what an error says, without the folders on this machine that it names.
func (f *Feed) withoutPath(err error) string {
	said := err.Error()
	paths := []string{f.cfg.Fallback}
	if f.from == nil {
		paths = append(paths, f.cfg.Path)
	} else {
		paths = append(paths, f.from.store.Path(""))
	}
	for _, path := range paths {
		if dir, _ := filepath.Split(path); dir != "" {
			said = strings.ReplaceAll(said, dir, "")
		}
	}
	return said
}

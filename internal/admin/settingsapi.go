package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/server"
	"weir/internal/strictjson"
)

// shownSettings is the answer of the routes of settings.
type shownSettings struct {
	Settings []shownSetting `json:"settings"`
	// Unused are values that are kept and have no effect.
	Unused  []unusedSetting `json:"unused"`
	Undo    int             `json:"undo"`    // number of the change that would be undone; 0 is none
	Changes []change        `json:"changes"` // the last first
}

type shownSetting struct {
	Name    string     `json:"name"`
	Service string     `json:"service"`
	Help    string     `json:"help"`
	Kind    string     `json:"kind"`            // of value: int, duration, size, ...
	Words   []string   `json:"words,omitempty"` // all values, where they are a few words
	Bounds  string     `json:"bounds"`
	Default string     `json:"default"`
	Flags   string     `json:"flags"`  // what flags say
	Source  string     `json:"source"` // where that comes from
	Value   string     `json:"value"`
	By      string     `json:"by,omitempty"` // who has set it while the server served
	At      *time.Time `json:"at,omitempty"`
}

type unusedSetting struct {
	Name  string    `json:"name"`
	Value string    `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Why   string    `json:"why"`
}

// show returns the settings as they are now.
func (s *Settings) show() shownSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := shownSettings{Settings: []shownSetting{}, Unused: []unusedSetting{}, Changes: []change{}}
	for _, e := range s.entries {
		_, help := pflag.UnquoteUsage(e.Flag)
		one := shownSetting{Name: e.Flag.Name, Service: e.service, Help: help, Kind: e.Flag.Value.Type(),
			Words: config.Words(e.Flag), Bounds: e.Bounds, Default: e.Flag.DefValue, Flags: e.flags,
			Source: config.Source(e.Flag), Value: e.Flag.Value.String()}
		if v, ok := s.record.Live[e.Flag.Name]; ok && s.unused[e.Flag.Name] == "" {
			one.By, one.At = v.By, &v.At
		}
		shown.Settings = append(shown.Settings, one)
	}
	for _, name := range slices.Sorted(maps.Keys(s.unused)) {
		v := s.record.Live[name]
		shown.Unused = append(shown.Unused, unusedSetting{name, v.Value, v.By, v.At, s.unused[name]})
	}
	if last := s.record.undoable(); last != nil {
		shown.Undo = last.Number
	}
	shown.Changes = append(shown.Changes, s.record.Changes...)
	slices.Reverse(shown.Changes)
	return shown
}

// routes are below /admin/settings.
func (s *Settings) routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /admin/settings", Handler: s.get, Admin: true},
		{Pattern: "PATCH /admin/settings", Handler: s.patch, Admin: true},
		{Pattern: "DELETE /admin/settings/{name}", Handler: s.delete, Admin: true},
		{Pattern: "POST /admin/settings/undo", Handler: s.undo, Admin: true},
	}
}

func (s *Settings) get(w *server.Response, _ *server.Request) server.Outcome {
	w.Field("Cache-Control", "private, no-store")
	w.JSON(s.show())
	return server.Done
}

func (s *Settings) patch(w *server.Response, r *server.Request) server.Outcome {
	var values map[string]json.RawMessage
	if err := strictjson.Read(bytes.NewReader(r.Body), &values); err != nil {
		w.Problem(http.StatusBadRequest, fmt.Sprintf(
			`the body must be an object of settings like {"idle-timeout":"30s","max-connections":5000}: %v`,
			err))
		return server.Done
	}
	texts, wrong := map[string]*string{}, FieldError{}
	for name, value := range values {
		text, err := textOf(value)
		if err != nil {
			wrong[name] = fmt.Sprintf("%s %v", name, err)
		}
		texts[name] = text
	}
	if len(wrong) > 0 {
		return s.answer(w, r, wrong)
	}
	return s.answer(w, r, s.Change(texts, who(r)))
}

// textOf returns what a JSON value is as that of a flag; null is nil.
func textOf(value json.RawMessage) (*string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch v.(type) {
	case nil:
		return nil, nil
	case string, bool, json.Number:
		text := fmt.Sprint(v)
		return &text, nil
	}
	return nil, errors.New("must be a text, a number, true or false, or null for what the flags say")
}

func (s *Settings) delete(w *server.Response, r *server.Request) server.Outcome {
	name := string(r.Param(0))
	s.mu.Lock()
	_, there := s.record.Live[name]
	s.mu.Unlock()
	if !there {
		w.Problem(http.StatusNotFound, fmt.Sprintf(
			"%.60q has not been changed while the server served, so there is nothing to return from", name))
		return server.Done
	}
	return s.answer(w, r, s.Change(map[string]*string{name: nil}, who(r)))
}

func (s *Settings) undo(w *server.Response, r *server.Request) server.Outcome {
	return s.answer(w, r, s.Undo(who(r)))
}

// answer says what is so after a change, or why there was none.
func (s *Settings) answer(w *server.Response, r *server.Request, err error) server.Outcome {
	wrong, fields := errors.AsType[FieldError](err)
	switch {
	case err == nil:
		return s.get(w, r)
	case fields:
		w.Problem(http.StatusUnprocessableEntity, wrong.Error())
		// Whose error it is stands beside the detail, so that a page can show it there.
		w.Extend("fields", wrong)
	case errors.Is(err, errNothingToUndo):
		w.Problem(http.StatusConflict, err.Error())
	default:
		w.Problem(http.StatusServiceUnavailable, err.Error())
	}
	return server.Done
}

// who says who makes a request: browsers tell that they do.
func who(r *server.Request) string {
	switch {
	case r.Header("Sec-Fetch-Site") != nil:
		return "page"
	case strings.HasPrefix(string(r.Header("User-Agent")), "weir-ctl/"):
		return "weir ctl"
	}
	return "API"
}

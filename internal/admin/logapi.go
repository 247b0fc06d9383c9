package admin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/server"
)

// routes are /admin/errors and /admin/log.
func (l *Log) routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /admin/errors", Handler: l.getErrors, Admin: true},
		{Pattern: "DELETE /admin/errors", Handler: l.deleteErrors, Admin: true},
		{Pattern: "GET /admin/log", Handler: l.getLog, Admin: true},
	}
}

// shownErrors is the answer of GET /admin/errors.
type shownErrors struct {
	Held   int          `json:"held"` // warnings and errors of which the attributes are known
	Groups []shownGroup `json:"groups"`
}

// shownGroup is warnings or errors of one cause.
type shownGroup struct {
	Group   int       `json:"group"`
	Level   string    `json:"level"`
	Service string    `json:"service"`
	Message string    `json:"message"`
	Kind    string    `json:"kind"`
	Count   uint64    `json:"count"` // since they were cleared, samples that are no longer held included
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Samples []Line    `json:"samples"` // the last ones, the last first
}

// errors returns the groups, the one that was seen last first; with a number only that, with all samples.
func (l *Log) errors(number int) shownErrors {
	l.mu.Lock()
	defer l.mu.Unlock()
	samples := map[*errorGroup][]Line{}
	for f := range l.failed.all() {
		if number == 0 || f.group.number == number {
			samples[f.group] = append(samples[f.group], f.line)
		}
	}
	shown := shownErrors{Held: len(l.failed.values), Groups: []shownGroup{}}
	for g, lines := range samples {
		slices.Reverse(lines)
		if number == 0 {
			lines = lines[:min(len(lines), mostSamples)]
		}
		shown.Groups = append(shown.Groups, shownGroup{g.number, g.level, g.service, g.message, g.kind,
			g.count, g.first, g.last, lines})
	}
	slices.SortFunc(shown.Groups, func(a, b shownGroup) int {
		return cmp.Or(b.Last.Compare(a.Last), b.Group-a.Group)
	})
	return shown
}

// getErrors answers GET /admin/errors.
func (l *Log) getErrors(w *server.Response, r *server.Request) server.Outcome {
	group, ok := l.group(w, r)
	if !ok {
		return server.Done
	}
	w.Field("Cache-Control", "private, no-store")
	w.JSON(l.errors(group))
	return server.Done
}

// deleteErrors answers DELETE /admin/errors.
func (l *Log) deleteErrors(w *server.Response, r *server.Request) server.Outcome {
	if group, ok := l.group(w, r); ok {
		w.JSON(map[string]int{"cleared": l.Clear(group)})
	}
	return server.Done
}

// group reads the number of a group in a query, 0 for all. It has answered when that is wrong.
func (l *Log) group(w *server.Response, r *server.Request) (group int, ok bool) {
	q, err := readQuery(r)
	if err == nil {
		group, err = q.number("group", 0)
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
	}
	return group, err == nil
}

// shownLog is the answer of GET /admin/log.
type shownLog struct {
	Last  uint64 `json:"last"` // number of the last line there is
	Lines []Line `json:"lines"`
}

// getLog answers GET /admin/log.
func (l *Log) getLog(w *server.Response, r *server.Request) server.Outcome {
	q, err := readQuery(r)
	var level slog.Level
	var after, limit int
	if err == nil {
		if err = level.UnmarshalText([]byte(cmp.Or(q["level"], "debug"))); err != nil {
			err = fmt.Errorf("level must be debug, info, warn or error, got %.20q", q["level"])
		}
	}
	if err == nil {
		after, err = q.number("after", 0)
	}
	if err == nil {
		limit, err = q.number("limit", mostLines)
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	w.Field("Cache-Control", "private, no-store")
	w.JSON(l.find(level, q["service"], q["text"], uint64(after), limit))
	return server.Done
}

// find returns the last lines up to limit, the oldest first, that came after a number, from a level on, of a
// service and with a text, whatever its case, unless these are empty.
func (l *Log) find(level slog.Level, service, text string, after uint64, limit int) shownLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = strings.ToLower(text)
	shown := shownLog{Last: l.seq, Lines: []Line{}}
	for line := range l.lines.all() {
		if line.Seq > after && line.level >= level && (service == "" || line.Service == service) &&
			(text == "" || line.has(text)) {
			shown.Lines = append(shown.Lines, line)
		}
	}
	shown.Lines = shown.Lines[max(0, len(shown.Lines)-limit):]
	return shown
}

// has says whether a text, in small letters, is in the line.
func (l *Line) has(text string) bool {
	if strings.Contains(strings.ToLower(l.Message), text) {
		return true
	}
	return slices.ContainsFunc(l.Attrs, func(a Attr) bool {
		return strings.Contains(strings.ToLower(a.Name+"="+a.Value), text)
	})
}

// parameters are those of a request's query.
type parameters map[string]string

// readQuery returns the parameters of a request; those that no one asks for do nothing.
func readQuery(r *server.Request) (parameters, error) {
	q := parameters{}
	for rest := r.Query; ; {
		key, value, tail, more, ok := r.NextQuery(rest)
		if !ok {
			return nil, errors.New("an escape in the query is malformed")
		}
		if !more {
			return q, nil
		}
		q[string(key)] = string(value)
		rest = tail
	}
}

// number returns a parameter that is a whole number, or what it is when it is not there.
func (q parameters) number(name string, missing int) (int, error) {
	text, ok := q[name]
	if !ok {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s must be a whole number from 0, got %.40q", name, text)
	}
	return int(n), nil
}

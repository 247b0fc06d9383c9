package filter

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/filter/store"
	"weir/internal/server"
)

// listed is how many filters, sources or labels an answer has at most.
const listed = 1000

// maxTerms is how many words a search may have.
const maxTerms = 10

// getFilters answers GET /admin/filters?q=&tag=&folder=&state=&after=&limit=.
func (s *Service) getFilters(w *server.Response, r *server.Request) server.Outcome {
	q := store.Query{Limit: listed}
	if err := s.readQuery(r, &q); err != nil {
		return s.refuse(w, err)
	}
	page, after, err := s.store.List(r.Context(), q)
	if errors.Is(err, store.ErrCursor) {
		err = &FieldError{"after", err}
	}
	if err != nil {
		return s.refuse(w, err)
	}
	answer := struct {
		Filters []Shown `json:"filters"`
		After   string  `json:"after,omitempty"` // is to be asked for to get more
	}{[]Shown{}, after}
	for _, f := range page {
		answer.Filters = append(answer.Filters, s.show(f))
	}
	return answerJSON(w, http.StatusOK, answer)
}

// readQuery reads what the query of a request asks for.
func (s *Service) readQuery(r *server.Request, q *store.Query) error {
	for rest := r.Query; ; {
		key, value, next, more, ok := r.NextQuery(rest)
		if !ok {
			return wrong("query", "the query holds a malformed percent-escape")
		}
		if !more {
			return nil
		}
		text := string(value)
		switch string(key) {
		case "q":
			if q.Words = strings.Fields(text); len(q.Words) > maxTerms {
				return wrong("q", "q may have %d words", maxTerms)
			}
		case "tag":
			q.Tag = text
		case "folder":
			q.Folder = text
		case "after":
			q.After = text
		case "state":
			if text == "failing" {
				q.Only = func(id store.ID) bool {
					f := s.filters.get(id)
					return f != nil && f.source.worst().Failures > 0
				}
			} else if text != "" {
				return wrong("state", "state must be failing, or empty for any")
			}
		case "limit":
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > listed {
				return wrong("limit", "limit must be a whole number from 1 to %d", listed)
			}
			q.Limit = n
		}
		rest = next
	}
}

// labels counts the filters that folders and tags have.
type labels struct {
	mu            sync.Mutex
	folders, tags map[string]int
}

// count adds n to what a filter counts for.
func (l *labels) count(spec store.Spec, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.folders == nil {
		l.folders, l.tags = make(map[string]int), make(map[string]int)
	}
	add := func(to map[string]int, name string) {
		if to[name] += n; to[name] <= 0 {
			delete(to, name)
		}
	}
	if spec.Folder != "" {
		add(l.folders, spec.Folder)
	}
	for i, tag := range spec.Tags {
		if !slices.Contains(spec.Tags[:i], tag) {
			add(l.tags, tag)
		}
	}
}

// Label is a folder or tag, and how many filters have it.
type Label struct {
	Name    string `json:"name"`
	Filters int    `json:"filters"`
}

// sorted returns those of labels that most filters have, by name.
func sorted(counts map[string]int) []Label {
	all := make([]Label, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, Label{name, counts[name]})
	}
	if len(all) > listed {
		slices.SortStableFunc(all, func(a, b Label) int { return b.Filters - a.Filters })
		all = all[:listed]
		slices.SortFunc(all, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// Labels is what filters can be chosen by, and how many there are.
type Labels struct {
	Folders []Label `json:"folders"`
	Tags    []Label `json:"tags"`
	Filters int     `json:"filters"`
	Sources int     `json:"sources"`
	Failing int     `json:"failing"` // sources that could not be fetched the last time
}

// getLabels answers GET /admin/filters/labels.
func (s *Service) getLabels(w *server.Response, _ *server.Request) server.Outcome {
	all := s.all()
	answer := Labels{Filters: s.filters.count(), Sources: len(all), Failing: failing(all)}
	s.labels.mu.Lock()
	answer.Folders, answer.Tags = sorted(s.labels.folders), sorted(s.labels.tags)
	s.labels.mu.Unlock()
	return answerJSON(w, http.StatusOK, answer)
}

package filter

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/filter/store"
	"weir/internal/server"
)

// State is a source as the admin port shows it.
type State struct {
	URL       string     `json:"url"`
	Title     string     `json:"title,omitempty"` // that it has given itself
	Filters   int        `json:"filters"`
	Fetched   *time.Time `json:"fetched,omitempty"`
	Succeeded *time.Time `json:"succeeded,omitempty"`
	Next      *time.Time `json:"next,omitempty"`
	Failures  int        `json:"failures"`
	Status    int        `json:"status,omitempty"`
	Error     string     `json:"error,omitempty"`
	Gone      bool       `json:"gone,omitempty"`
	Items     int64      `json:"items"`              // that were new, ever
	Fetching  bool       `json:"fetching,omitempty"` // now
	History   []Attempt  `json:"history,omitempty"`  // the latest first, where one filter is shown
}

// Attempt is a fetch of a source as the admin port shows it.
type Attempt struct {
	At      time.Time `json:"at"`
	Status  int       `json:"status,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	Seconds float64   `json:"seconds"`
	Same    bool      `json:"unchanged,omitempty"`
	Error   string    `json:"error,omitempty"`
	Detail  string    `json:"detail,omitempty"`
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
	src.mu.Lock()
	fetching := src.fetching != nil
	src.mu.Unlock()
	return State{URL: redact(src.url), Title: st.Title, Filters: users, Fetched: at(st.Fetched),
		Succeeded: at(st.Succeeded), Next: at(st.Next), Failures: st.Failures, Status: st.Status,
		Error: st.Error, Gone: st.Gone, Items: st.Items, Fetching: fetching}
}

// showWhole returns all that there is to show of a filter: also what its rules do, and how its sources were
// fetched.
func (s *Service) showWhole(ctx context.Context, f store.Filter) (Shown, error) {
	shown := s.show(f)
	for i := range shown.Source {
		fetches, err := s.store.History(ctx, f.URLs[i])
		if err != nil {
			return shown, err
		}
		for _, one := range fetches {
			shown.Source[i].History = append(shown.Source[i].History, Attempt{one.Fetched, one.Status,
				one.Bytes, one.Took.Seconds(), one.Same, one.Error, one.Detail})
		}
	}
	items := 0
	shown.Matches, items = s.matches(ctx, &f)
	shown.Notes = append(s.notes(f.Spec), unmatched(shown.Matches, items)...)
	return shown, nil
}

// failing counts the sources that could not be fetched the last time.
func failing(all []*source) (n int) {
	for _, src := range all {
		if src.state.Load().Failures > 0 {
			n++
		}
	}
	return n
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
	}{Sources: []State{}, Total: len(all), Failing: failing(all)}
	for _, src := range all[:min(len(all), listed)] {
		answer.Sources = append(answer.Sources, s.state(src))
	}
	return answerJSON(w, http.StatusOK, answer)
}

// postFetch answers POST /admin/filters/{id}/fetch: it fetches the sources of a filter, fresh or not, and
// waits for them as long as a reader of a first answer would.
func (s *Service) postFetch(w *server.Response, r *server.Request) server.Outcome {
	f, err := s.stored(r)
	if err != nil {
		return s.refuse(w, err)
	}
	var under []<-chan struct{}
	for _, url := range f.URLs {
		if src := s.source(url); src != nil {
			src.touch(time.Now())
			under = append(under, s.refresh(src, true))
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.live.Load().Wait)
	defer cancel()
	for _, done := range under {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	shown, err := s.showWhole(r.Context(), f)
	if err != nil {
		return s.refuse(w, err)
	}
	return answerJSON(w, http.StatusOK, shown)
}

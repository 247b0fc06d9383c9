package web

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/disk"
	"weir/internal/load/report"
)

// mostListed bounds the list, if people put files of their own into the folder.
const mostListed = 1000

// history is a folder of results, one JSON file each, ID.json. Files that people put there are shown too,
// but only those with names that newID makes are ever removed to make room. It is safe for concurrent use.
type history struct {
	dir  string
	root *os.Root // no name leads out of it
	keep int

	mu    sync.Mutex
	known map[string]entry // by id, as of when the file had that size and time
}

type entry struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Mode     string    `json:"mode,omitempty"`
	Target   string    `json:"target,omitempty"`
	Served   float64   `json:"served"` // requests a second
	Intended float64   `json:"intended"`
	Ceiling  *float64  `json:"ceiling,omitempty"`
	P99      float64   `json:"p99_us"`
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"`
	Shed     uint64    `json:"shed"`
	Marks    int       `json:"marks"`
	Failed   bool      `json:"failed"` // a condition
	Broken   string    `json:"broken,omitempty"`

	size     int64
	modified time.Time
}

var (
	// validID is what a result may be called: a file name without surprises.
	validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$`)
	// ownID is what newID makes.
	ownID = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$`)
)

var errNoResult = errors.New("there is no such result")

func openHistory(dir string, keep int) (*history, error) {
	if dir == "" {
		return nil, errors.New("the history needs a folder: name one with --history")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w; name another folder with --history", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w; name another folder with --history", err)
	}
	return &history{dir: dir, root: root, keep: keep, known: make(map[string]entry)}, nil
}

func (h *history) close() error { return h.root.Close() }

// save keeps a result, and removes the oldest of its kind beyond the bound.
func (h *history) save(id string, r *report.Result) error {
	var text bytes.Buffer
	if err := report.WriteJSON(&text, r); err != nil {
		return err
	}
	// Plans may hold secrets in their headers, and the folder may be an old one that others can read.
	if err := disk.WriteFileAtomic(filepath.Join(h.dir, id+".json"), text.Bytes(), 0o600); err != nil {
		return err
	}
	ids, err := h.ids()
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !ownID.MatchString(id) })
	slices.Sort(ids)
	for len(ids) > h.keep {
		if err := h.remove(ids[0]); err != nil && !errors.Is(err, errNoResult) {
			return err
		}
		ids = ids[1:]
	}
	return nil
}

// ids returns the ids of all files that may be results.
func (h *history) ids() ([]string, error) {
	files, err := fs.ReadDir(h.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	var ids []string
	for _, f := range files {
		if id, ok := strings.CutSuffix(f.Name(), ".json"); ok && validID.MatchString(id) &&
			f.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// list returns the results, the newest first. A file that is none is listed with the reason.
func (h *history) list() ([]entry, error) {
	ids, err := h.ids()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	entries := make([]entry, 0, len(ids))
	now := make(map[string]entry, len(ids))
	for _, id := range ids {
		info, err := h.root.Stat(id + ".json")
		if err != nil {
			continue // removed meanwhile
		}
		e, ok := h.known[id]
		if !ok || e.size != info.Size() || !e.modified.Equal(info.ModTime()) {
			e = h.look(id)
			e.size, e.modified = info.Size(), info.ModTime()
			if e.Broken != "" {
				e.Started = info.ModTime()
			}
		}
		now[id] = e
		entries = append(entries, e)
	}
	h.known = now
	slices.SortFunc(entries, func(a, b entry) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return entries[:min(len(entries), mostListed)], nil
}

func (h *history) look(id string) entry {
	r, err := h.result(id)
	if err != nil {
		return entry{ID: id, Broken: err.Error()}
	}
	e := entry{ID: id, Name: r.Name, Started: r.Started, Seconds: r.Seconds, Served: r.Rate.Served,
		Intended: r.Rate.Intended,
		P99:      r.Latency.P99, Requests: r.Requests, Errors: r.Errors, Shed: r.Shed, Marks: len(r.Marks)}
	if r.Ceiling != nil {
		e.Ceiling = &r.Ceiling.Rate
	}
	for _, v := range r.Verdicts {
		e.Failed = e.Failed || v.Failed
	}
	if plan, ok := r.Plan.(map[string]any); ok {
		e.Mode, _ = plan["mode"].(string)
		for _, member := range []string{"url", "scenario"} {
			if text, ok := plan[member].(string); ok && e.Target == "" {
				e.Target = text
			}
		}
	}
	return e
}

func (h *history) result(id string) (*report.Result, error) {
	if !validID.MatchString(id) {
		return nil, errNoResult
	}
	f, err := h.root.Open(id + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoResult
	}
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return report.ReadJSON(f)
}

func (h *history) remove(id string) error {
	if !validID.MatchString(id) {
		return errNoResult
	}
	err := h.root.Remove(id + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return errNoResult
	}
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

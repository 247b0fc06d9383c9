package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/server"
)

// mostChanges is how many changes are remembered.
const mostChanges = 100

// Group is settings of one service, or of the kernel.
type Group struct {
	Service  string
	Settings []config.Setting
}

// Settings are what may change while a server serves, and what was changed so. A change is checked as a
// whole, written to a file, and then takes effect: whatever was answered outlives the process, and what was
// refused, by its bounds or by the disk, has no effect. The file goes before the flags at the next start.
//
// It may be used from any goroutine.
type Settings struct {
	path   string
	log    *slog.Logger
	notify func(names []string) // after a change; nil for nobody

	mu      sync.Mutex // guards what follows, and the values of flags
	entries []*entry   // in the order they are shown
	record  record
	unused  map[string]string // why values of the record are not in effect
}

// entry is a setting of a service.
type entry struct {
	config.Setting
	service string
	flags   string // the value that the flag had at the start
}

// record is what the file holds.
type record struct {
	Live map[string]liveValue `json:"live"`
	// Changes are the last ones, the oldest first.
	Changes []change `json:"changes"`
	Last    int      `json:"last"` // number of the last change
}

// liveValue is a value that was set while a server served.
type liveValue struct {
	Value string    `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

// change is what was changed at once.
type change struct {
	Number  int        `json:"number"`
	By      string     `json:"by"`
	At      time.Time  `json:"at"`
	Values  []moved    `json:"values"`
	Undone  string     `json:"undone_by,omitempty"`
	UndoneA *time.Time `json:"undone_at,omitempty"`
}

// moved is a value before and after a change; nil is that of the flags.
type moved struct {
	Name string  `json:"name"`
	From *string `json:"from"`
	To   *string `json:"to"`
}

// openSettings returns the settings of a server.
func openSettings(o Options) *Settings {
	groups := []Group{{"kernel", o.Settings}}
	for _, s := range o.Services {
		if t, ok := s.(server.Tunable); ok {
			groups = append(groups, Group{s.Name(), t.Settings()})
		}
	}
	return OpenSettings(o.SettingsFile, groups, o.Log)
}

// OpenSettings returns the settings of groups after it has taken up what was set while an earlier server
// served. A file that cannot be read is put aside, and a value that cannot be taken up stays in the file and
// has no effect: both are logged, and neither keeps a server from serving. The path may be empty: then
// nothing outlives the process.
func OpenSettings(path string, groups []Group, log *slog.Logger) *Settings {
	s := &Settings{path: path, log: log, unused: map[string]string{}}
	for _, g := range groups {
		for _, one := range g.Settings {
			s.entries = append(s.entries, &entry{one, g.Service, one.Flag.Value.String()})
		}
	}
	if err := s.read(); err != nil {
		log.Error("the settings that were changed while the server served cannot be read; flags hold",
			"error", err)
		if err := os.Rename(path, path+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Error("their file cannot be put aside", "error", err)
		}
		s.record = record{}
	}
	if s.record.Live == nil {
		s.record.Live = map[string]liveValue{}
	}
	s.takeUp()
	return s
}

func (s *Settings) read() error {
	if s.path == "" {
		return nil
	}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.record)
	}
	return err
}

// ReadLive returns who has changed which settings while a server served, by their names, as a file of
// OpenSettings has it. A file that is not there has none.
func ReadLive(path string) (map[string]string, error) {
	s := Settings{path: path}
	if err := s.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	by := make(map[string]string, len(s.record.Live))
	for name, v := range s.record.Live {
		by[name] = v.By
	}
	return by, nil
}

// takeUp applies the values of the record. They are taken up one after the other, for as long as one more can
// be: a value may be right only beside another.
func (s *Settings) takeUp() {
	left := slices.Sorted(maps.Keys(s.record.Live))
	for again := true; again; {
		again = false
		left = slices.DeleteFunc(left, func(name string) bool {
			e, value := s.find(name), s.record.Live[name]
			if e == nil {
				s.unused[name] = "there is no such setting: its service is off, perhaps"
				return true
			}
			before := e.Flag.Value.String()
			err := e.Set(value.Value)
			if err == nil {
				if err = e.Check(); err != nil {
					mustSet(e, before)
				}
			}
			if err != nil {
				s.unused[name] = err.Error()
				return false
			}
			delete(s.unused, name)
			e.Apply()
			again = true
			s.log.Info("a setting that was changed while the server served goes before flags", "setting",
				name, "value", value.Value, "flags", e.flags, "by", value.By, "at", value.At)
			return true
		})
	}
	for name, reason := range s.unused {
		s.log.Warn("a setting that was changed while the server served is left out", "setting", name, "value",
			s.record.Live[name].Value, "error", reason)
	}
}

func (s *Settings) find(name string) *entry {
	i := slices.IndexFunc(s.entries, func(e *entry) bool { return e.Flag.Name == name })
	if i < 0 {
		return nil
	}
	return s.entries[i]
}

// mustSet sets a flag to a value that it had.
func mustSet(e *entry, value string) {
	if err := e.Set(value); err != nil {
		panic(fmt.Sprintf("BUG: a flag does not take its own value: %v", err))
	}
}

// A FieldError is what is wrong with settings, by their names. Of values that are wrong only together all
// have the same text.
type FieldError map[string]string

// Error implements error.
func (e FieldError) Error() string {
	texts := slices.Sorted(maps.Values(e))
	return strings.Join(slices.Compact(texts), "; ")
}

// errUnsaved is wrapped by errors of changes that could not be written.
var errUnsaved = errors.New("the change could not be written to the data directory, and has no effect")

// Change sets settings, to what the flags say where the value is nil: all of them, or with an error none. By
// says who does. The error is a FieldError, or wraps errUnsaved.
func (s *Settings) Change(values map[string]*string, by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.record.clone()
	c := change{Number: next.Last + 1, By: by, At: time.Now().UTC()}
	undo, err := s.set(values)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		m := moved{Name: name}
		if v, ok := next.Live[name]; ok {
			m.From = &v.Value
		}
		if e := s.find(name); e != nil && values[name] != nil {
			value := e.Flag.Value.String()
			m.To = &value
		}
		if m.To == m.From || m.To != nil && m.From != nil && *m.To == *m.From {
			continue
		}
		c.Values = append(c.Values, m)
	}
	if len(c.Values) == 0 {
		return nil
	}
	next.apply(c.Values, by, c.At)
	next.Last = c.Number
	next.Changes = append(next.Changes, c)
	next.Changes = next.Changes[max(0, len(next.Changes)-mostChanges):]
	return s.commit(next, c.Values, by, undo)
}

// errNothingToUndo says that no change is left that could be undone.
var errNothingToUndo = errors.New("no change is left to undo")

// Undo undoes the last change that is not undone. Its errors are those of Change, and errNothingToUndo.
func (s *Settings) Undo(by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.record.clone()
	last := next.undoable()
	if last == nil {
		return errNothingToUndo
	}
	values := map[string]*string{}
	var back []moved
	for _, m := range last.Values {
		values[m.Name] = m.From
		back = append(back, moved{m.Name, m.To, m.From})
	}
	undo, err := s.set(values)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	last.Undone, last.UndoneA = by, &now
	next.apply(back, by, now)
	return s.commit(next, back, by, undo)
}

// set has flags take values and checks them; undo has them take the ones before. With an error they have
// those already. A name that is no setting's may be taken out of the record, by nil.
func (s *Settings) set(values map[string]*string) (undo func(), err error) {
	wrong := FieldError{}
	before := map[*entry]string{}
	undo = func() {
		for e, value := range before {
			mustSet(e, value)
		}
	}
	for name, value := range values {
		e := s.find(name)
		if e == nil {
			if _, unused := s.record.Live[name]; !unused || value != nil {
				wrong[name] = "there is no setting of this name that may change while the server serves"
			}
			continue
		}
		before[e] = e.Flag.Value.String()
		to := e.flags
		if value != nil {
			to = *value
		}
		if err := e.Set(to); err != nil {
			wrong[name] = err.Error()
		}
	}
	if len(wrong) == 0 {
		for e := range before {
			if err := e.Check(); err != nil {
				wrong[e.Flag.Name] = err.Error()
			}
		}
	}
	if len(wrong) > 0 {
		undo()
		return nil, named(wrong)
	}
	return undo, nil
}

// named leaves of errors that settings which were checked together all have those of the settings that the
// error names, if it names any.
func named(wrong FieldError) FieldError {
	own := FieldError{}
	for name, text := range wrong {
		if strings.Contains(text, "--"+name) {
			own[name] = text
		}
	}
	if len(own) == 0 {
		return wrong
	}
	for name, text := range wrong {
		if !slices.Contains(slices.Collect(maps.Values(own)), text) {
			own[name] = text
		}
	}
	return own
}

// commit writes the record, and then has its values take effect.
func (s *Settings) commit(next record, values []moved, by string, undo func()) error {
	if err := s.write(next); err != nil {
		undo()
		s.log.Error("a change of settings cannot be saved and has no effect", "error", err)
		return fmt.Errorf("%w: see the log", errUnsaved)
	}
	s.record = next
	names := make([]string, len(values))
	for i, m := range values {
		names[i] = m.Name
		delete(s.unused, m.Name)
		if e := s.find(m.Name); e != nil {
			e.Apply()
			s.log.Info("a setting has changed", "setting", m.Name, "value", e.Flag.Value.String(), "by", by)
		}
	}
	if s.notify != nil {
		s.notify(names)
	}
	return nil
}

// write puts a record into the file. With an error the file is what it was.
func (s *Settings) write(r record) error {
	if s.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	before, missing := os.ReadFile(s.path)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	err = disk.WriteFileAtomic(s.path, append(text, '\n'), 0o600)
	if err == nil {
		return nil
	}
	// The file may be in place, and only its directory not synced: the next start must not find it.
	now, _ := os.ReadFile(s.path)
	switch {
	case bytes.Equal(now, before):
	case missing != nil:
		err = errors.Join(err, os.Remove(s.path))
	default:
		err = errors.Join(err, disk.WriteFileAtomic(s.path, before, 0o600))
	}
	return err
}

// clone returns a copy that shares nothing that changes.
func (r *record) clone() record {
	return record{maps.Clone(r.Live), slices.Clone(r.Changes), r.Last}
}

// apply moves values.
func (r *record) apply(values []moved, by string, at time.Time) {
	for _, m := range values {
		if m.To == nil {
			delete(r.Live, m.Name)
		} else {
			r.Live[m.Name] = liveValue{*m.To, by, at}
		}
	}
}

// undoable returns the last change that is not undone, nil if there is none.
func (r *record) undoable() *change {
	for i := range slices.Backward(r.Changes) {
		if r.Changes[i].Undone == "" {
			return &r.Changes[i]
		}
	}
	return nil
}

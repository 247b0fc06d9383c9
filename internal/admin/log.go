package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/disk"
)

// Bounds of what a Log keeps.
const (
	mostLines   = 2000
	mostErrors  = 1000
	mostAttrs   = 24  // of a line
	mostText    = 600 // bytes of a message, or of a value
	mostSamples = 5   // of a group that are shown
)

// Log keeps what is logged for those who look later or from elsewhere: the last lines, and of warnings and
// errors the last ones with their attributes, grouped by their cause. What it keeps is bounded, and holds
// neither secrets nor paths of the machine: see clean. It may be used from any goroutine.
type Log struct {
	clean func(text string) string

	mu     sync.Mutex
	listen func(kind string, v any) // who is told of lines and errors; nil for nobody
	seq    uint64                   // of the last line
	lines  ring[Line]
	failed ring[failure]
	groups map[cause]*errorGroup
	number int  // of the last group
	told   bool // that errors have changed, or they soon are
}

// Line is a line of the log.
type Line struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Service string    `json:"service"`
	Message string    `json:"message"`
	Attrs   []Attr    `json:"attrs"`
	Stack   []string  `json:"stack,omitempty"` // where a handler panicked, the innermost function first
	level   slog.Level
}

// Attr is a value that a line comes with.
type Attr struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// cause is what errors of a group have in common.
type cause struct{ level, service, message, kind string }

// errorGroup is warnings or errors of one cause, since they were last cleared.
type errorGroup struct {
	cause
	number      int
	count       uint64
	held        int // of failed
	first, last time.Time
}

type failure struct {
	line  Line
	group *errorGroup
}

// Keep returns a log that writes as log does, and what keeps its lines. A log that is kept already is
// returned as it is.
func Keep(log *slog.Logger) (*slog.Logger, *Log) {
	if h, ok := log.Handler().(*keeper); ok {
		return log, h.log
	}
	l := &Log{clean: newCleaner(), lines: ring[Line]{most: mostLines},
		failed: ring[failure]{most: mostErrors}, groups: map[cause]*errorGroup{}}
	return slog.New(&keeper{next: log.Handler(), log: l, service: "kernel"}), l
}

// keeper hands records on, and to a Log what of them is written.
type keeper struct {
	next    slog.Handler
	log     *Log
	service string
	attrs   []Attr
	prefix  string // of names in a group
}

// Enabled implements slog.Handler. What is not written costs nothing here either.
func (k *keeper) Enabled(ctx context.Context, level slog.Level) bool {
	return k.next.Enabled(ctx, level)
}

// WithGroup implements slog.Handler.
func (k *keeper) WithGroup(name string) slog.Handler {
	if name == "" {
		return k
	}
	own := *k
	own.next, own.prefix = k.next.WithGroup(name), k.prefix+name+"."
	return &own
}

// WithAttrs implements slog.Handler.
func (k *keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	own := *k
	own.next = k.next.WithAttrs(attrs)
	line := Line{Service: k.service, Attrs: slices.Clone(k.attrs)}
	for _, a := range attrs {
		k.log.add(&line, k.prefix, a)
	}
	own.service, own.attrs = line.Service, line.Attrs
	return &own
}

// Handle implements slog.Handler.
func (k *keeper) Handle(ctx context.Context, r slog.Record) error {
	line := Line{Time: r.Time.UTC(), Level: levelName(r.Level), Service: k.service,
		Message: k.log.text(r.Message), Attrs: slices.Clone(k.attrs), level: r.Level}
	kind := ""
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && kind == "" {
			kind = kindOf(err)
			line.Stack = stackOf(err)
		}
		k.log.add(&line, k.prefix, a)
		return true
	})
	if line.Attrs == nil {
		line.Attrs = []Attr{}
	}
	k.log.keep(line, kind)
	return k.next.Handle(ctx, r)
}

// add appends a value to a line, as it may be shown.
func (l *Log) add(line *Line, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range value.Group() {
			l.add(line, prefix, inner)
		}
		return
	}
	if a.Key == "service" && prefix == "" {
		line.Service = l.text(value.String())
		return
	}
	if len(line.Attrs) == mostAttrs || a.Key == "" {
		return
	}
	text := value.String()
	switch v := value.Any().(type) {
	case error:
		if p, ok := errors.AsType[*disk.PanicError](v); ok {
			text = fmt.Sprintf("panic: %v", p.Value)
		}
	case time.Duration:
		text = v.Round(time.Microsecond).String()
	case time.Time:
		text = v.UTC().Format(time.RFC3339)
	}
	if secretName.MatchString(a.Key) {
		text = hidden
	}
	line.Attrs = append(line.Attrs, Attr{prefix + a.Key, l.text(text)})
}

// text is a text as it may be shown.
func (l *Log) text(s string) string {
	s = l.clean(s[:min(len(s), 4*mostText)])
	if len(s) > mostText {
		s = s[:mostText] + "…"
	}
	return s
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// keep takes in a line. Those who listen are called with the lock held, so that lines come in order; they
// must not log.
func (l *Log) keep(line Line, kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	line.Seq = l.seq
	l.lines.push(line)
	if l.listen != nil {
		l.listen("log", line)
	}
	if line.level < slog.LevelWarn {
		return
	}
	c := cause{line.Level, line.Service, line.Message, l.text(kind)}
	g := l.groups[c]
	if g == nil {
		l.number++
		g = &errorGroup{cause: c, number: l.number, first: line.Time}
		l.groups[c] = g
	}
	g.count++
	g.held++
	g.last = line.Time
	if old, full := l.failed.push(failure{line, g}); full {
		if old.group.held--; old.group.held == 0 {
			delete(l.groups, old.group.cause)
		}
	}
	l.tell()
}

// tell tells those who listen that errors have changed, once a second at most.
func (l *Log) tell() {
	if l.told || l.listen == nil {
		return
	}
	l.told = true
	time.AfterFunc(time.Second, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = false
		l.listen("errors", struct{}{})
	})
}

// Listen has f called with every line as "log", and when errors have changed as "errors". It must neither
// block nor log.
func (l *Log) Listen(f func(kind string, v any)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen = f
}

// Clear forgets warnings and errors: the group of a number, or all with 0. It returns how many groups there
// were.
func (l *Log) Clear(number int) (cleared int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := ring[failure]{most: mostErrors}
	for f := range l.failed.all() {
		if number != 0 && f.group.number != number {
			kept.push(f)
		}
	}
	l.failed = kept
	for c, g := range l.groups {
		if number == 0 || g.number == number {
			delete(l.groups, c)
			cleared++
		}
	}
	l.tell()
	return cleared
}

// ring holds the last values that were pushed.
type ring[T any] struct {
	most   int
	values []T
	oldest int // once it is full
}

// push takes in a value, for the oldest one when it is full.
func (r *ring[T]) push(v T) (old T, full bool) {
	if len(r.values) < r.most {
		r.values = append(r.values, v)
		return old, false
	}
	old, r.values[r.oldest] = r.values[r.oldest], v
	r.oldest = (r.oldest + 1) % r.most
	return old, true
}

// all iterates from the oldest to the newest.
func (r *ring[T]) all() func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for i := range r.values {
			if !yield(r.values[(r.oldest+i)%len(r.values)]) {
				return
			}
		}
	}
}

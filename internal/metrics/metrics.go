// Package metrics counts what the hot paths do without slowing them down, and shows it to Prometheus.
//
// Counters and histograms are striped: every writer that runs at the same time as others (an event loop, a
// worker) is given a number, its stripe, and writes to memory of its own. An update is one uncontended
// atomic addition for a counter, two for a histogram; no locks, no allocation. Two writers that share a
// stripe are still counted right, only slower. Reading adds the stripes up; it sees every update that
// happened before it and perhaps some that happen during it, so counters never go back.
//
// Names follow Prometheus: lower-case snake_case, base units, counters end in _total, histograms hold
// seconds and end in _seconds. Labels are constant pairs given at registration. Metrics of one name form a
// family and share help text, kind and label keys. A registration that breaks a rule is a programming error
// and panics with a message that starts with "BUG:".
//
// A Registry is safe for concurrent use. It is passed to those who count; there is no global one.
package metrics

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/disk"
)

// Kind tells the families of a registry apart.
type Kind uint8

const (
	CounterKind Kind = iota + 1
	GaugeKind
	HistogramKind
)

func (k Kind) String() string {
	switch k {
	case CounterKind:
		return "counter"
	case GaugeKind:
		return "gauge"
	case HistogramKind:
		return "histogram"
	}
	return "unknown"
}

// Registry holds the metrics of one process.
type Registry struct {
	stripes int

	mu       sync.Mutex
	families []*family // in order of registration
	byName   map[string]*family
}

// family is what metrics of one name share.
type family struct {
	name, help string
	kind       Kind
	keys       []string // label keys, in the order of the first registration
	desc       *prometheus.Desc
	series     []*series
}

// series is one metric: a family and the values of its labels. Exactly one of the last three is set.
type series struct {
	values    []string // as family.keys
	counter   *Counter
	gauge     func() float64
	histogram *Histogram
}

// New returns an empty registry whose counters and histograms have stripes stripes, one for each
// concurrent writer. Fewer than one is taken as one.
func New(stripes int) *Registry {
	return &Registry{stripes: max(stripes, 1), byName: make(map[string]*family)}
}

// Stripes returns how many writers have memory of their own.
func (r *Registry) Stripes() int { return r.stripes }

// Counter registers a number that only grows. Labels are "key", "value" pairs.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	if !strings.HasSuffix(name, "_total") {
		bug(name, "a counter's name ends in _total")
	}
	c := &Counter{cells: make([]cell, r.stripes)}
	r.add(CounterKind, name, help, labels, &series{counter: c})
	return c
}

// Gauge registers a number that is asked for when somebody looks: fn is called at every scrape and
// snapshot, possibly by several goroutines at once, and must not block. Where it panics, or reads mapped
// memory that is not there, the gauge is NaN.
func (r *Registry) Gauge(name, help string, fn func() float64, labels ...string) {
	if strings.HasSuffix(name, "_total") {
		bug(name, "a gauge's name does not end in _total, which is for counters")
	}
	if fn == nil {
		bug(name, "a gauge needs a function")
	}
	r.add(GaugeKind, name, help, labels, &series{gauge: func() float64 {
		value := math.NaN()
		disk.Guard(func() error { value = fn(); return nil }) //nolint:errcheck // NaN says it
		return value
	}})
}

// Histogram registers a distribution of latencies, up to a minute.
func (r *Registry) Histogram(name, help string, labels ...string) *Histogram {
	return r.histogram(0, name, help, labels)
}

// LongHistogram registers a distribution of times up to three days, to be told apart from 4 ms on.
func (r *Registry) LongHistogram(name, help string, labels ...string) *Histogram {
	return r.histogram(long, name, help, labels)
}

func (r *Registry) histogram(shift uint8, name, help string, labels []string) *Histogram {
	if !strings.HasSuffix(name, "_seconds") {
		bug(name, "a histogram holds seconds and its name ends in _seconds")
	}
	h := &Histogram{stripes: make([]histogramStripe, r.stripes), shift: shift}
	r.add(HistogramKind, name, help, labels, &series{histogram: h})
	return h
}

// snakeCase is what names and label keys look like.
var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// add files s under its family, which the first metric of a name creates.
func (r *Registry) add(kind Kind, name, help string, labels []string, s *series) {
	switch {
	case !snakeCase.MatchString(name):
		bug(name, "a name is lower-case snake_case")
	case strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"):
		bug(name, "go_ and process_ belong to the collectors of Go and the process")
	case help == "":
		bug(name, "help is missing")
	}
	keys, values := split(kind, name, labels)

	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[name]
	if f == nil {
		f = &family{name: name, help: help, kind: kind, keys: keys,
			desc: prometheus.NewDesc(name, help, keys, nil)}
		r.byName[name] = f
		r.families = append(r.families, f)
	}
	switch {
	case f.kind != kind:
		bug(name, "registered as a %v and as a %v", f.kind, kind)
	case f.help != help:
		bug(name, "registered with two help texts, %q and %q", f.help, help)
	}
	s.values = f.arrange(keys, values)
	for _, other := range f.series {
		if slices.Equal(other.values, s.values) {
			bug(name, "registered twice with labels %q", labels)
		}
	}
	f.series = append(f.series, s)
}

// split takes "key", "value" pairs apart and checks them.
func split(kind Kind, name string, labels []string) (keys, values []string) {
	if len(labels)%2 != 0 {
		bug(name, "labels are pairs, got %q", labels)
	}
	for i := 0; i < len(labels); i += 2 {
		key, value := labels[i], labels[i+1]
		switch {
		case !snakeCase.MatchString(key):
			bug(name, "label key %q is not lower-case snake_case", key)
		case kind == HistogramKind && key == "le":
			bug(name, "label key \"le\" belongs to the buckets of a histogram")
		case slices.Contains(keys, key):
			bug(name, "label key %q is given twice", key)
		case !utf8.ValidString(value):
			bug(name, "label value %q is not UTF-8", value)
		}
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}

// arrange returns values in the order of the family's keys, whatever order they were given in.
func (f *family) arrange(keys, values []string) []string {
	if len(keys) != len(f.keys) {
		bug(f.name, "registered with label keys %q and %q", f.keys, keys)
	}
	arranged := make([]string, len(f.keys))
	for i, key := range f.keys {
		given := slices.Index(keys, key)
		if given < 0 {
			bug(f.name, "registered with label keys %q and %q", f.keys, keys)
		}
		arranged[i] = values[given]
	}
	return arranged
}

func bug(name, format string, args ...any) {
	panic(fmt.Sprintf("BUG: metric %q: %s", name, fmt.Sprintf(format, args...)))
}

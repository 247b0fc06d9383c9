package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/admin/history"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/shed"
)

// Kernel is what the overview asks of a server.
type Kernel interface {
	// Traffic appends what each service has answered so far, and last what belongs to none.
	Traffic(dst []server.Traffic) []server.Traffic
	// Shed returns how the shedder is, nil for none.
	Shed() *shed.Status
}

// overview is how a server is: the data of an event of kind second, and the answer of GET /admin/overview.
// Rates are those of the last second, sizes bytes, times seconds. Null is not known.
type overview struct {
	Time     int64  `json:"time"`
	Sentence string `json:"sentence"`
	State    string `json:"state"` // good, warn or bad
	Version  string `json:"version"`
	Uptime   int64  `json:"uptime_seconds"`

	// Figures are those of the history, by the same names.
	Figures  map[string]*history.Figure `json:"figures"`
	Services []serviceNow               `json:"services"`
	Shed     *shed.Status               `json:"shed"` // null where nothing is ever refused

	MemoryLimit      *history.Figure `json:"memory_limit"` // GOMEMLIMIT
	CgroupLimit      *history.Figure `json:"cgroup_limit"`
	DescriptorsLimit *history.Figure `json:"descriptors_limit"`
	Processors       int             `json:"processors"`
	GCCycles         float64         `json:"gc_cycles"`
	Sizes            []size          `json:"sizes"`
	Generations      []generation    `json:"generations"`
}

// serviceNow is a service in the last second.
type serviceNow struct {
	Name         string          `json:"name"`
	State        string          `json:"state"`
	Reason       string          `json:"reason,omitempty"`
	Requests     *history.Figure `json:"requests"`
	ClientErrors *history.Figure `json:"client_errors"` // 4xx a second
	Errors       *history.Figure `json:"errors"`        // 5xx a second
	P50          *history.Figure `json:"p50"`
	P90          *history.Figure `json:"p90"`
	P99          *history.Figure `json:"p99"`
}

// size is a gauge of bytes: a cache's, a database's.
type size struct {
	Name  string          `json:"name"`
	Help  string          `json:"help"`
	Bytes *history.Figure `json:"bytes"`
}

// generation is how often the data of a service was replaced.
type generation struct {
	Name   string  `json:"name"`
	Number float64 `json:"number"`
}

// known is a number for JSON, nil for what is not known.
func known(v float64) *history.Figure {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	f := history.Figure(v)
	return &f
}

// sampler takes a sample of the server once a second, for everybody who looks.
type sampler struct {
	kernel  Kernel
	metrics *metrics.Registry
	history *history.History
	version string
	bounds  bounds
	process *reader
	failed  bool // the history's file; said once

	at         time.Time
	last       []server.Traffic
	lastOf     process
	lastReject uint64
	minute     *window // since the minute began

	mu  sync.Mutex
	now overview
}

// window is what a minute began with, and the sums of its seconds.
type window struct {
	minute  int64
	traffic []server.Traffic
	sum     [len(history.Moment{})]float64
	known   [len(history.Moment{})]float64
}

func newSampler(o Options) *sampler {
	s := &sampler{kernel: o.Kernel, metrics: o.Metrics, history: o.History, version: o.Version,
		bounds: readBounds(), process: newReader(), at: time.Now()}
	s.last, s.lastOf = s.kernel.Traffic(nil), s.process.read()
	if st := s.kernel.Shed(); st != nil {
		s.lastReject = rejected(st)
	}
	s.now = overview{Time: s.at.Unix(), Sentence: "Starting", State: "good", Version: s.version,
		Figures: map[string]*history.Figure{}, Services: []serviceNow{}, Sizes: []size{},
		Generations: []generation{}}
	return s
}

func rejected(st *shed.Status) (n uint64) {
	for _, c := range st.Rejected {
		n += c
	}
	return n
}

// get returns the last sample.
func (s *sampler) get() overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// sample takes a sample, the second after the last one, keeps its figures and returns it.
func (s *sampler) sample(now time.Time) (overview, error) {
	seconds := max(now.Sub(s.at).Seconds(), 1e-3)
	traffic := s.kernel.Traffic(make([]server.Traffic, 0, len(s.last)))
	of, st := s.process.read(), s.kernel.Shed()
	o := overview{Time: now.Unix(), Version: s.version, Uptime: int64(now.Sub(started).Seconds()), Shed: st,
		MemoryLimit: limit(memoryLimit()), CgroupLimit: limit(s.bounds.cgroup),
		DescriptorsLimit: limit(s.bounds.descriptors), Processors: s.bounds.processors, GCCycles: of.gcCycles,
		Services: []serviceNow{}, Sizes: []size{}, Generations: []generation{}}

	var values history.Moment
	for c := range values {
		values[c] = float32(math.NaN())
	}
	failed := s.compare(&values, traffic, s.last, seconds, &o.Services)
	set := func(c int, v float64) { values[c] = float32(v) }
	set(history.Probability, 0)
	set(history.Rejected, 0)
	if st != nil {
		set(history.Probability, st.Probability[shed.Normal.String()])
		set(history.Pressure, st.Pressure)
		n := rejected(st)
		set(history.Rejected, float64(n-s.lastReject)/seconds)
		s.lastReject = n
	}
	// Who is rejected is answered 503, too.
	set(history.Errors, max(0, failed-float64(values[history.Rejected])))
	set(history.CPU, (of.cpuSeconds-s.lastOf.cpuSeconds)/seconds)
	set(history.Memory, of.memory)
	set(history.Heap, of.heap)
	set(history.GC, (of.gcPaused-s.lastOf.gcPaused)/seconds)
	set(history.Goroutines, of.goroutines)
	set(history.Descriptors, of.descriptors)
	s.gauges(&o, set)
	s.keepMinute(now, traffic, &values)
	err := s.history.Put(history.BySecond, now.Unix(), &values)

	o.Figures = make(map[string]*history.Figure, history.Columns)
	for c, one := range history.Names {
		o.Figures[one.Name] = known(float64(values[c]))
	}
	o.State, o.Sentence = judge(&o)
	s.at, s.last, s.lastOf = now, traffic, of
	s.mu.Lock()
	s.now = o
	s.mu.Unlock()
	return o, err
}

func limit(v float64) *history.Figure {
	if v == 0 {
		return nil
	}
	return known(v)
}

// compare sets the columns of traffic between two moments, appends what each service did to services unless
// that is nil, and returns how many answers a second were 5xx.
func (s *sampler) compare(values *history.Moment, now, before []server.Traffic, seconds float64,
	services *[]serviceNow) (failed float64) {
	var whole metrics.Distribution
	var requests float64
	for i := range now {
		t := &now[i]
		latency := t.Latency
		var counts [6]float64
		if i < len(before) {
			latency = t.Latency.Sub(&before[i].Latency)
			for c := range counts {
				counts[c] = float64(t.Answers[c]-before[i].Answers[c]) / seconds
			}
		}
		whole.Add(&latency)
		var sum float64
		for _, n := range counts {
			sum += n
		}
		requests += sum
		failed += counts[5]
		if t.Service == "" {
			continue
		}
		p50, p90, p99 := quantiles(&latency)
		if at, ok := s.history.Column(t.Service); ok {
			values[at], values[at+1] = float32(sum), float32(counts[5])
			values[at+2], values[at+3] = float32(p50), float32(p99)
		}
		if services != nil {
			*services = append(*services, serviceNow{Name: t.Service, State: t.Health.State.String(),
				Reason:   t.Health.Reason,
				Requests: known(sum), ClientErrors: known(counts[4]), Errors: known(counts[5]),
				P50: known(p50), P90: known(p90), P99: known(p99)})
		}
	}
	p50, p90, p99 := quantiles(&whole)
	values[history.Requests] = float32(requests)
	values[history.P50], values[history.P90], values[history.P99] = float32(p50), float32(p90), float32(p99)
	return failed
}

// quantiles are NaN where there were no requests.
func quantiles(d *metrics.Distribution) (p50, p90, p99 float64) {
	if d.Count() == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	return d.Quantile(0.5).Seconds(), d.Quantile(0.9).Seconds(), d.Quantile(0.99).Seconds()
}

// gauges reads those figures that services and the kernel register as gauges, known by the ends of
// their names.
func (s *sampler) gauges(o *overview, set func(c int, v float64)) {
	lag := math.NaN()
	connections := math.NaN()
	wanted := func(name string) bool {
		return strings.HasSuffix(name, "_generation") || name == "weir_sync_lag_seconds" ||
			name == "weir_http_connections" || isSize(name)
	}
	for _, m := range s.metrics.Snapshot(wanted) {
		name, v := m.Name, m.Value
		short := strings.ReplaceAll(strings.TrimPrefix(name, "weir_"), "_", " ")
		switch {
		case name == "weir_sync_lag_seconds":
			if math.IsNaN(lag) || v > lag {
				lag = v
			}
		case name == "weir_http_connections":
			connections = v
		case isSize(name):
			for _, l := range m.Labels {
				short += " " + l.Value
			}
			o.Sizes = append(o.Sizes, size{strings.Replace(short, " bytes", "", 1), m.Help, known(v)})
		case !math.IsNaN(v):
			o.Generations = append(o.Generations, generation{strings.TrimSuffix(short, " generation"), v})
		}
	}
	set(history.SyncLag, lag)
	set(history.Connections, connections)
}

// isSize says whether a gauge is the size of something that may grow.
func isSize(name string) bool {
	return strings.HasSuffix(name, "_bytes") && !strings.HasSuffix(name, "_limit_bytes")
}

// keepMinute adds a second to its minute, and keeps the one before once it is over: its quantiles are those
// of all its requests, other figures means of its seconds.
func (s *sampler) keepMinute(now time.Time, traffic []server.Traffic, values *history.Moment) {
	minute := now.Unix() / 60
	if s.minute == nil {
		s.minute = &window{minute: minute, traffic: s.last}
	}
	w := s.minute
	if w.minute != minute {
		var kept history.Moment
		for c := range kept {
			kept[c] = float32(w.sum[c] / w.known[c]) // NaN where nothing was known
		}
		s.compare(&kept, s.last, w.traffic, 60, nil)
		s.history.Put(history.ByMinute, w.minute*60, &kept) //nolint:errcheck // said again in the next second
		s.minute = &window{minute: minute, traffic: s.last}
		w = s.minute
	}
	for c, v := range values {
		if v == v {
			w.sum[c] += float64(v)
			w.known[c]++
		}
	}
}

// signalWords are what people call signals.
var signalWords = map[string]string{
	shed.MemoryAvailable: "memory", shed.MemoryPressure: "memory", shed.CPUPressure: "processors",
	shed.Load: "processors", shed.SchedulingLatency: "processors", shed.InFlight: "requests in flight",
	shed.LoopDelay: "event loops",
}

// judge says how a server is, in a word and in a sentence: the worst first.
func judge(o *overview) (state, sentence string) {
	var down, degraded []string
	for _, s := range o.Services {
		switch s.State {
		case server.StateDown.String():
			down = append(down, s.Name)
		case server.StateDegraded.String():
			degraded = append(degraded, s.Name)
		}
	}
	get := func(name string) float64 {
		if v := o.Figures[name]; v != nil {
			return float64(*v)
		}
		return 0
	}
	requests, failed := get("requests"), get("errors")
	dominant := ""
	if o.Shed != nil {
		dominant = o.Shed.Dominant
		if words, ok := signalWords[dominant]; ok {
			dominant = words
		}
	}
	switch probability := get("probability"); {
	case len(down) > 0:
		return "bad", "down: " + strings.Join(down, ", ")
	case probability > 0 && dominant != "":
		return "bad", fmt.Sprintf("shedding %s: %s", percent(probability), dominant)
	case get("rejected") >= 1:
		return "bad", fmt.Sprintf("rejecting %s requests a second: %s", short(get("rejected")), dominant)
	case failed > 0 && failed >= 0.01*requests:
		return "bad", fmt.Sprintf("%s of requests fail", percent(failed/max(requests, failed)))
	case len(degraded) > 0:
		return "warn", "degraded: " + strings.Join(degraded, ", ")
	case get("sync_lag") > 10:
		return "warn", fmt.Sprintf("the disk is slow: %.0f s of changes are not synced", get("sync_lag"))
	case o.Shed != nil && o.Shed.Pressure > 0:
		return "warn", fmt.Sprintf("near its limits: %s", dominant)
	case near(o.Figures["descriptors"], o.DescriptorsLimit, 0.9):
		return "warn", "running out of descriptors"
	case near(o.Figures["memory"], o.CgroupLimit, 0.95):
		return "warn", "running out of memory"
	case requests < 1:
		return "good", "all is well, and nobody asks"
	}
	return "good", fmt.Sprintf("all is well at %s requests a second", short(requests))
}

func near(v, limit *history.Figure, share float64) bool {
	return v != nil && limit != nil && float64(*v) > share*float64(*limit)
}

func percent(share float64) string {
	if share < 0.01 {
		return "under 1 %"
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// short is a number of at most three digits that count, 12,300.
func short(v float64) string {
	if v >= 1000 {
		p := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/p) * p
	}
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Run takes samples once a second, until ctx is done.
func (a *Admin) Run(ctx context.Context) {
	for {
		now := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		}
		a.tick(time.Now())
	}
}

// tick takes a sample and tells of it.
func (a *Admin) tick(now time.Time) {
	o, err := a.sampler.sample(now)
	if err != nil && !a.sampler.failed {
		a.sampler.failed = true
		a.o.Log.Error("the dashboard's history cannot be written and is kept in memory alone", "error", err)
	}
	a.hub.Send("second", &o)
}

// getOverview answers GET /admin/overview.
func (a *Admin) getOverview(w *server.Response, _ *server.Request) server.Outcome {
	w.JSON(a.sampler.get())
	return server.Done
}

// Bounds of GET /admin/history.
const (
	defaultPoints = 360
	mostPoints    = 1440
)

// getHistory answers GET /admin/history?range=hour&points=360.
func (a *Admin) getHistory(w *server.Response, r *server.Request) server.Outcome {
	q, err := readQuery(r)
	points := defaultPoints
	if err == nil {
		points, err = q.number("points", defaultPoints)
	}
	name := cmp.Or(q["range"], "hour")
	if _, known := history.Ranges[name]; err == nil && !known {
		err = errors.New("range must be hour, day or week")
	}
	if err != nil || points < 1 || points > mostPoints {
		err = cmp.Or(err, fmt.Errorf("points must be from 1 to %d", mostPoints))
		w.Problem(http.StatusUnprocessableEntity, err.Error())
		return server.Done
	}
	w.JSON(a.o.History.Read(name, points, time.Now().Unix()))
	return server.Done
}

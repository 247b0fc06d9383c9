package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers with all metrics in the exposition format of Prometheus, or of OpenMetrics when asked for
// it, together with those of the Go runtime, the process and the build. Metrics registered later are shown
// too.
func (r *Registry) Handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		collector{r},
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// collector shows a Registry to client_golang. It describes nothing beforehand, because metrics may be
// registered at any time; their consistency was checked then.
type collector struct{ r *Registry }

func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	c.r.each(func(f *family, s *series) {
		switch f.kind {
		case CounterKind:
			out <- prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, float64(s.counter.Value()),
				s.values...)
		case GaugeKind:
			out <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, s.gauge(), s.values...)
		case HistogramKind:
			d := s.histogram.Distribution()
			out <- prometheus.MustNewConstHistogram(f.desc, d.Count(), d.Seconds(), d.coarse(), s.values...)
		}
	})
}

// each visits every metric, families in the order of their registration. The lock is not held meanwhile, so
// that a gauge's function may do as it likes.
func (r *Registry) each(visit func(*family, *series)) {
	type pair struct {
		f *family
		s *series
	}
	var all []pair
	r.mu.Lock()
	for _, f := range r.families {
		for _, s := range f.series {
			all = append(all, pair{f, s})
		}
	}
	r.mu.Unlock()
	for _, p := range all {
		visit(p.f, p.s)
	}
}

// Sample is one metric at one moment.
type Sample struct {
	Name, Help   string
	Kind         Kind
	Labels       []Label
	Value        float64       // of a counter or a gauge; of a histogram, how many requests it counted
	Distribution *Distribution // of a histogram, else nil
}

// Label is one label of a metric.
type Label struct{ Key, Value string }

// Snapshot returns the metrics that were registered here whose name is wanted, all for nil, families in the
// order of their registration. The caller owns the result.
func (r *Registry) Snapshot(wanted func(name string) bool) []Sample {
	var samples []Sample
	r.each(func(f *family, s *series) {
		if wanted != nil && !wanted(f.name) {
			return
		}
		sample := Sample{Name: f.name, Help: f.help, Kind: f.kind, Labels: make([]Label, len(f.keys))}
		for i, key := range f.keys {
			sample.Labels[i] = Label{key, s.values[i]}
		}
		switch f.kind {
		case CounterKind:
			sample.Value = float64(s.counter.Value())
		case GaugeKind:
			sample.Value = s.gauge()
		case HistogramKind:
			d := s.histogram.Distribution()
			sample.Value, sample.Distribution = float64(d.Count()), &d
		}
		samples = append(samples, sample)
	})
	return samples
}

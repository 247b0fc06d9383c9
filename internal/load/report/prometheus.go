package report

import (
	"math"
	"net/http"
	"sync"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/internal/load/measure"
)

// Exporter shows a run to Prometheus while it lasts: counters and a histogram of the whole run, warm-up
// included, and gauges of the last window. It is safe for concurrent use.
//
// It is no internal/metrics.Registry, because that counts one request at a time, and here come whole
// windows whose histograms have finer buckets; they are added, and cut into the coarse buckets of
// Prometheus only when somebody looks.
type Exporter struct {
	mu    sync.Mutex
	total *measure.Window
	point Point
}

// NewExporter returns an Exporter that shows zeros.
func NewExporter() *Exporter {
	return &Exporter{total: measure.NewWindow()}
}

// Add takes a window and its point, as Recorder.Add returned it. It does not keep w.
func (e *Exporter) Add(w *measure.Window, p Point) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total.Add(w)
	e.point = p
}

// Handler answers with the metrics, in the format of Prometheus or OpenMetrics, and with those of the
// generator's process.
func (e *Exporter) Handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), e)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_load_"+name, help, labels, nil)
}

var (
	descRequests = desc("requests_total",
		"Requests that are over, by how they ended: served, shed or error.", "outcome")
	descFailures = desc("errors_total", "Requests without a usable answer, by kind.", "kind")
	descIntended = desc("intended_total", "Requests that the schedule asked for.")
	descSent     = desc("sent_total", "Requests that were sent.")
	descIn       = desc("read_bytes_total", "Bytes read from the target.")
	descOut      = desc("written_bytes_total", "Bytes written to the target.")
	descCPU      = desc("generator_cpu_seconds_total", "Processor time of the generator.")
	descLatency  = desc("latency_seconds",
		"Latency of what was answered, from the intended time of sending.")
	descQuantile = desc("window_latency_seconds", "Latency of the last window, at p50, p90, p99 and max.",
		"at")
	descRate     = desc("intended_rate", "Requests a second that are intended, in the last window.")
	descConns    = desc("connections", "Open connections.")
	descInFlight = desc("in_flight", "Requests that wait for an answer.")
	descBusy     = desc("generator_busy_ratio",
		"How busy the generator's busiest thread was in the last window, 0 to 1.")
	descCeiling = desc("ceiling_rate",
		"The most requests a second that the target sustains, as far as is known.")
	descTargetCPU = desc("target_cpu", "Processors that the target uses, by its own metrics.")
	descTargetMem = desc("target_memory_bytes", "Resident memory of the target, by its own metrics.")
	descMeasured  = desc("measured", "1 while what happens counts, 0 while the run warms up.")
)

// Describe tells nothing beforehand: some metrics are there only when they are known.
func (e *Exporter) Describe(chan<- *prometheus.Desc) {}

// Collect is for Prometheus.
func (e *Exporter) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	t := *e.total
	p := e.point
	latency := constHistogram(e.total.Latency)
	e.mu.Unlock()

	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v *float64, labels ...string) {
		if v != nil {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, *v, labels...)
		}
	}
	counter(descRequests, float64(t.Served), "served")
	counter(descRequests, float64(t.Shed), "shed")
	counter(descRequests, float64(t.Errors()), "error")
	for kind, n := range t.Failed {
		counter(descFailures, float64(n), measure.Failure(kind).String())
	}
	counter(descIntended, float64(t.Intended))
	counter(descSent, float64(t.Sent))
	counter(descIn, float64(t.In))
	counter(descOut, float64(t.Out))
	counter(descCPU, t.CPU.Seconds())
	out <- latency
	for label, us := range map[string]*float64{"p50": p.P50, "p90": p.P90, "p99": p.P99, "max": p.Max} {
		if us != nil {
			gauge(descQuantile, pointer(*us/1e6), label)
		}
	}
	gauge(descRate, &p.Intended)
	gauge(descConns, pointer(float64(p.Connections)))
	gauge(descInFlight, pointer(float64(p.InFlight)))
	gauge(descBusy, &p.Busy)
	gauge(descCeiling, p.Ceiling)
	gauge(descTargetCPU, p.TargetCPU)
	gauge(descTargetMem, p.TargetMemory)
	measured := 0.0
	if p.Measured {
		measured = 1
	}
	gauge(descMeasured, &measured)
}

// The buckets that Prometheus is given: every power of two microseconds up to 67 s, as weir's own metrics
// have them.
const promBuckets = 27

// constHistogram cuts h into coarse buckets. One of h's own that lies across a limit, at most a thousandth
// of it wide, counts as above it.
func constHistogram(h *hdr.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, promBuckets)
	var below uint64
	limit := 0
	for _, b := range h.Distribution() {
		for limit < promBuckets && float64(b.To) > math.Exp2(float64(limit))*1e3 {
			buckets[math.Exp2(float64(limit))/1e6] = below
			limit++
		}
		below += uint64(b.Count)
	}
	for ; limit < promBuckets; limit++ {
		buckets[math.Exp2(float64(limit))/1e6] = below
	}
	n := uint64(h.TotalCount())
	return prometheus.MustNewConstHistogram(descLatency, n, h.Mean()*float64(n)/1e9, buckets)
}

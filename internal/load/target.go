package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"weir/internal/load/access"
	"weir/internal/load/measure"
)

// What a target's metrics may take, in time and bytes.
const (
	scrapeEvery = time.Second
	scrapeLimit = 2 * time.Second
	scrapeBytes = 16 << 20
)

// watcher reads from time to time what a target's Prometheus metrics say of its process.
type watcher struct {
	url    string
	client http.Client

	cpu float64 // seconds at the last reading
	at  time.Time
	now atomic.Pointer[measure.Target]

	stop    context.CancelFunc
	stopped chan struct{}
}

// watchTarget reads url once, so that what cannot work is known before any load.
func watchTarget(ctx context.Context, from string) (*watcher, error) {
	w := &watcher{url: from, client: http.Client{Timeout: scrapeLimit, CheckRedirect: access.NoRedirect}}
	if err := w.read(ctx); err != nil {
		return nil, fmt.Errorf("--target-metrics: %w; those of weir are at /metrics of its --admin port, "+
			"as in http://127.0.0.1:8081/metrics", err)
	}
	return w, nil
}

// begin reads now, as the load is about to begin, and from then on until end is called.
func (w *watcher) begin(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.stopped = make(chan struct{})
	w.at = time.Time{} // CPU is that of the load alone
	w.readOrForget(ctx)
	go func() {
		defer close(w.stopped)
		w.run(ctx)
	}()
}

// end reads no more, but once if CPU is not known yet, so that of a run that was shorter than scrapeEvery
// it is. It returns what was read last.
func (w *watcher) end(ctx context.Context) measure.Target {
	if w == nil {
		return measure.Unknown()
	}
	w.stop()
	<-w.stopped
	if math.IsNaN(w.target().CPU) {
		w.readOrForget(ctx)
	}
	return w.target()
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.readOrForget(ctx)
	}
}

// readOrForget reads, and where that cannot be done nothing is known.
func (w *watcher) readOrForget(ctx context.Context) {
	if err := w.read(ctx); err != nil && ctx.Err() == nil {
		unknown := measure.Unknown()
		w.now.Store(&unknown)
		w.at = time.Time{} // the next reading begins anew
	}
}

func (w *watcher) target() measure.Target {
	if w == nil {
		return measure.Unknown()
	}
	return *w.now.Load()
}

// read asks once. CPU is known from the second reading on.
func (w *watcher) read(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s cannot be read: %w", w.url, wrapped.Err)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s, expected Prometheus metrics", w.url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, scrapeBytes))
	if err != nil {
		return fmt.Errorf("%s has no Prometheus metrics: %w", w.url, err)
	}
	seconds, ok := value(families["process_cpu_seconds_total"])
	if !ok {
		return fmt.Errorf("%s has no process_cpu_seconds_total", w.url)
	}
	next := measure.Unknown()
	if memory, ok := value(families["process_resident_memory_bytes"]); ok {
		next.Memory = memory
	}
	now := time.Now()
	if passed := now.Sub(w.at).Seconds(); !w.at.IsZero() && passed > 0 && seconds >= w.cpu {
		next.CPU = (seconds - w.cpu) / passed
	}
	w.cpu, w.at = seconds, now
	w.now.Store(&next)
	return nil
}

func value(f *dto.MetricFamily) (float64, bool) {
	if f == nil || len(f.Metric) != 1 {
		return 0, false
	}
	switch m := f.Metric[0]; {
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}

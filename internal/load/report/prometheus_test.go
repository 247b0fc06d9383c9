package report

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

func scrape(t *testing.T, e *Exporter) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestPrometheusSeesTheRun(t *testing.T) {
	e, r := NewExporter(), NewRecorder(RecorderOptions{})
	for i := range 10 {
		w := window(i, 100, 3*time.Millisecond)
		measure.Record(w.Latency, 3*time.Second)
		w.Served++
		w.Shed, w.Failed[measure.Cut], w.In = 5, 2, 1000
		w.Target = measure.Target{CPU: 1.5, Memory: 1 << 20}
		e.Add(w, r.Add(w, steady, &control.Ceiling{Rate: 1234}))
	}
	text := scrape(t, e)
	for _, want := range []string{
		`weir_load_requests_total{outcome="served"} 1010`, `weir_load_requests_total{outcome="shed"} 50`, `weir_load_requests_total{outcome="error"} 20`,
		`weir_load_errors_total{kind="cut"} 20`, `weir_load_errors_total{kind="refused"} 0`, `weir_load_intended_total 1000`, `weir_load_read_bytes_total 10000`,
		`weir_load_latency_seconds_bucket{le="0.002048"} 0`, `weir_load_latency_seconds_bucket{le="0.004096"} 1000`, `weir_load_latency_seconds_bucket{le="4.194304"} 1010`,
		`weir_load_latency_seconds_bucket{le="+Inf"} 1010`, `weir_load_latency_seconds_count 1010`, `weir_load_ceiling_rate 1234`, `weir_load_target_cpu 1.5`,
		`weir_load_target_memory_bytes 1.048576e+06`, `weir_load_measured 1`, `weir_load_intended_rate 1000`, `weir_load_connections 10`, `go_goroutines`,
		`weir_load_generator_cpu_seconds_total 0.01`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPrometheusSeesNothingThatIsNotKnown(t *testing.T) {
	text := scrape(t, NewExporter())
	for _, name := range []string{"ceiling_rate", "target_cpu", "target_memory", "window_latency", "NaN"} {
		if strings.Contains(text, "weir_load_"+name) {
			t.Errorf("%s is shown", name)
		}
	}
	if !strings.Contains(text, "\nweir_load_requests_total{outcome=\"served\"} 0\n") {
		t.Error("counters are missing before the first window")
	}
}

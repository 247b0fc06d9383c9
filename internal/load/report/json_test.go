package report

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

// sample is a result with something in every field. It says of itself hostile things.
func sample(t testing.TB) *Result {
	t.Helper()
	r := NewRecorder(RecorderOptions{
		Name: `</script><script>alert(1)</script>`, Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Search: true,
		Plan: map[string]any{"url": `http://127.0.0.1:1/"><img src=x onerror=alert(2)>`, "mode": "adaptive",
			"seed":    uint64(math.MaxUint64),
			"headers": []string{"X: <b>&amp;</b>"}},
	})
	for i := range 100 {
		w := window(i, uint64(100+3*i), time.Duration(1000+10*i)*time.Microsecond)
		for range 3 {
			measure.Record(w.Latency, time.Duration(4+i)*time.Millisecond)
		}
		w.Shed, w.Failed[measure.Cut] = uint64(i/10), uint64(i/50)
		measure.Record(w.ShedLatency, 50*time.Microsecond)
		w.Target = measure.Target{CPU: 0.5, Memory: 1 << 28}
		d := steady
		if i < 10 {
			d = warmup
		}
		var c *control.Ceiling
		if i > 30 {
			c = &control.Ceiling{Rate: 3000, Low: 2900, High: 3050, Seconds: 3.2, Converged: i > 60,
				Limit: "p99"}
		}
		r.Add(w, d, c)
	}
	res, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	res.Reason = "the ceiling is known <i>"
	res.Marks = []string{"A mark with <script>alert(3)</script> & more."}
	res.Verdicts = []Verdict{{Condition: "p99>50ms", Value: 12.5, Got: "12.5 ms"},
		{Condition: "errors > 1%", Value: 3, Got: "3 %", Failed: true}}
	return res
}

func TestJSONComesBack(t *testing.T) {
	want := sample(t)
	var text bytes.Buffer
	if err := WriteJSON(&text, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSON(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := WriteJSON(&again, got); err != nil {
		t.Fatal(err)
	}
	if again.String() != text.String() {
		t.Errorf("a result changed when it was read and written:\n%s\n%s", text.String(), again.String())
	}
	if !strings.Contains(again.String(), "18446744073709551615") {
		t.Error("the seed lost digits")
	}
}

func TestWhatIsNotKnownDoesNotCostTheResult(t *testing.T) {
	r := sample(t)
	r.Ceiling.High, r.Verdicts[0].Value = math.Inf(1), math.NaN()
	var text bytes.Buffer
	if err := WriteJSON(&text, r); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Ceiling.High != 0 || got.Verdicts[0].Value != 0 || got.Ceiling.Rate != 3000 {
		t.Errorf("the ceiling is %v, the verdict %v", *got.Ceiling, got.Verdicts[0])
	}
	if !math.IsInf(r.Ceiling.High, 1) {
		t.Error("writing changed the result")
	}
}

// What every reader of the JSON form may count on.
func TestJSONHasTheFieldsThatAreAsked(t *testing.T) {
	var text bytes.Buffer
	if err := WriteJSON(&text, sample(t)); err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text.Bytes(), &tree); err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(
		`requests errors shed rate.intended rate.achieved latency_us.p50 latency_us.p90 latency_us.p99 latency_us.p999
		latency_us.max generator.cpu_us_per_request generator.saturated ceiling.rate ceiling.low ceiling.high ceiling.seconds`) {
		var at any = tree
		for name := range strings.SplitSeq(path, ".") {
			at = at.(map[string]any)[name]
		}
		if at == nil {
			t.Errorf("%s is missing", path)
		}
	}
}

func TestResultsThatAreNoneAreRefused(t *testing.T) {
	var good bytes.Buffer
	if err := WriteJSON(&good, sample(t)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":   {"", "not a result"},
		"no JSON": {"hello", "not a result"},
		"another type": {`{"requests": "3"}`, "not a result of weir load (--json writes one): requests " +
			"must be a whole number from 0, not a text"},
		"something":    {`{"requests": 3}`, "version is 0"},
		"a later form": {strings.Replace(good.String(), `"version": 1`, `"version": 2`, 1), "version is 2"},
		"two":          {good.String() + good.String(), "more than one"},
		"histogram":    {`{"version": 1, "histogram": "AAAA"}`, "histogram"},
		"huge":         {`{"name": "` + strings.Repeat("x", maxResult), "longer"},
	} {
		_, err := ReadJSON(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected %q in it", name, err, c.want)
		}
	}
}

func TestHistogramComesBack(t *testing.T) {
	for name, fill := range map[string]func(*hdr.Histogram){
		"empty": func(*hdr.Histogram) {},
		"limits": func(h *hdr.Histogram) {
			measure.Record(h, 0)
			measure.Record(h, time.Hour)
		},
		"every bucket": func(h *hdr.Histogram) {
			for v := float64(measure.Shortest); v < float64(measure.Longest); v *= 1.0005 {
				if err := h.RecordValues(int64(v), 1+int64(v)*1e6%(1<<40)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		h := measure.NewHistogram()
		fill(h)
		text, err := measure.Encode(h)
		if err != nil {
			t.Fatal(err)
		}
		got, err := measure.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !got.Equals(h) || NewLatency(got) != NewLatency(h) {
			t.Errorf("%s: the histogram changed on its way", name)
		}
	}
}

func TestHistogramsWithOtherBucketsAreRefused(t *testing.T) {
	for _, h := range []*hdr.Histogram{
		hdr.New(1, math.MaxInt64, 5),
		hdr.New(int64(measure.Shortest), int64(measure.Longest), 2),
		hdr.New(int64(measure.Shortest)*2, int64(measure.Longest), 3),
		hdr.New(int64(measure.Shortest), math.MaxInt64, 3),
	} {
		text, err := measure.Encode(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := measure.Decode(text); err == nil ||
			!strings.Contains(err.Error(), "buckets are others") {
			t.Errorf("the error is %v", err)
		}
	}
	if _, err := measure.Decode(strings.Repeat("A", 1<<20)); err == nil {
		t.Error("a histogram of any length is read")
	}
}

func FuzzDecodeHistogram(f *testing.F) {
	h := measure.NewHistogram()
	for i := range 100 {
		measure.Record(h, time.Duration(i*i)*time.Microsecond)
	}
	text, err := measure.Encode(h)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Add(raw[:20])
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := measure.Decode(base64.StdEncoding.EncodeToString(raw))
		if err != nil {
			return
		}
		// What was read can be used and written again.
		l := NewLatency(h)
		if l.P50 > l.P99 || l.P99 > l.Max {
			t.Errorf("quantiles fall: %+v", l)
		}
		again, err := measure.Encode(h)
		if err != nil {
			t.Fatal(err)
		}
		got, err := measure.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equals(h) {
			t.Error("a histogram changed on its way")
		}
	})
}

func TestCSVHasTheTrace(t *testing.T) {
	r := sample(t)
	r.Trace[3].Phase = "=1+1"
	r.Trace[3].P99 = nil
	var text bytes.Buffer
	if err := WriteCSV(&text, r); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(r.Trace)+1 || len(rows[0]) != reflect.TypeFor[Point]().NumField() {
		t.Fatalf("there are %d rows of %d columns", len(rows), len(rows[0]))
	}
	column := func(name string) int {
		for i, n := range rows[0] {
			if n == name {
				return i
			}
		}
		t.Fatalf("there is no column %q in %q", name, rows[0])
		return 0
	}
	row := rows[4]
	if got := row[column("phase")]; got != "'=1+1" {
		t.Errorf("a formula is written as %q", got)
	}
	if got := row[column("p99")]; got != "" {
		t.Errorf("null is written as %q", got)
	}
	if got := row[column("measured")]; got != "false" {
		t.Errorf("measured is written as %q", got)
	}
	if got := row[column("t")]; got != "0.4" {
		t.Errorf("the time is written as %q", got)
	}
}

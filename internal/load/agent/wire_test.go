package agent

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// made returns a window with something in every field.
func made(seed uint64) *measure.Window {
	r := rand.New(rand.NewPCG(seed, 1))
	w := measure.NewWindow()
	w.Intended, w.Sent, w.Served, w.Shed, w.In, w.Out = r.Uint64N(1e6), r.Uint64N(1e6), r.Uint64N(1e6),
		r.Uint64N(1e6), r.Uint64N(1e12), r.Uint64()
	for i := range w.Failed {
		w.Failed[i] = r.Uint64N(100)
	}
	w.CPU, w.Busy, w.Connections, w.InFlight = time.Duration(r.Int64N(1e9)), r.Float64(),
		r.IntN(1e4), r.IntN(1e4)
	for range r.IntN(5000) {
		measure.Record(w.Latency, time.Duration(math.Exp(r.Float64()*30)))
		measure.Record(w.Lag, time.Duration(r.ExpFloat64()*1e4))
	}
	w.Detail.Count(200, r.IntN(3), time.Millisecond)
	w.Detail.Count(404, r.IntN(3), time.Second)
	w.Detail.AddSample(measure.Sample{Kind: "404", Request: "GET /x", Detail: "y"})
	measure.Record(w.ShedLatency, 0)
	measure.Record(w.ShedLatency, time.Hour)
	return w
}

func equal(a, b *measure.Window) bool {
	x, y := *a, *b
	x.Latency, x.ShedLatency, x.Lag, x.Target, x.Start, x.End, x.Detail = nil, nil, nil,
		measure.Target{}, 0, 0, nil
	y.Latency, y.ShedLatency, y.Lag, y.Target, y.Start, y.End, y.Detail = nil, nil, nil,
		measure.Target{}, 0, 0, nil
	if len(a.Detail.Parts) != len(b.Detail.Parts) || a.Detail.Statuses != b.Detail.Statuses {
		return false
	}
	return x == y && slices.Equal(a.Detail.Parts, b.Detail.Parts) &&
		slices.Equal(a.Detail.Samples, b.Detail.Samples) && a.Latency.Equals(b.Latency) &&
		a.ShedLatency.Equals(b.ShedLatency) && a.Lag.Equals(b.Lag)
}

func TestWindowsCrossTheNetworkWhole(t *testing.T) {
	for seed := range uint64(50) {
		w, got := made(seed), measure.NewWindow()
		seq, err := decodeWindow(encodeWindow(w, seed), got)
		if err != nil || seq != seed {
			t.Fatalf("%d: %d, %v", seed, seq, err)
		}
		if !equal(w, got) {
			t.Fatalf("%d: %+v became %+v", seed, w, got)
		}
	}
	// One after another they add up as they would have here.
	here, there := measure.NewWindow(), measure.NewWindow()
	for seed := range uint64(5) {
		here.Add(made(seed))
		if _, err := decodeWindow(encodeWindow(made(seed), 1), there); err != nil {
			t.Fatal(err)
		}
	}
	here.Connections, here.InFlight = there.Connections, there.InFlight
	if !equal(here, there) {
		t.Errorf("%+v, sent piece by piece %+v", here, there)
	}
}

func TestWindowsThatCannotBeAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		``:                                       "cannot be read",
		`[]`:                                     "cannot be read: it must be an object, not an array",
		`{"failed":[0,0,0,0,0,0,0],"cpu_ns":-1}`: "negative",
		`{"failed":[0,0,0,0,0,0,0],"busy":-0.1}`: "negative",
		`{"failed":[0,0,0,0,0,0,0],"latency":"gA=="}`:     "histogram",
		`{"failed":[0,0,0,0,0,0,0],"latency":"AA=="}`:     "histogram",
		`{"failed":[0,0,0,0,0,0,0],"statuses":{"600":1}}`: "status 600",
		`{"failed":[0,0,0,0,0,0,0],"lag":"////////fwE="}`: "histogram",
	} {
		w := measure.NewWindow()
		_, err := decodeWindow([]byte(text), w)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
		if !equal(w, measure.NewWindow()) {
			t.Errorf("%s was refused, and added", text)
		}
	}
}

func FuzzDecodeWindow(f *testing.F) {
	f.Add(encodeWindow(made(1), 1))
	f.Add(encodeWindow(measure.NewWindow(), 7))
	f.Add([]byte(`{"failed":[0,0,0,0,0,0,0],"latency":"AQEBAQ=="}`))
	f.Add([]byte(`{"failed":[0,0,0,0,0,0,0],"busy":1e308,"latency":"AP//////////fwEB"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		w := measure.NewWindow()
		seq, err := decodeWindow(text, w)
		if err != nil {
			if !equal(w, measure.NewWindow()) {
				t.Error("refused, and added")
			}
			return
		}
		again := measure.NewWindow()
		if n, err := decodeWindow(encodeWindow(w, seq), again); err != nil || n != seq || !equal(w, again) {
			t.Errorf("%s: %+v became %+v, %v", text, w, again, err)
		}
	})
}

func FuzzOrder(f *testing.F) {
	whole, err := json.Marshal(&order{Version: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(whole))
	f.Add(
		`{"version":1,"spec":{"url":"http://127.0.0.1:1/","part":3,"parts":2},"closed":true,"connections":-5}`)
	f.Add(`{"version":1,"spec":{"scenario":"poll","target":"http://127.0.0.1:1","users":9}}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := &fake{}
		s := faked(Options{}, e)
		status, text := call(s, "POST", "/runs", body)
		if status != 201 && status != 400 {
			t.Errorf("%d %s", status, text)
		}
		if err := s.Close(); err != nil || (status == 201) != (e.closes() == 1) {
			t.Errorf("%d, closed %d times: %v", status, e.closes(), err)
		}
	})
}

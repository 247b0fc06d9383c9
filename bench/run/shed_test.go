//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRecoveryIsWhenSomethingWasRefusedLast(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		looks []shedLook
		want  time.Duration
	}{
		"never looked":    {nil, 0},
		"nothing refused": {[]shedLook{{50 * ms, 0}, {100 * ms, 0}}, 0},
		"less and less":   {[]shedLook{{50 * ms, 1}, {100 * ms, 0.5}, {150 * ms, 0.001}, {200 * ms, 0}, {250 * ms, 0}}, 150 * ms},
		"once more":       {[]shedLook{{50 * ms, 0.3}, {100 * ms, 0}, {900 * ms, 0.01}, {950 * ms, 0}}, 900 * ms},
		"to the end":      {[]shedLook{{50 * ms, 0}, {4000 * ms, 0.2}}, 4000 * ms},
	} {
		if got := recovery(test.looks); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestTheBarsOfOverloadAreMediansOfTheRoundsRatios(t *testing.T) {
	r := &shedReport{Rounds: 3, Seconds: 10, Samples: []*shedSample{
		{Round: 1, Ceiling: 1000, Served: 900, HalfP99: 500, TripleP99: 5000, Recovery: 0.5, UnshedP99: 2_000_000},
		{Round: 2, Ceiling: 2000, Served: 1600, HalfP99: 400, TripleP99: 10_000, Recovery: 12, UnshedP99: 1_000_000},
		{Round: 3, Ceiling: 500, Served: 430, HalfP99: 2000, TripleP99: 6000, Recovery: 2, UnshedP99: 3_000_000},
	}}
	r.judge()
	// A ratio of medians would be 0.9 of goodput, and 12 of the p99.
	for i, want := range []struct {
		figure, result string
		measured       float64
	}{
		{"goodput", barMet, 0.86}, {"p99 of admitted at 3x / at 0.5x", barMet, 10}, {"until nothing is refused", aimMet, 2},
		{"p99 of admitted at 3x", reported, 6}, {"without shedder", reported, 2000},
	} {
		b := r.Bars[i]
		if !strings.Contains(b.Figure, want.figure) || b.Median == nil || *b.Median != want.measured || b.Result != want.result || len(b.Values) != 3 {
			t.Errorf("%s is %s, %v of %v; want %s, %v", b.Figure, b.Result, b.value(), b.Values, want.result, want.measured)
		}
	}
	var text strings.Builder
	r.write(&text)
	for _, want := range []string{"0.80..0.90", "3.0..25.0", "| 2 | 2000/s |", "medians of 3 rounds of 10 s", "| 10.0 ms |", "| 0.40 ms |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// Both bars have a side: goodput may not be less, latencies and the recovery not more.
func TestBarsOfOverloadAreMissed(t *testing.T) {
	r := &shedReport{Samples: []*shedSample{{Ceiling: 1000, Served: 840, HalfP99: 100, TripleP99: 2100, Recovery: 10.1}}}
	r.judge()
	for _, b := range r.Bars[:3] {
		if b.Result != missed {
			t.Errorf("%s, %s, is %s", b.Figure, b.value(), b.Result)
		}
	}
	r = &shedReport{Samples: []*shedSample{{Ceiling: 1000, Served: 960, HalfP99: 100, TripleP99: 400, Recovery: 0}}}
	r.judge()
	for _, b := range r.Bars[:3] {
		if b.Result != aimMet {
			t.Errorf("%s, %s, is %s", b.Figure, b.value(), b.Result)
		}
	}
}

func TestAResultOfOverloadMayHaveRefusals(t *testing.T) {
	r, err := parseOverload([]byte(`{"requests":300,"shed":180,"served":100,"errors":20,"failures":{"dropped":20},
		"rate":{"intended":300,"achieved":280,"served":100.5},"latency_us":{"p50":1200,"p90":2000,"p99":4500},"generator":{"lag_p99_us":70}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 300 || r.Shed != 180 || r.Rate.Achieved != 280 || r.Rate.Served != 100.5 || r.Latency.P50 != 1200 || r.Latency.P99 != 4500 || r.Generator.LagP99 != 70 {
		t.Errorf("it is read as %+v", r)
	}
	for text, want := range map[string]string{
		"": "not a result", `{"requests":"many"}`: "not a result", `{}`: "nothing was served",
		`{"requests":10,"shed":10,"rate":{"achieved":10,"served":0}}`: "nothing was served",
	} {
		if r, err := parseOverload([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want one with %q", text, r, err, want)
		}
	}
}

func TestTheProbabilityOfRefusalIsThatOfLow(t *testing.T) {
	if p, err := parseProbability(strings.NewReader(`{"pressure":0.2,"probability":{"normal":0,"low":0.4}}`)); p != 0.4 || err != nil {
		t.Errorf("%v, error %v", p, err)
	}
	if p, err := parseProbability(strings.NewReader(`{"probability":{"normal":1,"low":0}}`)); p != 0 || err != nil {
		t.Errorf("%v, error %v", p, err)
	}
	for _, text := range []string{"", "{}", `{"probability":{"normal":1}}`, `{"probability":{"low":"1"}}`} {
		if p, err := parseProbability(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v, error %v", text, p, err)
		}
	}
}

func TestAGroupThatSwappedOrWasKilledFails(t *testing.T) {
	for name, test := range map[string]struct {
		v1    bool
		files map[string]string
		want  string
	}{
		"version 2":               {false, map[string]string{"memory.peak": "1000\n", "memory.events": "low 0\noom 3\noom_kill 0\n", "memory.swap.current": "0\n"}, ""},
		"version 2, no swap":      {false, map[string]string{"memory.peak": "1000\n", "memory.events": "oom_kill 0\n"}, ""},
		"version 2, killed":       {false, map[string]string{"memory.peak": "1000\n", "memory.events": "oom 3\noom_kill 2\n"}, "2 killed"},
		"version 2, swapped":      {false, map[string]string{"memory.peak": "1000\n", "memory.events": "oom_kill 0\n", "memory.swap.current": "4096\n"}, "4096 bytes swapped"},
		"version 2, no peak":      {false, map[string]string{"memory.events": "oom_kill 0\n"}, "memory.peak"},
		"version 2, other events": {false, map[string]string{"memory.peak": "1000\n", "memory.events": "oom 3\n"}, "memory.events has no oom_kill"},
		"version 1":               {true, map[string]string{"memory.max_usage_in_bytes": "1000\n", "memory.oom_control": "under_oom 0\noom_kill 0\n", "memory.stat": "total_rss 5\ntotal_swap 0\n"}, ""},
		"version 1, killed":       {true, map[string]string{"memory.max_usage_in_bytes": "1000\n", "memory.oom_control": "oom_kill 1\n", "memory.stat": "total_swap 0\n"}, "1 killed"},
		"version 1, swapped":      {true, map[string]string{"memory.max_usage_in_bytes": "1000\n", "memory.oom_control": "oom_kill 0\n", "memory.stat": "swap 9\ntotal_swap 8192\n"}, "8192 bytes swapped"},
		"version 1, no swap":      {true, map[string]string{"memory.max_usage_in_bytes": "1000\n", "memory.oom_control": "oom_kill 0\n", "memory.stat": "total_rss 5\n"}, "memory.stat has no total_swap"},
	} {
		dir := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := (&memoryGroup{dir, test.v1}).judge(10, time.Millisecond)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

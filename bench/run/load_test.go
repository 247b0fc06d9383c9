//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestAResultOfLoadWithFailuresIsNotMeasured(t *testing.T) {
	for text, want := range map[string]string{
		`{"requests":10,"served":10,"generator":{"cpu_us_per_request":6.5}}`:                     "",
		`{"requests":10,"served":9,"failures":{"cut":1},"generator":{"cpu_us_per_request":6.5}}`: "9 of 10 requests were served, failures map[cut:1]",
		`{"requests":0}`:                 "nothing was answered",
		`{"requests":10,"served":10}`:    "what the requests cost",
		`{"requests":"many"}`:            "not a result",
		`{"requests":10,"shed":10}` + "": "0 of 10",
	} {
		_, err := parseLoad([]byte(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestLoadsBarsAreOfItsOwnRounds(t *testing.T) {
	r := &loadReport{Rounds: 3, Seconds: 1, Samples: []*loadSample{
		{Asker: nameWrk, Round: 1, CPU: 10},
		{Asker: nameWeirLoad, Round: 1, CPU: 7, Open: &loadOpen{Rate: 70_000, LagP99: 90, Idle: 30}},
		{Asker: nameWeirLoad, Round: 2, CPU: 9, Open: &loadOpen{Rate: 60_000, LagP99: 150, Idle: 40}},
		{Asker: nameWrk, Round: 2, CPU: 10},
		{Asker: nameWrk, Round: 3, CPU: 5},
		{Asker: nameWeirLoad, Round: 3, CPU: 6, Open: &loadOpen{Rate: 80_000, LagP99: 5000, Idle: 4000}},
	}}
	r.judge()
	if got := r.Bars[0]; *got.Median != 0.9 || got.Result != barMet {
		t.Errorf("CPU: %v, %s, want 0.9 and a bar met", *got.Median, got.Result)
	}
	if got := r.Bars[1]; *got.Median != 150 || got.Result != barMet {
		t.Errorf("latency: %v, %s, want 150 and a bar met", *got.Median, got.Result)
	}
	var text strings.Builder
	r.write(&text)
	for _, want := range []string{"0.70..1.20", "150 us", "| wrk | 10.00 us |", "| weir load | 7.00 us |", "was 70000 requests", "40 us late"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestLookingAtTheClockIsNeverEarly(t *testing.T) {
	if late := clockLag(10_000, 20*time.Millisecond); late < 0 {
		t.Errorf("%v us late", late)
	}
}

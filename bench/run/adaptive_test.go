//go:build linux

package main

import (
	"strings"
	"testing"
)

func said(ceilings ...float64) (trace []saidAt) {
	for i, c := range ceilings {
		p := saidAt{At: float64(i + 1)}
		if c > 0 {
			p.Ceiling = &c
		}
		trace = append(trace, p)
	}
	return trace
}

func TestACeilingIsFollowedOnceItIsSaidAndStays(t *testing.T) {
	for name, test := range map[string]struct {
		trace []saidAt
		want  float64
	}{
		"at once":        {said(200, 200, 101, 99, 100, 100, 100), 0.5},
		"after a while":  {said(200, 200, 200, 200, 0, 104, 100, 100, 100), 3.5},
		"after a doubt":  {said(200, 200, 100, 100, 80, 100, 100, 100, 100), 3.5},
		"not to the end": {said(200, 200, 200, 106, 94, 100), 3.5},
		"never":          {nil, 1e300},
	} {
		if got := followed(test.trace, 2.5, 100); got < test.want-1e-9 || got > test.want+1e-9 && test.want < 1e300 {
			t.Errorf("%s: followed after %v, want %v", name, got, test.want)
		}
	}
}

func TestSearchesAreJudgedByTheirBars(t *testing.T) {
	r := &adaptiveReport{Rounds: 1}
	follow := 7.0
	for _, c := range adaptiveCases {
		s := &adaptiveSample{Case: c.String(), Round: 1, Found: c.rate, Off: 3, Seconds: 12, Limit: "queue"}
		if c.to > 0 {
			s.Follow = &follow
		}
		r.Samples = append(r.Samples, s)
	}
	r.judge()
	want := map[string]string{"is off by": barMet, "time to find it": aimMet, "followed within": barMet}
	if len(r.Bars) != 10 {
		t.Errorf("there are %d bars", len(r.Bars))
	}
	for _, b := range r.Bars {
		for part, result := range want {
			if strings.Contains(b.Figure, part) && b.Result != result {
				t.Errorf("%s: %s, want %s", b.Figure, b.Result, result)
			}
		}
	}
	var text strings.Builder
	r.write(&text)
	if !strings.Contains(text.String(), "| 2000/s, lets more wait | 2000/s |") {
		t.Errorf("the table is\n%s", text.String())
	}
}

//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestScoresAreSamplesOfEachItemsPosteriorInOrder(t *testing.T) {
	s := &predictor{memory{features{
		"low":  {"alpha": 20, "beta": 180},
		"high": {"alpha": 90, "beta": 10},
	}}}
	items := []string{"low", "high", "unknown"}
	want := []struct{ mean, variance float64 }{{0.1, 0.09 / 201}, {0.9, 0.09 / 101}, {0.5, 1. / 12}}
	var body strings.Builder
	body.WriteString(`{"user":"u","items":["low"`)
	const n = 3000
	for i := 1; i < n; i++ {
		fmt.Fprintf(&body, `,%q`, items[i%3])
	}
	body.WriteString(`]}`)
	status, said := post(t, s, body.String())
	var got answer
	if err := json.Unmarshal([]byte(said), &got); status != 200 || err != nil || len(got.Scores) != n {
		t.Fatalf("status %d, %d scores, %v", status, len(got.Scores), err)
	}
	for k, w := range want {
		var sum, squares float64
		for i := k; i < n; i += 3 {
			sum += got.Scores[i]
			squares += (got.Scores[i] - w.mean) * (got.Scores[i] - w.mean)
		}
		mean, variance := sum/(n/3), squares/(n/3)
		if off := (mean - w.mean) / math.Sqrt(w.variance/(n/3)); math.Abs(off) > 6 {
			t.Errorf("%s: mean %.4f, want %.4f: %.1f standard errors away", items[k], mean, w.mean, off)
		}
		if ratio := variance / w.variance; ratio < 0.6 || ratio > 1.5 {
			t.Errorf("%s: variance %.5f, want %.5f", items[k], variance, w.variance)
		}
	}
}

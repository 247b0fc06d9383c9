package control

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRatesAreRead(t *testing.T) {
	for text, want := range map[string]float64{
		"5000/s": 5000, "5000": 5000, " 12k/s ": 12000, "1.5K / s": 1500, "2M/s": 2e6, "300/m": 5,
		"3600/h": 1, "0.5/s": 0.5, "60 / minute": 1,
		"60x": 1500, "1x": 25, "0.5 x": 12.5,
	} {
		if got, err := ParseRate(text, 25); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "at character 1: expected requests a time", "fast": "at character 1: expected requests",
		"-5/s": "at character 1: expected requests",
		"0/s":  "above 0", "5e9/s": "expected nothing after", "20M/s": "at most 10000000/s",
		"5/d":    "at character 3: expected s, m or h",
		"5/s ec": "at character 5: expected nothing", "1.2.3/s": "expected requests",
		"nan/s": "expected requests",
		"60x":   "at character 1: a multiple is one of what --users and --every mean",
	} {
		if got, err := ParseRate(text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRate(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestStagesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string][]Stage{
		"1000/s:30s":                {{1000, 1000, false, 30 * time.Second}},
		" 1k/s : 30s , 300/m : 1m ": {{1000, 1000, false, 30 * time.Second}, {5, 5, false, time.Minute}},
		"1000/s->5000/s:1m":         {{1000, 5000, false, time.Minute}},
		"->500/s:10s,500:1m,-> 1000:10s": {{0, 500, false, 10 * time.Second}, {500, 500, false, time.Minute},
			{500, 1000, false, 10 * time.Second}},
		"64c:30s,->128 connections:1m": {{64, 64, true, 30 * time.Second}, {64, 128, true, time.Minute}},
		"1x:30s,->60x:1m":              {{25, 25, false, 30 * time.Second}, {25, 1500, false, time.Minute}},
		"->64c:30s":                    {{0, 64, true, 30 * time.Second}},
	} {
		got, err := ParseStages(text, 25)
		if err != nil || len(got) != len(want) {
			t.Errorf("ParseStages(%q) = %v, %v", text, got, err)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("ParseStages(%q)[%d] = %+v, want %+v", text, i, got[i], want[i])
			}
		}
	}
	for text, want := range map[string]string{
		"": "at character 1: expected a load", "1000/s": "at character 7: expected a colon",
		"1000/s:":   "at character 8: expected how long",
		"1000/s:0s": "at character 8: expected how long", "1000/s:30s,": "at character 12: expected a load",
		"1000/s:30s 5":       "at character 12: expected a comma",
		"64c:30s,1000/s:30s": "at character 9: stages are all",
		"64c->1000/s:30s":    "at character 1: a stage goes from", "0.5c:3s": "a whole number",
		"100->:3s": "at character 6: expected a load", "c:3s": "expected a load",
	} {
		if got, err := ParseStages(text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseStages(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}

func FuzzParseStages(f *testing.F) {
	for _, s := range []string{"1000/s:30s,5000/s:1m", "1k/s->5k/s:1m", "->64c:30s", "300/m:1h,->1:1s",
		"64c:30s,->128c:1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stages, err := ParseStages(text, 0)
		if err != nil {
			return
		}
		var written []string
		for _, s := range stages {
			if !(s.To > 0) || s.From < 0 || s.For <= 0 || s.To > MaxRate || s.From > MaxRate ||
				s.Connections != stages[0].Connections {
				t.Fatalf("%q has the stage %+v", text, s)
			}
			written = append(written, s.String())
		}
		again, err := ParseStages(strings.Join(written, ","), 0)
		if err != nil || len(again) != len(stages) {
			t.Fatalf("%q is written as %q, and that read as %v, %v", text, written, again, err)
		}
		for i := range stages {
			if again[i] != stages[i] && stages[i].From > 0 {
				t.Fatalf("%q is written as %q, and that read as %v", text, written, again)
			}
		}
	})
}

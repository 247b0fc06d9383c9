package mock

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// samples are values that every knob takes, and how it shows them, and values it refuses.
var samples = map[string]struct {
	good map[string]string
	bad  []string
}{
	"items": {map[string]string{"0": "0", "10000": "10000", "007": "7"},
		[]string{"", "-1", "10001", "1.5", "ten", "99999999999999999999", "+1"}},
	"body": {map[string]string{"0": "0", "100000": "100000"}, []string{"", "-1", "100001", "1k"}},
	"delay": {map[string]string{"0": "0s", "50ms": "50ms", "10m": "10m0s"},
		[]string{"", "-1s", "10m1ns", "50", "soon"}},
	"jitter":    {map[string]string{"1.5s": "1.5s"}, []string{"", "-1s", "11m", "50"}},
	"trickle":   {map[string]string{"0": "0s", "1ms": "1ms"}, []string{"", "-1s", "11m", "5"}},
	"retry":     {map[string]string{"0s": "0s", "2m": "2m0s"}, []string{"", "-1s", "8761h", "60"}},
	"redirects": {map[string]string{"0": "0", "3": "3"}, []string{"", "-1", "1001", "many"}},
	"location": {map[string]string{"": "", "/feed/2.rss": "/feed/2.rss",
		"http://10.0.0.1/": "http://10.0.0.1/"}, []string{":", "http://[x", strings.Repeat("x", 2001)}},
	"hang": {map[string]string{"0": "0", "0.001": "0.001", "1": "1", ".5": "0.5"},
		[]string{"", "-0", "1.1", "NaN", "Inf", "inf", "1%", "0x"}},
	"error": {map[string]string{"0.01": "0.01", "1": "1"}, []string{"", "2", "yes", "-.1"}},
	"status": {map[string]string{"200": "200", "404": "404", "599": "599"},
		[]string{"", "199", "600", "abc", "1000"}},
	"gzip": {map[string]string{"auto": "auto", "on": "auto", "1": "auto", "true": "auto", "off": "off",
		"0": "off", "false": "off", "always": "always"}, []string{"", "yes", "2"}},
	"br": {map[string]string{"auto": "auto", "off": "off", "always": "always"}, []string{"", "never"}},
	"etag": {map[string]string{"strong": "strong", "weak": "weak", "off": "off", "1": "strong",
		"0": "off"}, []string{"", "none"}},
	"lastmod": {map[string]string{"on": "on", "off": "off", "0": "off", "true": "on"},
		[]string{"", "2026-01-01"}},
	"ttl": {map[string]string{"0": "0s", "15m": "15m0s", "8760h": "8760h0m0s"},
		[]string{"", "-1s", "8761h", "60"}},
	"churn": {map[string]string{"0": "0", "0.1": "0.1", "1000": "1000"},
		[]string{"", "-1", "1001", "NaN"}},
	"charset": {map[string]string{"utf-8": "utf-8", "Shift_JIS": "shift_jis", "ISO-8859-1": "iso-8859-1"},
		[]string{"", "utf8", "ascii"}},
	"malformed": {map[string]string{"off": "off", "truncated": "truncated", "truncated:0.1": "truncated:0.1",
		"bomb:1": "bomb"}, []string{"", "broken", "truncated:", "truncated:2", "off:0.5", ":"}},
}

func TestEveryKnobTakesWhatItShouldAndRefusesTheRest(t *testing.T) {
	for _, name := range Names() {
		s, ok := samples[name]
		if !ok {
			t.Errorf("%s has no samples", name)
		}
		for value, shown := range s.good {
			k := Defaults()
			if err := k.Set(name, value); err != nil {
				t.Error(err)
				continue
			}
			if got := (&flag{&k, &table[find([]byte(name))]}).String(); got != shown {
				t.Errorf("%s=%s is shown as %q, want %q", name, value, got, shown)
			}
			if err := k.check(); err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
		for _, value := range s.bad {
			k := Defaults()
			err := k.Set(name, value)
			if err == nil || !strings.HasPrefix(err.Error(), name+" must be ") {
				t.Errorf("%s=%q: error %v", name, value, err)
			}
			if k != Defaults() {
				t.Errorf("%s=%q was refused and changed something", name, value)
			}
		}
	}
	k := Defaults()
	if err := k.Set("colour", "red"); err == nil ||
		!strings.Contains(err.Error(), `no knob "colour"; there are items, body`) {
		t.Errorf("an unknown knob: %v", err)
	}
}

func TestKnobsAreTheSameAfterJSON(t *testing.T) {
	for name, s := range samples {
		for value := range s.good {
			k := Defaults()
			if err := k.Set(name, value); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			back := Defaults()
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if back != k {
				t.Errorf("%s became %+v, was %+v", text, back, k)
			}
		}
	}
}

func TestKnobsFromJSONAreAllOrNothing(t *testing.T) {
	for text, says := range map[string]string{
		`{"items":5,"error":2}`:              "error must be a probability",
		`{"items":5,"colour":1}`:             `no knob "colour"`,
		`{"items":5,"items":6}`:              "items is given twice",
		`{"items":5,"delay":null}`:           "delay must be a duration",
		`{"items":5,"delay":["1s"]}`:         "delay must be a duration",
		`{"items":5,"delay":{"s":1}}`:        "delay must be a duration",
		`[5]`:                                "must be a JSON object",
		`"items"`:                            "must be a JSON object",
		`{"items":10000,"body":100000}`:      "items times body",
		`{"gzip":"always","br":"always"}`:    "cannot both be always",
		`{"items":5`:                         "unexpected end",
		`{"items":5} {"items":6}`:            "after top-level value",
		`{"malformed":"truncated:x"}`:        "malformed must be off or one of truncated, ",
		`{"items":"5","hang":true,"body":1}`: "hang must be",
	} {
		k := Defaults()
		if err := json.Unmarshal([]byte(text), &k); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", text, err, says)
		}
		if k != Defaults() {
			t.Errorf("%s was refused and changed something", text)
		}
	}
	k := Defaults()
	if err := json.Unmarshal([]byte(`{"items":"5","lastmod":false,"delay":"1s","error":0.01}`),
		&k); err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Items, want.LastModified, want.Delay, want.Error = 5, false, 1e9, 0.01
	if k != want {
		t.Errorf("got %+v, want %+v", k, want)
	}
}

func TestEveryKnobIsAFlag(t *testing.T) {
	k := Defaults()
	f := pflag.NewFlagSet("mock", pflag.ContinueOnError)
	k.AddFlags(f)
	if err := f.Parse([]string{"--items", "3", "--malformed=truncated:0.5", "--gzip", "off"}); err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Items, want.Malformed, want.Share, want.Gzip = 3, truncated, 0.5, Never
	if k != want {
		t.Errorf("got %+v, want %+v", k, want)
	}
	for _, name := range Names() {
		if f.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
	if err := f.Parse([]string{"--status", "teapot"}); err == nil ||
		!strings.Contains(err.Error(), "expected a status from 200 to 599") {
		t.Errorf("--status teapot: %v", err)
	}
}

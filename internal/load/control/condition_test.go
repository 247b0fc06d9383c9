package control

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/load/measure"
)

func parse(t *testing.T, text string) Condition {
	t.Helper()
	c, err := ParseConditions([]string{text})
	if err != nil || len(c) != 1 {
		t.Fatalf("ParseConditions(%q) = %v, %v", text, c, err)
	}
	return c[0]
}

func TestConditionsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"p95>50ms for 5s":            "p95 > 50ms for 5s",
		" P95  >  50 MS   FOR 1m30s": "p95 > 50ms for 1m30s",
		"p99.9>=1.5s":                "p999 >= 1.5s",
		"p999<100us":                 "p999 < 100us",
		"p9999<1ms":                  "p9999 < 1ms",
		"p905<1ms":                   "p905 < 1ms",
		"p75.5<1ms":                  "p75.5 < 1ms",
		"p5<1ms":                     "p5 < 1ms",
		"p100<1ms":                   "max < 1ms",
		"max<=2µs":                   "max <= 2µs",
		"mean>3ns":                   "mean > 3ns",
		"errors>1%":                  "errors > 1%",
		"shed > 0.5 %":               "shed > 0.5%",
		"success<99.9%for 3s":        "success < 99.9% for 3s",
		"achieved<95%":               "achieved < 95%",
		"rate<1000":                  "rate < 1000/s",
		"rate<60/m":                  "rate < 60/m",
		"cpu>250%":                   "cpu > 250%",
		"memory>500mb":               "memory > 500MB",
		"memory>1.5gib":              "memory > 1.5GiB",
	} {
		c := parse(t, text)
		if got := c.String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if again := parse(t, c.String()); again != c {
			t.Errorf("%q is read as %+v, and as %+v when written again", text, c, again)
		}
	}
	several, err := ParseConditions([]string{"p95>50ms for 5s , errors>1%", "shed>5%"})
	if err != nil || len(several) != 3 || several[1].String() != "errors > 1%" {
		t.Errorf("three conditions in two texts are %v, %v", several, err)
	}
}

func TestWrongConditionsSayWhereAndWhatIsKnown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `at character 1: expected one of p50`,
		"p95":                                    `at character 4: expected >, >=, < or <= after p95`,
		"p95=50ms":                               `at character 4: expected >`,
		"p95>>50ms":                              `at character 4: expected >`,
		"p95>50":                                 `at character 5: p95 is compared with a duration, like 50ms`,
		"p95>50%":                                `at character 5: p95 is compared with a duration`,
		"p95>ms":                                 `at character 5: p95 is compared with a duration`,
		"p0>5ms":                                 `"p0" is not a quantile`,
		"p101>5ms":                               `"p101" is not a quantile`,
		"p755>5ms":                               `"p755" is not a quantile; they are above p0, up to p100, like p50, p99 and p99.9, which is p999 too`,
		"p1000.5>5ms":                            `"p1000.5" is not a quantile`,
		"latency>5ms":                            `at character 1: "latency" is not known; expected one of p50`,
		"errors>1":                               `at character 8: errors is compared with per cent, like 5%`,
		"errors>101%":                            `at character 8: errors is a share and never above 100%`,
		"rate<5ms":                               `at character 6: rate is compared with a rate`,
		"memory>5":                               `at character 8: memory is compared with bytes`,
		"p95>50ms for":                           `at character 13: expected a duration after "for"`,
		"p95>50ms for -5s":                       `at character 14: expected a duration after "for"`,
		"p95>50ms during":                        `at character 10: expected "for"`,
		"p95>50ms; shed>1":                       `at character 9: expected "for"`,
		"p95>50ms,":                              `at character 10: expected one of p50`,
		"größe>1":                                `at character 1: "gr" is not known`,
		"p95>" + strings.Repeat("9", 400) + "ms": `p95 is compared with a duration`,
	} {
		_, err := ParseConditions([]string{text})
		switch {
		case want == "":
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
		case err == nil:
			t.Errorf("%q is accepted", text)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseConditions(f *testing.F) {
	for _, s := range []string{"p95>50ms for 5s", "errors>1%,shed > 5%", "rate<1000/s", "memory>500MB",
		"p99.9>=1µs for 1h", "max<1s,"} {
		f.Add(s)
	}
	w := measure.NewWindow()
	w.End, w.Intended, w.Sent, w.Served = time.Second, 3, 3, 2
	measure.Record(w.Latency, time.Millisecond)
	f.Fuzz(func(t *testing.T, text string) {
		conditions, err := ParseConditions([]string{text})
		if err != nil {
			return
		}
		for _, c := range conditions {
			again, err := ParseConditions([]string{c.String()})
			if err != nil || len(again) != 1 || again[0] != c {
				t.Fatalf("%q is written as %q, and that read as %v, %v", text, c.String(), again, err)
			}
			if v := c.Judge(w); math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				t.Fatalf("%q has the value %v", text, v.Value)
			}
		}
	})
}

// measured returns a window of a second with 100 requests due.
func measured(served, shed, cut int, latency time.Duration) *measure.Window {
	w := measure.NewWindow()
	w.End = time.Second
	w.Intended, w.Sent = 100, 98
	w.Served, w.Shed = uint64(served), uint64(shed)
	w.Failed[measure.Cut] = uint64(cut)
	for range served {
		measure.Record(w.Latency, latency)
	}
	w.InFlight = 100 - served - shed - cut
	return w
}

func TestConditionsJudgeWhatWasMeasured(t *testing.T) {
	w := measured(90, 6, 4, 20*time.Millisecond)
	w.Latency.Reset()
	for i := range 90 {
		measure.Record(w.Latency, time.Duration(i+1)*time.Millisecond)
	}
	w.Target = measure.Target{CPU: 1.5, Memory: 300e6}
	for text, want := range map[string]float64{
		"p50>1ms": 45, "p90>1ms": 81, "max>1ms": 90, "mean>1ms": 45.5, "errors>1%": 4, "shed>1%": 6,
		"success<1%":  90,
		"achieved<1%": 98, "rate>1/s": 90, "rate>1/m": 5400, "cpu>1%": 150, "memory>1MB": 300,
	} {
		c := parse(t, text)
		v := c.Judge(w)
		if !v.Known || math.Abs(v.Value/want-1) > 0.01 {
			t.Errorf("%s has the value %v, want %v", text, v, want)
		}
		if v.Holds != c.above {
			t.Errorf("%s: holds is %v", text, v.Holds)
		}
	}
	for text, want := range map[string]bool{"errors>4%": false, "errors>=4%": true, "errors<=4%": true,
		"errors<4%": false} {
		c := parse(t, text)
		if v := c.Judge(w); v.Holds != want {
			t.Errorf("%s at 4 %%: %v", text, v.Holds)
		}
	}
}

func TestValuesAreSaidInTheUnitThatSuitsThem(t *testing.T) {
	for _, c := range []struct {
		condition string
		value     float64
		want      string
	}{
		{"p50>10s", 0.0001487123, "148.7µs"}, {"p99>20us", 38345.678, "38.35ms"},
		{"max>1ms", 600_000, "10m0s"},
		{"errors>1%", 100.0 / 3, "33.33%"}, {"rate<10/s", 123456, "123500/s"}, {"memory>1GB", 0.25, "0.25GB"},
	} {
		of := parse(t, c.condition)
		if got := of.Say(c.value); got != c.want {
			t.Errorf("%v of %s is said to be %s, want %s", c.value, c.condition, got, c.want)
		}
	}
}

func TestSilenceIsBadAndNotUnknown(t *testing.T) {
	for _, w := range []*measure.Window{measured(0, 0, 0, 0), measured(0, 0, 100, 0)} {
		for text, holds := range map[string]bool{
			"p95>50ms": true, "p95<50ms": false, "success<99%": true, "errors>1%": true, "errors<1%": false,
			"rate<5/s": true,
		} {
			c := parse(t, text)
			if v := c.Judge(w); !v.Known || v.Holds != holds || math.IsInf(v.Value, 0) {
				t.Errorf("%s of %d failures and no answer: %+v", text, w.Errors(), v)
			}
		}
	}
	nothing := measure.NewWindow()
	for _, text := range []string{"p95>50ms", "errors>1%", "success<99%", "achieved<95%", "rate<5/s",
		"cpu>1%", "memory>1MB"} {
		c := parse(t, text)
		if v := c.Judge(nothing); v.Known || v.Holds {
			t.Errorf("%s of nothing intended: %+v", text, v)
		}
	}
}

// follow shows a Watch windows of a tenth of a second and returns when the condition held first, 0 for never.
func follow(t *testing.T, text string, d time.Duration,
	latency func(at time.Duration) time.Duration) time.Duration {
	t.Helper()
	watch := NewWatch([]Condition{parse(t, text)})
	w := measure.NewWindow()
	for at := time.Duration(0); at < d; at += 100 * time.Millisecond {
		w.Reset()
		w.Start, w.End = at, at+100*time.Millisecond
		w.Intended, w.Sent = 10, 10
		if l := latency(at); l > 0 {
			w.Served = 10
			w.Latency.RecordValues(int64(l), 10)
		} else {
			w.InFlight = 10
		}
		if held, v := watch.Next(w); held != nil {
			if !v.Known || !v.Holds {
				t.Errorf("%s held with %+v", text, v)
			}
			return w.End
		}
	}
	return 0
}

func TestAConditionHoldsForItsTimeWithoutABreak(t *testing.T) {
	slow := func(from, to time.Duration) func(at time.Duration) time.Duration {
		return func(at time.Duration) time.Duration {
			if at >= from && at < to {
				return 80 * time.Millisecond
			}
			return 10 * time.Millisecond
		}
	}
	// 5 % of a second is slow within one window, and the second is slow until the last of it is over.
	if at := follow(t, "p95>50ms for 3s", time.Minute,
		slow(5*time.Second, time.Minute)); at != 8100*time.Millisecond {
		t.Errorf("slow from 5 s on, it held at %v", at)
	}
	if at := follow(t, "p95>50ms for 3s", time.Minute, slow(5*time.Second, 6900*time.Millisecond)); at != 0 {
		t.Errorf("slow for 1.9 s, it held at %v", at)
	}
	if at := follow(t, "p95>50ms", time.Minute, slow(0, time.Minute)); at != time.Second {
		t.Errorf("without a duration it held at %v, not after the second that a figure is of", at)
	}
	if at := follow(t, "p50>50ms", time.Minute, slow(5*time.Second, 5300*time.Millisecond)); at != 0 {
		t.Errorf("a stall of 0.3 s is not half of a second, and held at %v", at)
	}
	silent := func(at time.Duration) time.Duration {
		if at >= 5*time.Second {
			return 0
		}
		return 10 * time.Millisecond
	}
	if at := follow(t, "p95>50ms for 2s", time.Minute, silent); at < 7*time.Second ||
		at > 8100*time.Millisecond {
		t.Errorf("no answer from 5 s on, it held at %v", at)
	}
}

func TestAnAnswerOnItsWayIsNotSilence(t *testing.T) {
	watch := NewWatch([]Condition{parse(t, "success<99%")})
	w := measure.NewWindow()
	for i := range 100 {
		// A request every 5 s, answered in the window after the one that it was due in.
		w.Reset()
		w.Start, w.End = time.Duration(i)*100*time.Millisecond, time.Duration(i+1)*100*time.Millisecond
		switch i % 50 {
		case 20:
			w.Intended, w.Sent, w.InFlight = 1, 1, 1
		case 21:
			w.Served = 1
			measure.Record(w.Latency, 30*time.Millisecond)
		}
		if held, v := watch.Next(w); held != nil {
			t.Fatalf("in window %d: %v, %+v", i, held, v)
		}
	}
}

func TestCompletionsAreConditions(t *testing.T) {
	all := CompleteCondition("")
	for _, s := range all {
		text, _, ok := strings.Cut(s, "\t")
		if !ok {
			t.Errorf("%q has no description", s)
		}
		parse(t, text)
	}
	if got := CompleteCondition("P9"); len(got) != 3 || len(all) < 10 {
		t.Errorf("P9 completes to %q", got)
	}
}

func TestAWatchSumsUpTheLastSecondAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	watch := NewWatch([]Condition{parse(t, "p99<1ns"), parse(t, "errors>100%")})
	var all []*measure.Window
	for i := range 30 {
		w := measure.NewWindow()
		w.Start, w.End = time.Duration(i)*100*time.Millisecond, time.Duration(i+1)*100*time.Millisecond
		w.Intended, w.Sent, w.Served, w.Shed = r.Uint64N(100), r.Uint64N(100), r.Uint64N(100), r.Uint64N(100)
		w.Failed[measure.Cut] = r.Uint64N(100)
		for range r.IntN(50) {
			measure.Record(w.Latency, time.Duration(math.Exp(r.Float64()*30)))
		}
		w.Target.CPU = r.Float64()
		all = append(all, w)
		watch.Next(w)
		want := measure.NewWindow()
		for _, l := range all[max(0, len(all)-10):] {
			want.Add(l)
		}
		got := watch.sum
		if got.Start != want.Start || got.End != want.End || got.Intended != want.Intended ||
			got.Sent != want.Sent ||
			got.Served != want.Served || got.Shed != want.Shed || got.Failed != want.Failed ||
			got.Target.CPU != w.Target.CPU {
			t.Fatalf("after window %d the sum is %+v, want %+v", i, got, want)
		}
		if !got.Latency.Equals(want.Latency) {
			t.Fatalf("after window %d the sum has other latencies than the last ten windows", i)
		}
	}
}

func TestAWatchKnowsWhenTheFirstConditionBegan(t *testing.T) {
	watch := NewWatch([]Condition{parse(t, "errors>50% for 1m"), parse(t, "errors>10% for 1m")})
	w := measure.NewWindow()
	for i := range 40 {
		w.Reset()
		w.Start, w.End = time.Duration(i)*100*time.Millisecond, time.Duration(i+1)*100*time.Millisecond
		w.Intended, w.Sent, w.Served = 10, 10, 10
		if i >= 20 {
			w.Served, w.Failed[measure.Cut] = 0, 10
		}
		watch.Next(w)
	}
	if at, ok := watch.Began(); !ok || at != 2200*time.Millisecond {
		t.Errorf("it began at %v, %v; two of ten windows are more than 10%% at 2.2s", at, ok)
	}
}

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFibonacciIsTheSequence(t *testing.T) {
	for n, want := range map[int]string{0: "0", 1: "1", 2: "1", 10: "55", 100: "354224848179261915075"} {
		if got := fibonacci(n); got != want {
			t.Errorf("F(%d) is %s, want %s", n, got, want)
		}
	}
	if got := currentAnswer(10); got != `{"index":10,"value":"55"}` {
		t.Errorf("the answer at 10 is %s", got)
	}
	if got := len(currentAnswer(100_000)); got != 20_926 {
		t.Errorf("the answer at 100,000 has %d bytes, want 20,926", got)
	}
}

func TestAServerWithAnotherValueOrPlaceIsNotMeasured(t *testing.T) {
	for _, c := range []struct {
		name, answer, want string
		status             int
	}{
		{"the same", `{"index":100,"value":"354224848179261915075"}`, "", 200},
		{"spaces and a line end", "{ \"value\": \"354224848179261915075\", \"index\": 100 }\n", "", 200},
		{"within the slack", currentAnswer(97), "", 200},
		{"another place", currentAnswer(96), "is at 96, want 100", 200},
		{"another value", `{"index":100,"value":"354224848179261915076"}`, "not those of F(100)", 200},
		{"no JSON", `nothing`, "nothing", 200},
		{"an error", `no such thing`, "no such thing", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/current" {
					t.Errorf("it was asked for %s %s", r.Method, r.URL)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.answer)
			}))
			defer s.Close()
			err := checkCurrent(t.Context(), s.Listener.Addr().String(), 100, 3)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestThePlaceIsSetThroughTheAdminPort(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s", r.Method, r.URL, body)
	}))
	defer s.Close()
	if err := putCurrent(t.Context(), s.Listener.Addr().String(), 50_000); err != nil {
		t.Fatal(err)
	}
	if want := `PUT /current {"index":50000}`; got != want {
		t.Errorf("it sent %s, want %s", got, want)
	}
}

func TestABenchmarksTimesAreReadByItsWholeName(t *testing.T) {
	const out = `goos: linux
cpu: some
BenchmarkAdd10    	 9000000	       1.5 ns/op
BenchmarkAdd100   	 1000000	      55.5 ns/op	       0 B/op	       0 allocs/op
BenchmarkAdd100-2 	 1000000	      44.5 ns/op
BenchmarkAdd1000  	 1000000	     900 ns/op
PASS
`
	got, err := parseBenchmark(out, "BenchmarkAdd100")
	if err != nil || !slices.Equal(got, []float64{55.5, 44.5}) {
		t.Errorf("times %v, %v, want 55.5 and 44.5", got, err)
	}
	for out, want := range map[string]string{
		"PASS\n":                                       "no benchmark called BenchmarkAdd100",
		"BenchmarkAdd100 10 zero ns/op\n":              "not a time",
		"BenchmarkAdd100 10 0.000 ns/op\n":             "not a time",
		"BenchmarkAdd100\n--- FAIL: BenchmarkAdd100\n": "no benchmark called BenchmarkAdd100",
	} {
		if _, err := parseBenchmark(out, "BenchmarkAdd100"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave the error %v, want one with %q", out, err, want)
		}
	}
}

func TestGMPsTimeIsThatOfValueAndDigitsTogether(t *testing.T) {
	var c computed
	err := c.parseGMP(`{"version":"6.3.0","digits":21,"value_ns":[10,20,90],"text_ns":[100,500,300]}`, 21)
	// Runs of 110, 520 and 390.
	if err != nil || c.GMP != 390 || c.GMPValue != 20 || c.Version != "6.3.0" {
		t.Errorf("got %+v, %v", c, err)
	}
	for out, want := range map[string]string{
		`{"digits":20,"value_ns":[1],"text_ns":[1]}`: "20 digits, want 21",
		`{"digits":21}`: "not a time",
		`{"digits":21,"value_ns":[1],"text_ns":[]}`: "not a time",
		``: "JSON",
	} {
		if err := new(computed).parseGMP(out, 21); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave the error %v, want one with %q", out, err, want)
		}
	}
}

func TestGMPsProgramComputesTheSequence(t *testing.T) {
	program := filepath.Join(t.TempDir(), "gmp")
	source, err := os.ReadFile("../gmp/gmp.c")
	if err != nil {
		t.Fatal(err)
	}
	header := exec.Command("gcc", "-E", "-x", "c", "-")
	header.Stdin = strings.NewReader("#include <gmp.h>\n")
	if err := header.Run(); err != nil {
		t.Skip("there is no gmp.h to build with; make test-deps installs it where it can")
	}
	gcc := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "-x", "c", "-", "-lgmp")
	gcc.Stdin = strings.NewReader(string(source))
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, n := range []int{0, 7, 100, 1234} {
		want := fibonacci(n)
		out, err := exec.Command(program, fmt.Sprint(n), "3").Output()
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ First, Last string }
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if first, last := want[:min(10, len(want))], want[max(0, len(want)-10):]; got.First != first || got.Last != last {
			t.Errorf("F(%d) is %s...%s, want %s...%s", n, got.First, got.Last, first, last)
		}
		var c computed
		if err := c.parseGMP(string(out), len(want)); err != nil || c.GMP < c.GMPValue {
			t.Errorf("F(%d): %+v, %v", n, c, err)
		}
	}
	for _, args := range [][]string{{"10"}, {"-1", "3"}, {"10", "0"}, {"4294967296", "1"}, {"ten", "1"}} {
		if out, err := exec.Command(program, args...).Output(); err == nil {
			t.Errorf("%v is no error: %s", args, out)
		}
	}
}

// measured is a report with figures that are easy to tell apart.
func measured() *sequenceReport {
	r := &sequenceReport{Parameters: sequenceParameters{12, 2, 3, false}}
	loads := func(rate, cpu float64) map[string]*load {
		all := map[string]*load{}
		for i, l := range sequenceLoads {
			all[l.name] = &load{PerSecond: rate * float64(i+1), CPU: cpu, Busy: cpu / 10}
		}
		return all
	}
	for round := 1; round <= 2; round++ {
		r.Samples = append(r.Samples,
			&sequenceSample{Server: nameFloor, Round: round, Loads: loads(90_000, 5)},
			&sequenceSample{Server: nameBaseline, Round: round, Loads: loads(1000, 500)},
			&sequenceSample{Server: nameWeir, Round: round, Loads: loads(30_000*float64(round), 7),
				Walked: &walked{Resident: 40 << 20, Peak: 50 << 20, Own: 20 << 20}})
		r.Computed = append(r.Computed,
			&computed{Name: computeStep, Round: round, Weir: 400},
			&computed{Name: computeMillion, Round: round, Weir: 15e6, GMP: 10e6, GMPValue: 2e6, Version: "6.3.0"},
			&computed{Name: computeTenMillion, Round: round, Weir: 640e6, GMP: 160e6, GMPValue: 30e6, Version: "6.3.0"})
	}
	return r
}

func TestTheSequencesBarsAreJudged(t *testing.T) {
	r := measured()
	r.judge()
	want := []struct {
		figure, value, result string
	}{
		{loadLow + ", requests/s, weir / baseline", "45.0", aimMet},
		{loadHigh + ", requests/s, weir / baseline", "45.0", aimMet},
		{loadCurrent + ", requests/s, weir / baseline", "45.0", barMet},
		{loadAll + ", CPU a request, weir / C floor", "1.40", barMet},
		{computeStep + ", in process", "0.40 us", aimMet},
		{computeMillion + ", weir / GMP", "1.50", barMet},
		{computeTenMillion + ", weir / GMP", "4.00", missed},
		{"resident memory after /next from 0 to 100,000", "40 MiB", barMet},
	}
	if len(r.Bars) != len(want) {
		t.Fatalf("%d bars, want %d", len(r.Bars), len(want))
	}
	for i, w := range want {
		if b := r.Bars[i]; b.Figure != w.figure || b.value() != w.value || b.Result != w.result {
			t.Errorf("%s: %s, %s; want %s: %s, %s", b.Figure, b.value(), b.Result, w.figure, w.value, w.result)
		}
	}
}

func TestWhatWasNotMeasuredSaysSo(t *testing.T) {
	r := measured()
	r.Samples = nil
	for _, c := range r.Computed {
		c.GMP, c.GMPValue, c.Version = 0, 0, ""
	}
	r.judge()
	for _, b := range r.Bars {
		want := notMeasured
		if strings.HasPrefix(b.Figure, computeStep) {
			want = aimMet
		}
		if b.Result != want {
			t.Errorf("%s: %s, want %s", b.Figure, b.Result, want)
		}
	}
	var text strings.Builder
	r.write(&text)
	for _, want := range []string{"| " + computeMillion + " | 15.00 ms | - | - |", "GMP was not measured"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
}

func TestTheNotesSayHowBusyTheCoresWereAndWithWhom(t *testing.T) {
	const said = "others had more than a tenth of one of the cores, also when they were repeated: "
	r := measured()
	if notes := strings.Join(r.notes(), "\n"); strings.Contains(notes, said) {
		t.Errorf("nobody disturbed and the notes are\n%s", notes)
	}
	if want := "the floor was busy 50 % of the time and weir 70 %"; !strings.Contains(strings.Join(r.notes(), "\n"), want) {
		t.Errorf("the notes lack %q", want)
	}
	r.Samples[0].Loads[loadLow].Others = 0.4
	r.Samples[2].Loads[loadAll].OthersAsking = 0.25
	r.Samples[2].Loads[loadHigh].Others = 0.05
	if notes := strings.Join(r.notes(), "\n"); !strings.Contains(notes, said+"2, up to 40 %") {
		t.Errorf("the notes lack the two loads:\n%s", notes)
	}
}

func TestAReportHasTheServicesThatWereMeasured(t *testing.T) {
	sequence := measured()
	sequence.judge()
	feed := []*sample{{Server: nameWeir, Round: 1, Plain: &load{CPU: 5}, Pipelined: &load{}}}
	for _, c := range []struct {
		name           string
		report         report
		feed, sequence bool
	}{
		{"feed", report{Samples: feed}, true, false},
		{"sequence", report{Sequence: sequence}, false, true},
		{"both", report{Samples: feed, Sequence: sequence}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			if err := c.report.writeMarkdown(&text); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), "\n### Feeds\n"); got != c.feed {
				t.Errorf("the feed's part is there: %t", got)
			}
			if got := strings.Contains(text.String(), "| "+loadCurrent+", requests/s, weir / baseline | >= 25.0 | >= 50.0 | 45.0 |"); got != c.sequence {
				t.Errorf("the sequence's part is there: %t\n%s", got, text.String())
			}
			path := filepath.Join(t.TempDir(), "results.json")
			if err := c.report.writeJSON(path); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var back report
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			if (back.Sequence != nil) != c.sequence || (back.Samples != nil) != c.feed {
				t.Errorf("the JSON has the feed: %t, the sequence: %t", back.Samples != nil, back.Sequence != nil)
			}
		})
	}
}

func TestAnUnknownServiceIsRefused(t *testing.T) {
	b := bench{users: 1, rounds: 1, duration: 1e9, banditItems: 1000, services: []string{serviceFeed, "bandits"}, dir: t.TempDir()}
	if err := b.prepare(); err == nil || !strings.Contains(err.Error(), `got "bandits"`) {
		t.Errorf("error %v, want one with what is unknown", err)
	}
}

//go:build linux

package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This process, as if the bench had started it.
func own() *process {
	return &process{name: "own", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
}

func TestAProcessThatWorksUsesItsCPUAndItsCore(t *testing.T) {
	p := own()
	before, err := p.cpu()
	if err != nil {
		t.Fatal(err)
	}
	busy, err := coreBusy(0)
	if err != nil || busy <= 0 {
		t.Fatalf("a core was busy for %v, %v", busy, err)
	}
	for now := before; now < before+clockTick; { // by being asked
		if now, err = p.cpu(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := coreBusy(1 << 20); err == nil {
		t.Error("a core that is not there is no error")
	}
	p.cmd.Process.Pid = 1 << 30
	if _, err := p.cpu(); err == nil || !strings.Contains(err.Error(), "own is gone") {
		t.Errorf("a process that is not there: %v", err)
	}
}

func TestOwnMemoryIsAnonymousAndSharedPages(t *testing.T) {
	before, err := own().memory(nil)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pages) //nolint:errcheck // the test is over
	for i := range pages {
		pages[i] = 1
	}
	if after, err := own().memory(nil); err != nil || after < before+12<<20 {
		t.Errorf("16 MiB more are %d after %d bytes, %v", after, before, err)
	}
}

func TestResidentCountsPagesInTheCache(t *testing.T) {
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, make([]byte, 2*page+1), 0o644); err != nil {
		t.Fatal(err)
	}
	cached, size, err := resident(path)
	if err != nil || cached != int64(3*page) || size != int64(2*page+1) {
		t.Errorf("%d of %d bytes, %v; want 3 pages of 2 and a byte: they were just written",
			cached, size, err)
	}
	total, err := residentUnder(filepath.Dir(path))
	if err != nil || total != int64(3*page) {
		t.Errorf("the directory has %d bytes, %v", total, err)
	}
	hole := filepath.Join(t.TempDir(), "hole")
	if err := os.WriteFile(hole, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, int64(8*page)); err != nil {
		t.Fatal(err)
	}
	if cached, _, err := resident(hole); err != nil || cached != 0 {
		t.Errorf("a file that was never read has %d bytes in memory, %v", cached, err)
	}
}

func TestALoadWithFailedRequestsIsAnError(t *testing.T) {
	wrk, err := parseWrk(
		"noise\nsummary: {\"requests\":10,\"micros\":5000000,\"p99\":7,\"socket_errors\":0}\n")
	if err != nil || wrk.requests != 10 || wrk.served != 2 || wrk.p99 != 7 {
		t.Errorf("got %+v, %v", wrk, err)
	}
	for out, want := range map[string]string{
		"nothing":                                   "no summary",
		`summary: {"requests":0}`:                   "nothing was answered",
		`summary: {"requests":9,"not2xx":1}`:        "other than 2xx",
		`summary: {"requests":9,"socket_errors":1}`: "connections failed",
		`summary: {"requests":`:                     "not a summary",
	} {
		if _, err := parseWrk(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave the error %v, want one with %q", out, err, want)
		}
	}
}

func TestAResultWithRefusalsIsOneOfOverloadOnly(t *testing.T) {
	const text = `{"seconds":2,"requests":10,"served":7,"shed":2,"errors":1,"failures":{"cut":1},"rate":{"achieved":5,"served":3.5},` +
		`"latency_us":{"p50":100,"p99":900},"shed_latency_us":{"p99":50},"generator":{"cpu_us_per_request":6.5,"lag_p99_us":3},` +
		`"trace":[{"t":1,"p99":5,"measured":false},{"t":2,"p99":300,"measured":true},{"t":3,"p99":700,"measured":true},{"t":4,"p99":500,"measured":true}]}`
	if _, err := parseResult([]byte(text), false); err == nil ||
		!strings.Contains(err.Error(), "7 of 10 requests were served, 2 refused, failures map[cut:1]") {
		t.Errorf("error %v", err)
	}
	few := strings.NewReplacer(`"requests":10,"served":7,"shed":2,"errors":1`,
		`"requests":5000,"served":4995,"shed":5,"errors":0`).Replace(text)
	if l, err := parseResult([]byte(few), false); err != nil || l.failed != 5 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err := parseResult([]byte(text), true)
	if err != nil || l.requests != 9 || l.served != 3.5 || l.refused != 1 || l.p99 != 900 ||
		l.refusedP99 != 50 || l.lag != 3 || l.window != 500 {
		t.Errorf("%+v, %v", l, err)
	}
	for text, want := range map[string]string{
		`{"requests":0}`:              "nothing was served",
		`{"requests":10,"shed":10}`:   "nothing was served",
		`{"requests":10,"served":10}`: "what the requests cost",
		`{"requests":"many"}`:         "not a result",
	} {
		if _, err := parseResult([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}, {[]float64{7}, 7}} {
		before := slices.Clone(c.values)
		if got, ok := median(c.values); !ok || got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("median changed %v to %v", before, c.values)
		}
	}
	if _, ok := median(nil); ok {
		t.Error("nothing has a median")
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	var f figures
	f.put("feed", weir, cpu, 1, 6)
	f.put("feed", floor, cpu, 1, 5)
	f.put("feed", floor, cpu, 2, 10) // a noisy round moves both
	f.put("feed", weir, cpu, 2, 11)
	f.put("feed", weir, cpu, 3, 6) // the other one is missing
	f.put("load", floor, cpu, 3, 1)
	if got := f.ratios(key{"feed", weir, cpu}, key{"feed", floor, cpu}); !slices.Equal(got,
		[]float64{1.2, 1.1}) {
		t.Errorf("ratios are %v, want 1.2 and 1.1", got)
	}
}

func TestABarIsDecidedByTheMedian(t *testing.T) {
	for _, c := range []struct {
		name     string
		sense    string
		bar, aim float64
		values   []float64
		result   string
	}{
		{"at most, aim", atMost, 1.2, 1.1, []float64{1.1, 9, 1}, aimMet},
		{"at most, bar", atMost, 1.2, 1.1, []float64{1.2}, barMet},
		{"at most, missed", atMost, 1.2, 1.1, []float64{1.21}, missed},
		{"at least, aim", atLeast, 7, 12, []float64{12}, aimMet},
		{"at least, bar", atLeast, 7, 12, []float64{7}, barMet},
		{"at least, missed", atLeast, 7, 12, []float64{6.9}, missed},
		{"aim only", atMost, none, 10, []float64{11}, reported},
		{"nothing", atMost, 0, 0, nil, notMeasured},
	} {
		var f figures
		for i, v := range c.values {
			f.put("feed", weir, cpu, i+1, v)
		}
		j := f.decide(bar{"feed", c.name, key{"", weir, cpu}, key{}, "%.1f", c.sense, c.bar, c.aim, ""})
		if j.Result != c.result {
			t.Errorf("%s: %s, want %s", c.name, j.Result, c.result)
		}
	}
}

func TestEveryBarBelongsToAServiceAndIsReported(t *testing.T) {
	b := bench{service: "store", notes: map[string][]string{}}
	for _, s := range services() {
		b.services = append(b.services, s.name)
		if !slices.ContainsFunc(bars, func(b bar) bool { return b.service == s.name }) {
			t.Errorf("%s has no bar", s.name)
		}
	}
	b.put("feed", weir, cpu, 1, 6)
	b.put("feed", floor, cpu, 1, 5)
	b.put("feed", weir, "requests/s", 1, 123456)
	b.note("there is no redis-server")
	r := b.report(machine{})
	if len(r.Bars) != len(bars) {
		t.Errorf("%d of %d bars are of a service", len(r.Bars), len(bars))
	}
	var text strings.Builder
	if err := r.writeMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| CPU a request, weir / C floor | <= 1.18 | <= 1.10 | 1.20 | - | **missed** |",
		"| requests/s | 123456 | - |",
		"### Storm of connections", "- there is no redis-server", "this was a quick look",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
}

func TestBenchmarksAreReadByNameAndUnit(t *testing.T) {
	const out = `goos: linux
BenchmarkSample/avx512/arms-2     	 1000	      800 ns/op	         2.0 ns/sample	0 B/op
BenchmarkGonum/arms-2             	 1000	    14000 ns/op	        35.0 ns/sample
BenchmarkElse              	 1000	    7 ns/op
BenchmarkElse              	 1000	    9 ns/op
PASS
`
	got, err := parseBenchmarks(out, "ns/sample")
	want := map[string][]float64{"BenchmarkSample/avx512/arms": {2}, "BenchmarkGonum/arms": {35}}
	if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, _ := parseBenchmarks(out, "ns/op"); !slices.Equal(got["BenchmarkElse"], []float64{7, 9}) {
		t.Errorf("%v", got)
	}
	if samplerWay("BenchmarkSample/avx512/arms") != "avx512" || samplerWay("BenchmarkGonum/arms") != "gonum" {
		t.Error("ways are read wrongly")
	}
}

func TestGMPsTimesAreThoseOfTheWantedNumber(t *testing.T) {
	const out = `{"version":"6","digits":3,"value_ns":[1,2,9],"text_ns":[10,10,10]}`
	if both, value, err := parseGMP(out, 3); err != nil || both != 12 || value != 2 {
		t.Errorf("%v, %v, %v", both, value, err)
	}
	if _, _, err := parseGMP(out, 4); err == nil {
		t.Error("another number of digits is no error")
	}
}

func TestFollowingBeginsWhenTheRateIsRightAndStays(t *testing.T) {
	trace := func(ceilings ...float64) (trace []tracePoint) {
		for i, c := range ceilings {
			p := tracePoint{At: float64(i + 1)}
			if c > 0 {
				p.Ceiling = &c
			}
			trace = append(trace, p)
		}
		return trace
	}
	for name, test := range map[string]struct {
		trace []tracePoint
		want  float64
	}{
		"at once":        {trace(200, 200, 101, 99, 100, 100, 100), 0.5},
		"after a while":  {trace(200, 200, 200, 200, 0, 104, 100, 100, 100), 3.5},
		"after a doubt":  {trace(200, 200, 100, 100, 80, 100, 100, 100, 100), 3.5},
		"not to the end": {trace(200, 200, 200, 106, 94, 100), 3.5},
	} {
		if got := followedAfter(test.trace, 2.5, 100); got != test.want {
			t.Errorf("%s: followed after %v, want %v", name, got, test.want)
		}
	}
}

func TestTheRejectProbabilityIsThatOfTheClassLow(t *testing.T) {
	if p, err := parseProbability(`{"probability":{"normal":0,"low":0.4}}`); p != 0.4 ||
		err != nil {
		t.Errorf("%v, error %v", p, err)
	}
	if _, err := parseProbability(`{"probability":{"normal":1}}`); err == nil {
		t.Error("a status without the class low is no error")
	}
}

func TestAServerThatEndsBeforeItAnswersIsAnErrorWithItsWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	never := func() bool { return false }
	_, err := launch(t.Context(), serverCore, "broken",
		[]string{"sh", "-c", "echo no feeds here >&2; exit 3"}, never, log, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no feeds here") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want what it said and its status", err)
	}
}

func TestAPinnedProcessHasItsCoreAndThisOneKeepsIts(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mine := allowed(t, "/proc/thread-self/status")
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "grep Cpus_allowed_list /proc/self/status; nice")
	var out strings.Builder
	cmd.Stdout = &out
	if err := startPinned(cmd, serverCore); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	want := 20 - before
	if os.Geteuid() == 0 {
		want = measuredNice
	}
	_, got, _ := strings.Cut(out.String(), ":")
	if got := strings.Fields(got); !slices.Equal(got, []string{"0", strconv.Itoa(want)}) {
		t.Errorf("the process may run on, and is as nice as, %q; want 0 and %d", got, want)
	}
	if after, err := unix.Getpriority(unix.PRIO_PROCESS, 0); after != before || err != nil {
		t.Errorf("this thread is as nice as %d, before it was %d; %v", 20-after, 20-before, err)
	}
	if after := allowed(t, "/proc/thread-self/status"); after != mine {
		t.Errorf("this thread may run on %s, before it was %s", after, mine)
	}
}

func allowed(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

// A process with a handler for SIGTERM has to be woken to run it.
func TestASleepingProcessEndsOrderly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`trap "exit 7" TERM; echo ready; while :; do sleep 0.02; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: "sleeper", cmd: cmd, exited: make(chan struct{})}
	if err := startPinned(cmd, serverCore); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := p.sleep(); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("it ended with %v, want its own exit status 7", cmd.ProcessState)
	}
}

func TestASoakFailsWhenMemoryOrDescriptorsKeepGrowing(t *testing.T) {
	const start = 100 << 20
	steady := func() *growth {
		g := &growth{}
		for i := range int64(soakFilling) {
			if err := g.add(start+i<<20, 20); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	if err := steady().add(start+40<<20, 40); err != nil {
		t.Errorf("little growth is the error %v", err)
	}
	if err := steady().add(2*start, 20); err == nil || !strings.Contains(err.Error(), "memory grew") {
		t.Errorf("twice the memory is the error %v", err)
	}
	if err := steady().add(start, 80); err == nil || !strings.Contains(err.Error(), "descriptors grew") {
		t.Errorf("four times the descriptors are the error %v", err)
	}
}

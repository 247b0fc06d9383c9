//go:build linux

package main

import (
	"io"
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

func TestCPUTimeIsUserAndSystemWhateverTheCommandIsCalled(t *testing.T) {
	got, err := parseCPU("7 (a) b ) R 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0 5 0 100 200\n")
	if err != nil || got != 1500*time.Millisecond {
		t.Errorf("got %v, %v, want 1.5s", got, err)
	}
	if _, err := parseCPU("7 (a) R 1 2"); err == nil {
		t.Error("a short status is no error")
	}
}

func TestABusyCoreIsOneThatIsNotIdle(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 20 3 5000 700 4 5 6 50 0\ncpu1 1 1 1 1 1 1 1 1 1 1\nintr 5\n"
	got, err := parseBusy(stat, 0)
	if err != nil || got != 1380*time.Millisecond {
		t.Errorf("got %v, %v, want 1.38s", got, err)
	}
	if _, err := parseBusy(stat, 2); err == nil {
		t.Error("a core that is not there is no error")
	}
}

func TestOwnMemoryIsAnonymousAndSharedPages(t *testing.T) {
	got, err := parseOwn("VmRSS:\t  900 kB\nRssAnon:\t  12 kB\nRssFile:\t  800 kB\nRssShmem:\t  3 kB\n")
	if err != nil || got != 15<<10 {
		t.Errorf("got %d, %v, want 15 KiB", got, err)
	}
	if _, err := parseOwn("VmRSS:\t  900 kB\n"); err == nil {
		t.Error("a status without RssAnon is no error")
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
		t.Errorf("%d of %d bytes, %v; want 3 pages of 2 and a byte: they were just written", cached, size, err)
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

func TestASummaryWithFailedRequestsIsAnError(t *testing.T) {
	s, err := parseSummary("noise\nsummary: {\"requests\":10,\"micros\":5,\"p99\":7,\"also\":{\"requests\":2}}\n")
	if err != nil || s.Requests != 10 || s.P99 != 7 || s.Also.Requests != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	for out, want := range map[string]string{
		"nothing":                                   "no summary",
		`summary: {"requests":0}`:                   "nothing was answered",
		`summary: {"requests":9,"not2xx":1}`:        "other than 2xx",
		`summary: {"requests":9,"socket_errors":1}`: "connections failed",
		`summary: {"requests":9,"missing":1}`:       "never answered",
		`summary: {"requests":`:                     "not a summary",
	} {
		if _, err := parseSummary(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave the error %v, want one with %q", out, err, want)
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
	cpu := func(server string, round int, us float64) *sample {
		return &sample{Server: server, Round: round, Plain: &load{CPU: us}}
	}
	r := &report{Parameters: parameters{Rounds: 3}, Samples: []*sample{
		cpu("weir", 1, 6), cpu("floor", 1, 5),
		cpu("floor", 2, 10), cpu("weir", 2, 11), // a noisy round moves both
		cpu("weir", 3, 6), // the other one is missing
	}}
	if got := r.ratios("weir", "floor", plainCPU); !slices.Equal(got, []float64{1.2, 1.1}) {
		t.Errorf("ratios are %v, want 1.2 and 1.1", got)
	}
}

func TestABarIsDecidedByTheMedian(t *testing.T) {
	ptr := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name   string
		bar    bar
		result string
	}{
		{"at most, aim", bar{AtMost: true, Bar: ptr(1.2), Aim: ptr(1.1), Values: []float64{1.1, 9, 1}}, aimMet},
		{"at most, bar", bar{AtMost: true, Bar: ptr(1.2), Aim: ptr(1.1), Values: []float64{1.2}}, barMet},
		{"at most, missed", bar{AtMost: true, Bar: ptr(1.2), Aim: ptr(1.1), Values: []float64{1.21}}, missed},
		{"at least, aim", bar{Bar: ptr(7), Aim: ptr(12), Values: []float64{12}}, aimMet},
		{"at least, bar", bar{Bar: ptr(7), Aim: ptr(12), Values: []float64{7}}, barMet},
		{"at least, missed", bar{Bar: ptr(7), Aim: ptr(12), Values: []float64{6.9}}, missed},
		{"aim only", bar{AtMost: true, Aim: ptr(10), Values: []float64{11}}, reported},
		{"nothing", bar{AtMost: true, Bar: ptr(0), Aim: ptr(0)}, notMeasured},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bar.decide(); c.bar.Result != c.result {
				t.Errorf("%s, want %s", c.bar.Result, c.result)
			}
		})
	}
}

func TestAllocationsAreZeroOnlyIfTheFastLaneHasTestsAndAllPass(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      []float64
	}{
		{"passed", "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tweir/internal/server\t0.1s\n", []float64{0}},
		{"cached", "--- PASS: TestA (0.00s)\nPASS\nok  \tweir/internal/server\t(cached)\n", []float64{0}},
		{"failed", "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\tweir/internal/server\t0.1s\nFAIL\n", []float64{1}},
		{"skipped", "--- SKIP: TestA (0.00s)\nPASS\nok  \tweir/internal/server\t0.1s\n", []float64{1}},
		{"another package's", "--- PASS: TestA (0.00s)\nPASS\nok  \tweir/internal/metrics\t0.1s\n", nil},
		{"none", "PASS\nok  \tweir/internal/server\t0.1s [no tests to run]\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(c.log), 0o644); err != nil {
				t.Fatal(err)
			}
			a, err := readAllocations(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.perRequest(fastLane); !slices.Equal(got, c.want) {
				t.Errorf("%v a request, want %v: %+v", got, c.want, a)
			}
		})
	}
}

func TestAServerThatEndsBeforeItAnswersIsAnErrorWithItsWords(t *testing.T) {
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	_, err = launch(t.Context(), "broken", []string{"sh", "-c", "echo no feeds here >&2; exit 3"}, addr, "/", log, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no feeds here") || !strings.Contains(err.Error(), "exit status 3") {
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
	want := measuredNice
	if mayBeNice(measuredNice) != nil { // without root
		want = 20 - before
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
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "exit 7" TERM; echo ready; while :; do sleep 0.02; done`)
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

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"weir/internal/admin"
	"weir/internal/feed/snapshot"
	"weir/internal/server"
	"weir/internal/systest"
)

// lists is everybody's list, by user.
type lists map[uint64][]uint64

// numbered returns lists of users 0 to n-1 whose items are all different.
func numbered(users, items int) lists {
	l := make(lists, users)
	for u := range uint64(users) {
		for i := range items {
			l[u] = append(l[u], u*uint64(items)+uint64(i)+1)
		}
	}
	return l
}

// write puts lists at path as a snapshot, by a rename.
func (l lists) write(t testing.TB, path string, fallback ...uint64) {
	t.Helper()
	o := snapshot.Options{UserCount: uint64(len(l)), Fallback: -1, Fallbacks: fallback}
	for user, items := range l {
		o.MaxUser = max(o.MaxUser, user)
		for _, item := range items {
			o.MaxItem = max(o.MaxItem, item)
		}
	}
	for _, item := range fallback {
		o.MaxItem = max(o.MaxItem, item)
	}
	w, err := snapshot.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, user := range slices.Sorted(maps.Keys(l)) {
		if err := w.AddNumber(user, l[user]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// ports is where a server listens: in this process or in one of its own.
type ports struct {
	t                  testing.TB
	public, tls, admin string // host:port
}

// client is for all tests; nothing takes a minute.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}

// ask sends a request and returns status and body.
func ask(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (p *ports) get(path string) (int, string) {
	p.t.Helper()
	return ask(p.t, http.MethodGet, "http://"+p.public+path, "")
}

// want checks the answer to a GET of the public port.
func (p *ports) want(path string, status int, says ...string) {
	p.t.Helper()
	got, body := p.get(path)
	wantSays(p.t, "GET "+path, body, says...)
	if got != status {
		p.t.Errorf("GET %s: %d %s, want %d", path, got, body, status)
	}
}

func wantSays(t testing.TB, what, text string, says ...string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%s says %q, want it to say %q", what, text, s)
		}
	}
}

// metric returns the value of a metric, summed over its labels; ok is false when there is none.
func (p *ports) metric(name string) (sum float64, ok bool) {
	p.t.Helper()
	status, text := ask(p.t, http.MethodGet, "http://"+p.admin+"/metrics", "")
	if status != http.StatusOK {
		p.t.Fatalf("/metrics: %d %s", status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		p.t.Fatalf("/metrics: %v", err)
	}
	f := families[name]
	for _, m := range f.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
			float64(m.GetHistogram().GetSampleCount())
	}
	return sum, f != nil
}

func (p *ports) reaches(name string, value float64) {
	p.t.Helper()
	systest.Eventually(p.t, fmt.Sprintf("%s at %v", name, value), func() bool {
		now, _ := p.metric(name)
		return now == value
	})
}

// position returns a user's position.
func (p *ports) position(user uint64) int {
	p.t.Helper()
	status, body := p.get(fmt.Sprintf("/feed/%d/position", user))
	var answer struct{ Position int }
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil {
		p.t.Fatalf("position of user %d: %d %s", user, status, body)
	}
	return answer.Position
}

// items reads a plain answer.
func items(t testing.TB, body string) (all []uint64) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return all
}

// openServer is weir serve up to listening, in this process; the arguments are flags of services.
// The caller runs it, or closes it.
func openServer(t testing.TB, cfg server.Config, dataDir string, args ...string) (*app, error) {
	t.Helper()
	return openGuarded(t, cfg, nil, dataDir, args...)
}

// openGuarded is openServer with what says who may use the admin port.
func openGuarded(t testing.TB, cfg server.Config, access *admin.Access, dataDir string, args ...string) (*app,
	error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	services := newServices()
	for _, s := range services {
		s.AddFlags(flags)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	if cfg.TLS != nil {
		cfg.TLSListen = "127.0.0.1:0"
	}
	cfg.Loops, cfg.Workers = 2, 1
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	on, off, err := checkServices(cfg.Log, services)
	if err != nil {
		return nil, err
	}
	return openApp(context.Background(), cfg, access, dataDir, on, off...)
}

// serveHere runs a server in this process until the test ends.
func serveHere(t testing.TB, cfg server.Config, dataDir string, args ...string) *ports {
	t.Helper()
	a, err := openServer(t, cfg, dataDir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return serveApp(t, a)
}

// serveApp runs a server that was opened until the test ends.
func serveApp(t testing.TB, a *app) *ports {
	t.Helper()
	p := &ports{t: t, public: a.Addr().String(), admin: a.AdminAddr().String()}
	if a.TLSAddr() != nil {
		p.tls = a.TLSAddr().String()
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

// process is weir in a process of its own.
type process struct {
	ports
	cmd  *exec.Cmd
	logs *logs
	done chan struct{} // closed when it has ended
}

// logs is what a process writes, line by line.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// start starts weir serve with further flags, and waits until it serves.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	return startCommand(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
}

// startCommand starts weir with a command that serves, and its flags.
func startCommand(t testing.TB, args []string) *process {
	t.Helper()
	p := &process{ports: ports{t: t}, logs: new(logs), done: make(chan struct{})}
	p.cmd = exec.Command("weir", append(args, "--admin", "127.0.0.1:0", "--log-format", "json",
		"--loops", "2")...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := systest.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	serving := make(chan struct{})
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ Msg, Listen, TLS, Admin string }
			// What is no JSON shows up in the tests of the log.
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "weir is serving" {
				// What listens on all addresses is asked at this one.
				p.public, p.tls, p.admin = strings.Replace(line.Listen, "[::]", "127.0.0.1", 1), line.TLS,
					line.Admin
				close(serving)
			}
			p.logs.add(lines.Text())
		}
		p.cmd.Wait() //nolint:errcheck // looked at in ProcessState
	}()
	select {
	case <-serving:
	case <-p.done:
		t.Fatalf("weir did not start: %v\n%s", p.cmd.ProcessState, p.logs)
	case <-time.After(30 * time.Second):
		t.Fatalf("weir does not come to serve:\n%s", p.logs)
	}
	return p
}

// kill ends the process at once and looks whether it has complained.
func (p *process) kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-p.done
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "BUG:"} {
		if strings.Contains(p.logs.String(), bad) {
			p.t.Errorf("the log holds %q:\n%s", bad, p.logs)
		}
	}
}

// wait waits for the process to end by itself and checks its exit code.
func (p *process) wait(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("weir does not end:\n%s", p.logs)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("weir ended with %v, want code %d:\n%s", p.cmd.ProcessState, code, p.logs)
	}
}

// fails runs weir serve, which must end by itself with code 1 and say all of these.
func fails(t testing.TB, args []string, says ...string) {
	t.Helper()
	ends(t, 1, args, says...)
}

// ends is fails with a code.
func ends(t testing.TB, code int, args []string, says ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, "weir",
		append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("weir serve %v: %v, want exit code %d\n%s", args, err, code, &stderr)
	}
	wantSays(t, fmt.Sprintf("weir serve %v", args), stderr.String(), says...)
}

// feeder is one client on one connection that asks as one user and keeps the books.
type feeder struct {
	conn *http.Transport
	http *http.Client
}

func newFeeder() *feeder {
	conn := &http.Transport{MaxConnsPerHost: 1}
	return &feeder{conn, &http.Client{Transport: conn, Timeout: time.Minute}}
}

func (f *feeder) close() { f.conn.CloseIdleConnections() }

// next asks for a user's next items. The error is the connection's.
func (f *feeder) next(public string, user uint64, size int) (status int, body string, err error) {
	resp, err := f.http.Post("http://"+public+"/feed/"+strconv.FormatUint(user, 10)+"?size="+
		strconv.Itoa(size), "", nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestWithoutListsAFeedSaysWhichFlagLoadsThem(t *testing.T) {
	p := serveHere(t, server.Config{}, t.TempDir())
	if status, body := p.get("/feed/1"); status != http.StatusNotFound ||
		!strings.Contains(body, "no lists are loaded") || !strings.Contains(body, "--feeds FILE") {
		t.Errorf("%d %s", status, body)
	}
}

func TestDurationsInLogsAreNumbersNamedWithTheirUnit(t *testing.T) {
	for format, want := range map[string]string{"text": " took_seconds=1.5\n",
		"json": `,"took_seconds":1.5}` + "\n"} {
		var said strings.Builder
		newLog(&said, format, slog.LevelInfo).Info("done", "took", 1500*time.Millisecond)
		if !strings.HasSuffix(said.String(), want) {
			t.Errorf("%s: %q", format, said.String())
		}
	}
}

// Package feasttest runs the real Feast and the real Redis for tests, as processes that end with the test
// binary: one project whose online store is SQLite, with Feast's feature server in front of it, and one
// whose online store is Redis. Both hold what fill.py writes.
//
// It looks for them where make test-deps puts them: build/venv under the module's root, and the PATH. Where
// they are absent, a test is skipped and says what to run; in continuous integration (CI=true) it fails.
package feasttest

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/systest"
)

//go:embed fill.py
var fill string

// Project is the name of both projects.
const Project = "weir"

// patience is how long anything may take to start. A laden machine needs some of it.
const patience = 3 * time.Minute

// Feast is both projects, running.
type Feast struct {
	Server string // host:port of the feature server, over SQLite
	Redis  *Redis // what is behind the other one

	dir    string
	server *process
}

// Shared starts Feast for the first test that asks, and stops it in Main.
func Shared(t testing.TB) *Feast {
	t.Helper()
	systest.LongRun(t, "Feast")
	f, err := shared()
	Need(t, err)
	return f
}

var shared = sync.OnceValues(start)

// Main runs the tests of a package and then stops what Shared started.
func Main(m *testing.M) int {
	code := m.Run()
	running.Lock()
	defer running.Unlock()
	for _, f := range running.all {
		if err := f.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

var running struct {
	sync.Mutex
	all []*Feast
}

// absent is an error that says what is not installed.
type absent struct{ error }

// Need ends the test if err is not nil: as skipped if something is not installed, except in continuous
// integration, and as failed else.
func Need(t testing.TB, err error) {
	t.Helper()
	var a absent
	switch {
	case err == nil:
	case errors.As(err, &a) && (testing.Short() || os.Getenv("CI") == ""):
		t.Skipf("%v: run make test-deps", err)
	default:
		t.Fatal(err)
	}
}

// Python returns a Python that has the packages of scripts/requirements.txt, and whether it has a module.
func Python(module string) (string, error) {
	if testing.Short() {
		return "", absent{errors.New("make check leaves out what takes Python")}
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	python := filepath.Join(root, "build", "venv", "bin", "python3")
	found, _ := filepath.Glob(filepath.Join(root, "build", "venv", "lib", "python3*",
		"site-packages", module))
	if _, err := os.Stat(python); err != nil || len(found) == 0 {
		return "", absent{fmt.Errorf("no Python with %s in build/venv", module)}
	}
	return python, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the test")
		}
		dir = parent
	}
}

func start() (f *Feast, err error) {
	python, err := Python("feast")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-feast-")
	if err != nil {
		return nil, err
	}
	f = &Feast{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	if f.Redis, err = NewRedis(filepath.Join(dir, "redis")); err != nil {
		return nil, err
	}
	served, inRedis := filepath.Join(dir, "served"), filepath.Join(dir, "inredis")
	for repo, store := range map[string]string{
		served:  "{type: sqlite, path: online.db}",
		inRedis: fmt.Sprintf("{type: redis, connection_string: %q}", f.Redis.Addr),
	} {
		config := fmt.Sprintf("project: %s\nregistry: registry.db\nprovider: local\nonline_store: %s\n"+
			"entity_key_serialization_version: 3\n", Project, store)
		if err := errors.Join(os.Mkdir(repo, 0o755), os.WriteFile(filepath.Join(repo, "feature_store.yaml"),
			[]byte(config), 0o644)); err != nil {
			return nil, err
		}
	}
	script := filepath.Join(dir, "fill.py")
	if err := os.WriteFile(script, []byte(fill), 0o644); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script, served, inRedis)
	cmd.Env = quiet(dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fill.py: %w\n%s", err, out)
	}
	running.Lock()
	running.all = append(running.all, f)
	running.Unlock()
	err = onFreePort(func(port string) error {
		f.Server = "127.0.0.1:" + port
		f.server, err = launch(ctx, served, quiet(dir), func() bool { return healthy(f.Server) },
			filepath.Join(filepath.Dir(python), "feast"), "serve", "--host", "127.0.0.1", "--port", port,
			"--no-access-log")
		return err
	})
	return f, err
}

// quiet is an environment in which Feast neither reports on its users nor writes into their homes.
func quiet(home string) []string {
	return append(os.Environ(), "FEAST_TELEMETRY=False", "HOME="+home)
}

func healthy(addr string) bool {
	client := http.Client{Timeout: time.Second}
	res, err := client.Get("http://" + addr + "/health")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func (f *Feast) stop() error {
	var err error
	if f.server != nil {
		err = f.server.stop()
	}
	if f.Redis != nil {
		err = errors.Join(err, f.Redis.Stop())
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// Redis is a redis-server of the test's own.
type Redis struct {
	Addr string

	dir  string
	port string // the argument that says on which port it listens
	args []string
	p    *process
}

// NewRedis starts a Redis that keeps nothing, in a directory that it makes. args are more of redis-server's
// arguments.
func NewRedis(dir string, args ...string) (*Redis, error) {
	return newRedis(&Redis{dir: dir, port: "--port", args: args})
}

// NewEncryptedRedis is NewRedis for one that speaks TLS, with a certificate and its key in PEM files.
func NewEncryptedRedis(dir, cert, key string, args ...string) (*Redis, error) {
	args = append([]string{"--port", "0", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no"}, args...)
	return newRedis(&Redis{dir: dir, port: "--tls-port", args: args})
}

func newRedis(r *Redis) (*Redis, error) {
	if testing.Short() {
		return nil, absent{errors.New("make check leaves out what takes Redis")}
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, absent{errors.New("no redis-server")}
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	return r, onFreePort(func(port string) error {
		r.Addr = "127.0.0.1:" + port
		return r.Start()
	})
}

// Start starts a stopped one at the address that it had.
func (r *Redis) Start() error {
	_, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	args := []string{r.port, port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.p, err = launch(ctx, r.dir, os.Environ(), func() bool { return listens(r.Addr) }, "redis-server",
		append(args, r.args...)...)
	return err
}

// Stop ends it.
func (r *Redis) Stop() error {
	if r.p == nil {
		return nil
	}
	p := r.p
	r.p = nil
	return p.stop()
}

// Signal sends it a signal.
func (r *Redis) Signal(s os.Signal) error { return r.p.cmd.Process.Signal(s) }

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// onFreePort gives start a port that nobody listens on. Another process may be quicker to take it, so a start
// that fails is tried again with another one.
func onFreePort(start func(port string) error) error {
	var err error
	for range 3 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if err = l.Close(); err != nil {
			return err
		}
		if err = start(port); err == nil {
			return nil
		}
	}
	return err
}

// process is one that runs beside the test.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	output *tail
}

// launch starts a program and waits until it is ready.
func launch(ctx context.Context, dir string, env []string, ready func() bool, name string,
	args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), ended: make(chan struct{}), output: &tail{}}
	p.cmd.Dir, p.cmd.Env = dir, env
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = 10 * time.Second
	if err := systest.Start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.cmd.Wait() // how it ended is in its output
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.ended:
			return nil, fmt.Errorf("%s ended: %v\n%s", name, p.cmd.ProcessState, p.output)
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s is not ready after %v\n%s", name, patience, p.output),
				p.stop())
		}
	}
	return p, nil
}

// stop asks it to end, and makes it end if it does not.
func (p *process) stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s had to be killed\n%s", p.cmd.Path, p.output)
	}
}

// tail keeps the last lines of a program's output.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := bufio.NewScanner(strings.NewReader(string(b))); s.Scan(); {
		t.lines = append(t.lines, s.Text())
	}
	t.lines = t.lines[max(0, len(t.lines)-40):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

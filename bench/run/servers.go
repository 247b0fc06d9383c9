//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Subjects of figures.
const (
	floor    = "floor"
	baseline = "baseline"
	weir     = "weir"
	nethttp  = "nethttp"
	nginx    = "nginx"
	gmp      = "GMP"
	feast    = "Feast"
	wrk      = "wrk"
	weirLoad = "weir load"
	fastest  = "weir's fastest"
)

// server says how one is started.
type server struct {
	name string
	// command is a command line in which {addr}, {port}, {admin} and {data} stand for what they are called.
	command string
	path    string // answers 200 once the server is ready
	core    int
	before  []string // what stands before the command
	// keepData leaves the data directory as an earlier run left it.
	keepData bool
	addr     string        // a free one if it is empty
	patience time.Duration // a minute if it is 0
}

// weirServes is a weir on one loop, with more flags.
func weirServes(flags ...string) server {
	command := "bin/weir serve --listen {addr} --admin {admin} --data {data} --loops 1 " +
		strings.Join(flags, " ")
	return server{name: weir, command: command, path: "/health"}
}

// start launches a server on free ports, with positions of its own and a log in the directory of the run.
func (b *bench) start(ctx context.Context, s server) (*process, error) {
	addr := s.addr
	if addr == "" {
		var err error
		if addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	data := b.path("data", s.name)
	if !s.keepData {
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	words := strings.NewReplacer("{addr}", addr, "{port}", port, "{admin}", admin, "{data}",
		data, "{none}", "")
	argv := append([]string{}, s.before...)
	for _, word := range strings.Fields(s.command) {
		argv = append(argv, words.Replace(word))
	}
	if s.patience == 0 {
		s.patience = time.Minute
	}
	there := func() bool { return answers(addr, s.path) }
	if s.path == "" {
		there = func() bool { return accepts(addr) }
	}
	p, err := launch(ctx, s.core, s.name, argv, there, b.path("logs", s.name+".log"), s.patience)
	if err != nil {
		return nil, err
	}
	p.addr, p.admin, p.data = addr, admin, data
	return p, nil
}

// during starts a server, calls do once it is idle, and stops it.
func (b *bench) during(ctx context.Context, s server, do func(*process) error) (err error) {
	p, err := b.start(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	if err := p.settle(ctx); err != nil {
		return err
	}
	return do(p)
}

// sleeper is a server that is slow to start, and sleeps between its turns.
type sleeper struct {
	server
	first func(*process) error // once it has started
	p     *process
}

// turn calls do with the server, idle.
func (s *sleeper) turn(ctx context.Context, b *bench, do func(*process) error) (err error) {
	if s.p != nil {
		err = s.p.wake()
	} else if s.p, err = b.start(ctx, s.server); err == nil && s.first != nil {
		err = s.first(s.p)
	}
	if err != nil {
		return err
	}
	if err := s.p.settle(ctx); err != nil {
		return err
	}
	if err := do(s.p); err != nil {
		return err
	}
	return s.p.sleep()
}

func (s *sleeper) stop() {
	if s.p != nil {
		s.p.stop() //nolint:errcheck // it is no longer wanted
	}
}

// lists returns the file of a number of users' lists, which it makes once: the same seed makes the same file.
func (b *bench) lists(ctx context.Context, users int) (string, error) {
	path := b.path(fmt.Sprintf("lists-%dx%d.weir", users, b.items))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.CommandContext(ctx, "bin/weir", "generate", "--users", strconv.Itoa(users),
		"--items", strconv.Itoa(b.items), "--max-item", strconv.Itoa(b.maxItem), "--seed", "1", "-o", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return path, nil
}

// nginxServes answers the floor's body from one process without a log.
func (b *bench) nginxServes() (server, error) {
	dir, err := filepath.Abs(b.path("nginx"))
	if err != nil {
		return server{}, err
	}
	return b.nginxWith(dir, fmt.Sprintf(`default_type application/json; return 200 "[%s]";`,
		strings.Repeat("1", 79)))
}

// nginxWith is an nginx of one process without a log, whose files are in dir.
func (b *bench) nginxWith(dir, location string) (server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return server{}, err
	}
	addr, err := freeAddr()
	if err != nil {
		return server{}, err
	}
	config := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
	uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server {
		listen %[2]s;
		location / { %[3]s }
	}
}
`, dir, addr, location)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return server{}, err
	}
	return server{name: nginx, command: "nginx -c " + path, path: "/", addr: addr}, nil
}

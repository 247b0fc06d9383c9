//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is one of those that take turns.
type server struct {
	name string
	// argv is the command line that serves on addr; admin is one more free address.
	argv func(addr, admin string) ([]string, error)
	// kept servers start once and sleep between their turns.
	kept bool
	// feeds and data are weir's files, empty for the others.
	feeds, data string
}

const (
	nameFloor    = "floor"
	nameBaseline = "baseline"
	nameWeir     = "weir"
	nameNetHTTP  = "nethttp"
	nameNginx    = "nginx"
)

func names() []string {
	return []string{nameFloor, nameBaseline, nameWeir, nameNetHTTP, nameNginx}
}

// servers returns those that were asked for. Without being asked for by name, nginx is left out
// where it is not installed.
func (b *bench) servers() ([]*server, error) {
	asked := b.only
	if len(asked) == 0 {
		asked = names()
		if _, err := exec.LookPath("nginx"); err != nil {
			asked = slices.DeleteFunc(asked, func(s string) bool { return s == nameNginx })
		}
	}
	var servers []*server
	for _, name := range asked {
		s := &server{name: name}
		switch name {
		case nameFloor:
			s.argv = func(addr, _ string) ([]string, error) {
				return []string{"build/bin/floor", "--port", addr[strings.LastIndexByte(addr, ':')+1:]}, nil
			}
		case nameBaseline:
			s.kept = true
			s.argv = func(addr, _ string) ([]string, error) {
				return []string{
					"build/bin/baseline", "--listen", addr, "--users", strconv.Itoa(b.users),
					"--items", strconv.Itoa(b.items), "--max-item", strconv.Itoa(b.maxItem),
				}, nil
			}
		case nameWeir:
			s.feeds = filepath.Join(b.dir, fmt.Sprintf("feeds-%dx%d.weir", b.users, b.items))
			s.data = filepath.Join(b.dir, "data")
			s.argv = func(addr, admin string) ([]string, error) {
				return []string{
					"bin/weir", "serve", "--feeds", s.feeds, "--data", s.data,
					"--listen", addr, "--admin", admin, "--loops", "1",
				}, nil
			}
		case nameNetHTTP:
			s.argv = func(addr, _ string) ([]string, error) {
				return []string{"build/bin/nethttp", "--listen", addr}, nil
			}
		case nameNginx:
			s.argv = b.nginx
		default:
			return nil, fmt.Errorf("no server is called %q; there are %s", name, strings.Join(names(), ", "))
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// nginx answers the floor's body with a return, in one process and without a log.
func (b *bench) nginx(addr, _ string) ([]string, error) {
	dir, err := filepath.Abs(filepath.Join(b.dir, "nginx"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
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
	default_type application/json;
	server {
		listen %[2]s;
		location / { return 200 "[%[3]s]"; }
	}
}
`, dir, addr, strings.Repeat("1", 79))
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return nil, err
	}
	return []string{"nginx", "-c", path}, nil
}

// start launches s. A fresh server finds no positions of an earlier one.
func (b *bench) start(ctx context.Context, s *server, fresh bool) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if s.data != "" {
		if fresh {
			if err := os.RemoveAll(s.data); err != nil {
				return nil, err
			}
		}
		if err := os.MkdirAll(s.data, 0o755); err != nil {
			return nil, err
		}
		if err := b.generate(ctx, s.feeds, b.users); err != nil {
			return nil, err
		}
	}
	argv, err := s.argv(addr, admin)
	if err != nil {
		return nil, err
	}
	// The baseline makes up some 30,000 lists a second and more.
	patience := time.Minute + time.Duration(b.users)*50*time.Microsecond
	return launch(ctx, s.name, argv, addr, "/feed/0", filepath.Join(b.dir, "logs", s.name+".log"), patience)
}

// generate makes the feeds once. The name says their shape, and the same seed makes the same file.
func (b *bench) generate(ctx context.Context, path string, users int) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "bin/weir", "generate", "--users", strconv.Itoa(users),
		"--items", strconv.Itoa(b.items), "--max-item", strconv.Itoa(b.maxItem), "--seed", "1", "-o", path)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

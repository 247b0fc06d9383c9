// Command localcluster runs on this machine what deploy/compose.yaml runs in containers: an engine of shards
// with replicas, nodes of weir that share it, and nginx in front of them where it is installed. It prints
// where all are, and ends them when it is interrupted. make cluster runs it.
//
// With --nodes 0 there is the engine alone, for programs that want one: the first line of output is its
// address as --cluster takes it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// patience is how long anything may take to start.
const patience = time.Minute

// settings are the command line.
type settings struct {
	engine      clustertest.Options
	nodes       int
	dir         string
	weir, feeds string
	nginx       string // the file of which the balancer's configuration is made
	listen      string
}

func main() {
	var s settings
	flag.StringVar((*string)(&s.engine.Server), "server", "redis", "the engine: redis or valkey")
	flag.IntVar(&s.engine.Shards, "shards", 3, "shards of the engine")
	flag.IntVar(&s.engine.Replicas, "replicas", 1, "replicas of each shard")
	flag.DurationVar(&s.engine.NodeTimeout, "node-timeout", time.Second,
		"after which a primary that does not answer is replaced")
	flag.IntVar(&s.nodes, "nodes", 3, "nodes of weir")
	flag.StringVar(&s.dir, "dir", "build/cluster", "directory of all files, which is emptied first")
	flag.StringVar(&s.weir, "weir", "bin/weir", "the program")
	flag.StringVar(&s.feeds, "feeds", "build/demo/feeds.weir", "what the nodes serve")
	flag.StringVar(&s.nginx, "nginx", "deploy/nginx.conf", "the balancer's configuration")
	flag.StringVar(&s.listen, "listen", "127.0.0.1:8080",
		"address of the balancer; nodes have the ports after it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

// run starts everything, waits until ctx ends or one of the processes does, and ends the others.
func run(ctx context.Context, s settings) (err error) {
	if err := empty(s.dir); err != nil {
		return err
	}
	c, err := clustertest.Run(filepath.Join(s.dir, "engine"), s.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	engine := "valkey://" + strings.Join(c.Addrs(), ",")
	fmt.Println(engine)

	group := processes{dir: s.dir}
	group.ctx, group.end = context.WithCancelCause(ctx)
	defer group.all.Wait()
	defer group.end(nil)
	var addrs []string
	for i := range s.nodes {
		serves, admin, err := after(s.listen, i)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("weir%d", i+1)
		err = group.start(name, s.weir, "serve", "--listen", serves, "--admin", admin,
			"--data", filepath.Join(s.dir, name), "--feeds", s.feeds, "--cluster", engine,
			"--cluster-replicas", fmt.Sprint(s.engine.Replicas),
			// Nobody starts an engine's node again.
			"--cluster-restart-delay", "1h")
		if err != nil {
			return err
		}
		addrs = append(addrs, serves)
		fmt.Printf("%s: http://%s/feed/1?size=10, dashboard http://%s/\n", name, serves, admin)
	}
	for _, addr := range addrs {
		err = cmp.Or(err, group.await(addr))
	}
	if err == nil && len(addrs) > 0 {
		err = s.balance(&group, addrs)
		fmt.Printf("logs are in %s; Ctrl-C ends all\n", s.dir)
	}
	if err == nil {
		<-group.ctx.Done()
		err = context.Cause(group.ctx)
	}
	// Ctrl-C reaches all processes of a terminal, so that another may end before this one hears of it.
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(time.Second):
		return err
	}
}

// balance starts nginx in front of nodes, where it is installed.
func (s settings) balance(group *processes, addrs []string) error {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		fmt.Println("nginx is not installed: nothing balances the load")
		return nil
	}
	site, err := os.ReadFile(s.nginx)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(s.dir, "nginx"))
	if err != nil {
		return err
	}
	conf := configuration(string(site), s.listen, addrs)
	file := filepath.Join(dir, "conf")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, []byte(conf), 0o644)); err != nil {
		return err
	}
	if err := group.start("nginx", nginx, "-p", dir, "-c", file); err != nil {
		return err
	}
	if err := group.await(s.listen); err != nil {
		return err
	}
	fmt.Printf("nginx: http://%s/feed/1?size=10\n", s.listen)
	return nil
}

// configuration puts the addresses of this machine into the site of the compose file, and that into a whole
// configuration which a user without rights can run.
func configuration(site, listen string, addrs []string) string {
	var servers strings.Builder
	upstream, rest, _ := strings.Cut(site, "    keepalive")
	head, _, _ := strings.Cut(upstream, "    server ")
	for _, addr := range addrs {
		fmt.Fprintf(&servers, "    server %s max_fails=1 fail_timeout=2s;\n", addr)
	}
	site = head + servers.String() + "    keepalive" + rest
	site = strings.Replace(site, "listen 8080;", "listen "+listen+";", 1)
	return `daemon off;
pid pid;
error_log stderr;
worker_processes 2;
events { worker_connections 4096; }
http {
access_log off;
client_body_temp_path body;
proxy_temp_path proxy;
fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi;
scgi_temp_path scgi;
` + site + "}\n"
}

// after returns the addresses of a node: ports after that of the balancer, two each.
func after(listen string, node int) (serves, admin string, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", "", err
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return "", "", err
	}
	at := func(p int) string { return net.JoinHostPort(host, fmt.Sprint(p)) }
	return at(port + 1 + 2*node), at(port + 2 + 2*node), nil
}

// empty removes what an earlier run has left in its directory, and nothing else.
func empty(dir string) error {
	mark := filepath.Join(dir, ".localcluster")
	if _, err := os.Stat(mark); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		return errors.Join(err,
			fmt.Errorf("%s is not empty, and no earlier run's: remove it or say another --dir", dir))
	}
	return os.WriteFile(mark, nil, 0o644)
}

// processes are what was started: all end when ctx does, and that when one of them has ended.
type processes struct {
	dir string // of their output
	ctx context.Context
	end context.CancelCauseFunc
	all sync.WaitGroup
}

// start starts a program whose output goes into a file.
func (p *processes) start(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	cmd := exec.CommandContext(p.ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 10*time.Second
	if err := systest.Start(cmd); err != nil {
		return err
	}
	p.all.Go(func() {
		err := cmd.Wait()
		said, _ := os.ReadFile(log.Name())
		p.end(fmt.Errorf("%s has ended (%v), and said:\n%s", name, err, said[max(0, len(said)-2000):]))
	})
	return nil
}

// await waits until an address answers that all is well.
func (p *processes) await(address string) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		if resp, err := http.Get("http://" + address + "/health"); err == nil {
			resp.Body.Close() //nolint:errcheck // nothing was read
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", address, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

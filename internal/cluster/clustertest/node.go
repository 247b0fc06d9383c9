package clustertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"weir/internal/systest"
)

// Node is one server. Its methods are for any number of goroutines.
type Node struct {
	ID    string // in the cluster
	Shard int    // that it was started for: its primary is in the same one

	c                       *Cluster
	binary, dir, source     string
	port, bus               int // that it listens on
	announced, announcedBus int // that others know of

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// Addr is where clients find the node.
func (n *Node) Addr() string { return loopback(n.announced) }

// PID returns the id of the node's process.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process.Pid
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Start starts the node's process, on what the one before has left behind, and returns when it answers. It
// may still be loading its file then.
func (n *Node) Start() error {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	port, announce := "--port", "--cluster-announce-port"
	if n.c.Options.TLS {
		port, announce = "--tls-port", "--cluster-announce-tls-port"
	}
	args := []string{
		port, strconv.Itoa(n.port), "--cluster-port", strconv.Itoa(n.bus),
		"--bind", "127.0.0.1", "--dir", n.dir, "--logfile", "log", "--daemonize", "no",
		"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-node-timeout", strconv.FormatInt(n.c.Options.NodeTimeout.Milliseconds(), 10),
		announce, strconv.Itoa(n.announced),
		"--cluster-announce-bus-port", strconv.Itoa(n.announcedBus),
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "32mb",
		"--enable-debug-command", "local",
	}
	if f := n.c.Certificates; f != nil {
		args = append(args, "--port", "0", "--tls-cluster", "yes", "--tls-replication", "yes",
			"--tls-ca-cert-file", f.CA, "--tls-cert-file", f.Cert, "--tls-key-file", f.Key)
	}
	if n.c.Options.Proxies {
		args = append(args, "--bind-source-addr", n.source)
	}
	args = append(args, strings.Fields(n.c.Options.Config)...)
	n.mu.Lock()
	n.cmd, n.ended = exec.Command(n.binary, args...), make(chan struct{})
	var said bytes.Buffer
	n.cmd.Stdout, n.cmd.Stderr = &said, &said
	err := systest.Start(n.cmd)
	cmd, ended := n.cmd, n.ended
	n.mu.Unlock()
	if err != nil {
		close(ended)
		return err
	}
	go func() {
		cmd.Wait() //nolint:errcheck // says it was killed, as it should
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return await(ctx, "an answer of a node", func() (bool, error) {
		select {
		case <-ended:
			cancel()
			log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
			return false, fmt.Errorf("%s ended by itself: %s%s", n.binary, said.String(), log)
		default:
		}
		_, err := n.Do(ctx, "CLUSTER", "INFO")
		return err == nil, err
	})
}

// Kill ends the process with SIGKILL and waits for its end.
func (n *Node) Kill() error {
	n.mu.Lock()
	cmd, ended := n.cmd, n.ended
	n.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-ended
	return nil
}

// Stall stops the process where it is, until Resume.
func (n *Node) Stall() error { return exec.Command("kill", "-STOP", strconv.Itoa(n.PID())).Run() }

// Resume lets a process go on that Stall has stopped.
func (n *Node) Resume() error { return exec.Command("kill", "-CONT", strconv.Itoa(n.PID())).Run() }

// SlowSync makes each fdatasync of the node's process take at least d, until stop is called or the process
// ends. It takes strace, and the right to trace; without, the error says so.
func (n *Node) SlowSync(d time.Duration) (stop func(), err error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, absent{errors.New("there is no strace, which slows fsync")}
	}
	cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync,fsync",
		"-e", fmt.Sprintf("inject=fdatasync,fsync:delay_enter=%d", d.Microseconds()),
		"-p", strconv.Itoa(n.PID()))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := systest.Start(cmd); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it was interrupted
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = await(ctx, "strace", func() (bool, error) {
		select {
		case <-ended:
			cancel()
			return false, fmt.Errorf("strace: %s", said.String())
		default:
		}
		return n.traced()
	})
	stop = func() {
		cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended with the node
		<-ended
	}
	if err != nil {
		stop()
		return nil, absent{err}
	}
	return stop, nil
}

// traced says whether a debugger has all threads of the process.
func (n *Node) traced() (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", n.PID()))
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil || bytes.Contains(status, []byte("TracerPid:\t0\n")) {
			return false, err
		}
	}
	return len(threads) > 0, err
}

// connect connects to the node itself, past all proxies.
func (n *Node) connect() (valkey.Client, error) {
	var secure *tls.Config
	if n.c.Certificates != nil {
		secure = n.c.Certificates.config
	}
	return valkey.NewClient(valkey.ClientOption{
		TLSConfig: secure, InitAddress: []string{loopback(n.port)}, ForceSingleClient: true,
		AlwaysRESP2: true, DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Second}, ConnWriteTimeout: 5 * time.Second,
	})
}

// Do sends the node itself a command, past all proxies, on a connection of its own.
func (n *Node) Do(ctx context.Context, args ...string) (valkey.ValkeyMessage, error) {
	client, err := n.connect()
	if err != nil {
		return valkey.ValkeyMessage{}, err
	}
	defer client.Close()
	return do(ctx, client, args...)
}

func do(ctx context.Context, client valkey.Client, args ...string) (valkey.ValkeyMessage, error) {
	return client.Do(ctx, client.B().Arbitrary(args...).Build()).ToMessage()
}

// text is Do for answers that are text.
func (n *Node) text(ctx context.Context, args ...string) (string, error) {
	m, err := n.Do(ctx, args...)
	if err != nil {
		return "", err
	}
	return m.ToString()
}

// Ports are those that no system gives to connections: a node that is restarted finds its own free. Each
// process takes them from a stripe of its own, which it has for as long as it listens on the first: two that
// start clusters at once do not mistake each other's nodes for theirs.
const (
	firstStripe = 10_000
	stripes     = 20
	stripePorts = 1000
)

var ports struct {
	sync.Mutex
	stripe net.Listener // stays open
	base   int
	last   int // from base, that was given out
}

// freePorts returns ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports.Lock()
	defer ports.Unlock()
	for _, i := range rand.Perm(stripes) {
		if ports.stripe != nil {
			break
		}
		ports.base = firstStripe + i*stripePorts
		ports.stripe, _ = net.Listen("tcp", loopback(ports.base)) //nolint:errcheck // another has it
	}
	if ports.stripe == nil {
		return nil, errors.New("there are no free ports")
	}
	var free []int
	for range stripePorts {
		ports.last = ports.last%(stripePorts-1) + 1
		l, err := net.Listen("tcp", loopback(ports.base+ports.last))
		if err != nil {
			continue
		}
		l.Close() //nolint:errcheck // was opened a moment ago
		if free = append(free, ports.base+ports.last); len(free) == n {
			return free, nil
		}
	}
	return nil, errors.New("there are no free ports")
}

package cluster_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/systest"
)

// start runs primaries with a replica each and returns their addresses, when the cluster is up.
func start(t *testing.T, shards int) []string {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server is installed")
	}
	if testing.Short() {
		t.Skip("starts servers")
	}
	var addrs []string
	cli := func(addr string, args ...string) string {
		host, port, _ := net.SplitHostPort(addr)
		out, _ := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
		return string(out)
	}
	for range 2 * shards {
		var ports [2]string
		for i := range ports {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, ports[i], _ = net.SplitHostPort(l.Addr().String())
			l.Close()
		}
		cmd := exec.Command(bin, "--port", ports[0], "--cluster-port", ports[1], "--bind", "127.0.0.1",
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--save", "", "--dir", t.TempDir(),
			"--repl-diskless-sync-delay", "0")
		if err := systest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		addrs = append(addrs, "127.0.0.1:"+ports[0]+"@"+ports[1])
	}
	split := func(addr string) (string, string) { a, b, _ := strings.Cut(addr, "@"); return a, b }
	await(t, func() error {
		for _, a := range addrs {
			a, _ := split(a)
			if out := cli(a, "PING"); strings.TrimSpace(out) != "PONG" {
				return fmt.Errorf("%s", out)
			}
		}
		return nil
	})
	first, _ := split(addrs[0])
	for i, a := range addrs {
		addr, bus := split(a)
		host, port, _ := net.SplitHostPort(addr)
		cli(first, "CLUSTER", "MEET", host, port, bus)
		if i < shards {
			cli(addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
			cli(addr, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/shards), strconv.Itoa((i+1)*16384/shards-1))
		}
	}
	var plain []string
	for i, a := range addrs {
		addr, _ := split(a)
		plain = append(plain, addr)
		if i >= shards {
			of, _ := split(addrs[i-shards])
			id := strings.TrimSpace(cli(of, "CLUSTER", "MYID"))
			await(t, func() error {
				if out := cli(addr, "CLUSTER", "REPLICATE", id); strings.TrimSpace(out) != "OK" {
					return fmt.Errorf("%s", out)
				}
				return nil
			})
		}
	}
	await(t, func() error {
		for _, a := range plain {
			if !strings.Contains(cli(a, "CLUSTER", "INFO"), "cluster_state:ok") {
				return fmt.Errorf("%s is not up", a)
			}
		}
		for _, a := range plain[:shards] {
			if out := cli(a, "WAIT", "1", "1000"); strings.TrimSpace(out) != "1" {
				return fmt.Errorf("%s has no replica: %s", a, out)
			}
		}
		return nil
	})
	return plain
}

func await(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

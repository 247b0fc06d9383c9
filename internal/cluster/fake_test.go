package cluster_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/cluster"
)

// hangUp is an answer that ends the connection, and silent is none.
const (
	hangUp = "hang up"
	silent = "silent"
)

// fake is a node that answers as a test says. Unless answer, which may be nil, returns something for a
// command, the node has all slots and agrees to everything.
type fake struct {
	t      testing.TB
	l      net.Listener
	answer func(args []string) string

	mu    sync.Mutex
	slots string // the answer to CLUSTER SLOTS
	nodes string // what CLUSTER NODES says
	got   [][]string
}

func newFake(t testing.TB, answer func(args []string) string) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveFake(t, l, answer)
}

func serveFake(t testing.TB, l net.Listener, answer func(args []string) string) *fake {
	f := &fake{t: t, l: l, answer: answer}
	f.has(0, 16383, f, 1)
	var wg sync.WaitGroup
	var conns sync.Map
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			wg.Go(func() {
				defer c.Close()
				f.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return f
}

func (f *fake) addr() string { return f.l.Addr().String() }

// has lets f say that owner has slots, by a claim of that epoch.
func (f *fake) has(from, to int, owner *fake, epoch int) {
	host, port, _ := net.SplitHostPort(owner.addr())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots = fmt.Sprintf("*1\r\n*3\r\n:%d\r\n:%d\r\n*4\r\n%s:%s\r\n%s*0\r\n", from, to, bulk(host), port,
		bulk(owner.addr()))
	f.nodes = bulk(fmt.Sprintf("%s %s@1 master - 0 0 %d connected %d-%d\n", owner.addr(), owner.addr(), epoch,
		from, to))
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// commands returns those that have come, but for those of every connection.
func (f *fake) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var got []string
	for _, args := range f.got {
		if !slices.Contains([]string{"CLUSTER", "CLIENT", "PING", "READONLY", "AUTH"}, args[0]) {
			got = append(got, strings.Join(args, " "))
		}
	}
	return got
}

func (f *fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !isReset(err) {
				f.t.Error(err)
			}
			return
		}
		f.mu.Lock()
		f.got = append(f.got, args)
		said := "+OK\r\n"
		switch {
		case args[0] == "CLUSTER" && args[1] == "SLOTS":
			said = f.slots
		case args[0] == "CLUSTER" && args[1] == "NODES":
			said = f.nodes
		case args[0] == "WAIT":
			said = ":1\r\n"
		}
		f.mu.Unlock()
		if f.answer != nil {
			if other := f.answer(args); other != "" {
				said = other
			}
		}
		switch said {
		case hangUp:
			return
		case silent:
			continue
		}
		if _, err := io.WriteString(c, said); err != nil {
			return
		}
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

func readCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || line[0] != '*' {
		return nil, fmt.Errorf("no command begins with %q", line)
	}
	args := make([]string, n)
	for i := range args {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if err != nil || line[0] != '$' {
			return nil, fmt.Errorf("no argument begins with %q", line)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// open opens a client of fakes that ends with the test.
func open(t testing.TB, o cluster.Options, fakes ...*fake) *cluster.Client {
	t.Helper()
	for _, f := range fakes {
		o.Addrs = append(o.Addrs, f.addr())
	}
	c, err := cluster.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tlsListener(t testing.TB, config *tls.Config) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return tls.NewListener(l, config)
}

package featurestore

import (
	"net"
	"net/url"
	"runtime"
	"testing"
	"weak"
)

// A server that closes connections is dialled for as long as weir runs.
func TestAConnectionThatIsClosedIsNotKept(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	u, err := url.Parse("feast+redis://" + l.Addr().String() + "/project")
	must(t, err)
	f, err := newFeastRedis(u, new(Options))
	must(t, err)
	defer f.close()
	dialled := func() weak.Pointer[net.TCPConn] {
		c, err := f.dial(t.Context(), l.Addr().String(), new(net.Dialer), nil)
		must(t, err)
		inner := weak.Make(c.(*respGuard).Conn.(*net.TCPConn))
		must(t, c.Close())
		return inner
	}()
	runtime.GC()
	if dialled.Value() != nil {
		t.Error("the connection is closed, and in memory for as long as the store")
	}
}

func TestConnectionsEndWithTheStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	u, err := url.Parse("feast+redis://" + l.Addr().String() + "/project")
	must(t, err)
	f, err := newFeastRedis(u, new(Options))
	must(t, err)
	c, err := f.dial(t.Context(), l.Addr().String(), new(net.Dialer), nil)
	must(t, err)
	defer c.Close()
	must(t, f.close())
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes are read of a connection of a store that is closed", n)
	}
}

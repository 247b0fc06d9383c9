package featurestore

import (
	"net"
	"net/url"
	"runtime"
	"strings"
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

func TestAViewOfSeveralVersionsIsReadByNameAlone(t *testing.T) {
	const none, versions = "*2\r\n$-1\r\n$-1\r\n",
		"*3\r\n$9\r\n_ts:items\r\n$12\r\n_ts:items_v2\r\n$12\r\n_ts:items_vx\r\n"
	for _, test := range []struct {
		view, hkeys string
		refused     bool
	}{
		{"items", versions, true},
		{"items@v2", versions, false},
		{"items@v0", versions, false},
		{"item", versions, false}, // another view, whose name begins alike
		{"items", "*1\r\n$9\r\n_ts:items\r\n", false},
		{"items", "*0\r\n", false},
	} {
		addr := fakeRedisWith(t, map[string]string{"HMGET": none, "HKEYS": test.hkeys})
		s := openStore(t, "feast+redis://"+addr+"/p",
			func(o *Options) { o.ItemView, o.TTL, o.Stale = test.view, 0, 0 })
		for range 2 { // the second time it is known
			kind, err := oneArm(t, s)
			if refused := err != nil &&
				strings.Contains(err.Error(), "--bandit-store-item-view items@v2"); refused != test.refused ||
				refused != (kind != "") {
				t.Errorf("view %s, fields %q: error %v of kind %q", test.view, test.hkeys, err, kind)
			}
		}
	}
	for view, stored := range map[string]string{"items": "items", "items@v0": "items",
		"items@v12": "items_v12", "a@v": "a@v", "a@vx": "a@vx"} {
		if name, _ := storedView(view); name != stored {
			t.Errorf("%s is %s, want %s", view, name, stored)
		}
	}
}

package httpcache_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"weir/internal/filter/fetch"
	"weir/internal/filter/httpcache"
)

// listen serves on a loopback address, which not every system has.
func listen(t *testing.T, address string, h http.HandlerFunc) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skip(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close() //nolint:errcheck // it is replaced
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func port(t *testing.T, u *url.URL) int {
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEveryRedirectIsGuarded: a server that may be asked redirects, now or at a later hop, to where nobody
// may go, and the one there must not be reached.
func TestEveryRedirectIsGuarded(t *testing.T) {
	var reached atomic.Int64
	inside := listen(t, "127.0.0.2", func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	outside := listen(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(r.URL.Query().Get("hops")); n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/?hops=%d&to=%s", n-1,
				url.QueryEscape(r.URL.Query().Get("to"))), http.StatusFound)
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusMovedPermanently)
	})
	client := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Ports: []int{port(t, inside), port(t, outside)}})
	defer client.Close()
	c := open(t, t.TempDir(), httpcache.Options{Fetch: client, Poller: true})
	defer c.Close() //nolint:errcheck // tested elsewhere
	p := inside.Port()
	for _, to := range []string{
		inside.String(), "http://[::ffff:127.0.0.2]:" + p,
		"http://[::1]:" + p, "http://[64:ff9b::7f00:2]:" + p,
		"http://169.254.169.254:" + p + "/latest/meta-data/",
		"http://0.0.0.0:" + p, "http://127.0.0.1:1/", "gopher://127.0.0.2:" + p, "//127.0.0.2:" + p + "/x",
	} {
		for hops := range 4 {
			e, err := c.Get(t.Context(), fmt.Sprintf("%s/?hops=%d&to=%s", outside, hops,
				url.QueryEscape(to)), nil)
			if err == nil {
				e.Release()
				t.Errorf("%s after %d hops was answered with %d", to, hops, e.Status)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the server inside was reached %d times", n)
	}
	if _, err := c.Get(t.Context(), inside.String(), nil); !errors.Is(err, fetch.ErrRefused) {
		t.Errorf("asked directly: %v", err)
	}
}

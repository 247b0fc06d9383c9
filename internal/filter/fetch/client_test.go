package fetch_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/filter/fetch"
)

// serve serves on loopback until the test ends, and returns a client that may ask there.
func serve(t *testing.T, o fetch.Options, h http.HandlerFunc) (*fetch.Client, string) {
	t.Helper()
	s := httptest.NewServer(h)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	o.Allow, o.Ports = append(o.Allow, netip.MustParsePrefix("127.0.0.1/32")), append(o.Ports, port)
	c := fetch.New(o)
	t.Cleanup(func() {
		c.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return c, s.URL
}

// get asks for a URL, and returns the response and its body.
func get(ctx context.Context, c *fetch.Client, url string,
	header http.Header) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	resp, err := c.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

func getError(t *testing.T, c *fetch.Client, url string) error {
	_, _, err := get(t.Context(), c, url, nil)
	return err
}

func TestOnlyPublicAddressesArePublic(t *testing.T) {
	for address, public := range map[string]bool{
		"1.1.1.1": true, "93.184.216.34": true, "2606:4700:4700::1111": true, "::ffff:1.1.1.1": true,
		"172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true, "100.128.0.0": true,
		"2001:4860:4860::8888": true,

		"0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "100.100.100.200": false,
		"127.0.0.1":       false,
		"127.255.255.254": false, "168.63.129.16": false, "169.254.169.254": false, "172.16.0.1": false,
		"172.31.255.255": false,
		"192.0.0.192":    false, "192.168.1.1": false, "198.18.0.1": false, "198.51.100.1": false,
		"203.0.113.1": false,
		"224.0.0.1":   false, "239.255.255.250": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::127.0.0.1": false, "::ffff:127.0.0.1": false,
		"::ffff:169.254.169.254": false,
		"64:ff9b::7f00:1":        false, "64:ff9b::101:101": false, "64:ff9b:1::1": false, "100::1": false,
		"fc00::1":       false,
		"fd00:ec2::254": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "ff02::1": false,
		"2001::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "3fff::1": false, "5f00::1": false,
		"4000::1":                   false,
		"2606:4700:4700::1111%eth0": false,
	} {
		if got := fetch.Public(netip.MustParseAddr(address)); got != public {
			t.Errorf("%s is public: %v", address, got)
		}
	}
	if fetch.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestWhatIsNotAllowedIsNotAskedFor(t *testing.T) {
	var reached atomic.Int64
	c, base := serve(t, fetch.Options{}, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	strict := fetch.New(fetch.Options{})
	defer strict.Close()
	other := strings.Replace(base, "127.0.0.1", "127.0.0.2", 1)
	for what, try := range map[string]func() error{
		"loopback":       func() error { return getError(t, strict, "http://127.0.0.1/") },
		"another host":   func() error { return getError(t, c, other) },
		"another port":   func() error { return getError(t, c, "http://127.0.0.1:22/") },
		"another scheme": func() error { return getError(t, c, "ftp://127.0.0.1/") },
		"no host":        func() error { return getError(t, c, "http:///x") },
		"a POST": func() error {
			r, err := http.NewRequest(http.MethodPost, base, strings.NewReader("x"))
			if err == nil {
				_, err = c.RoundTrip(r)
			}
			return err
		},
	} {
		if err := try(); !errors.Is(err, fetch.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if reached.Load() != 0 {
		t.Error("the server was reached")
	}
	if _, _, err := get(t.Context(), c, base, nil); err != nil {
		t.Error(err)
	}
}

// dns is a resolver whose server answers each question for an IPv4 address with the next of its lists of
// addresses.
func dns(answers ...[]string) *net.Resolver {
	var mu sync.Mutex
	answer := func(query []byte) []byte {
		end := 12
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		kind := binary.BigEndian.Uint16(query[end+1:])
		reply := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		reply = append(reply, query[12:end+5]...)
		if kind != 1 {
			return reply
		}
		mu.Lock()
		defer mu.Unlock()
		for _, address := range answers[0] {
			reply[7]++
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, netip.MustParseAddr(address).AsSlice()...)
		}
		answers = append(answers[1:], answers[0])
		return reply
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			var length [2]byte
			for {
				if _, err := io.ReadFull(server, length[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				reply := answer(query)
				length := binary.BigEndian.AppendUint16(nil, uint16(len(reply)))
				if _, err := server.Write(append(length, reply...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

// TestANameThatIsReboundGainsNothing: the name resolves to where it may, and the next time to where it may
// not.
func TestANameThatIsReboundGainsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	var reached atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			conn.Close()
		}
	}()
	inside := l.Addr().(*net.TCPAddr).Port
	resolver := dns([]string{"127.0.0.1"}, []string{"127.0.0.2"},
		[]string{"169.254.169.254", "10.0.0.1", "127.0.0.2"},
		[]string{"127.0.0.2", "127.0.0.1"})
	c, base := serve(t, fetch.Options{Resolver: resolver, Ports: []int{inside}},
		func(http.ResponseWriter, *http.Request) {})
	for i, allowed := range []bool{true, false, false, true, true, false} {
		c.Close() // else it would use the connection that it has
		_, _, err := get(t.Context(), c, strings.Replace(base, "127.0.0.1", "rebound.test.", 1), nil)
		if (err == nil) != allowed || err != nil && !errors.Is(err, fetch.ErrRefused) {
			t.Errorf("look %d: %v", i, err)
		}
	}
	for range 4 {
		// One of two addresses is refused, at the other nobody listens.
		get(t.Context(), c, fmt.Sprintf("http://rebound.test.:%d/", inside),
			nil) //nolint:errcheck // see above
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the server inside was reached %d times", n)
	}
}

func TestNothingOfOthersIsSentOrReturned(t *testing.T) {
	c, base := serve(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Cookie", "Referer", "Proxy-Authorization"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is sent", name)
			}
		}
		if r.UserAgent() != "weir" || r.Header.Get("Accept") != "x" ||
			!strings.Contains(r.Header.Get("Accept-Encoding"), "br") {
			t.Errorf("sent: %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	resp, _, err := get(t.Context(), c, base, http.Header{"Cookie": {"a=b"}, "Referer": {"x"},
		"Proxy-Authorization": {"x"}, "Accept": {"x"}})
	if err != nil || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%v, %v", resp, err)
	}
}

// encoded returns a body in an encoding.
func encoded(t testing.TB, encoding string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, err = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	}
	if err == nil {
		_, err = w.Write(body)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBodiesComeDecoded(t *testing.T) {
	text := []byte(strings.Repeat("<item>with words</item>\n", 1000))
	for name, body := range map[string][]byte{
		"identity": text, "": text, "gzip": encoded(t, "gzip", text), "GZIP": encoded(t, "gzip", text),
		"x-gzip":  encoded(t, "gzip", text),
		"deflate": encoded(t, "deflate", text), "deflate ": encoded(t, "raw", text),
		"br": encoded(t, "br", text), "zstd": encoded(t, "zstd", text),
		"br, gzip": encoded(t, "gzip", encoded(t, "br", text)),
	} {
		c, base := serve(t, fetch.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", name)
			w.Write(body) //nolint:errcheck // the client says
		})
		resp, got, err := get(t.Context(), c, base, nil)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
			continue
		}
		if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
			t.Errorf("%s: still says %s", name, e)
		}
	}
	for _, name := range []string{"gzip", "br", "zstd", "deflate", "gzip, gzip, gzip", "compress"} {
		c, base := serve(t, fetch.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", name)
			io.WriteString(w, "<not encoded>") //nolint:errcheck // the client says
		})
		if _, body, err := get(t.Context(), c, base, nil); err == nil {
			t.Errorf("%s: what is not was taken for %q", name, body)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	zeros := make([]byte, 8<<20)
	for what, test := range map[string]struct {
		options  fetch.Options
		encoding string
		body     []byte
		length   bool
	}{
		"too long, and says so": {fetch.Options{MaxBody: 1000}, "", zeros[:1001], true},
		"too long":              {fetch.Options{MaxBody: 1000}, "", zeros[:100_000], false},
		"too long when decoded": {fetch.Options{MaxBody: 1000}, "gzip", encoded(t, "gzip", zeros[:2000]),
			false},
		"a bomb of gzip":    {fetch.Options{}, "gzip", encoded(t, "gzip", zeros), false},
		"a bomb of deflate": {fetch.Options{}, "deflate", encoded(t, "deflate", zeros), false},
		"a bomb of br":      {fetch.Options{}, "br", encoded(t, "br", zeros), false},
		"a bomb of zstd":    {fetch.Options{}, "zstd", encoded(t, "zstd", zeros), false},
		"a bomb in a bomb": {fetch.Options{}, "gzip, gzip",
			encoded(t, "gzip", encoded(t, "gzip", zeros)), false},
		"a window that is large": {fetch.Options{}, "zstd",
			[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0}, false},
	} {
		c, base := serve(t, test.options, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", test.encoding)
			if test.length {
				w.Header().Set("Content-Length", strconv.Itoa(len(test.body)))
			} else {
				w.(http.Flusher).Flush()
			}
			w.Write(test.body) //nolint:errcheck // the client has gone
		})
		_, body, err := get(t.Context(), c, base, nil)
		if err == nil || len(body) > 4<<20 ||
			!errors.Is(err, fetch.ErrTooLarge) && !errors.Is(err, zstd.ErrWindowSizeExceeded) {
			t.Errorf("%s: %d bytes, %v", what, len(body), err)
		}
	}
}

func TestHeadersAndTimesAreBounded(t *testing.T) {
	c, base := serve(t, fetch.Options{MaxHeader: 10_000}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 20_000))
	})
	if _, _, err := get(t.Context(), c, base, nil); err == nil {
		t.Error("a header of 20 kB was taken")
	}
	end := make(chan struct{})
	defer close(end)
	c, base = serve(t, fetch.Options{FirstByte: 50 * time.Millisecond},
		func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-end:
			}
		})
	if _, _, err := get(t.Context(), c, base, nil); err == nil {
		t.Error("what never answers has answered")
	}
	c, base = serve(t, fetch.Options{Timeout: 100 * time.Millisecond},
		func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil { // a byte at a time
				w.Write([]byte("x")) //nolint:errcheck // the context says
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		})
	if _, _, err := get(t.Context(), c, base, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a body that drips: %v", err)
	}
}

func TestAHostIsAskedForFewThingsAtATime(t *testing.T) {
	var now, most atomic.Int64
	arrived, release := make(chan struct{}, 20), make(chan struct{})
	c, base := serve(t, fetch.Options{PerHost: 2}, func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		arrived <- struct{}{}
		<-release
		now.Add(-1)
	})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, _, err := get(t.Context(), c, base, nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-arrived
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := get(ctx, c, base, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who has given up waits: %v", err)
	}
	close(release)
	all.Wait()
	if most.Load() != 2 {
		t.Errorf("%d at a time", most.Load())
	}
}

func TestAHostThatAsksForItIsLeftAlone(t *testing.T) {
	var asked atomic.Int64
	c, base := serve(t, fetch.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if resp, _, err := get(t.Context(), c, base, nil); err != nil || resp.StatusCode != 429 {
		t.Errorf("%v, %v", resp, err)
	}
	_, _, err := get(t.Context(), c, base+"/other", nil)
	var backoff *fetch.BackoffError
	if !errors.As(err, &backoff) || time.Until(backoff.Until) < 50*time.Minute || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

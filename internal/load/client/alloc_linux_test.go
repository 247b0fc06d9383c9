//go:build !race

package client

import (
	"bytes"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"weir/internal/load/measure"
)

// frugal answers every request with the same bytes, without allocating.
func frugal(answered *atomic.Int64, answer []byte) func(c *net.TCPConn, n int) {
	return func(c *net.TCPConn, _ int) {
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil || !bytes.HasSuffix(buf[:n], headEnd) {
				return
			}
			answered.Add(1)
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

// listening is a source that hears.
type listening struct{ fixed }

func (listening) Heard(uint64, Answer) {}

func TestRequestsDoNotAllocate(t *testing.T) {
	const many = 10_000
	long := "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nTransfer-Encoding: chunked\r\n\r\n" + "4000\r\n" +
		string(make([]byte, 0x4000)) + "\r\n0\r\n\r\n"
	for name, answer := range map[string]string{"short": okAnswer, "chunks": long} {
		for model, begin := range map[string]func(o *Options) func(e *Engine) error{
			"closed": func(o *Options) func(e *Engine) error {
				o.Closed, o.Connections = true, 8
				return func(e *Engine) error { return e.SetConnections(8) }
			},
			"open": func(o *Options) func(e *Engine) error {
				// As many connections as there will be: opening one allocates, here and in the server.
				o.Arrivals, o.MaxConnections, o.Warm = Poisson, 64, 64
				return func(e *Engine) error { return e.SetRate(5000) }
			},
		} {
			t.Run(name+", "+model, func(t *testing.T) {
				var answered atomic.Int64
				o := Options{Targets: []Target{listen(t, frugal(&answered, []byte(answer))).target},
					Threads: 1}
				set := begin(&o)
				e := start(t, o, func(int, int) Source { return listening{fixed{wire: getRequest}} })
				if err := set(e); err != nil {
					t.Fatal(err)
				}
				until := func(n int64) {
					for answered.Load() < n {
						runtime.Gosched()
					}
				}
				until(many / 10) // buffers grow to their size, connections open
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				from := answered.Load()
				until(from + many)
				runtime.ReadMemStats(&after)
				// The runtime has things to do, too.
				if n := after.Mallocs - before.Mallocs; n > many/100 {
					t.Errorf("%d allocations in %d requests", n, answered.Load()-from)
				}
				w := measure.NewWindow()
				if err := e.Collect(w); err != nil {
					t.Fatal(err)
				}
				if w.Errors() > w.Failed[measure.Dropped] {
					t.Errorf("failed %v", w.Failed)
				}
			})
		}
	}
}

package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/metrics"

	"golang.org/x/sys/unix"
)

// truncated returns a file's mapping whose file is not there any more: reading it is a fault.
func truncated(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAFaultInMappedDataIsA503AndTakesItsServiceDown(t *testing.T) {
	for _, lane := range []string{"fast", "offloaded", "handed"} {
		t.Run(lane, func(t *testing.T) {
			lanes(t, func(t *testing.T, cfg Config) {
				m := truncated(t)
				cfg.CriticalServices = []string{"routes"}
				fast := done(func(w *Response, r *Request) { w.Body = append(w.Body, m[5000:6000]...) })
				s := start(t, cfg, &echo{}, routes{
					{Pattern: "GET /fault/fast", Handler: fast},
					{Pattern: "GET /fault/none", Handler: done(func(*Response, *Request) {})},
					{Pattern: "GET /fault/offloaded", Handler: func(w *Response, r *Request) Outcome {
						if r.Inline() {
							return Offload
						}
						return fast(w, r)
					}},
					{Pattern: "GET /fault/handed",
						Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							w.Write(bytes.Clone(m[5000:6000]))
						})},
				})
				c := dial(t, s)
				for _, path := range []string{lane, lane, "none"} {
					c.send(get("/fault/" + path))
					if resp, body := c.response("GET"); resp.StatusCode != 503 ||
						strings.Contains(body, "address") {
						t.Fatalf("got %d %s, want a 503 problem without internals", resp.StatusCode, body)
					}
				}
				c.send(get("/fast/after"))
				c.expect("GET", 200, "GET after ")
				c.send(get("/health"))
				c.expect("GET", 503,
					`{"status":"down","services":{"echo":{"status":"ready"},"routes":{"status":"down",`+
						`"reason":"mapped data cannot be read; see the log, and replace the file by rename"}}}`)
			})
		})
	}
}

func TestAFaultInBackgroundWorkDegradesItsService(t *testing.T) {
	m := truncated(t)
	b := Env{Metrics: metrics.New(1), Log: slog.New(slog.DiscardHandler)}.Background("test")
	b.Go("reading", func(context.Context) { _ = bytes.Clone(m[5000:6000]) })
	await(t, "the fault", func() bool { return b.Health().State == StateDegraded })
	b.Stop()
}

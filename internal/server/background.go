package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"weir/internal/disk"
	"weir/internal/metrics"
)

// Background is what a service does between requests: goroutines that end with it, and none of which ends the
// process. One that panics, or meets a memory fault, is logged and counted, and leaves the service degraded
// until a restart.
type Background struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	failed atomic.Pointer[string] // the name of what failed first
	log    *slog.Logger
	fails  *metrics.Counter
}

// Background returns a service's background. The service calls its Stop at Close.
func (e Env) Background(service string) *Background {
	b := &Background{log: e.Log, fails: e.Metrics.Counter("weir_background_failures_total",
		"Background goroutines of a service that ended by a panic or a memory fault.", "service", service)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Context ends at Stop.
func (b *Background) Context() context.Context { return b.ctx }

// Go runs fn on a goroutine of its own. The name says in the log and in /health what has ended.
func (b *Background) Go(name string, fn func(ctx context.Context)) {
	b.work.Add(1)
	disk.Go(func() error { fn(b.ctx); return nil }, func(err error) {
		defer b.work.Done()
		if err == nil {
			return
		}
		b.fails.Add(0, 1)
		b.failed.CompareAndSwap(nil, &name)
		b.log.Error("FATAL: background work has ended; restart when the cause is mended", "work", name,
			"error", err)
	})
}

// Health is degraded once a goroutine has failed.
func (b *Background) Health() Health {
	if name := b.failed.Load(); name != nil {
		return Degraded("background work has ended (" + *name + "); see the log, and restart")
	}
	return Ready()
}

// Cancel ends the context.
func (b *Background) Cancel() { b.cancel() }

// Stop ends the context and waits for all goroutines.
func (b *Background) Stop() {
	b.cancel()
	b.work.Wait()
}

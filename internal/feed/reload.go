package feed

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Reload implements server.Reloader: it takes up the snapshot that is at the configured path now,
// or refuses it and leaves the old one serving. No request fails meanwhile.
func (f *Feed) Reload(ctx context.Context) error {
	f.reload.Lock()
	defer f.reload.Unlock()
	start := time.Now()
	g, err := f.load(ctx, true)
	if err != nil {
		f.stats.refused.Add(0, 1)
		old := f.current.Load()
		err = fmt.Errorf("the new lists are refused, generation %d serves on: %w", old.number, err)
		f.log.Error("feed reload", "path", f.cfg.Path, "error", err)
		return err
	}
	old := f.current.Swap(g)
	f.broken.Store(nil)
	f.stats.reloaded.Add(0, 1)
	f.log.Info("feed reload", "path", f.cfg.Path, "generation", g.number, "users", g.lists.Stats().Users,
		"took", time.Since(start).Round(time.Millisecond))
	// Verified a moment ago, it is in memory as far as there is room: this only walks it.
	f.work.Go(func() { f.warm(context.WithoutCancel(ctx), g) })
	f.work.Go(func() {
		if err := old.retire(); err != nil {
			f.log.Error("an old snapshot could not be closed", "generation", old.number, "error", err)
		}
	})
	return nil
}

// watch takes up a snapshot that is renamed over the path. Only a rename counts: a file that is
// being written under the path is not complete at any moment that could be told from here.
func (f *Feed) watch(ctx context.Context) {
	tick := time.NewTicker(f.cfg.Watch)
	defer tick.Stop()
	var refused os.FileInfo
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g := f.current.Load()
		if !g.altered.Load() {
			if err := g.lists.ChangedOnDisk(); err != nil {
				g.altered.Store(true)
				f.log.Error("the snapshot that serves was changed in place; write a new file and rename it over the path, as weir import does",
					"path", f.cfg.Path, "error", err)
			}
		}
		now, err := os.Stat(f.cfg.Path)
		if err != nil || os.SameFile(now, g.file) || refused != nil && os.SameFile(now, refused) && now.ModTime().Equal(refused.ModTime()) {
			continue
		}
		refused = nil
		if err := f.Reload(ctx); err != nil {
			refused = now
		}
	}
}

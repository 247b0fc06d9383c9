package feed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reload implements server.Reloader: it takes up the snapshot that is at the configured path now,
// or refuses it and leaves the old one serving. No request fails meanwhile.
func (f *Feed) Reload(ctx context.Context) error {
	f.reload.Lock()
	defer f.reload.Unlock()
	return f.takeUp(ctx)
}

var errClosed = errors.New("the feed is closed")

// takeUp is Reload for who holds its lock.
func (f *Feed) takeUp(ctx context.Context) error {
	if f.closed {
		return errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.background.Context(), cancel)()
	start := time.Now()
	g, err := f.load(ctx, true)
	if err != nil {
		f.stats.refused.Add(0, 1)
		err = fmt.Errorf("the new lists are refused, generation %d serves on: %w", f.current.Load().number, err)
		f.log.Error("feed reload", "path", f.cfg.Path, "error", err)
		return err
	}
	f.serve(g)
	f.stats.reloaded.Add(0, 1)
	f.log.Info("feed reload", "path", f.cfg.Path, "generation", g.number, "users", g.lists.Stats().Users,
		"took", time.Since(start).Round(time.Millisecond))
	return nil
}

// watch looks for a snapshot renamed over the path, and for changes of the one that serves.
func (f *Feed) watch(ctx context.Context) {
	tick := time.NewTicker(f.cfg.Watch)
	defer tick.Stop()
	var refused os.FileInfo
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			refused = f.look(ctx, refused)
		}
	}
}

// look takes up a snapshot that was renamed over the path, unless it is the one that was refused
// before, and returns the one to be refused from now on. Only a rename counts: a file that is
// being written under the path is not complete at any moment that could be told from here.
func (f *Feed) look(ctx context.Context, refused os.FileInfo) os.FileInfo {
	f.reload.Lock() // so that the generation stays open, and nobody else takes the new one up
	defer f.reload.Unlock()
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
		return refused
	}
	if f.takeUp(ctx) != nil {
		return now
	}
	return nil
}

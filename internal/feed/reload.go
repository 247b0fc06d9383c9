package feed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"weir/internal/disk"
)

// Reload implements server.Reloader: it takes up the snapshot that is at the configured path now,
// or refuses it and leaves the old one serving. No request fails meanwhile.
func (f *Feed) Reload(ctx context.Context) error { return f.reloadBy(ctx, false) }

func (f *Feed) reloadBy(ctx context.Context, force bool) error {
	if f.from != nil {
		return f.from.refresh(ctx, force)
	}
	f.reload.Lock()
	defer f.reload.Unlock()
	return f.takeUp(ctx, listsAt{path: f.cfg.Path}, force)
}

var errClosed = errors.New("the feed is closed")

// takeUp is Reload for who holds its lock. With force, or beside a file that asks for it, lists are taken
// up that look like a mistake.
func (f *Feed) takeUp(ctx context.Context, from listsAt, force bool) error {
	g, err := f.begin(ctx, from, force)
	if err == nil {
		f.finish(g)
	}
	return err
}

// begin makes lists a generation that may serve, or logs why not.
func (f *Feed) begin(ctx context.Context, from listsAt, force bool) (*generation, error) {
	if f.closed {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.background.Context(), cancel)()
	start := time.Now()
	marked := f.from == nil && os.Remove(f.forceFile()) == nil
	least := uint64(0)
	if !force && !marked {
		least = f.leastUsers(f.current.Load())
	}
	f.reloading.Store(&reloading{started: start})
	defer f.reloading.Store(nil)
	g, err := f.load(ctx, from, true, least)
	if err != nil {
		result := &reloadResult{At: time.Now(), Seconds: time.Since(start).Seconds()}
		result.Generation, result.Refused = f.current.Load().number, f.withoutPath(err)
		f.reloaded.Store(result)
		f.stats.refused.Add(0, 1)
		err = fmt.Errorf("the new lists are refused, generation %d serves on: %w",
			f.current.Load().number, err)
		f.log.Error("feed reload", "path", f.named(from), "error", err)
		return nil, err
	}
	g.took = time.Since(start)
	return g, nil
}

// finish has a generation serve that begin has returned. The caller holds the lock.
func (f *Feed) finish(g *generation) {
	f.serve(g)
	f.reloaded.Store(&reloadResult{At: time.Now(), Seconds: g.took.Seconds(), Generation: g.number})
	f.stats.reloaded.Add(0, 1)
	f.log.Info("feed reload", "path", f.named(g.from), "generation", g.number, "users", g.lists.Stats().Users,
		"took", g.took)
}

// leastUsers is how many users lists must have to take the place of g's.
func (f *Feed) leastUsers(g *generation) uint64 {
	return max(1, uint64(f.live.Load().MinShare*float64(g.lists.Stats().Users)))
}

// forceFile is the file whose presence has the next lists taken up whatever they are. It is removed then.
func (f *Feed) forceFile() string { return f.cfg.Path + ".force" }

// howToForce says how lists are taken up that look like a mistake.
func (f *Feed) howToForce() string {
	switch {
	case f.from == nil:
		return "POST /admin/feeds/reload?force=1, or create " + f.forceFile()
	case f.cfg.Cluster != nil:
		return "use weir publish --force"
	}
	return "POST /admin/feeds/reload?force=1"
}

// tend has positions erase, well within a day, who was forgotten.
func (f *Feed) tend(ctx context.Context) {
	tick := time.NewTicker(f.cfg.tend)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.reload.Lock() // so that the generation stays open
		g := f.current.Load()
		select {
		case <-g.warmed:
			if err := disk.Guard(func() error { return g.positions.Tend(ctx) }); err != nil &&
				ctx.Err() == nil {
				f.log.Error("users who were forgotten are not erased yet", "error", err)
			}
		default:
		}
		f.reload.Unlock()
	}
}

// watch looks for a snapshot renamed over the path, and for changes of the one that serves.
func (f *Feed) watch(ctx context.Context) {
	var refused os.FileInfo
	for {
		var next <-chan time.Time // never, unless there is an interval
		if interval := f.live.Load().Watch; interval > 0 {
			next = time.After(interval)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.retimed:
		case <-next:
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
			f.log.Error("the snapshot that serves was changed in place; write a new file and rename it "+
				"over the path, as weir import does",
				"path", f.cfg.Path, "error", err)
		}
	}
	if f.from != nil {
		return nil
	}
	now, err := os.Stat(f.cfg.Path)
	if err != nil || os.SameFile(now, g.file) {
		return refused
	}
	if refused != nil && os.SameFile(now, refused) && now.ModTime().Equal(refused.ModTime()) {
		if _, err := os.Lstat(f.forceFile()); err != nil {
			return refused
		}
	}
	switch err := f.takeUp(ctx, listsAt{path: f.cfg.Path}, false); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOMEM):
		return nil // there may be room at the next look
	case err != nil:
		return now
	}
	return nil
}

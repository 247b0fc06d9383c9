package feed

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/metrics"
	"weir/internal/systest"
)

// TestAFullDiskRefusesNewUsersAndKeepsTheOthers swaps in snapshots whose users do not fit onto the disk of
// the cells: their numbers, their keys, or the cells of their keys.
func TestAFullDiskRefusesNewUsersAndKeepsTheOthers(t *testing.T) {
	users := func(n, step uint64) lists {
		l := make(lists)
		for i := range n {
			l[i*step] = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}
		}
		return l
	}
	for name, c := range map[string]struct {
		size string
		more lists
		as   shape
	}{
		"ids":           {"384k", users(60_000, 1), dense},
		"keys":          {"384k", users(60_000, 1<<40), keyed},
		"cells of keys": {"448k", users(16_000, 1<<40), keyed}, // 9 bytes a key fit, 8 a cell do not
	} {
		t.Run(name, func(t *testing.T) {
			dir, files := systest.Disk(t, c.size), t.TempDir()
			few := users(20, 1<<40)
			few.write(t, filepath.Join(files, "few"), keyed, false)
			maps.Copy(c.more, users(20, 1))
			if c.as == keyed {
				maps.Copy(c.more, few)
			}
			c.more.write(t, filepath.Join(files, "more"), c.as, false)
			f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(files, "feeds.weir"), Watch: -1}}
			f.use(filepath.Join(files, "few"))
			f.reopen()
			t.Cleanup(f.close)
			f.take(0, 1<<40, 4)

			cfg := f.cfg
			f.cfg.Path = filepath.Join(files, "more")
			f.Feed.cfg.Path = f.cfg.Path
			for range 2 {
				err := f.Reload(context.Background())
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("a reload on a full disk: %v, want ENOSPC", err)
				}
				wantError(t, "a reload on a full disk", err, "generation 1 serves on", dir)
				if err := f.Health().Err(); err != nil {
					t.Errorf("not ready: %v", err)
				}
				f.take(0, 1<<40, 1)
			}
			f.close()
			f.metrics = metrics.New(stripes)
			if _, err := Open(context.Background(), f.cfg, f.env()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("a start on a full disk: %v, want ENOSPC", err)
			}

			// With what was there before all goes on, although the disk is as full.
			f.cfg = cfg
			f.reopen()
			f.wantAt(6, 1<<40)
			f.wantAt(0, 2<<40)

			// What is refused for want of space is tried again, and with room it is taken up.
			f.Feed.cfg.Path = filepath.Join(files, "more")
			refused := f.look(context.Background(), nil)
			systest.Resize(t, dir, "8m")
			f.look(context.Background(), refused)
			if n := f.current.Load().number; n != 2 {
				t.Fatalf("generation %d serves, want 2", n)
			}
			if c.as == keyed {
				f.wantAt(6, 1<<40)
			}
			if got, _ := f.take(0, 5*1<<40, 3); c.as == keyed && len(got) != 3 {
				t.Errorf("%d items for a new user, want 3", len(got))
			}
		})
	}
}

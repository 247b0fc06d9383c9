package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/journal"
	"weir/internal/progress"
)

func newRepair() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "repair --accept-loss DIR",
		Short: "Give up what is damaged in a data directory, and keep the rest",
		Long: `Repair makes a data directory usable again that weir serve refuses because it is damaged: of
each file what is whole is kept, and what cannot be told any more is given up. Events behind a damaged
one are lost; positions that are lost are those of some time before, so that items may be given again.

Copy the directory first. A backup, if there is one, is better.`,
		Args: exactly(1, "the data directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !accept {
				return usage("what is damaged is given up: copy the directory, then say --accept-loss")
			}
			return repair(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
		},
	}
	cmd.Flags().BoolVar(&accept, "accept-loss", false, "go on without what is damaged")
	return cmd
}

// repair opens all there is in a data directory in the way that gives up what is damaged.
func repair(out, errs io.Writer, dir string) (err error) {
	lock, err := disk.LockDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := mend(out, dir); err != nil {
		return err
	}
	log := newLog(errs, "text", slog.LevelInfo)
	bad := []error{repaired(out, dir, func(accept bool) error {
		if !accept {
			return checkManifest(dir)
		}
		there, _, err := readManifest(dir)
		if err != nil {
			return err
		}
		return writeManifest(dir, there)
	})}
	for _, part := range []struct {
		path string
		open func(path string, accept bool) (io.Closer, error)
	}{
		{"feed", func(path string, accept bool) (io.Closer, error) {
			return progress.OpenLocal(path, progress.Options{Name: "repair", AcceptLoss: accept, Logger: log})
		}},
		{filepath.Join("sequence", "current.cells"), func(path string, accept bool) (io.Closer, error) {
			return progress.OpenIndex(path, progress.Options{Name: "repair", AcceptLoss: accept, Logger: log})
		}},
		{"bandit", func(path string, accept bool) (io.Closer, error) {
			return journal.Open(path, journal.Options{AcceptLoss: accept, Log: log},
				func(io.Reader) error { return nil }, func([]byte) error { return nil })
		}},
	} {
		path := filepath.Join(dir, part.path)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		bad = append(bad, repaired(out, path, func(accept bool) error {
			c, err := part.open(path, accept)
			if err != nil {
				return err
			}
			return c.Close()
		}))
	}
	return errors.Join(bad...)
}

// mend rights the headers of which a single bit is wrong, of all files in dir.
func mend(out io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		mended, err := record.Mend(file)
		if mended {
			fmt.Fprintf(out, "%s: repaired, a bit of its header was wrong\n", file)
		}
		return err
	})
}

// repaired opens something as it is, and if it is damaged without what is.
func repaired(out io.Writer, path string, open func(accept bool) error) error {
	damage := open(false)
	if damage == nil {
		_, err := fmt.Fprintf(out, "%s: not damaged\n", path)
		return err
	}
	if !errors.Is(damage, record.ErrCorrupt) && !errors.Is(damage, record.ErrVersion) {
		return damage
	}
	if err := open(true); err != nil {
		return fmt.Errorf("nothing of %s can be kept: %w; to begin without what is damaged, move it away, "+
			"the file or the whole of %s, and run weir repair --accept-loss again", path, err, path)
	}
	_, err := fmt.Fprintf(out, "%s: repaired, without what was damaged: %v\n", path, damage)
	return err
}

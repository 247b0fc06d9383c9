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
	"weir/internal/progress/cells"
)

func newRepair() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "repair --accept-loss DIR",
		Short: "Give up what is damaged in a data directory, and keep the rest",
		Long: `Repair makes a data directory usable again that weir serve refuses because it is damaged: of each
file what is whole is kept, and what cannot be told any more is given up. Events behind a damaged
one are lost; positions that are lost are those of some time before, so that items may be given again.

Copy the directory first. A backup, if there is one, is better.`,
		Args: exactly(1, "the data directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !accept {
				return usageError{cmd.CommandPath(), errors.New("what is damaged is given up: copy the directory, then say so by --accept-loss")}
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
	log := slog.New(slog.NewTextHandler(errs, nil))
	stores, err := filepath.Glob(filepath.Join(dir, "*", "*.cells"))
	if err != nil {
		return err
	}
	var bad []error
	for _, path := range stores {
		bad = append(bad, repaired(out, path, func(accept bool) error {
			s, err := cells.Open(path, 0, cells.Options{AcceptLoss: accept, Logger: log})
			if err != nil {
				return err
			}
			return s.Close()
		}))
	}
	if path := filepath.Join(dir, "feed"); exists(path) {
		bad = append(bad, repaired(out, path, func(accept bool) error {
			l, err := progress.OpenLocal(path, progress.Options{Name: "feed", AcceptLoss: accept, Logger: log})
			if err != nil {
				return err
			}
			return l.Close()
		}))
	}
	if path := filepath.Join(dir, "bandit"); exists(path) {
		bad = append(bad, repaired(out, path, func(accept bool) error {
			j, err := journal.Open(path, journal.Options{AcceptLoss: accept, Log: log},
				func(io.Reader) error { return nil }, func([]byte) error { return nil })
			if err != nil {
				return err
			}
			return j.Close()
		}))
	}
	return errors.Join(bad...)
}

// repaired opens something as it is, and if it is damaged without what is.
func repaired(out io.Writer, path string, open func(accept bool) error) error {
	damage := open(false)
	if !errors.Is(damage, record.ErrCorrupt) {
		if damage == nil {
			fmt.Fprintf(out, "%s: not damaged\n", path)
		}
		return damage
	}
	if err := open(true); err != nil {
		return fmt.Errorf("nothing of %s can be kept: %w", path, err)
	}
	_, err := fmt.Fprintf(out, "%s: repaired, without what was damaged: %v\n", path, damage)
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

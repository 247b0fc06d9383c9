package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/server"
)

// The manifest is a file of the data directory that lists the files which it should hold, as patterns, one
// a line. It is written once services have made theirs, and before any of them answers.
func manifestOf(dir string) string { return filepath.Join(dir, "manifest") }

// checkManifest fails when a file is gone that was there: without it all that was in it would begin anew,
// in silence.
func checkManifest(dir string) error {
	_, missing, err := readManifest(dir)
	if err != nil || missing == nil {
		return err
	}
	return fmt.Errorf("%w: %s is missing: restore it from a backup, or begin without it by weir repair "+
		"--accept-loss %s", record.ErrCorrupt, filepath.Join(dir, strings.Join(missing, ", ")), dir)
}

// readManifest returns the patterns of a manifest that have files, and those that have none.
func readManifest(dir string) (there, missing []string, err error) {
	text, err := os.ReadFile(manifestOf(dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	for pattern := range strings.Lines(string(text)) {
		pattern = strings.TrimSpace(pattern)
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", manifestOf(dir), err)
		}
		if files == nil {
			missing = append(missing, pattern)
		} else {
			there = append(there, pattern)
		}
	}
	return there, missing, nil
}

// extendManifest adds the files of services that have a method DataFiles() []string, patterns relative to
// the data directory.
func extendManifest(dir string, services []server.Service) error {
	listed, _, err := readManifest(dir)
	if err != nil {
		return err
	}
	all := listed
	for _, s := range services {
		if keeper, ok := s.(interface{ DataFiles() []string }); ok {
			all = append(all, keeper.DataFiles()...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == len(listed) {
		return nil
	}
	return writeManifest(dir, all)
}

func writeManifest(dir string, patterns []string) error {
	return disk.WriteFileAtomic(manifestOf(dir), []byte(strings.Join(patterns, "\n")+"\n"), 0o600)
}

package shed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
)

// memoryAvailable returns the bytes that can still be had without swapping or being killed: the least of
// what the machine has and of what is left below the limit of each cgroup this process is in, ancestors
// included. Cached files that were not used lately are free: the kernel takes them back before it refuses
// anything.
func (b *box) memoryAvailable() (float64, error) {
	available, err := MemInfo(b.root, "MemAvailable")
	if err != nil {
		return 0, err
	}
	groups, err := b.cgroups()
	if err != nil {
		return 0, err
	}
	for _, g := range groups.memory {
		left, limited, err := b.headroom(g)
		if err != nil {
			return 0, err
		}
		if limited {
			available = min(available, left)
		}
	}
	return float64(available), nil
}

// headroom returns what is left below the limit of a cgroup; limited is false when it has none.
func (b *box) headroom(g group) (left uint64, limited bool, err error) {
	limit, limited, err := b.memoryLimit(g)
	if err != nil || !limited {
		return 0, false, err
	}
	usageName, freeName := "memory.current", "inactive_file"
	if g.v1 {
		usageName, freeName = "memory.usage_in_bytes", "total_inactive_file"
	}
	usage, _, err := b.bytes(g, usageName)
	free, err2 := b.stat(g, "memory.stat", freeName)
	if err = cmp.Or(err, err2); err != nil {
		return 0, false, err
	}
	usage -= min(free, usage)
	return limit - min(usage, limit), true, nil
}

// memoryLimit returns the bytes that a cgroup may have.
func (b *box) memoryLimit(g group) (limit uint64, limited bool, err error) {
	name := "memory.max"
	if g.v1 {
		name = "memory.limit_in_bytes"
	}
	limit, limited, err = b.bytes(g, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // the root of all, or memory is not controlled here
	}
	return limit, limited, err
}

// bytes reads a file of a cgroup that holds one number, or none.
func (b *box) bytes(g group, file string) (n uint64, limited bool, err error) {
	text, err := b.read(path.Join(g.dir, file))
	if err != nil {
		return 0, false, err
	}
	return parseLimit(text)
}

// stat reads a line of a file of a cgroup.
func (b *box) stat(g group, file, name string) (uint64, error) {
	text, err := b.read(path.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	return parseStat(text, name)
}

// MemInfo returns a figure of /proc/meminfo, in bytes, below the root of a file system.
func MemInfo(root fs.FS, name string) (uint64, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	return parseMemInfo(text, name)
}

// parseMemInfo returns a line of /proc/meminfo in bytes.
func parseMemInfo(text []byte, name string) (uint64, error) {
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		if string(key) != name {
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0, fmt.Errorf("/proc/meminfo: %s is not so many kB but %.30q", name, value)
		}
		kb, err := strconv.ParseUint(string(fields[0]), 10, 64)
		if err != nil || kb > math.MaxUint64>>10 {
			return 0, fmt.Errorf("/proc/meminfo: %s is not a number but %.30q", name, value)
		}
		return kb << 10, nil
	}
	return 0, fmt.Errorf("/proc/meminfo has no %s", name)
}

// noLimit is about what version 1 says where there is none: the largest number of whole pages.
const noLimit = math.MaxInt64 >> 1

// parseLimit reads a file of one number of bytes, or "max".
func parseLimit(text []byte) (bytesOf uint64, limited bool, err error) {
	value := string(bytes.TrimSpace(text))
	if value == "max" || value == "-1" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("a cgroup's file holds %.30q where a number of bytes should be", value)
	}
	return n, n < noLimit, nil
}

// parseStat returns one line of a memory.stat file.
func parseStat(text []byte, name string) (uint64, error) {
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(" "))
		if string(key) != name {
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory.stat: %s is not a number but %.30q", name, value)
		}
		return n, nil
	}
	return 0, fmt.Errorf("memory.stat has no %s", name)
}

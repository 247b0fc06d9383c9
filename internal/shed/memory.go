package shed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryAvailable returns the bytes that can still be had without swapping or being killed: the least of
// what the machine has and of what is left below the limit of each cgroup this process is in, ancestors
// included. Cached files that were not used lately are free: the kernel takes them back before it refuses
// anything.
func (b *box) memoryAvailable() (float64, error) {
	text, err := b.read("proc/meminfo")
	if err != nil {
		return 0, err
	}
	available, err := parseAvailable(text)
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

// memoryGroup is a cgroup that may limit memory.
type memoryGroup struct {
	dir string // below the root
	v1  bool
}

// headroom returns what is left below the limit of a cgroup; limited is false when it has none.
func (b *box) headroom(g memoryGroup) (left uint64, limited bool, err error) {
	limitName, usageName, freeName := "memory.max", "memory.current", "inactive_file"
	if g.v1 {
		limitName, usageName, freeName = "memory.limit_in_bytes", "memory.usage_in_bytes",
			"total_inactive_file"
	}
	text, err := b.read(filepath.Join(g.dir, limitName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // the root of all, or memory is not controlled here
	}
	if err != nil {
		return 0, false, err
	}
	limit, limited, err := parseLimit(text)
	if err != nil || !limited {
		return 0, false, err
	}
	if text, err = b.read(filepath.Join(g.dir, usageName)); err != nil {
		return 0, false, err
	}
	usage, _, err := parseLimit(text)
	if err != nil {
		return 0, false, err
	}
	if text, err = b.read(filepath.Join(g.dir, "memory.stat")); err != nil {
		return 0, false, err
	}
	free, err := parseStat(text, freeName)
	if err != nil {
		return 0, false, err
	}
	usage -= min(free, usage)
	return limit - min(usage, limit), true, nil
}

// parseAvailable returns MemAvailable of /proc/meminfo in bytes.
func parseAvailable(text []byte) (uint64, error) {
	for line := range bytes.Lines(text) {
		value, ok := bytes.CutPrefix(line, []byte("MemAvailable:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0, fmt.Errorf("/proc/meminfo: MemAvailable is not so many kB but %.30q", value)
		}
		kb, err := strconv.ParseUint(string(fields[0]), 10, 64)
		if err != nil || kb > math.MaxUint64>>10 {
			return 0, fmt.Errorf("/proc/meminfo: MemAvailable is not a number but %.30q", value)
		}
		return kb << 10, nil
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
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

// ownCgroups is where this process's cgroups are, as long as it stays in them.
type ownCgroups struct {
	of      string // what /proc/self/cgroup said
	memory  []memoryGroup
	unified string // its directory in version 2, empty when there is none
}

// cgroups finds the cgroups of this process, again when it has been moved.
func (b *box) cgroups() (*ownCgroups, error) {
	membership, err := b.read("proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return &ownCgroups{}, nil // a kernel without them
	}
	if err != nil {
		return nil, err
	}
	if b.own.of == string(membership) {
		return &b.own, nil
	}
	mounts, err := b.read("proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own := findCgroups(membership, mounts)
	own.of = string(membership)
	b.own = own
	return &b.own, nil
}

// findCgroups returns the directories of a process's cgroups: the ones for memory with all their ancestors
// that can be seen from here. Lines of another form than the kernel's are passed over.
func findCgroups(membership, mounts []byte) ownCgroups {
	var own ownCgroups
	add := func(group string, v1 bool, controller string) {
		for _, m := range parseMounts(mounts) {
			if m.v1 != v1 || v1 && !hasWord(m.controllers, controller) {
				continue
			}
			below, ok := within(m.root, group)
			if !ok {
				below = "/" // the mount shows another part of the tree: at least what it shows
			}
			dir := path.Join(m.at, below)
			if !v1 && own.unified == "" {
				own.unified = dir
			}
			for {
				own.memory = append(own.memory, memoryGroup{dir, v1})
				if dir == path.Clean(m.at) || dir == "/" {
					break
				}
				dir = path.Dir(dir)
			}
			return
		}
	}
	for line := range bytes.Lines(membership) {
		parts := strings.SplitN(strings.TrimRight(string(line), "\n"), ":", 3)
		switch {
		case len(parts) != 3 || !strings.HasPrefix(parts[2], "/"):
		case parts[0] == "0" && parts[1] == "":
			add(parts[2], false, "")
		case hasWord(parts[1], "memory"):
			add(parts[2], true, "memory")
		}
	}
	return own
}

// within returns path as seen below root, both cleaned.
func within(root, group string) (string, bool) {
	root, group = path.Clean(root), path.Clean(group)
	if root == "/" {
		return group, true
	}
	below, ok := strings.CutPrefix(group, root)
	if !ok || below != "" && below[0] != '/' {
		return "", false
	}
	return path.Clean("/" + below), true
}

// mount is where a hierarchy of cgroups can be seen.
type mount struct {
	root, at    string // the part of the hierarchy, and where it is
	v1          bool
	controllers string // of version 1, by comma
}

// parseMounts returns the mounts of cgroups in a mountinfo file.
func parseMounts(text []byte) []mount {
	var mounts []mount
	for line := range bytes.Lines(text) {
		before, after, ok := strings.Cut(string(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 || !strings.HasPrefix(kind[0], "cgroup") {
			continue
		}
		m := mount{root: unescape(fields[3]), at: unescape(fields[4])}
		switch kind[0] {
		case "cgroup":
			m.v1, m.controllers = true, kind[2]
		case "cgroup2":
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape undoes mountinfo's octal escapes of blanks and backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

package shed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Cgroups is what the cgroups of this process let it have, ancestors included, and what they have kept from
// it. 0 is no limit.
type Cgroups struct {
	Memory    uint64  // bytes
	CPUs      float64 // processors
	Throttled float64 // the share of their periods in which somebody was kept from running
}

// ReadCgroups reads the files of cgroups below the root of a file system.
func ReadCgroups(root fs.FS) (c Cgroups, err error) {
	b := &box{root: root}
	own, err := b.cgroups()
	if err != nil {
		return c, err
	}
	for _, g := range own.memory {
		limit, limited, err := b.memoryLimit(g)
		if err != nil {
			return c, err
		}
		if limited && (c.Memory == 0 || limit < c.Memory) {
			c.Memory = limit
		}
	}
	for _, g := range own.cpu {
		cpus, err := b.quota(g)
		if err != nil {
			return c, err
		}
		if cpus == 0 {
			continue
		}
		if c.CPUs == 0 || cpus < c.CPUs {
			c.CPUs = cpus
		}
		periods, err := b.stat(g, "cpu.stat", "nr_periods")
		throttled, err2 := b.stat(g, "cpu.stat", "nr_throttled")
		if err = cmp.Or(err, err2); err != nil {
			return c, err
		}
		c.Throttled = max(c.Throttled, float64(throttled)/float64(max(periods, 1)))
	}
	return c, nil
}

// quota returns how many processors a cgroup may use, 0 where it has no quota.
func (b *box) quota(g group) (float64, error) {
	names := []string{"cpu.max"} // quota and period
	if g.v1 {
		names = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	}
	var fields []string
	for _, name := range names {
		text, err := b.read(path.Join(g.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		fields = append(fields, strings.Fields(string(text))...)
	}
	if len(fields) == 2 && (fields[0] == "max" || fields[0] == "-1") {
		return 0, nil
	}
	if len(fields) == 2 {
		quota, err := strconv.ParseUint(fields[0], 10, 63)
		period, err2 := strconv.ParseUint(fields[1], 10, 63)
		if err == nil && err2 == nil && period > 0 {
			return float64(quota) / float64(period), nil
		}
	}
	return 0, fmt.Errorf("a cgroup's quota of processors is no quota and period but %.60q", fields)
}

// ownCgroups is where this process's cgroups are, as long as it stays in them.
type ownCgroups struct {
	of      string // what /proc/self/cgroup said
	memory  []group
	cpu     []group
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

// group is a cgroup that may limit something.
type group struct {
	dir string // below the root
	v1  bool
}

// findCgroups returns the directories of a process's cgroups: the ones for memory and processors with all
// their ancestors that can be seen from here. Lines of another form than the kernel's are passed over.
func findCgroups(membership, mounts []byte) ownCgroups {
	mounted := parseMounts(mounts)
	// seen lists a cgroup of version 1's controller, or of version 2 where that is empty, and its ancestors.
	seen := func(at, controller string) (groups []group) {
		v1 := controller != ""
		for _, m := range mounted {
			if m.v1 != v1 || v1 && !hasWord(m.controllers, controller) {
				continue
			}
			below, ok := within(m.root, at)
			if !ok {
				below = "/" // the mount shows another part of the tree: at least what it shows
			}
			for dir := path.Join(m.at, below); ; dir = path.Dir(dir) {
				groups = append(groups, group{dir, v1})
				if dir == path.Clean(m.at) || dir == "/" {
					return groups
				}
			}
		}
		return nil
	}
	var own ownCgroups
	for line := range bytes.Lines(membership) {
		parts := strings.SplitN(strings.TrimRight(string(line), "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			groups := seen(parts[2], "")
			own.memory, own.cpu = append(own.memory, groups...), append(own.cpu, groups...)
			if len(groups) > 0 && own.unified == "" {
				own.unified = groups[0].dir
			}
			continue
		}
		if hasWord(parts[1], "memory") {
			own.memory = append(own.memory, seen(parts[2], "memory")...)
		}
		if hasWord(parts[1], "cpu") {
			own.cpu = append(own.cpu, seen(parts[2], "cpu")...)
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

func hasWord(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }

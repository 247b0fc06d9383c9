// Package doctor says what a machine has that will hurt a server under load: settings of the kernel, limits
// of the process and its cgroups, clocks, the file system of the data directory. Each finding says what is
// there, why it hurts and the commands that mend it; it changes nothing itself.
//
// What Linux tells through files is read below Machine.Files, so that a test brings its own. What cannot be
// read, for want of a right or on other systems, is a finding as well, Unseen with the reason. Sizes are in
// bytes. The severities: Bad will fail or lose something at the load that the server is set up for, Warn
// costs speed or becomes bad later.
//
// Sources: Documentation/admin-guide/sysctl and admin-guide/mm of Linux, ip-sysctl.rst, proc(5), statfs(2),
// clock sources in timekeeping.rst.
package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/disk"
)

// Severity says how much a finding matters.
type Severity string

// The severities, from the worst.
const (
	Bad    Severity = "bad"
	Warn   Severity = "warn"
	Unseen Severity = "unseen" // could not be looked at
	OK     Severity = "ok"
)

// A Finding is what one check has found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Found    string   `json:"found"`          // what there is, or why it cannot be looked at
	Why      string   `json:"why,omitempty"`  // why it hurts; empty, as all that follows, where nothing does
	Mend     string   `json:"mend,omitempty"` // commands or changes that mend it now
	Keep     string   `json:"keep,omitempty"` // and make that last; empty where Mend does
}

// Machine is what is looked at, and what a server will ask of it.
type Machine struct {
	Files fs.FS  // the root directory, of which /proc and /sys are read
	CPUs  int    // processors that the process may run on
	Data  string // the data directory, which need not be there yet; empty is none

	Listen         string // addresses, by comma; empty ones are none
	MaxConnections int
	Loops          int   // event loops, each a thread
	MemoryLimit    int64 // GOMEMLIMIT; math.MaxInt64 is none

	Volume func(dir string) (disk.Volume, error)
	Sync   func(dir string) (median, longest time.Duration, err error) // nil leaves the check out
	Synced func() (bool, error)                                        // whether the clock is kept right
}

// This returns the machine that it runs on, without what a server will ask of it.
func This() *Machine {
	return &Machine{Files: os.DirFS("/"), CPUs: runtime.NumCPU(), MemoryLimit: math.MaxInt64,
		Volume: disk.VolumeOf, Sync: measureSync, Synced: clockSynced}
}

// checks are in the order of the report. Each returns what it has found, or why it cannot look.
var checks = []struct {
	name string
	look func(*Machine) (Finding, error)
	data bool // about the data directory
}{
	{"accept queue", (*Machine).acceptQueue, false},
	{"SYN backlog", (*Machine).synBacklog, false},
	{"open files", (*Machine).openFiles, false},
	{"conntrack", (*Machine).conntrack, false},
	{"local ports", (*Machine).localPorts, false},
	{"swap", (*Machine).swap, false},
	{"huge pages", (*Machine).hugePages, false},
	{"overcommit", (*Machine).overcommit, false},
	{"memory maps", (*Machine).memoryMaps, false},
	{"memory limit", (*Machine).memory, false},
	{"processors", (*Machine).processors, false},
	{"clock source", (*Machine).clockSource, false},
	{"time", (*Machine).time, false},
	{"file system", (*Machine).fileSystem, true},
	{"space", (*Machine).space, true},
	{"fsync", (*Machine).fsync, true},
}

// Examine looks at everything and returns a finding for each check, in one order.
func (m *Machine) Examine() []Finding {
	findings := make([]Finding, 0, len(checks))
	for _, c := range checks {
		if c.data && m.Data == "" || c.name == "fsync" && m.Sync == nil {
			continue
		}
		f, err := c.look(m)
		if err != nil {
			f = Finding{Severity: Unseen, Found: reason(err)}
		}
		f.Check = c.name
		findings = append(findings, f)
	}
	return findings
}

// Of returns the findings of a severity.
func Of(findings []Finding, s Severity) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Severity != s })
}

// reason says why something cannot be looked at.
func reason(err error) string {
	if runtime.GOOS != "linux" && (errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist)) {
		return "cannot be looked at on " + runtime.GOOS
	}
	return "cannot be looked at: " + err.Error()
}

// ok is a finding that nothing is wrong with.
func ok(format string, args ...any) (Finding, error) {
	return Finding{Severity: OK, Found: fmt.Sprintf(format, args...)}, nil
}

// text reads a file, without the blanks around.
func (m *Machine) text(path string) (string, error) {
	text, err := fs.ReadFile(m.Files, path)
	return string(bytes.TrimSpace(text)), err
}

// numbers reads the whole numbers of a file, n of them.
func (m *Machine) numbers(path string, n int) ([]int64, error) {
	text, err := m.text(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(text)
	if len(fields) != n {
		return nil, fmt.Errorf("/%s: expected %d numbers, got %.40q", path, n, text)
	}
	numbers := make([]int64, n)
	for i, field := range fields {
		if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return nil, fmt.Errorf("/%s: expected %d numbers, got %.40q", path, n, text)
		}
	}
	return numbers, nil
}

// sysctl reads a setting of one number, named as sysctl(8) does.
func (m *Machine) sysctl(name string) (int64, error) {
	n, err := m.numbers("proc/sys/"+strings.ReplaceAll(name, ".", "/"), 1)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// set adds the commands that change a setting of the kernel, now and for good.
func (f Finding) set(name, value string) (Finding, error) {
	f.Mend = fmt.Sprintf("sysctl -w %s='%s'", name, value)
	f.Keep = fmt.Sprintf("echo '%s = %s' >>/etc/sysctl.d/90-weir.conf", name, value)
	return f, nil
}

// chosen returns the word in brackets of a file like "always [madvise] never".
func chosen(text string) (string, bool) {
	_, rest, _ := strings.Cut(text, "[")
	word, _, found := strings.Cut(rest, "]")
	return word, found
}

// existing returns dir, or the nearest directory above it that is there.
func existing(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		} else if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", errors.Join(err, fmt.Errorf("%s is no directory", dir))
		}
		dir = filepath.Dir(dir)
	}
}

// measureSync appends to a temporary file of a directory, and returns how long it takes until that is on the
// disk, for as many blocks as half a second allows.
func measureSync(dir string) (median, longest time.Duration, err error) {
	f, err := disk.CreateTemp(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, 4096)
	var took []time.Duration
	for begun := time.Now(); len(took) < 16 && (len(took) < 3 || time.Since(begun) < time.Second/2); {
		if _, err := f.Write(block); err != nil {
			return 0, 0, err
		}
		start := time.Now()
		if err := disk.SyncData(f.File); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)-1], nil
}

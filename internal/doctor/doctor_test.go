package doctor_test

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"weir/internal/disk"
	"weir/internal/doctor"
)

const (
	gib     = 1 << 30
	sysctls = "proc/sys/"
	clocks  = "sys/devices/system/clocksource/clocksource0/"
	huge    = "sys/kernel/mm/transparent_hugepage/"
)

// healthy is what a machine shows that nothing is wrong with.
var healthy = map[string]string{
	sysctls + "net/core/somaxconn":               "4096\n",
	sysctls + "net/ipv4/tcp_max_syn_backlog":     "512\n",
	sysctls + "net/ipv4/tcp_syncookies":          "1\n",
	sysctls + "net/ipv4/ip_local_port_range":     "32768\t60999\n",
	sysctls + "net/ipv4/ip_local_reserved_ports": "\n",
	sysctls + "net/netfilter/nf_conntrack_max":   "262144\n",
	sysctls + "net/netfilter/nf_conntrack_count": "120\n",
	sysctls + "fs/file-nr":                       "1500\t0\t9223372036854775807\n",
	sysctls + "vm/overcommit_memory":             "0\n",
	sysctls + "vm/max_map_count":                 "65530\n",
	"proc/self/limits":                           limits("1024", "524288"),
	"proc/self/cgroup":                           "0::/weir\n",
	"proc/self/mountinfo":                        "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
	"sys/fs/cgroup/weir/memory.max":              "max\n",
	"sys/fs/cgroup/weir/cpu.max":                 "max 100000\n",
	"proc/meminfo":                               meminfo(0, 0),
	huge + "enabled":                             "always [madvise] never\n",
	huge + "defrag":                              "always defer defer+madvise [madvise] never\n",
	clocks + "current_clocksource":               "tsc\n",
	clocks + "available_clocksource":             "tsc hpet acpi_pm \n",
}

func limits(soft, hard string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            " + soft + "                 " + hard + "               files     \n"
}

// meminfo is of a machine with 16 GiB, and as many of swap and of what may be promised as given.
func meminfo(swapUsed, promised int) string {
	kb := func(name string, gibs int) string {
		return name + ": " + strconv.Itoa(gibs<<20) + " kB\n"
	}
	return kb("MemTotal", 16) + kb("SwapTotal", 8) + kb("SwapFree", 8-swapUsed) + kb("CommitLimit", 20) +
		kb("Committed_AS", 20-promised)
}

// machine is a healthy one with other files and what change changes.
func machine(t *testing.T, files map[string]string, change func(*doctor.Machine)) *doctor.Machine {
	t.Helper()
	shown := fstest.MapFS{}
	all := maps.Clone(healthy)
	maps.Copy(all, files)
	for path, text := range all {
		if text != missing {
			shown[path] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	m := &doctor.Machine{Files: shown, CPUs: 4, Data: filepath.Join(t.TempDir(), "not", "there"),
		Listen: ":8080,,127.0.0.1:8081", MaxConnections: 100_000, Loops: 4, MemoryLimit: math.MaxInt64,
		Volume: volume(disk.Volume{Kind: "ext4", Size: 100 * gib, Free: 50 * gib, Files: 1e6,
			FreeFiles: 9e5}),
		Sync:   syncs(300 * time.Microsecond),
		Synced: func() (bool, error) { return true, nil }}
	if change != nil {
		change(m)
	}
	return m
}

// missing is a file that is not there.
const missing = "\x00"

func volume(v disk.Volume) func(string) (disk.Volume, error) {
	return func(string) (disk.Volume, error) { return v, nil }
}

func syncs(took time.Duration) func(string) (time.Duration, time.Duration, error) {
	return func(string) (time.Duration, time.Duration, error) { return took, 2 * took, nil }
}

func TestNothingIsWrongWithAHealthyMachine(t *testing.T) {
	for _, f := range machine(t, nil, nil).Examine() {
		if f.Severity != doctor.OK || f.Found == "" || f.Why+f.Mend+f.Keep != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestWhatHurtsIsFound(t *testing.T) {
	on := func(kind string) func(*doctor.Machine) {
		return func(m *doctor.Machine) {
			m.Volume = volume(disk.Volume{Kind: kind, Size: 100 * gib, Free: 50 * gib})
		}
	}
	cgroup := func(memory, cpu, stat string) map[string]string {
		return map[string]string{"sys/fs/cgroup/weir/memory.max": memory, "sys/fs/cgroup/weir/cpu.max": cpu,
			"sys/fs/cgroup/weir/cpu.stat": stat}
	}
	calm := "nr_periods 100\nnr_throttled 1\n"
	for name, test := range map[string]struct {
		check    string
		severity doctor.Severity
		files    map[string]string
		change   func(*doctor.Machine)
		found    string // a part of what is found
		mend     string // a part of what mends it
	}{
		"queue of old kernels": {"accept queue", doctor.Bad,
			map[string]string{sysctls + "net/core/somaxconn": "128"}, nil,
			"128", "sysctl -w net.core.somaxconn='4096'"},
		"smaller queue": {"accept queue", doctor.Warn,
			map[string]string{sysctls + "net/core/somaxconn": "2048"}, nil, "2048", "4096"},
		"no SYN cookies": {"SYN backlog", doctor.Warn,
			map[string]string{sysctls + "net/ipv4/tcp_syncookies": "0"}, nil,
			"512", "net.ipv4.tcp_syncookies='1'"},
		"few descriptors": {"open files", doctor.Bad,
			map[string]string{"proc/self/limits": limits("1024", "20000")}, nil,
			"hard 20000; --max-connections is 100000", "ulimit -Hn"},
		"enough descriptors for fewer connections": {"open files", doctor.OK,
			map[string]string{"proc/self/limits": limits("1024", "20000")},
			func(m *doctor.Machine) { m.MaxConnections = 19_000 }, "hard 20000", ""},
		"no limit of descriptors": {"open files", doctor.OK,
			map[string]string{"proc/self/limits": limits("1024", "unlimited")}, nil, "1024", ""},
		"few descriptors on the machine": {"open files", doctor.Bad,
			map[string]string{sysctls + "fs/file-nr": "60000 0 100000"}, nil, "40000", "fs.file-max="},
		"full table of connections": {"conntrack", doctor.Bad,
			map[string]string{sysctls + "net/netfilter/nf_conntrack_count": "262100"}, nil,
			"262100 of 262144", "net.netfilter.nf_conntrack_max='524200'"},
		"small table of connections": {"conntrack", doctor.Warn,
			map[string]string{sysctls + "net/netfilter/nf_conntrack_max": "65536"}, nil,
			"120 of 65536", "'200000'"},
		"no table of connections": {"conntrack", doctor.OK,
			map[string]string{sysctls + "net/netfilter/nf_conntrack_max": missing}, nil, "not loaded", ""},
		"few local ports": {"local ports", doctor.Warn,
			map[string]string{sysctls + "net/ipv4/ip_local_port_range": "50000 60999"}, nil,
			"11000 of them", "net.ipv4.ip_local_port_range"},
		"listening among local ports": {"local ports", doctor.Warn,
			map[string]string{sysctls + "net/ipv4/ip_local_port_range": "1024 65535",
				sysctls + "net/ipv4/ip_local_reserved_ports": "8000-8080"}, nil,
			"port 8081", "net.ipv4.ip_local_reserved_ports='8000-8080,8081'"},
		"listening at reserved ports": {"local ports", doctor.OK,
			map[string]string{sysctls + "net/ipv4/ip_local_port_range": "1024 65535",
				sysctls + "net/ipv4/ip_local_reserved_ports": "22,8080-8081"}, nil, "1024", ""},
		"much swapped": {"swap", doctor.Bad, map[string]string{"proc/meminfo": meminfo(2, 10)}, nil,
			"2.00 GiB of 8.00 GiB", "swapoff -a"},
		"something swapped": {"swap", doctor.Warn, map[string]string{"proc/meminfo": meminfo(1, 10)}, nil,
			"1.00 GiB", "vm.swappiness=1"},
		"no huge pages": {"huge pages", doctor.Warn,
			map[string]string{huge + "enabled": "always madvise [never]"}, nil, "never",
			"echo madvise >/" + huge + "enabled"},
		"huge pages at any price": {"huge pages", doctor.Warn,
			map[string]string{huge + "enabled": "[always] madvise never",
				huge + "defrag": "[always] never"}, nil,
			"always, defrag always", "echo madvise"},
		"huge pages when there are some": {"huge pages", doctor.OK,
			map[string]string{huge + "enabled": "[always] madvise never"}, nil, "always", ""},
		"no overcommit": {"overcommit", doctor.Warn, map[string]string{sysctls + "vm/overcommit_memory": "2",
			"proc/meminfo": meminfo(0, 10)}, nil, "10.00 GiB", "vm.overcommit_memory='0'"},
		"all is promised": {"overcommit", doctor.Bad,
			map[string]string{sysctls + "vm/overcommit_memory": "2",
				"proc/meminfo": meminfo(0, 0)}, nil, "0 B", "vm.overcommit_memory"},
		"few maps": {"memory maps", doctor.Bad, map[string]string{sysctls + "vm/max_map_count": "1024"}, nil,
			"1024", "vm.max_map_count='65530'"},
		"fewer maps": {"memory maps", doctor.Warn, map[string]string{sysctls + "vm/max_map_count": "32768"},
			nil,
			"32768", "vm.max_map_count"},
		"GOMEMLIMIT beyond the cgroup": {"memory limit", doctor.Bad, cgroup("1073741824", "max 100000",
			calm),
			func(m *doctor.Machine) { m.MemoryLimit = 2 * gib },
			"the cgroup may have 1.00 GiB, GOMEMLIMIT is 2.00 GiB",
			"--memory-ratio"},
		"GOMEMLIMIT beyond the machine": {"memory limit", doctor.Bad, nil,
			func(m *doctor.Machine) { m.MemoryLimit = 17 * gib }, "the machine has 16.00 GiB",
			"--memory-ratio"},
		"GOMEMLIMIT close to the cgroup": {"memory limit", doctor.Warn, cgroup("1073741824", "max 100000",
			calm),
			func(m *doctor.Machine) { m.MemoryLimit = gib - 50<<20 }, "974.00 MiB", "--memory-ratio"},
		"GOMEMLIMIT well below the cgroup": {"memory limit", doctor.OK, cgroup("1073741824", "max 100000",
			calm),
			func(m *doctor.Machine) { m.MemoryLimit = gib * 7 / 10 }, "1.00 GiB", ""},
		"a cgroup and no GOMEMLIMIT": {"memory limit", doctor.Bad, cgroup("1073741824", "max 100000", calm),
			nil,
			"GOMEMLIMIT is not set", "--memory-ratio 0.7"},
		"more loops than a quota": {"processors", doctor.Bad, cgroup("max", "150000 100000", calm), nil,
			"a quota of 1.5 of 4 processors, --loops is 4", "--loops 1"},
		"more loops than processors": {"processors", doctor.Bad, nil,
			func(m *doctor.Machine) { m.Loops = 8 }, "4 processors, --loops is 8", "--loops 4"},
		"throttled": {"processors", doctor.Warn,
			cgroup("max", "400000 100000", "nr_periods 100\nnr_throttled 100\n"),
			func(m *doctor.Machine) { m.CPUs = 8 }, "100 %", "quota"},
		"as many loops as a quota": {"processors", doctor.OK, cgroup("max", "350000 100000", calm), nil,
			"3.5 of 4", ""},
		"slow clock": {"clock source", doctor.Bad,
			map[string]string{clocks + "current_clocksource": "hpet"}, nil,
			"hpet", "echo tsc >/" + clocks + "current_clocksource"},
		"slow clock and no other": {"clock source", doctor.Bad,
			map[string]string{clocks + "current_clocksource": "acpi_pm",
				clocks + "available_clocksource": "acpi_pm"},
			nil, "acpi_pm", "dmesg"},
		"a clock nobody sets": {"time", doctor.Warn, nil,
			func(m *doctor.Machine) { m.Synced = func() (bool, error) { return false, nil } }, "nobody",
			"set-ntp"},
		"data in memory":      {"file system", doctor.Bad, nil, on("tmpfs"), "tmpfs", "--data"},
		"data in a container": {"file system", doctor.Warn, nil, on("overlay"), "overlay", "volume"},
		"data far away":       {"file system", doctor.Bad, nil, on("nfs"), "nfs", "ext4"},
		"data of the host":    {"file system", doctor.Bad, nil, on("9p"), "9p", "ext4"},
		"data copied on write": {"file system", doctor.Bad, nil, on("btrfs"), "btrfs",
			"ext4"},
		"inodes without a bound": {"space", doctor.OK, nil, on("btrfs"), "50.00 GiB", ""},
		"a full disk": {"space", doctor.Bad, nil, func(m *doctor.Machine) {
			m.Volume = volume(disk.Volume{Kind: "ext4", Size: 100 * gib, Free: 100 << 20, Files: 1e6,
				FreeFiles: 9e5})
		}, "100.00 MiB of 100.00 GiB", "du -xh"},
		"an almost full disk": {"space", doctor.Warn, nil, func(m *doctor.Machine) {
			m.Volume = volume(disk.Volume{Kind: "ext4", Size: 100 * gib, Free: 4 * gib, Files: 1e6,
				FreeFiles: 9e5})
		}, "4.00 GiB", "du -xh"},
		"no inodes": {"space", doctor.Bad, nil, func(m *doctor.Machine) {
			m.Volume = volume(disk.Volume{Kind: "ext4", Size: 100 * gib, Free: 50 * gib, Files: 1e6,
				FreeFiles: 9})
		}, "9 of 1000000 inodes", "inodes"},
		"syncs that are none": {"fsync", doctor.Warn, nil,
			func(m *doctor.Machine) { m.Sync = syncs(2 * time.Microsecond) }, "2µs", "eatmydata"},
		"slow syncs": {"fsync", doctor.Warn, nil,
			func(m *doctor.Machine) { m.Sync = syncs(50 * time.Millisecond) }, "50ms, at most 100ms",
			"iostat"},
		"very slow syncs": {"fsync", doctor.Bad, nil,
			func(m *doctor.Machine) { m.Sync = syncs(time.Second) }, "1s", "iostat"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range machine(t, test.files, test.change).Examine() {
				if f.Check != test.check {
					continue
				}
				hurts := f.Severity != doctor.OK
				if f.Severity != test.severity || !strings.Contains(f.Found, test.found) ||
					!strings.Contains(f.Mend,
						test.mend) || hurts != (f.Why != "") || hurts != (f.Mend != "") {
					t.Errorf("%+v", f)
				}
				return
			}
			t.Errorf("there is no check %q", test.check)
		})
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	refuse := errors.New("refused")
	m := &doctor.Machine{Files: fstest.MapFS{}, Data: t.TempDir(),
		Volume: func(string) (disk.Volume, error) { return disk.Volume{}, refuse },
		Sync:   func(string) (time.Duration, time.Duration, error) { return 0, 0, refuse },
		Synced: func() (bool, error) { return false, refuse }}
	findings := m.Examine()
	for _, f := range findings {
		if f.Severity != doctor.Unseen && f.Check != "processors" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	for path := range healthy {
		for _, text := range []string{"", "nonsense\n", "-\n\n-"} {
			for _, f := range machine(t, map[string]string{path: text}, nil).Examine() {
				if f.Severity == doctor.Bad {
					t.Errorf("%s is %q, and that is %+v", path, text, f)
				}
			}
		}
	}
	m.Data, m.Sync = "", nil
	if without := m.Examine(); len(without) != len(findings)-3 {
		t.Errorf("without data there are %d checks, with it %d", len(without), len(findings))
	}
}

// Whatever this machine is like, on Linux most of it can be read, also in a sandbox.
func TestThisMachineCanBeExamined(t *testing.T) {
	m := doctor.This()
	m.Data, m.MaxConnections, m.Loops, m.Listen = t.TempDir(), 10, 1, "127.0.0.1:0"
	seen := 0
	for _, f := range m.Examine() {
		t.Logf("%+v", f)
		if f.Severity != doctor.Unseen {
			seen++
		}
	}
	if runtime.GOOS == "linux" && seen < 8 {
		t.Errorf("%d checks could be made", seen)
	}
	if left, err := fs.Glob(m.Files, strings.TrimPrefix(filepath.Join(m.Data, "*"),
		"/")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

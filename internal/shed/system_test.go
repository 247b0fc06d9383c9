package shed

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// fakeBox returns a box whose files are those given.
func fakeBox(t *testing.T, files map[string]string) *box {
	t.Helper()
	b := &box{root: fstest.MapFS{}}
	for path, text := range files {
		b.write(t, path, text)
	}
	return b
}

func (b *box) write(t *testing.T, path, text string) {
	t.Helper()
	b.root.(fstest.MapFS)[path] = &fstest.MapFile{Data: []byte(text)}
}

const (
	meminfo = "MemTotal:       24683520 kB\nMemFree:          100000 kB\nMemAvailable:    1048576 kB\n" +
		"Buffers: 1 kB\n"
	mountsV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - " +
		"cgroup cgroup rw,cpu\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	unlimited = "9223372036854771712\n"
)

func TestAvailableMemoryIsTheLeastOfAllLimits(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no cgroups": {map[string]string{}, 1024 * mib},
		"version 2, own limit": {map[string]string{
			"proc/self/cgroup":                     "0::/a/b\n",
			"proc/self/mountinfo":                  mountsV2,
			"sys/fs/cgroup/a/b/memory.max":         "314572800\n",
			"sys/fs/cgroup/a/b/memory.current":     "104857600\n",
			"sys/fs/cgroup/a/b/memory.stat":        "anon 5\ninactive_file 52428800\nactive_file 7\n",
			"sys/fs/cgroup/a/memory.max":           "max\n",
			"sys/fs/cgroup/memory.pressure":        "",
			"sys/fs/cgroup/a/memory.current":       "104857600\n",
			"sys/fs/cgroup/a/memory.stat":          "inactive_file 0\n",
			"sys/fs/cgroup/a/b/memory.something":   "1",
			"sys/fs/cgroup/other/memory.max":       "1\n",
			"sys/fs/cgroup/other/memory.current":   "1\n",
			"sys/fs/cgroup/other/memory.stat":      "inactive_file 0\n",
			"sys/fs/cgroup/a/b/c/memory.max":       "1\n",
			"sys/fs/cgroup/a/b/c/memory.current":   "1\n",
			"sys/fs/cgroup/a/b/c/memory.swap.max":  "1\n",
			"sys/fs/cgroup/a/b/memory.swap.max":    "0\n",
			"sys/fs/cgroup/a/b/memory.events":      "oom 0\n",
			"sys/fs/cgroup/a/b/cgroup.controllers": "memory\n",
		}, 250 * mib},
		"version 2, an ancestor's limit": {map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"proc/self/mountinfo":              mountsV2,
			"sys/fs/cgroup/a/b/memory.max":     "314572800\n",
			"sys/fs/cgroup/a/b/memory.current": "104857600\n",
			"sys/fs/cgroup/a/b/memory.stat":    "inactive_file 0\n",
			"sys/fs/cgroup/a/memory.max":       "419430400\n",
			"sys/fs/cgroup/a/memory.current":   "398458880\n",
			"sys/fs/cgroup/a/memory.stat":      "inactive_file 10485760\n",
		}, 30 * mib},
		"version 1, children's cache counts": {map[string]string{
			"proc/self/cgroup": "9:name=systemd:/\n4:cpu,cpuacct:/x\n" +
				"3:memory:/a\n0::/\n",
			"proc/self/mountinfo": mountsV1 +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "805306368\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "786432000\n",
			"sys/fs/cgroup/memory/a/memory.stat":           "inactive_file 1\ntotal_inactive_file 10485760\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   unlimited,
		}, 28 * mib},
		"beyond the limit": {map[string]string{
			"proc/self/cgroup":               "0::/a\n",
			"proc/self/mountinfo":            mountsV2,
			"sys/fs/cgroup/a/memory.max":     "1000\n",
			"sys/fs/cgroup/a/memory.current": "5000\n",
			"sys/fs/cgroup/a/memory.stat":    "inactive_file 9000\n",
		}, 1000},
		"a container that sees a part of the tree": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/abc/inner\n",
			"proc/self/mountinfo": "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw " +
				"- cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 0\n",
		}, mib},
		"a container that sees another part": {map[string]string{
			"proc/self/cgroup": "0::/../elsewhere\n",
			"proc/self/mountinfo": "29 23 0:26 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 " +
				"cgroup2 rw\n",
			"sys/fs/my cgroup/memory.max":  "2097152\n",
			"sys/fs/my cgroup/memory.stat": "inactive_file 0\n", "sys/fs/my cgroup/memory.current": "0\n",
		}, 2 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["proc/meminfo"] = meminfo
			got, err := fakeBox(t, test.files).memoryAvailable()
			if err != nil || got != test.want {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestLimitsOfCgroupsAreTheLeastOfAllAncestors(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		files map[string]string
		want  Cgroups
	}{
		"a kernel without them": {map[string]string{}, Cgroups{}},
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mountsV2,
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1048576\n",
			"sys/fs/cgroup/a/b/cpu.max":  "400000 100000\n",
			"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 5\nnr_periods 200\nnr_throttled 50\n",
			"sys/fs/cgroup/a/cpu.max":    "150000 100000\n",
			"sys/fs/cgroup/a/cpu.stat":   "usage_usec 5\nnr_periods 0\nnr_throttled 0\n",
		}, Cgroups{mib, 1.5, 0.25}},
		"version 1": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/a\n0::/\n", "proc/self/mountinfo": mountsV1,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   unlimited,
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":         "50000\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us":        "100000\n",
			"sys/fs/cgroup/cpu/x/cpu.stat":                 "nr_periods 4\nnr_throttled 1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":           "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":          "100000\n",
		}, Cgroups{2 * mib, 0.5, 0.25}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadCgroups(fakeBox(t, test.files).root)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
	for _, quota := range []string{"", "a lot", "100000", "100000 0", "-5 100000"} {
		_, err := ReadCgroups(fakeBox(t, map[string]string{"proc/self/cgroup": "0::/a\n",
			"proc/self/mountinfo": mountsV2, "sys/fs/cgroup/a/cpu.max": quota}).root)
		if err == nil {
			t.Errorf("the quota %q is taken", quota)
		}
	}
}

func TestAProcessThatIsMovedIsFollowed(t *testing.T) {
	b := fakeBox(t, map[string]string{
		"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountsV2,
		"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "0\n",
		"sys/fs/cgroup/a/memory.stat": "inactive_file 0\n",
		"sys/fs/cgroup/b/memory.max":  "2000\n", "sys/fs/cgroup/b/memory.current": "0\n",
		"sys/fs/cgroup/b/memory.stat": "inactive_file 0\n",
	})
	for group, want := range map[string]float64{"0::/a\n": 1000, "0::/b\n": 2000} {
		b.write(t, "proc/self/cgroup", group)
		if got, err := b.memoryAvailable(); err != nil || got != want {
			t.Errorf("in %s: got %v, %v; want %v", strings.TrimSpace(group), got, err, want)
		}
	}
}

func TestFilesThatMakeNoSenseAreErrors(t *testing.T) {
	good := map[string]string{
		"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountsV2,
		"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "0\n",
		"sys/fs/cgroup/a/memory.stat": "inactive_file 0\n",
	}
	for path, text := range map[string]string{
		"proc/meminfo":                   "MemTotal: 1 kB\n",
		"sys/fs/cgroup/a/memory.max":     "a lot\n",
		"sys/fs/cgroup/a/memory.current": "\n",
		"sys/fs/cgroup/a/memory.stat":    "anon 1\n",
	} {
		b := fakeBox(t, good)
		b.write(t, path, text)
		if got, err := b.memoryAvailable(); err == nil {
			t.Errorf("%s: %q is taken for %v", path, text, got)
		}
	}
	for _, text := range []string{"", "NaN 1", "x 1 2", "-1 2 3", "+Inf 0"} {
		if got, err := parseLoad([]byte(text)); err == nil {
			t.Errorf("the load %q is taken for %v", text, got)
		}
	}
	for _, text := range []string{"", "full avg10=0.00 total=5\n", "some avg10=0.00\n", "some total=-5\n",
		"some total=99999999999999999999\n"} {
		if got, err := parseStalls([]byte(text)); err == nil {
			t.Errorf("the stalls %q are taken for %v", text, got)
		}
	}
}

func TestLoadIsForEachProcessor(t *testing.T) {
	b := fakeBox(t, map[string]string{"proc/loadavg": "6.50 1.02 0.80 3/201 12345\n"})
	if got, err := b.loadPerCPU(); err != nil || !near(got, 6.5/float64(runtime.NumCPU())) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestStallsAreTheShareOfTheTimeSinceTheLastReading(t *testing.T) {
	pressure := func(us string) string {
		return "some avg10=9.99 avg60=0.00 avg300=0.00 total=" + us +
			"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
	}
	for of, path := range map[string]string{Host: "proc/pressure/cpu",
		OwnCgroup: "sys/fs/cgroup/a/cpu.pressure"} {
		synctest.Test(t, func(t *testing.T) {
			b := fakeBox(t, map[string]string{"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountsV2,
				path: pressure("5000000")})
			read := b.stalls("cpu", of)
			expect := func(want float64) {
				t.Helper()
				if got, err := read(); err != nil || !near(got, want) {
					t.Errorf("%s: got %v, %v; want %v", of, got, err, want)
				}
			}
			expect(0) // nothing to compare with
			time.Sleep(200 * time.Millisecond)
			b.write(t, path, pressure("5050000"))
			expect(0.25)
			time.Sleep(100 * time.Millisecond)
			expect(0)
			time.Sleep(100 * time.Millisecond)
			b.write(t, path, pressure("9050000")) // more than has passed: several waited
			expect(1)
			b.write(t, path, pressure("100"))
			expect(0) // counted anew
		})
	}
	b := fakeBox(t, map[string]string{"proc/self/cgroup": "3:memory:/a\n", "proc/self/mountinfo": mountsV1})
	if _, err := b.stalls("cpu", OwnCgroup)(); err == nil ||
		!strings.Contains(err.Error(), "--shed-stalls-of") {
		t.Errorf("without a cgroup of version 2: %v", err)
	}
}

func TestWaitsForAProcessorAreThoseSinceTheLastReading(t *testing.T) {
	buckets := []float64{0, 1, 2, 4, 8}
	last, now := []uint64{900, 0, 0, 7}, []uint64{900 + 985, 10, 5, 7}
	if got := quantileOfNew(last, now, buckets, 0.99); got != 2 {
		t.Errorf("the 99th percentile is %v, want 2", got)
	}
	if got := quantileOfNew(last, []uint64{900 + 50, 0, 49, 7}, buckets, 0.99); got != 0 {
		t.Errorf("of 99 waits it is %v, want 0: they are too few", got)
	}
	read := schedulingLatency()
	for range 2 {
		if got, err := read(); err != nil || got < 0 {
			t.Errorf("the runtime's: %v, %v", got, err)
		}
	}
}

// On Linux what this very machine has can be read.
func TestThisMachineCanBeRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has these files")
	}
	b := &box{root: os.DirFS("/")}
	if got, err := b.memoryAvailable(); err != nil || got < 1<<20 {
		t.Errorf("memory: %v, %v", got, err)
	}
	if got, err := b.loadPerCPU(); err != nil || got < 0 {
		t.Errorf("load: %v, %v", got, err)
	}
}

func FuzzSystemFiles(f *testing.F) {
	f.Add([]byte(meminfo), []byte("0::/a/b\n"), []byte(mountsV2))
	f.Add([]byte("0.50 1.02 0.80 3/201 12345\n"), []byte("9:name=systemd:/\n3:memory:/a\n0::/\n"),
		[]byte(mountsV1))
	f.Add([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n"),
		[]byte("4:memory:/docker/abc/../x\n"),
		[]byte("35 31 0:32 /docker/abc /sys\\040fs rw - cgroup cgroup rw,memory\n"))
	f.Add([]byte("max\n"), []byte("0::/../..\n"), []byte("29 23 0:26 /../.. / rw - cgroup2 x y\n"))
	f.Add([]byte("inactive_file 123\n"), []byte(":::\n"), []byte(" - cgroup\n"))
	f.Fuzz(func(t *testing.T, text, membership, mounts []byte) {
		if n, err := parseMemInfo(text, "MemAvailable"); err == nil && n%1024 != 0 {
			t.Errorf("available: %d", n)
		}
		if v, err := parseLoad(text); err == nil && !(v >= 0) {
			t.Errorf("load: %v", v)
		}
		if d, err := parseStalls(text); err == nil && d < 0 {
			t.Errorf("stalls: %v", d)
		}
		if n, limited, err := parseLimit(text); limited && (err != nil || n >= noLimit) {
			t.Errorf("limit: %d, %v", n, err)
		}
		if _, err := parseStat(text, "inactive_file"); err == nil &&
			!strings.Contains(string(text), "inactive_file ") {
			t.Error("a line is there that is not there")
		}
		own := findCgroups(membership, mounts)
		if len(own.memory) > len(membership)+len(mounts)+2 {
			t.Errorf("%d cgroups of %d bytes", len(own.memory), len(membership)+len(mounts))
		}
		dirs := make([]string, len(own.memory))
		for i, g := range own.memory {
			dirs[i] = g.dir
		}
		if own.unified != "" && !slices.Contains(dirs, own.unified) {
			t.Errorf("%q is not among %q", own.unified, dirs)
		}
	})
}

package doctor

import (
	"cmp"
	"fmt"
	"math"

	"weir/internal/config"
	"weir/internal/shed"
)

// size writes bytes for people.
func size(n uint64) string { return config.Size(int64(min(n, math.MaxInt64))) }

func (m *Machine) swap() (Finding, error) {
	total, err := shed.MemInfo(m.Files, "SwapTotal")
	free, err1 := shed.MemInfo(m.Files, "SwapFree")
	memory, err2 := shed.MemInfo(m.Files, "MemTotal")
	if err = cmp.Or(err, err1, err2); err != nil {
		return Finding{}, err
	}
	used := total - min(free, total)
	if total == 0 {
		return ok("none")
	}
	f := Finding{Found: fmt.Sprintf("%s of %s are in use", size(used), size(total)),
		Why: "A request that needs memory which was swapped out waits for the disk, milliseconds instead " +
			"of microseconds, and an event loop with it.",
		Mend: "swapoff -a && swapon -a, while more memory is available than is swapped; then sysctl -w " +
			"vm.swappiness=1",
		Keep: "echo 'vm.swappiness = 1' >>/etc/sysctl.d/90-weir.conf; MemorySwapMax=0 in the systemd unit"}
	switch {
	case used > memory/10:
		f.Severity = Bad
	case used > memory/100:
		f.Severity = Warn
	default:
		return ok("%s", f.Found)
	}
	return f, nil
}

func (m *Machine) hugePages() (Finding, error) {
	const dir = "sys/kernel/mm/transparent_hugepage"
	text, err := m.text(dir + "/enabled")
	if err != nil {
		return Finding{}, err
	}
	enabled, found := chosen(text)
	if !found {
		return Finding{}, fmt.Errorf("/%s/enabled: expected a word in brackets, got %.40q", dir, text)
	}
	defragText, err := m.text(dir + "/defrag")
	if err != nil {
		return Finding{}, err
	}
	defrag, _ := chosen(defragText)
	f := Finding{Severity: Warn, Found: enabled + ", defrag " + defrag,
		Mend: "echo madvise >/" + dir + "/enabled",
		Keep: "transparent_hugepage=madvise on the kernel's command line"}
	switch {
	case enabled == "never":
		f.Why = "Lists and arms are mapped by small pages, and random look-ups wait for translations of " +
			"addresses."
	case enabled == "always" && defrag == "always":
		f.Why = "Any page fault may wait until the kernel has moved memory together for a huge page: " +
			"milliseconds."
	default:
		return ok("%s", f.Found)
	}
	return f, nil
}

func (m *Machine) overcommit() (Finding, error) {
	mode, err := m.sysctl("vm.overcommit_memory")
	if err == nil && mode != 2 {
		return ok("vm.overcommit_memory is %d", mode)
	}
	limit, err1 := shed.MemInfo(m.Files, "CommitLimit")
	committed, err2 := shed.MemInfo(m.Files, "Committed_AS")
	if err = cmp.Or(err, err1, err2); err != nil {
		return Finding{}, err
	}
	left := limit - min(committed, limit)
	f := Finding{Severity: Warn,
		Found: fmt.Sprintf("vm.overcommit_memory is 2, %s may still be promised", size(left)),
		Why: "Memory counts when it is asked for and not when it is used, and the Go runtime ends a " +
			"process that gets none."}
	if left < 1<<30 {
		f.Severity = Bad
	}
	return f.set("vm.overcommit_memory", "0")
}

func (m *Machine) memoryMaps() (Finding, error) {
	return m.atLeast("vm.max_map_count", 65530, 4096, "A heap of many GB is in thousands of maps, lists and "+
		"positions come on top, and a process that can have no more of them ends.")
}

func (m *Machine) memory() (Finding, error) {
	total, err := shed.MemInfo(m.Files, "MemTotal")
	groups, err1 := shed.ReadCgroups(m.Files)
	if err = cmp.Or(err, err1); err != nil {
		return Finding{}, err
	}
	limit, whose := total, "the machine has"
	if groups.Memory != 0 && groups.Memory < total {
		limit, whose = groups.Memory, "the cgroup may have"
	}
	if m.MemoryLimit == math.MaxInt64 {
		if limit == total {
			return ok("%s %s, nothing limits the server to less", whose, size(limit))
		}
		return Finding{Severity: Bad, Found: fmt.Sprintf("%s %s, and GOMEMLIMIT is not set", whose,
			size(limit)),
			Why:  "The heap grows until the kernel kills the process, although most of it may be garbage.",
			Mend: "--memory-ratio 0.7"}, nil
	}
	f := Finding{Found: fmt.Sprintf("%s %s, GOMEMLIMIT is %s", whose, size(limit),
		size(uint64(m.MemoryLimit))),
		Why: "The collector lets the heap grow to GOMEMLIMIT, and maps, stacks and buffers of the kernel " +
			"come on top: the kernel kills the process.",
		Mend: "--memory-ratio 0.7 without GOMEMLIMIT in the environment, or a higher limit (MemoryMax=, " +
			"docker run -m)"}
	switch at := uint64(m.MemoryLimit); {
	case at > limit:
		f.Severity = Bad
	case at > limit/10*9:
		f.Severity = Warn
	default:
		return ok("%s", f.Found)
	}
	return f, nil
}

func (m *Machine) processors() (Finding, error) {
	groups, err := shed.ReadCgroups(m.Files)
	if err != nil {
		return Finding{}, err
	}
	share, whose := float64(m.CPUs), fmt.Sprintf("%d processors", m.CPUs)
	if groups.CPUs != 0 && groups.CPUs < share {
		share, whose = groups.CPUs, fmt.Sprintf("a quota of %.4g of %d processors", groups.CPUs, m.CPUs)
	}
	f := Finding{Severity: Warn, Found: fmt.Sprintf("%s, --loops is %d", whose, m.Loops)}
	fit := max(1, int(share))
	switch {
	case float64(m.Loops) > math.Ceil(share):
		f.Severity = Bad
		f.Why = "More event loops than may run take turns: all connections of one wait while another runs, " +
			"and what has used up a quota waits until its period is over."
		f.Mend = fmt.Sprintf("--loops %d; GOMAXPROCS=%[1]d, if that is where --loops comes from", fit)
	case groups.Throttled > 0.05:
		f.Found += fmt.Sprintf("; %.0f %% of the periods so far were cut short", 100*groups.Throttled)
		f.Why = "What has used up a quota stands still until its period is over, up to 100 ms."
		f.Mend = "a higher quota or none (CPUQuota=, docker run --cpus, limits.cpu)"
	default:
		return ok("%s", f.Found)
	}
	return f, nil
}

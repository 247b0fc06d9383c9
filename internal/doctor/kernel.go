package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"path"
	"strconv"
	"strings"
)

// atLeast is a check of a setting of the kernel that is wrong below a value, and bad further below.
func (m *Machine) atLeast(name string, least, bad int64, why string) (Finding, error) {
	value, err := m.sysctl(name)
	if err != nil {
		return Finding{}, err
	}
	if value >= least {
		return ok("%s is %d", name, value)
	}
	f := Finding{Severity: Warn, Found: fmt.Sprintf("%s is %d", name, value), Why: why}
	if value < bad {
		f.Severity = Bad
	}
	return f.set(name, strconv.FormatInt(least, 10))
}

// acceptQueue wants what Linux gives since 5.4.
func (m *Machine) acceptQueue() (Finding, error) {
	return m.atLeast("net.core.somaxconn", 4096, 1024, "Connections that arrive while the queue is full are "+
		"dropped, and their clients try again after a second or more. It is read when the server starts.")
}

func (m *Machine) synBacklog() (Finding, error) {
	const name = "net.ipv4.tcp_max_syn_backlog"
	backlog, err := m.sysctl(name)
	if err != nil {
		return Finding{}, err
	}
	cookies, err := m.sysctl("net.ipv4.tcp_syncookies")
	if err != nil {
		return Finding{}, err
	}
	if cookies != 0 {
		return ok("%s is %d, SYN cookies go beyond it", name, backlog)
	}
	f := Finding{Severity: Warn, Found: fmt.Sprintf("%s is %d, SYN cookies are off", name, backlog),
		Why: "Handshakes beyond three quarters of it are dropped, and anybody can fill it with forged ones."}
	return f.set("net.ipv4.tcp_syncookies", "1")
}

// ownFiles is about as many descriptors as a server has open besides its connections.
const ownFiles = 128

func (m *Machine) openFiles() (Finding, error) {
	text, err := m.text("proc/self/limits")
	if err != nil {
		return Finding{}, err
	}
	hard, found := int64(math.MaxInt64), false
	var soft string
	for line := range strings.Lines(text) {
		rest, of := strings.CutPrefix(line, "Max open files")
		fields := strings.Fields(rest)
		if !of || len(fields) < 2 {
			continue
		}
		found, soft = true, fields[0]
		if fields[1] != "unlimited" {
			if hard, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
				return Finding{}, fmt.Errorf("/proc/self/limits: %w", err)
			}
		}
	}
	if !found {
		return Finding{}, errors.New("/proc/self/limits has no line of open files")
	}
	wanted := int64(m.MaxConnections + ownFiles)
	files, err := m.numbers("proc/sys/fs/file-nr", 3) // open, unused, at most
	if err != nil {
		return Finding{}, err
	}
	if left := files[2] - files[0]; left < wanted {
		f := Finding{Severity: Bad, Found: fmt.Sprintf("%d more can be open on the whole machine "+
			"(fs.file-max)", left),
			Why: fmt.Sprintf("--max-connections is %d: before that nobody on this machine can open a file.",
				m.MaxConnections)}
		return f.set("fs.file-max", strconv.FormatInt(files[0]+2*wanted, 10))
	}
	if hard >= wanted {
		return ok("limits are soft %s, hard %d; --max-connections is %d", soft, hard, m.MaxConnections)
	}
	return Finding{Severity: Bad,
		Found: fmt.Sprintf("limits are soft %s, hard %d; --max-connections is %d", soft, hard,
			m.MaxConnections),
		Why: "Each connection takes a descriptor. Beyond the hard limit connections wait unanswered " +
			"instead of being refused.",
		Mend: fmt.Sprintf("ulimit -Hn %d, as root in the shell that starts it, or --max-connections %d",
			2*wanted, max(hard-ownFiles, 1)),
		Keep: fmt.Sprintf("LimitNOFILE=%d in the systemd unit; docker run --ulimit nofile=%[1]d",
			2*wanted)}, nil
}

func (m *Machine) conntrack() (Finding, error) {
	const name = "net.netfilter.nf_conntrack_max"
	most, err := m.sysctl(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := m.text("proc/self/limits"); err == nil { // there is a /proc
			return ok("not loaded")
		}
	}
	if err != nil {
		return Finding{}, err
	}
	count, err := m.sysctl("net.netfilter.nf_conntrack_count")
	if err != nil {
		return Finding{}, err
	}
	wanted := 2 * int64(m.MaxConnections)
	f := Finding{Found: fmt.Sprintf("%d of %d entries are used", count, most),
		Why: fmt.Sprintf("Each connection takes an entry, for minutes after its end as well, and "+
			"packets of new ones are dropped when there is none. --max-connections %d wants twice as many.",
			m.MaxConnections)}
	switch {
	case count > most/10*9:
		f.Severity = Bad
	case most < wanted:
		f.Severity = Warn
	default:
		return ok("%s", f.Found)
	}
	return f.set(name, strconv.FormatInt(max(wanted, 2*count), 10))
}

func (m *Machine) localPorts() (Finding, error) {
	const name, reserved = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"
	r, err := m.numbers("proc/sys/net/ipv4/ip_local_port_range", 2)
	if err != nil {
		return Finding{}, err
	}
	free, err := m.text("proc/sys/net/ipv4/ip_local_reserved_ports")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Finding{}, err
	}
	for address := range strings.SplitSeq(m.Listen, ",") {
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		port, err := net.LookupPort("tcp", text)
		if p := int64(port); err == nil && p >= r[0] && p <= r[1] && !inRanges(free, p) {
			f := Finding{Severity: Warn, Found: fmt.Sprintf("port %d, to listen on, is among %d to %d", port,
				r[0], r[1]),
				Why: "Any connection from this machine may have taken the port when the server starts again."}
			return f.set(reserved, strings.TrimPrefix(free+","+strconv.Itoa(port), ","))
		}
	}
	ports := r[1] - r[0] + 1
	if ports >= 20000 {
		return ok("%d to %d", r[0], r[1])
	}
	f := Finding{Severity: Warn, Found: fmt.Sprintf("%d to %d, %d of them", r[0], r[1], ports),
		Why: "A proxy or a load generator on this machine has no more connections than this to one " +
			"address, those of the last minute included."}
	return f.set(name, "32768 60999")
}

// inRanges says whether a port is in a list like 8080,9000-9010.
func inRanges(list string, port int64) bool {
	for r := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseInt(first, 10, 64)
		b, errB := strconv.ParseInt(last, 10, 64)
		if errA == nil && errB == nil && port >= a && port <= b {
			return true
		}
	}
	return false
}

// slowClocks are read by a system call and a device, if not worse.
var slowClocks = map[string]Severity{"hpet": Bad, "acpi_pm": Bad, "jiffies": Bad, "refined-jiffies": Bad,
	"pit": Bad, "xen": Warn}

func (m *Machine) clockSource() (Finding, error) {
	const dir = "sys/devices/system/clocksource/clocksource0"
	current, err := m.text(path.Join(dir, "current_clocksource"))
	if err != nil {
		return Finding{}, err
	}
	others, err := m.text(path.Join(dir, "available_clocksource"))
	if err != nil {
		return Finding{}, err
	}
	severity, slow := slowClocks[current]
	if !slow {
		return ok("%s", current)
	}
	f := Finding{Severity: severity, Found: fmt.Sprintf("%s, of %s", current, others),
		Why: "Reading the time is a system call, and with most of these a slow device: a microsecond and " +
			"more, several times a request.",
		Mend: "look for the reason in dmesg | grep -i tsc: the kernel found the processor's counter unstable",
		Keep: "clocksource=tsc tsc=reliable on the kernel's command line, if the counter can be trusted"}
	for better := range strings.FieldsSeq(others) {
		if _, slow := slowClocks[better]; !slow {
			f.Mend = fmt.Sprintf("echo %s >/%s/current_clocksource", better, dir)
			f.Keep = fmt.Sprintf("clocksource=%s on the kernel's command line", better)
			break
		}
	}
	return f, nil
}

func (m *Machine) time() (Finding, error) {
	synced, err := m.Synced()
	if err != nil {
		return Finding{}, err
	}
	if synced {
		return ok("kept right by the network or a reference")
	}
	return Finding{Severity: Warn, Found: "nobody keeps the clock right",
		Why: "Versions of lists, the age of events and cached answers, and certificates go by it; a clock " +
			"that is set by hand jumps.",
		Mend: "timedatectl set-ntp true",
		Keep: "systemctl enable --now chronyd, or systemd-timesyncd"}, nil
}

package doctor

import (
	"fmt"
	"time"

	"weir/internal/disk"
)

// fileSystems is what is wrong with some for data; the others are taken for disks.
var fileSystems = map[string]struct {
	severity Severity
	why      string
}{
	"tmpfs":    {Bad, inMemory},
	"ramfs":    {Bad, inMemory},
	"btrfs":    {Bad, noReserve},
	"zfs":      {Bad, noReserve},
	"bcachefs": {Bad, noReserve},
	"nfs":      {Bad, remote},
	"9p":       {Bad, remote},
	"cifs":     {Bad, remote},
	"smb2":     {Bad, remote},
	"ceph":     {Bad, remote},
	"fuse":     {Bad, remote},
	"virtiofs": {Warn, remote},
	"overlay": {Warn, "It is the layer of a container, as a rule, and goes with it: positions and what " +
		"events have taught are lost."},
}

const (
	inMemory = "It is memory: everything is lost with the machine's power, and what is kept there is " +
		"missing elsewhere."
	noReserve = "It cannot promise room for files that are written in place, and the server refuses it."
	remote    = "Files that are mapped are as far away as the network or the host: page faults wait for " +
		"it, an outage " +
		"is a fault, and what a sync promises is somebody else's."
)

// volume returns what the data directory is on, or will be.
func (m *Machine) volume() (dir string, v disk.Volume, err error) {
	if dir, err = existing(m.Data); err == nil {
		v, err = m.Volume(dir)
	}
	return dir, v, err
}

func (m *Machine) fileSystem() (Finding, error) {
	dir, v, err := m.volume()
	if err != nil {
		return Finding{}, err
	}
	wrong, known := fileSystems[v.Kind]
	if !known {
		return ok("%s is on %s", dir, v.Kind)
	}
	return Finding{Severity: wrong.severity, Found: fmt.Sprintf("%s is on %s", dir, v.Kind), Why: wrong.why,
		Mend: "--data with a directory on ext4 or xfs of a local disk, in a container a volume of one"}, nil
}

func (m *Machine) space() (Finding, error) {
	dir, v, err := m.volume()
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Severity: OK, Found: fmt.Sprintf("%s of %s and %d of %d inodes are free", size(v.Free),
		size(v.Size), v.FreeFiles, v.Files)}
	inodes := v.Files != 0 // some have as many as there is space for
	if !inodes {
		f.Found = fmt.Sprintf("%s of %s are free", size(v.Free), size(v.Size))
	}
	switch {
	case v.Free < 256<<20 || inodes && v.FreeFiles < 1000:
		f.Severity = Bad
	case v.Free < min(v.Size/20, 10<<30) || inodes && v.FreeFiles < min(v.Files/20, 100_000):
		f.Severity = Warn
	default:
		return f, nil
	}
	f.Why = "New lists, events and redo logs need room; without any, events are refused and positions " +
		"are synced no more."
	f.Mend = fmt.Sprintf("make room: du -xh --max-depth=2 %s | sort -h; du --inodes for the inodes", dir)
	f.Keep = "a volume of its own for --data"
	return f, nil
}

func (m *Machine) fsync() (Finding, error) {
	dir, err := existing(m.Data)
	if err != nil {
		return Finding{}, err
	}
	median, longest, err := m.Sync(dir)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Severity: Warn, Found: fmt.Sprintf("a sync of 4 KiB takes %s, at most %s",
		median.Round(time.Microsecond), longest.Round(time.Microsecond)),
		Why: "Positions and events are as old after a loss of power as syncs are slow.",
		Mend: "a local disk for --data that is not busy with other things (iostat -x 1 shows whose); one " +
			"that keeps its cache without power is fastest"}
	switch {
	case median < 20*time.Microsecond:
		f.Why = "No disk is as fast: somebody says yes without having written, and a loss of power " +
			"loses what was promised."
		f.Mend = "a disk, or a hypervisor's cache mode, that does as it is told: not cache=unsafe, " +
			"eatmydata or nobarrier"
	case median > 200*time.Millisecond:
		f.Severity = Bad
	case median > 20*time.Millisecond:
	default:
		f.Severity, f.Why, f.Mend = OK, "", ""
	}
	return f, nil
}

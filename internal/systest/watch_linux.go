package systest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"syscall"
	"testing"
)

// Dir is a directory that is watched: what happens to the names in it, and when it is opened itself.
//
// Nobody is told of an fsync. But a directory has to be opened to be synced, and the code under test opens
// it for nothing else.
type Dir struct {
	t      testing.TB
	fd     int
	events []string
}

// Watch watches dir from now on.
func Watch(t testing.TB, dir string) *Dir {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) }) //nolint:errcheck // only watches
	if _, err := syscall.InotifyAddWatch(fd, dir,
		syscall.IN_CREATE|syscall.IN_DELETE|syscall.IN_MOVED_TO|syscall.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return &Dir{t: t, fd: fd}
}

// Events returns what has happened so far, in order: "create NAME", "remove NAME" and "rename NAME", which
// is what a file is called afterwards; and "open", of the directory itself.
func (d *Dir) Events() []string {
	d.t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(d.fd, buf)
		if err == syscall.EAGAIN {
			return d.events
		}
		if err != nil {
			d.t.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; {
			mask, length := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[syscall.SizeofInotifyEvent:][:length], "\x00"))
			b = b[syscall.SizeofInotifyEvent+length:]
			switch {
			case mask&syscall.IN_CREATE != 0:
				d.events = append(d.events, "create "+name)
			case mask&syscall.IN_DELETE != 0:
				d.events = append(d.events, "remove "+name)
			case mask&syscall.IN_MOVED_TO != 0:
				d.events = append(d.events, "rename "+name)
			case mask&syscall.IN_OPEN != 0 && name == "":
				d.events = append(d.events, "open")
			}
		}
	}
}

// WantSync fails the test unless the directory was synced between two events; the second may be "", for as
// yet.
func (d *Dir) WantSync(after, before string) {
	d.t.Helper()
	events := d.Events()
	from := slices.Index(events, after)
	if from < 0 {
		d.t.Errorf("%q did not happen, but %q", after, events)
		return
	}
	part := events[from:]
	if before != "" {
		to := slices.Index(part, before)
		if to < 0 {
			d.t.Errorf("%q did not follow %q: %q", before, after, events)
			return
		}
		part = part[:to]
	}
	if !slices.Contains(part, "open") {
		d.t.Errorf("the directory was not synced between %q and %q: %q", after, before, events)
	}
}

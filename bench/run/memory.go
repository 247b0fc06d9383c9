//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// memory returns the bytes of memory that a server takes up: its anonymous and shared pages, and
// of its data files what is in the page cache, each page once, whoever brought it there. Program
// text is left out on all sides.
func (p *process) memory(data []string) (int64, error) {
	status, err := p.status()
	if err != nil {
		return 0, err
	}
	total := int64(status.RssAnon + status.RssShmem)
	for _, path := range data {
		n, err := residentUnder(path)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func (p *process) status() (procfs.ProcStatus, error) {
	proc, err := p.proc()
	if err != nil {
		return procfs.ProcStatus{}, err
	}
	return proc.NewStatus()
}

// residentUnder returns how many bytes of the file, or of the files under the directory, are in
// the page cache.
func residentUnder(path string) (int64, error) {
	var total int64
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		n, _, err := resident(path)
		total += n
		return err
	})
	return total, err
}

// resident returns how many bytes of a file are in the page cache, and its size.
func resident(path string) (cached, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, 0, err
	}
	size = info.Size()
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_NONE, unix.MAP_SHARED)
	if err != nil {
		return 0, 0, fmt.Errorf("map %s: %w", path, err)
	}
	defer unix.Munmap(m)
	page := int64(os.Getpagesize())
	pages := make([]byte, (size+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(size),
		uintptr(unsafe.Pointer(unsafe.SliceData(pages))))
	if errno != 0 {
		return 0, 0, fmt.Errorf("mincore %s: %w", path, errno)
	}
	for _, p := range pages {
		cached += int64(p&1) * page
	}
	return cached, size, nil
}

// dropCaches empties the page cache, which takes root.
func dropCaches() error {
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0); err != nil {
		return fmt.Errorf("empty the page cache (this takes root): %w", err)
	}
	return nil
}

// forget has the page cache forget a file that nobody has mapped.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("have the page cache forget %s: %w", path, err)
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// descriptors returns how many files and sockets the process has open.
func (p *process) descriptors() (int64, error) {
	proc, err := p.proc()
	if err != nil {
		return 0, err
	}
	n, err := proc.FileDescriptorsLen()
	return int64(n), err
}

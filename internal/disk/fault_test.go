package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// sink keeps the compiler from leaving reads out.
var sink byte

// read is what reads the byte of m at at.
func read(m *Mapping, at int) func() error {
	return func() error {
		sink = m.Bytes()[at]
		return nil
	}
}

func TestGuardReturnsMemoryFaults(t *testing.T) {
	m, truncated := truncatedMapping(t)
	err := Guard(read(m, truncated))
	var fault *Fault
	if !errors.As(err, &fault) || fault.Addr == 0 {
		t.Fatalf("error %v, want a *Fault with its address", err)
	}
	if err := Guard(read(m, 0)); err != nil {
		t.Errorf("reading what is left: %v", err)
	}
}

func TestGuardReturnsTheErrorOfItsFunction(t *testing.T) {
	if err := Guard(func() error { return os.ErrClosed }); err != os.ErrClosed {
		t.Errorf("error %v, want the function's own", err)
	}
}

func TestGoHandsFaultsAndPanicsToTheOwner(t *testing.T) {
	m, truncated := truncatedMapping(t)
	failed := make(chan error)
	var fault *Fault
	Go(read(m, truncated), func(err error) { failed <- err })
	if err := <-failed; !errors.As(err, &fault) {
		t.Errorf("error %v, want a *Fault", err)
	}
	var panicked *PanicError
	Go(func() error { panic("mine") }, func(err error) { failed <- err })
	if err := <-failed; !errors.As(err, &panicked) {
		t.Errorf("error %v, want a *PanicError", err)
	}
}

func TestGuardReturnsPanicsWithTheirStack(t *testing.T) {
	var nothing *Mapping
	for name, fn := range map[string]func(){
		"a value":            func() { panic("mine") },
		"a nil dereference":  func() { _ = nothing.name },
		"an index too large": func() { _ = names(t, ".")[1<<30] },
	} {
		err := Guard(func() error {
			fn()
			return nil
		})
		var panicked *PanicError
		if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "fault_test.go") {
			t.Errorf("%s: error %v, want a *PanicError with the stack", name, err)
		}
	}
}

func TestGuardRestoresTheSetting(t *testing.T) {
	m, truncated := truncatedMapping(t)
	for _, before := range []bool{false, true} {
		debug.SetPanicOnFault(before)
		if err := Guard(read(m, truncated)); err == nil {
			t.Fatal("no fault")
		}
		if got := debug.SetPanicOnFault(false); got != before {
			t.Errorf("the setting is %v afterwards, was %v", got, before)
		}
	}
}

// truncatedMapping maps a file of which somebody cuts the second half off, and returns where it is cut.
func truncatedMapping(t *testing.T) (*Mapping, int) {
	t.Helper()
	const size = 1 << 20
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := MapReadOnly(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.Truncate(path, size/2); err != nil {
		t.Fatal(err)
	}
	return m, size / 2
}

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

func TestCatchFaultReturnsMemoryFaults(t *testing.T) {
	m, truncated := truncatedMapping(t)
	err := CatchFault(func() { sink = m.Bytes()[truncated] })
	var fault *Fault
	if !errors.As(err, &fault) || fault.Addr == 0 {
		t.Fatalf("error %v, want a *Fault with its address", err)
	}
	if err := CatchFault(func() { sink = m.Bytes()[0] }); err != nil {
		t.Errorf("reading what is left: %v", err)
	}
}

func TestCatchFaultPassesOtherPanicsOn(t *testing.T) {
	var nothing *Mapping
	for name, fn := range map[string]func(){
		"a value":            func() { panic("mine") },
		"a nil dereference":  func() { _ = nothing.name },
		"an index too large": func() { _ = names(t, ".")[1<<30] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the panic of %s did not go on", name)
				}
			}()
			err := CatchFault(fn)
			t.Errorf("%s became error %v", name, err)
		}()
	}
}

func TestCatchFaultRestoresTheSetting(t *testing.T) {
	m, truncated := truncatedMapping(t)
	for _, before := range []bool{false, true} {
		debug.SetPanicOnFault(before)
		if err := CatchFault(func() { sink = m.Bytes()[truncated] }); err == nil {
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

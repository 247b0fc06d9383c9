package disk

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Fault is an access to mapped memory that the system could not serve: the file was truncated, its disk
// failed, or there was no room for what was written.
type Fault struct {
	Addr uintptr // the address that was accessed
}

func (e *Fault) Error() string {
	return fmt.Sprintf("memory fault at %#x: a mapped file was truncated or its disk failed; "+
		"replace mapped files by rename, never in place", e.Addr)
}

// PanicError is a panic that Guard has turned into an error. It is a bug.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("BUG: panic: %v\n%s", e.Value, e.Stack) }

// Guard runs fn and returns its error, a *Fault when fn touched mapped memory that is not there, and a
// *PanicError when it panicked. What fn changed before stays changed. It costs some 10 ns, and holds for
// this goroutine alone: those that fn starts need a guard of their own, see Go.
func Guard(fn func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			err = Recovered(r)
		}
	}()
	return fn()
}

// Go runs fn under Guard on a goroutine of its own, and gives what it returned to done there. Goroutines of
// packages that read or write mapped memory are started by it, so that none of them can end the process.
func Go(fn func() error, done func(error)) {
	go func() { done(Guard(fn)) }()
}

// Recovered returns the error of a recovered panic: a *Fault for an access to mapped memory on a goroutine
// with debug.SetPanicOnFault, else a *PanicError.
func Recovered(r any) error {
	// The runtime gives an address to faults of memory alone, not to nil dereferences.
	if fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return &Fault{fault.Addr()}
	}
	return &PanicError{r, debug.Stack()}
}

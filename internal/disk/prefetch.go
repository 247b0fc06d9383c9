package disk

import (
	"sync/atomic"
	"unsafe"
)

// PrefetchBytes asks the processor to load the cache lines of b, so that reading them a little
// later does not wait for memory. It touches nothing: an address that is not mapped is no fault.
func PrefetchBytes(b []byte) {
	const line = 64
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for end := p + uintptr(len(b)); p < end; p += line {
		prefetch(p)
	}
}

// PrefetchWord is PrefetchBytes for a word of a Region that is about to be written.
func PrefetchWord(w *atomic.Uint64) { prefetch(uintptr(unsafe.Pointer(w))) }

package ingest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// defaultMemory is Options.Memory where it is 0.
const defaultMemory = 1 << 30

// A budget bounds what arrow-go allocates for pages and record batches, whatever lengths are in a file. It
// refuses by a panic, the only way out of an allocator; [budget.explain] makes an error of that.
type budget struct {
	memory.GoAllocator
	most    int64 // bytes of one buffer
	left    atomic.Int64
	refused atomic.Int64 // the size of the buffer there was no room for
}

// newBudget returns a budget of half of the memory that an import may take, of which one buffer may have
// the given share.
func newBudget(o Options, share int64) *budget {
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	b := &budget{most: o.Memory / 2 / share}
	b.left.Store(o.Memory / 2)
	return b
}

func (b *budget) take(n int) {
	if int64(n) > b.most || b.left.Add(-int64(n)) < 0 {
		b.refused.Store(int64(n))
		panic("out of memory")
	}
}

// Allocate implements memory.Allocator.
func (b *budget) Allocate(size int) []byte {
	b.take(size)
	return b.GoAllocator.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (b *budget) Reallocate(size int, old []byte) []byte {
	b.left.Add(int64(len(old)))
	b.take(size)
	return b.GoAllocator.Reallocate(size, old)
}

// Free implements memory.Allocator.
func (b *budget) Free(old []byte) {
	b.left.Add(int64(len(old)))
	b.GoAllocator.Free(old)
}

// explain returns the error of a decoder, or that its memory was refused.
func (b *budget) explain(err error) error {
	if n := b.refused.Load(); err != nil && n > 0 {
		return fmt.Errorf("a page or record batch needs a buffer of %.1f MiB: raise --memory, which has "+
			"not the "+
			"room, or write smaller ones", float64(n)/(1<<20))
	}
	return damaged(err)
}

// try runs a decoder that may panic.
func (b *budget) try(decode func() error) (err error) {
	defer func() { err = b.explain(err) }()
	defer func() { recoverInto(&err, recover()) }()
	return decode()
}

// A boundedCodec decompresses pages into the room that their headers ask for. arrow-go's own codecs for
// Snappy and zstd allocate what the compressed data says there is.
type boundedCodec struct {
	compress.Codec
	decode func(dst, src []byte) ([]byte, error)
}

// DecodeWithError is what arrow-go decompresses pages with.
func (c boundedCodec) DecodeWithError(dst, src []byte) ([]byte, error) { return c.decode(dst, src) }

var errPageSize = errors.New("a page holds more than its header says")

// boundCodecs puts bounded codecs in the place of arrow-go's, for the whole process.
var boundCodecs = sync.OnceFunc(func() {
	bound := func(c compress.Compression, decode func(dst, src []byte) ([]byte, error)) {
		if codec, err := compress.GetCodec(c); err == nil {
			compress.RegisterCodec(c, boundedCodec{codec, decode})
		}
	}
	bound(compress.Codecs.Snappy, func(dst, src []byte) ([]byte, error) {
		if n, err := snappy.DecodedLen(src); err != nil || n > len(dst) {
			return nil, errPageSize
		}
		return snappy.Decode(dst, src)
	})
	decoder, _ := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	bound(compress.Codecs.Zstd, func(dst, src []byte) ([]byte, error) {
		return decoder.DecodeAll(src, dst[:0:len(dst)])
	})
})

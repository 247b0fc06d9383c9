package server

import "math/bits"

// bufferPool are buffers to be used again, of sizes from smallSize to largeSize, twice as large from class
// to class. They are a loop's own.
type bufferPool [poolClasses][][]byte

const (
	smallSize   = 4 << 10
	poolClasses = 5
	largeSize   = smallSize << (poolClasses - 1)
	maxPooled   = 1 << 20 // bytes kept of a class
)

// take returns an empty buffer with room for n bytes.
func (s *bufferPool) take(n int) []byte {
	class := bits.Len(uint(max(n, 1)-1) / smallSize)
	if class >= poolClasses {
		return make([]byte, 0, s.size(n))
	}
	if k := len(s[class]); k > 0 {
		b := s[class][k-1]
		s[class] = s[class][:k-1]
		return b
	}
	return make([]byte, 0, smallSize<<class)
}

// give takes a buffer back, unless it has grown to a size that is of no class.
func (s *bufferPool) give(b []byte) {
	class := bits.Len(uint(cap(b))/smallSize) - 1
	if class < 0 || class >= poolClasses || cap(b) != smallSize<<class ||
		len(s[class]) >= maxPooled/(smallSize<<class) {
		return
	}
	s[class] = append(s[class], b[:0])
}

// size returns what take would make for n bytes.
func (s *bufferPool) size(n int) int {
	if n <= smallSize {
		return smallSize
	}
	return 1 << bits.Len(uint(n-1))
}

package snapshot

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/zeebo/xxh3"
)

// identityOf is what stands for a name in tags: the number where the name is one in canonical
// decimal, else its hash. So lists keep their tags when a pipeline starts to write its numbers
// as text, or the other way round.
func identityOf(name []byte) uint64 {
	if n, ok := canonicalDecimal(name); ok {
		return n
	}
	return xxh3.Hash(name)
}

// canonicalDecimal reads a uint64 as strconv prints it: no sign, no leading zero.
func canonicalDecimal(s []byte) (uint64, bool) {
	if len(s) == 0 || len(s) > 20 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, false
		}
		n = sum
	}
	return n, true
}

// tagOf is the 48-bit tag of a list: a hash of who it belongs to and what is in it, whatever
// file it is stored in. It is never 0. identities is user, items...; scratch is grown and
// returned for the next call.
func tagOf(scratch []byte, user uint64, items []uint64) (uint64, []byte) {
	scratch = binary.LittleEndian.AppendUint64(scratch[:0], user)
	for _, item := range items {
		scratch = binary.LittleEndian.AppendUint64(scratch, item)
	}
	return max(1, xxh3.Hash(scratch)>>16), scratch
}

// Publication numbers a version of the lists. That of a later file is greater, on whatever machines the two
// were made, if their clocks are right; of files of one millisecond the content decides. It is 44 bits of
// milliseconds since 1970, good until the year 2527, and 20 bits of a hash of the content.
type Publication uint64

const contentBits = 20

// String returns the time in UTC and the hash.
func (p Publication) String() string {
	at := time.UnixMilli(int64(p >> contentBits)).UTC().Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf("%s-%05x", at, uint64(p)&(1<<contentBits-1))
}

// publicationOf returns the publication of a file of these sections.
func publicationOf(at time.Time, sections []section) Publication {
	var sums []byte
	for _, s := range sections {
		sums = binary.LittleEndian.AppendUint64(sums, s.length)
		sums = binary.LittleEndian.AppendUint64(sums, s.sum)
	}
	content := Publication(xxh3.Hash(sums) >> (64 - contentBits))
	if at.IsZero() {
		return content
	}
	return Publication(max(0, at.UnixMilli()))<<contentBits | content
}

// hashNumber spreads numeric user ids over the index: the finalizer of splitmix64 (Steele, Lea
// and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). It is invertible,
// so that two ids never share a hash.
func hashNumber(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashName spreads textual user ids over the index.
func hashName(name []byte) uint64 { return xxh3.Hash(name) }

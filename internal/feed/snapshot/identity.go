package snapshot

import (
	"encoding/binary"
	"math/bits"

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

package arms

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Key stands for an id, or for an arm, in 128 bits. Ids that are the same text have the same key, and the
// number 7 is the text "7".
//
// A whole number below 2^64 without a leading zero has a key that is its own. Any other text has its XXH3
// of 128 bits, of which a file keeps 96: among a thousand million of them two share a key with a
// probability of 2^-37, and then they share their posterior. The hash has no secret, so whoever may choose
// ids of items may make two of them collide, which harms these two.
//
// The upper 32 bits of a key are never 0.
type Key struct{ Lo, Hi uint64 }

// Keys of numbers have this upper half and no others do.
const numberHalf = 1 << keptShift

// keptShift is how many bits of the upper half a file does not keep: it has a mask of scopes there.
const keptShift = 32

// leastHash is the least upper half of a key that is a hash.
const leastHash = 2 << keptShift

// KeyOf returns the key of an id.
func KeyOf(id []byte) Key {
	if n, ok := number(id); ok {
		return NumberKey(n)
	}
	h := xxh3.Hash128(id)
	return Key{h.Lo, max(h.Hi, leastHash)}
}

// NumberKey returns the key of an id that is a number.
func NumberKey(n uint64) Key { return Key{mix(n), numberHalf} }

// number parses what KeyOf takes for a number.
func number(id []byte) (n uint64, ok bool) {
	if len(id) == 0 || len(id) > 20 || id[0] == '0' && len(id) > 1 {
		return 0, false
	}
	for i, c := range id {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		if i == 19 { // 20 digits may be too many
			hi, lo := bits.Mul64(n, 10)
			if lo += d; hi != 0 || lo < d {
				return 0, false
			}
			return lo, true
		}
		n = 10*n + d
	}
	return n, true
}

// Scope is what an arm is for besides its item: a segment of users, or one user. It makes keys of
// arms out of keys of items.
type Scope struct{ flip, times uint64 }

// The constants keep segments and users of one name apart.
const (
	segmentSalt = 0x9e3779b97f4a7c15
	userSalt    = 0xc2b2ae3d27d4eb4f
)

// SegmentScope returns the scope of a segment's arms.
func SegmentScope(segment Key) Scope { return newScope(segment, segmentSalt) }

// UserScope returns the scope of one user's own arms.
func UserScope(user Key) Scope { return newScope(user, userSalt) }

func newScope(k Key, salt uint64) Scope {
	a := mix(k.Lo ^ salt)
	return Scope{a ^ k.Hi, mix(a+k.Hi) | 1}
}

// Key returns the key of the arm of an item in this scope. Within a scope it loses nothing: the
// whole 128-bit product tells the items' lower halves apart.
func (s Scope) Key(item Key) Key {
	hi, lo := bits.Mul64(item.Lo^s.flip, s.times)
	return Key{lo ^ bits.RotateLeft64(item.Hi, 32), max(hi+item.Hi*segmentSalt, leastHash)}
}

// Mask is a set of scopes of which it is known what is surely not in it: a Bloom filter of 32 bits with one
// hash.
type Mask uint32

// Mask returns the set of a scope alone.
func (s Scope) Mask() Mask { return 1 << (s.times >> 59) }

// MayHave reports whether a scope may be in the set.
func (m Mask) MayHave(s Scope) bool { return m&s.Mask() != 0 }

// place spreads keys over n places, n at most 2^32 or so.
func (k Key) place(n uint64) uint64 {
	at, _ := bits.Mul64(k.order(), n)
	return at
}

// same reports whether two keys are one in a file.
func (k Key) same(o Key) bool { return k.Lo == o.Lo && k.Hi>>keptShift == o.Hi>>keptShift }

// order is what keys are in the order of, and their places with them.
func (k Key) order() uint64 { return k.Lo ^ k.Hi&^(1<<keptShift-1) }

// mix is a bijection whose every output bit depends on every input bit: the finaliser of MurmurHash3
// with the constants of David Stafford's variant 13.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

package learning

import (
	"encoding/binary"
	"errors"
	"math"

	"weir/internal/bandit/arms"
)

// record is an event in the journal:
//
//	byte 0   format: 1
//	byte 1   flags: for the arm of the item, of the segment, of the user; has an id
//	8 bytes  when it happened, 8 bytes when it came, Unix microseconds; 8 bytes its reward
//	then     the keys of those arms and of the id, 16 bytes each
//
// Or it says that what events before it have taught is forgotten, of all arms where there are no keys and
// no ids:
//
//	byte 0   format: 2
//	byte 1   flags: of the arm of the item, of the segment, of the user; the ids
//	8 bytes  when it came
//	then     the keys of those arms
type record struct {
	Event
	came      int64
	forget    bool // the second kind
	forgetIDs bool
}

const (
	recordEvent  = 1
	recordForget = 2
	eventHead    = 26
	forgetHead   = 10
	flagID       = 1 << Levels
)

func (r *record) append(dst []byte) []byte {
	at := len(dst)
	if r.forget {
		dst = append(dst, recordForget, 0)
		dst = le.AppendUint64(dst, uint64(r.came))
	} else {
		dst = append(dst, recordEvent, 0)
		dst = le.AppendUint64(dst, uint64(r.At))
		dst = le.AppendUint64(dst, uint64(r.came))
		dst = le.AppendUint64(dst, math.Float64bits(r.Reward))
	}
	for level, k := range r.Arms {
		if k != (arms.Key{}) {
			dst[at+1] |= 1 << level
			dst = appendKey(dst, k)
		}
	}
	if r.forgetIDs {
		dst[at+1] |= flagID
	} else if r.ID != (arms.Key{}) {
		dst[at+1] |= flagID
		dst = appendKey(dst, r.ID)
	}
	return dst
}

var le = binary.LittleEndian

func appendKey(dst []byte, k arms.Key) []byte {
	return le.AppendUint64(le.AppendUint64(dst, k.Lo), k.Hi)
}

func (r *record) read(b []byte) error {
	var flags byte
	switch {
	case len(b) >= eventHead && b[0] == recordEvent:
		flags = b[1]
		r.At, r.came, r.Reward = int64(le.Uint64(b[2:])), int64(le.Uint64(b[10:])),
			math.Float64frombits(le.Uint64(b[18:]))
		b = b[eventHead:]
	case len(b) >= forgetHead && b[0] == recordForget:
		flags, r.forget, r.forgetIDs = b[1]&^flagID, true, b[1]&flagID != 0
		r.came = int64(le.Uint64(b[2:]))
		b = b[forgetHead:]
	default:
		return errors.New("a record of the journal of events is of a format that this weir does not know")
	}
	key := func(flag byte) (k arms.Key) {
		if flags&flag != 0 && len(b) >= 16 {
			k = arms.Key{Lo: le.Uint64(b), Hi: le.Uint64(b[8:])}
			b = b[16:]
			flags &^= flag
		}
		return k
	}
	for level := range r.Arms {
		r.Arms[level] = key(1 << level)
	}
	r.ID = key(flagID)
	if flags != 0 || len(b) != 0 || !(r.Reward >= 0 && r.Reward <= 1) {
		return errors.New("a record of the journal of events is malformed")
	}
	return nil
}

package featurestore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Feast's Redis online store has a hash for each entity. Its key is the entity key, as below, and behind it
// the name of the project. Its fields are the hashes of "view:feature", four bytes each, with serialized
// feast.types.Value, and "_ts:view" with a serialized Timestamp: when the view's features were observed.

// Numbers of types in feast.types.ValueType.Enum.
const (
	feastString = 2
	feastInt32  = 3
	feastInt64  = 4
)

// appendEntityKey appends the key of an entity with one join key, as version 3 of Feast's serialization has
// it. The id must fit the form.
func appendEntityKey(b []byte, joinKey, id string, as form) []byte {
	b = binary.LittleEndian.AppendUint32(b, 1) // join keys
	b = binary.LittleEndian.AppendUint32(b, feastString)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(joinKey)))
	b = append(b, joinKey...)
	switch as {
	case formInt64:
		n, _ := integer(id)
		b = binary.LittleEndian.AppendUint32(b, feastInt64)
		b = binary.LittleEndian.AppendUint32(b, 8)
		return binary.LittleEndian.AppendUint64(b, uint64(n))
	case formInt32:
		n, _ := integer(id)
		b = binary.LittleEndian.AppendUint32(b, feastInt32)
		b = binary.LittleEndian.AppendUint32(b, 4)
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = binary.LittleEndian.AppendUint32(b, feastString)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(id)))
	return append(b, id...)
}

// featureField is the field of a feature in an entity's hash.
func featureField(view, feature string) string {
	return string(binary.LittleEndian.AppendUint32(nil, murmur3(view+":"+feature)))
}

// murmur3 is MurmurHash3_x86_32 by Austin Appleby, with seed 0.
func murmur3(s string) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	b := []byte(s)
	var h uint32
	for ; len(b) >= 4; b = b[4:] {
		h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(b)*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(b) > 0 {
		var tail uint32
		for i, c := range b {
			tail |= uint32(c) << (8 * i)
		}
		h ^= bits.RotateLeft32(tail*c1, 15) * c2
	}
	h ^= uint32(len(s))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// Numbers of fields in feast.types.Value.
const (
	valueString   = 2
	valueInt32    = 3
	valueInt64    = 4
	valueDouble   = 5
	valueFloat    = 6
	valueBool     = 7
	valueTime     = 8
	valueNull     = 19
	valueUUID     = 36
	valueTimeUUID = 37
	valueDecimal  = 44
)

// decodeValue reads a serialized feast.types.Value, of which nothing is kept. An empty one is a null.
func decodeValue(b []byte, asText bool) value {
	var v value
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return value{kind: kindBroken}
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(field, wire, b)
		if size < 0 {
			return value{kind: kindBroken}
		}
		v = decodeField(field, wire, b[:size], asText) // of several the last one counts
		if v.kind == kindBroken {
			return v
		}
		b = b[size:]
	}
	return v
}

// decodeField reads one field, which is whole.
func decodeField(field protowire.Number, wire protowire.Type, b []byte, asText bool) value {
	want := protowire.VarintType
	switch field {
	case valueString, valueUUID, valueTimeUUID, valueDecimal:
		want = protowire.BytesType
	case valueDouble:
		want = protowire.Fixed64Type
	case valueFloat:
		want = protowire.Fixed32Type
	case valueInt32, valueInt64, valueBool, valueTime, valueNull:
	default:
		return value{kind: kindOther}
	}
	if wire != want {
		return value{kind: kindBroken}
	}
	v := value{kind: kindNumber}
	switch field {
	case valueNull:
		return value{}
	case valueString, valueUUID, valueTimeUUID, valueDecimal:
		s, _ := protowire.ConsumeBytes(b)
		return value{kind: kindText, text: string(s)}
	case valueBool:
		n, _ := protowire.ConsumeVarint(b)
		return value{kind: kindText, text: strconv.FormatBool(n != 0)}
	case valueDouble:
		n, _ := protowire.ConsumeFixed64(b)
		v.number = math.Float64frombits(n)
		if asText {
			v.text = strconv.FormatFloat(v.number, 'g', -1, 64)
		}
	case valueFloat:
		n, _ := protowire.ConsumeFixed32(b)
		v.number = float64(math.Float32frombits(n))
		if asText {
			v.text = strconv.FormatFloat(v.number, 'g', -1, 32)
		}
	default:
		n, _ := protowire.ConsumeVarint(b)
		whole := int64(n)
		if field == valueInt32 {
			whole = int64(int32(n))
		}
		v.number = float64(whole)
		if asText {
			v.text = strconv.FormatInt(whole, 10)
		}
	}
	return v
}

// decodeTimestamp reads a serialized google.protobuf.Timestamp as Unix nanoseconds, 0 if it is none.
func decodeTimestamp(b []byte) int64 {
	var seconds, nanos int64
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(field, wire, b)
		if size < 0 {
			return 0
		}
		if wire == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			switch field {
			case 1:
				seconds = int64(v)
			case 2:
				nanos = int64(v)
			}
		}
		b = b[size:]
	}
	const most = math.MaxInt64/1_000_000_000 - 1
	if seconds < -most || seconds > most || nanos < 0 || nanos >= 1e9 {
		return 0
	}
	return seconds*1e9 + nanos
}

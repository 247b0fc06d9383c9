package arms

import (
	"encoding/binary"
	"math"

	"weir/internal/disk"
)

// Found is what FindAll has found, and memory for the next time: of the arm of each key alpha and beta,
// both 0 where there is none, and for which scopes its item may have finer ones.
type Found struct {
	Alpha, Beta []float64
	Scopes      []Mask

	beyond []int32 // indices of keys that are not in their home
}

// Size makes room for n arms, and leaves open what is there.
func (f *Found) Size(n int) {
	if cap(f.Alpha) < n {
		f.Alpha, f.Beta, f.Scopes, f.beyond = make([]float64, n), make([]float64, n), make([]Mask, n),
			make([]int32, n)
	}
	f.Alpha, f.Beta, f.Scopes, f.beyond = f.Alpha[:n], f.Beta[:n], f.Scopes[:n], f.beyond[:n]
}

// Clear makes it say that there are no arms.
func (f *Found) Clear() {
	clear(f.Alpha)
	clear(f.Beta)
	clear(f.Scopes)
}

// FindAll is FindItem for each of the keys.
//
// It waits for the memory of many at a time: the home of a key is asked for well before it is looked at,
// and nothing is decided by a jump that the processor would have to foresee. What comes after a home that
// does not have its key is asked for at once, and looked at in the end. 400 of a million arms take 8 us;
// with all homes asked for first, and then a search for each, they took 16 to 20, half of it in waiting for
// one cell beyond a home after the other. A request for 400 by binary tensors went from 57 us to 36, and
// with the kernel in Go to 50.
func (a *File) FindAll(f *Found, keys []Key) { a.findAll(f, keys, (*table).inHomes) }

func (a *File) findAll(f *Found, keys []Key, inHomes func(*table, []Key, *Found) int) {
	f.Size(len(keys))
	t := &a.arms
	if t.homes == 0 {
		f.Clear()
		return
	}
	left := inHomes(t, keys, f)
	for _, i := range f.beyond[:left] {
		if cell := t.beyondHome(keys[i]); cell != nil {
			f.Alpha[i], f.Beta[i] = shapes(cell)
			f.Scopes[i] = maskOf(cell)
		}
	}
}

// ahead is how many keys their homes are asked for before they are looked at. 12 to 32 took as long, 8 a
// tenth longer.
const ahead = 16

// inHomesGo looks for keys in their homes, puts the indices of those that are not there into f.beyond, and
// returns how many they are. It is what the kernel is compared with.
func (t *table) inHomesGo(keys []Key, f *Found) (left int) {
	for i := range min(ahead, len(keys)) {
		t.prefetch(keys[i])
	}
	for i, k := range keys {
		t.prefetch(keys[min(i+ahead, len(keys)-1)])
		home := t.home(k)
		cells := t.bytes[home:][: (homeCells+1)*cellBytes : (homeCells+1)*cellBytes]
		first := differs(cells, k)
		second := differs(cells[cellBytes:], k) | ^first // nobody's twice, whoever wrote the file
		disk.PrefetchBytes(cells[homeCells*cellBytes&first&second:][:1])
		f.beyond[left] = int32(i)
		left += int(first & second & 1)
		le := binary.LittleEndian
		f.Alpha[i] = math.Float64frombits(
			le.Uint64(cells[16:])&^first | le.Uint64(cells[cellBytes+16:])&^second)
		f.Beta[i] = math.Float64frombits(
			le.Uint64(cells[24:])&^first | le.Uint64(cells[cellBytes+24:])&^second)
		f.Scopes[i] = maskOf(cells)&^Mask(first) | maskOf(cells[cellBytes:])&^Mask(second)
	}
	return left
}

// differs returns all ones where a cell is not that of a key, else 0.
func differs(cell []byte, k Key) uint64 {
	lo, hi := binary.LittleEndian.Uint64(cell)^k.Lo,
		uint64(binary.LittleEndian.Uint32(cell[12:]))^k.Hi>>keptShift
	x := lo | hi
	return uint64(int64(x|-x) >> 63)
}

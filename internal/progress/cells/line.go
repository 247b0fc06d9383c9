package cells

import (
	"fmt"
	"sync/atomic"

	"weir/internal/disk"
)

// Cells lie in lines of 64 bytes, which a disk writes as a whole: cellsInLine of them, and a last word that
// has in its low 48 bits the number of changes made to them, and above a checksum of all else in the line.
const (
	cellsInLine = 7
	countWord   = 7
	countMask   = 1<<48 - 1
)

// word returns which word of the lines is cell i; word(i)|countWord is the one that counts its line's
// changes.
func word(i uint64) uint64 { return i + i/cellsInLine }

// linesLen returns how many bytes of lines cells cells take.
func linesLen(cells uint64) int64 { return int64((cells + cellsInLine - 1) / cellsInLine * 64) }

// checksum of word at of a line, in the upper 16 bits. That of a line is the sum over its words, so a
// change of one word is a difference that is added. A word with one other bit has another checksum.
func checksum(at, value uint64) uint64 {
	return value * (0x9e3779b97f4a7c15 + 2*(at%8)) >> 48 << 48
}

// counted returns the last word of a line after a change of word at from old to new.
func counted(last, at, old, new uint64) uint64 {
	count := last & countMask
	sum := last&^countMask + checksum(at, new) - checksum(at, old)
	return sum + checksum(countWord, count+1) - checksum(countWord, count) | (count+1)&countMask
}

// sealed returns the last word of a line that has changed so often.
func sealed(line []atomic.Uint64, count uint64) uint64 {
	sum := checksum(countWord, count)
	for at := range uint64(cellsInLine) {
		sum += checksum(at, line[at].Load())
	}
	return sum | count
}

// verify looks at the checksums of all lines. Some are wrong although nothing is damaged: a process that
// ended between a change and its count has left them, one for each goroutine at most. They are put right.
// After a kill all of the wrong ones are such. After a loss of power they are those whose last change may
// have been an advance by less than 256 or a first one; any other is an error, unless loss is accepted.
//
// It reads the file ahead of its look at the map, where each page would be a fault and a read: 5 million
// cells took more than a second so from a disk.
func (s *Store) verify(h header, acceptLoss bool) error {
	lines := s.words[:(s.n.Load()+cellsInLine-1)/cellsInLine*8]
	var wrong []int
	for at := 0; at < len(lines); at += 8 {
		if at%(cacheStep/8) == 0 {
			if err := disk.Cache(s.f, dataOffset+8*int64(at), cacheStep); err != nil {
				return err
			}
		}
		line := lines[at : at+8]
		if last := line[countWord].Load(); sealed(line, last&countMask) == last {
			continue
		}
		if killed := !h.clean && h.boot == thisBoot(); !killed && !acceptLoss &&
			(h.clean || !unfinished(line)) {
			return format.Corrupt(s.path, dataOffset+8*int64(at),
				"the checksum of the positions there is wrong")
		}
		wrong = append(wrong, at)
	}
	for _, at := range wrong { // now that nothing is refused
		line := lines[at : at+8]
		line[countWord].Store(sealed(line, line[countWord].Load()&countMask))
	}
	if len(wrong) > 0 {
		s.log.Info("cursors: changes that were under way when the process ended are completed", "path",
			s.path, "lines", len(wrong))
	}
	return nil
}

// unfinished says whether the line's checksum is that from before an advance.
func unfinished(line []atomic.Uint64) bool {
	last := line[countWord].Load()
	off := sealed(line, last&countMask) - last // what the change has added, in the upper bits
	for at := range uint64(cellsInLine) {
		now := line[at].Load()
		if checksum(at, now)-checksum(at, 0) == off {
			return true
		}
		for by := uint64(1); by < 256; by++ {
			if checksum(at, now)-checksum(at, now-by) == off {
				return true
			}
		}
	}
	return false
}

// readCounted returns what cell i holds, and the count of its line at that moment.
func readCounted(words []atomic.Uint64, i uint64) (value, count uint64) {
	at := word(i)
	for {
		count = words[at|countWord].Load()
		value = words[at].Load()
		if words[at|countWord].Load() == count {
			return value, count & countMask
		}
	}
}

// beyond is what a cell that is not there is met with.
func (s *Store) beyond(i uint64) {
	panic(fmt.Sprintf("BUG: cell %d of the %d in %s, or the store is closed", i, s.n.Load(), s.path))
}

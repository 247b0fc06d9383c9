// Package snapshot is the file weir serves feeds from: everybody's list of items, written once
// and then only read, through a memory map. docs/snapshot-format.md describes it byte by byte.
//
// A Writer takes the lists in ascending order of user and streams them to a file that replaces
// another as a whole at Commit. A Snapshot is such a file, opened. A user's id gives a rank, the
// rank a List, and that its items:
//
//	rank, ok := s.FindNumber(id)
//	list, err := s.List(rank)
//	items = list.Append(items[:0], 0, 10)
//
// What it promises:
//
//   - Items take as many bits as the largest of them needs, and the heap holds nothing of them:
//     opening a file of any size costs the reading of its index.
//   - Looking up and reading allocate nothing, take no lock and may be done by any number of goroutines.
//   - A damaged file gives an error or an unknown user, never a panic and never a read outside of the
//     file. Open checks all but the lists and the item names, Warm and Verify check these too. Besides,
//     each list is checked when it is read (List, Check), whatever became of the file since.
//   - A file cut off under the map is a memory fault for whoever reads there. Open, Warm and Verify
//     turn it into an error; around the other methods that is the caller's to do (disk.Guard).
//   - A list's Tag depends on who it belongs to and what is in it alone. It is equal in two
//     snapshots exactly when the list is, but for collisions, one in 2^48.
package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"weir/internal/disk"
	"weir/internal/disk/record"

	"github.com/zeebo/xxh3"
)

// Snapshot is an open snapshot. Its methods but Close may be called by many goroutines at a time.
type Snapshot struct {
	h       header
	pack    packing
	lists   []byte // the lists and loadSlack bytes behind them
	end     uint64 // bytes of the lists
	records line
	index   index
	names   []byte
	ends    line
	known   []uint64 // fallback items

	recordBound uint64        // bytes of the largest record
	warmed      atomic.Uint64 // bytes of the lists known to be good and in memory

	path    string
	file    *os.File
	mapping *disk.Mapping
	single  *disk.Mapping // the same file again, for Fetch
	data    []byte
	info    os.FileInfo // when it was opened
}

// Open maps a snapshot and checks it but for the lists and the item names, which Warm checks.
// Errors are record.ErrKind, record.ErrVersion, record.ErrCorrupt or of the file system.
func Open(path string) (*Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{path: path, file: f}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Snapshot) open() (err error) {
	if s.info, err = s.file.Stat(); err != nil {
		return err
	}
	if !s.info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", record.ErrKind, s.path)
	}
	if s.mapping, err = disk.MapReadOnly(s.file); err != nil {
		return err
	}
	if s.single, err = disk.MapReadOnly(s.file); err != nil {
		return err
	}
	if err := s.single.Random(); err != nil {
		return err
	}
	return s.load()
}

// openMemory is Open for a file that is in memory.
func openMemory(path string, data []byte) (*Snapshot, error) {
	s := &Snapshot{path: path, mapping: disk.InMemory(path, data), single: disk.InMemory(path, data)}
	return s, s.load()
}

// load checks what is mapped and takes it apart, but for the lists and names.
func (s *Snapshot) load() error {
	s.data = s.mapping.Bytes()
	err := disk.Guard(func() (err error) {
		s.h, err = decodeHeader(s.path, s.data[:min(len(s.data), headerBytes)], uint64(len(s.data)))
		return err
	})
	if err != nil {
		return err
	}
	return s.guard("sections", s.decode)
}

// checkedAtOpen are the sections whose checksums Open verifies.
var checkedAtOpen = []sectionKind{sectionBlocks, sectionRecords, sectionIndex,
	sectionNameEnds, sectionFallback}

// decode checks and takes apart all sections but the lists and names.
func (s *Snapshot) decode() error {
	h := &s.h
	for _, k := range checkedAtOpen {
		if err := s.checkSum(k); err != nil {
			return err
		}
	}
	s.pack = newPacking(h.maxItem)
	s.end = h.sections[sectionLists].length
	s.lists = s.slack(sectionLists)
	s.names = s.section(sectionNames)
	if found, want := uint64(len(s.section(sectionBlocks))),
		(s.end+blockBytes-1)/blockBytes*8; found != want {
		return damaged(sectionBlocks.String(), "it has %d bytes, expected %d", found, want)
	}
	longest := s.pack.bytes(int(h.longest))
	s.recordBound = uint64(headBytes + chunks(longest)*sumBytes + longest)
	if h.users == String {
		s.recordBound += 2 + MaxUserName
	} else if !h.dense {
		s.recordBound += 8
	}

	var err error
	if s.records, err = decodeLine(sectionRecords.String(), s.slack(sectionRecords), h.slots); err != nil {
		return err
	}
	if !h.dense {
		if s.index, err = decodeIndex(s.section(sectionIndex), h.slots); err != nil {
			return err
		}
	}
	if h.items == String {
		if s.ends, err = decodeLine(sectionNameEnds.String(), s.slack(sectionNameEnds),
			h.nameCount+1); err != nil {
			return err
		}
	}
	fallback := s.section(sectionFallback)
	if len(fallback)%8 != 0 {
		return damaged(sectionFallback.String(), "it has %d bytes, expected a multiple of 8", len(fallback))
	}
	for ; len(fallback) > 0; fallback = fallback[8:] {
		item := binary.LittleEndian.Uint64(fallback)
		if item > h.maxItem || h.items == String && item >= h.nameCount {
			return damaged(sectionFallback.String(), "item %d is beyond the largest, %d", item, h.maxItem)
		}
		s.known = append(s.known, item)
	}
	return nil
}

// section is the bytes of a section.
func (s *Snapshot) section(k sectionKind) []byte {
	at := s.h.sections[k]
	return s.data[at.offset : at.offset+at.length : at.offset+at.length]
}

// slack is the bytes of a section and loadSlack more.
func (s *Snapshot) slack(k sectionKind) []byte {
	at := s.h.sections[k]
	return s.data[at.offset : at.offset+at.length+loadSlack : at.offset+at.length+loadSlack]
}

func (s *Snapshot) checkSum(k sectionKind) error {
	if found, want := xxh3.Hash(s.section(k)), s.h.sections[k].sum; found != want {
		return damaged(k.String(), "its checksum is %016x, expected %016x", found, want)
	}
	return nil
}

// Users is what user ids are.
func (s *Snapshot) Users() Kind { return s.h.users }

// Items is what item ids are.
func (s *Snapshot) Items() Kind { return s.h.items }

// Stats describes the snapshot.
func (s *Snapshot) Stats() Stats { return s.h.stats(s.pack) }

// Publication returns which version of the lists the file holds.
func (s *Snapshot) Publication() Publication { return s.h.publication }

// Slots is the number of ranks, 0..Slots()-1.
func (s *Snapshot) Slots() uint64 { return s.h.slots }

// Dense says that user ids are the ranks, with ranks of absent users between them: finding one
// reads no record.
func (s *Snapshot) Dense() bool { return s.h.dense }

// Fallback is the items for users who have none left, from the most frequent on. The slice must
// not be changed.
func (s *Snapshot) Fallback() []uint64 { return s.known }

// FindNumber is the rank of a user whose id is a number. With a dense snapshot true means no more
// than that the id has a rank; whether there is such a user is for the list's Tag to say.
func (s *Snapshot) FindNumber(id uint64) (rank uint64, ok bool) {
	if s.h.dense {
		return id, id < s.h.slots
	}
	if s.h.users != Number {
		return 0, false
	}
	from, to, fragment := s.index.bucket(hashNumber(id))
	for ; from < to; from++ {
		if f, rank := s.index.entry(from); f == fragment {
			s.Fetch(rank)
			if record := s.record(rank); len(record) >= headBytes+8 &&
				binary.LittleEndian.Uint64(record[headBytes:]) == id {
				return rank, true
			}
		}
	}
	return 0, false
}

// FindString is the rank of a user whose id is a string.
func (s *Snapshot) FindString(id []byte) (rank uint64, ok bool) {
	if s.h.users != String {
		return 0, false
	}
	from, to, fragment := s.index.bucket(hashName(id))
	for ; from < to; from++ {
		if f, rank := s.index.entry(from); f == fragment {
			s.Fetch(rank)
			if name, ok := userName(s.record(rank)); ok && bytes.Equal(name, id) {
				return rank, true
			}
		}
	}
	return 0, false
}

// record is the lists from the record of a rank on, loadSlack bytes behind their end included;
// nil where there is none.
func (s *Snapshot) record(rank uint64) []byte {
	if rank >= s.h.slots {
		return nil
	}
	at := s.records.at(rank)
	if at > s.end {
		return nil
	}
	return s.lists[at:]
}

// userName is the name in a record of a user who has one.
func userName(record []byte) (name []byte, ok bool) {
	const at = headBytes + 2
	if len(record) < at {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint16(record[headBytes:]))
	if len(record)-at < n {
		return nil, false
	}
	return record[at : at+n : at+n], true
}

// UserKey is the id of the user of a rank: a number, or a name, which must not be changed and is
// valid until Close. ok is false for ranks of absent users.
func (s *Snapshot) UserKey(rank uint64) (number uint64, name []byte, ok bool) {
	record := s.record(rank)
	if len(record) < headBytes+loadSlack || binary.LittleEndian.Uint64(record) == 0 {
		return 0, nil, false
	}
	switch {
	case s.h.dense:
		return rank, nil, true
	case s.h.users == Number:
		return binary.LittleEndian.Uint64(record[headBytes:]), nil, true
	default:
		name, ok = userName(record)
		return 0, name, ok
	}
}

// NameJSON is the i-th item name as a JSON string with its quotes, as it is in the file. It must
// not be changed and is valid until Close. Where there is no such name, or it is damaged, it is null.
func (s *Snapshot) NameJSON(i uint64) []byte {
	if name, ok := s.name(i); ok {
		return name
	}
	return noName
}

// nameSum is how many bytes of checksum follow a name.
const nameSum = 2

// name is NameJSON, or says that there is no such name.
func (s *Snapshot) name(i uint64) (json []byte, ok bool) {
	if i >= s.h.nameCount {
		return nil, false
	}
	from, to := s.ends.at(i), s.ends.at(i+1)
	if from > to || to > uint64(len(s.names)) || to-from < nameSum {
		return nil, false
	}
	json = s.names[from : to-nameSum : to-nameSum]
	return json, uint16(xxh3.Hash(json)) == binary.LittleEndian.Uint16(s.names[to-nameSum:])
}

var noName = []byte("null")

// Name is the i-th item name, "" where there is none.
func (s *Snapshot) Name(i uint64) string {
	var name string
	if json.Unmarshal(s.NameJSON(i), &name) != nil {
		return ""
	}
	return name
}

// Lock keeps the whole file in memory until Close.
func (s *Snapshot) Lock() error { return s.mapping.Lock() }

// File is the file as it was when it was opened, whatever is at its path by now.
func (s *Snapshot) File() os.FileInfo { return s.info }

// ChangedOnDisk is an error when the file was changed in place since it was opened, which
// nobody may do: what is served is then of neither the old nor the new contents.
func (s *Snapshot) ChangedOnDisk() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.info.Size() || !info.ModTime().Equal(s.info.ModTime()) {
		return fmt.Errorf("%s: changed in place while it was served (%d bytes of %v, opened with %d bytes "+
			"of %v); write a new file and rename it",
			s.path, info.Size(), info.ModTime(), s.info.Size(), s.info.ModTime())
	}
	return nil
}

// Close unmaps the file. Nobody may be reading the snapshot or anything it gave out.
func (s *Snapshot) Close() error {
	var err error
	if s.mapping != nil {
		err = s.mapping.Close()
	}
	if s.single != nil {
		err = errors.Join(err, s.single.Close())
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

// Section is a part of the file.
type Section struct {
	Name   string
	Offset uint64 // bytes
	Length uint64 // bytes, without the padding behind
}

// Sections are the parts of the file that are there, in the order of the table in its header.
func (s *Snapshot) Sections() []Section {
	var parts []Section
	for k := sectionKind(1); k <= sectionCount; k++ {
		if at := s.h.sections[k]; at.length > 0 {
			parts = append(parts, Section{k.String(), at.offset, at.length})
		}
	}
	return parts
}

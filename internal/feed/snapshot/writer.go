package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/disk"

	"github.com/zeebo/xxh3"
)

// DefaultFallback is how many of the most frequent items a snapshot keeps by default.
const DefaultFallback = 50

// Options is what a writer has to know before the first list.
type Options struct {
	Users Kind // of user ids
	Items Kind // of item ids

	// UserCount and MaxUser decide how users are found: numbers up to about twice their count are
	// ranks themselves, anything else is hashed. MaxUser, the largest id, is for numbers only.
	UserCount, MaxUser uint64

	// MaxItem is the largest item id, which decides how many bits an item takes. With items
	// that are strings it is how many names there are less one.
	MaxItem uint64
	// Names gives the names of items that are strings, in the order of their index.
	Names iter.Seq[string]

	// Fallback is how many of the most frequent items to keep for users who have none left;
	// 0 is DefaultFallback, less is none.
	Fallback int
	// Fallbacks gives those items instead, as numbers or indices of names; nil counts. Number 0
	// cannot be one.
	Fallbacks []uint64

	// Published is when the lists were made, for Publication; zero is before all others.
	Published time.Time
}

// Stats describes a snapshot.
type Stats struct {
	Users    uint64 // lists present
	Items    uint64 // items of all lists
	Names    uint64 // names of items that are strings
	MaxItem  uint64 // the largest item there may be
	Shortest int    // items
	Longest  int    // items
	Bytes    int64  // of the file
	ItemBits int
}

// Writer writes a snapshot, list after list, in bounded memory: about 40 MiB, for hashed users as
// much again, up to 64 MiB to count items, and 8 bytes a name of items that are strings. What it
// must not hold it keeps in temporary files in the directory of the snapshot.
//
// After an error every further call returns one; Abort then. Not for concurrent use.
type Writer struct {
	o     Options
	dense bool
	pack  packing
	out   fileWriter
	h     header
	err   error

	block      []byte // lists not yet written, from a block boundary on
	sums       []byte // checksums of the blocks written
	records    lineBuilder
	index      indexBuilder
	names      *nameWriter
	itemCounts itemCounts
	lastName   []byte // of the last user
	next       uint64 // smallest number the next user may have; 0 again once 2^64-1 was given
	exhausted  bool   // user 2^64-1 was given

	items      []uint64 // scratch: a list's items as 64-bit numbers
	identities []uint64 // scratch: what stands for them in the tag
	scratch    []byte
}

// Create begins a snapshot that replaces path at Commit and not before. It writes the item
// names at once.
func Create(path string, o Options) (*Writer, error) {
	w := &Writer{o: o, dense: o.Users == Number && denseEnough(o.UserCount, o.MaxUser),
		pack: newPacking(o.MaxItem)}
	if err := o.check(); err != nil {
		return nil, err
	}
	f, err := disk.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	w.out = fileWriter{file: f, offset: headerBytes}
	w.records = lineBuilder{runs: spool{dir: dir}}
	w.index = indexBuilder{runs: spool{dir: dir}, limit: runEntries}
	if !w.dense { // at once, since growing would leave several times as much behind
		w.index.run = make([]hashed, 0, min(runEntries, o.UserCount))
	}
	w.h = header{users: o.Users, items: o.Items, dense: w.dense, maxItem: o.MaxItem, shortest: MaxListLen}
	if o.Items == String {
		w.names = newNameWriter(dir)
		if err := w.writeNames(); err != nil {
			w.Abort()
			return nil, err
		}
	}
	if err := w.out.pad(pageBytes); err != nil {
		w.Abort()
		return nil, err
	}
	w.h.sections[sectionLists].offset = uint64(w.out.offset)
	w.block = make([]byte, 0, blockBytes+1<<20) // and more than the largest record
	if o.Fallbacks == nil && o.Fallback >= 0 {
		w.itemCounts = newItemCounts(o.MaxItem)
	}
	return w, nil
}

// denseEnough says whether the ids of users serve as ranks: the empty ones then take less than
// an index.
func denseEnough(users, largest uint64) bool {
	return largest < MaxSlots && largest+1 <= 2*users+1024
}

func (o *Options) check() error {
	if o.Users > String || o.Items > String {
		return fmt.Errorf("snapshot of %v users and %v items: want number or string", o.Users, o.Items)
	}
	if o.UserCount > MaxSlots {
		return fmt.Errorf("snapshot of %d users: at most %d are possible; split them over several",
			o.UserCount, uint64(MaxSlots))
	}
	if (o.Items == String) != (o.Names != nil) {
		return fmt.Errorf("snapshot of %v items: names are given with string items and only with them",
			o.Items)
	}
	seen := make(map[uint64]bool)
	for _, item := range o.Fallbacks {
		switch {
		case item > o.MaxItem:
			return fmt.Errorf("fallback item %d is beyond the largest item %d", item, o.MaxItem)
		case item == 0 && o.Items == Number:
			return errors.New("fallback item 0: 0 is never served as a fallback, remove it")
		case seen[item]:
			return fmt.Errorf("fallback item %d is there twice", item)
		}
		seen[item] = true
	}
	return nil
}

// AddNumber adds the list of the next user: ids ascend, items are at most MaxListLen, none
// beyond Options.MaxItem, and none twice, which is the caller's job. items stays the caller's.
func (w *Writer) AddNumber(user uint64, items []uint64) error {
	if err := w.beginNumber(user); err != nil {
		return err
	}
	return w.add(user, items)
}

// AddNumber32 is AddNumber for items of 32 bits.
func (w *Writer) AddNumber32(user uint64, items []uint32) error {
	if err := w.beginNumber(user); err != nil {
		return err
	}
	w.items = slices.Grow(w.items[:0], len(items))[:len(items)]
	for i, item := range items {
		w.items[i] = uint64(item)
	}
	return w.add(user, w.items)
}

// AddString is AddNumber for a user whose id is a string of 1 to MaxUserName bytes; they ascend
// bytewise.
func (w *Writer) AddString(user string, items []uint64) error {
	switch {
	case w.err != nil:
		return w.err
	case w.o.Users != String:
		return w.fail(fmt.Errorf("user %q is a string, the snapshot is of numbers", user))
	case len(user) == 0 || len(user) > MaxUserName:
		return w.fail(fmt.Errorf("user id of %d bytes: 1 to %d are possible", len(user), MaxUserName))
	case w.h.userCount > 0 && user <= string(w.lastName):
		return w.fail(fmt.Errorf("user %q came after %q: ids must ascend", user, w.lastName))
	}
	w.lastName = append(w.lastName[:0], user...)
	if err := w.index.add(hashName(w.lastName)); err != nil {
		return w.fail(err)
	}
	return w.add(identityOf(w.lastName), items)
}

// beginNumber checks that user may come next and, with ids for ranks, fills the gap before it.
func (w *Writer) beginNumber(user uint64) error {
	switch {
	case w.err != nil:
		return w.err
	case w.o.Users != Number:
		return w.fail(fmt.Errorf("user %d is a number, the snapshot is of strings", user))
	case user < w.next || w.exhausted:
		return w.fail(fmt.Errorf("user %d came after %d: ids must ascend", user, w.next-1))
	case w.dense && user > w.o.MaxUser:
		return w.fail(fmt.Errorf("user %d is beyond the largest, which was said to be %d", user, w.o.MaxUser))
	}
	for ; w.dense && w.next < user; w.next++ {
		w.block = append(w.block, make([]byte, headBytes)...)
		if err := w.endRecord(len(w.block) - headBytes); err != nil {
			return w.fail(err)
		}
	}
	w.next = user + 1
	w.exhausted = w.next == 0
	if w.dense {
		return nil
	}
	if err := w.index.add(hashNumber(user)); err != nil {
		return w.fail(err)
	}
	return nil
}

// add appends the record of a user whose id was accepted.
func (w *Writer) add(identity uint64, items []uint64) error {
	if len(items) > MaxListLen {
		return w.fail(fmt.Errorf("a list of %d items: at most %d are possible", len(items), MaxListLen))
	}
	for _, item := range items {
		if item > w.o.MaxItem {
			return w.fail(fmt.Errorf("item %d is beyond the largest, which was said to be %d", item,
				w.o.MaxItem))
		}
	}
	if w.itemCounts != nil {
		w.itemCounts.count(items)
	}
	identities := items
	if w.names != nil {
		w.identities = w.identities[:0]
		for _, item := range items {
			if item >= w.h.nameCount {
				return w.fail(fmt.Errorf("item %d has no name, there are %d", item, w.h.nameCount))
			}
			w.identities = append(w.identities, w.names.identities[item])
		}
		identities = w.identities
	}
	var tag uint64
	tag, w.scratch = tagOf(w.scratch, identity, identities)

	start := len(w.block)
	head, owner := tag<<16|uint64(len(items)), identity
	w.block = binary.LittleEndian.AppendUint64(w.block, head)
	switch {
	case w.o.Users == String:
		w.block = binary.LittleEndian.AppendUint16(w.block, uint16(len(w.lastName)))
		w.block = append(w.block, w.lastName...)
		owner = xxh3.Hash(w.lastName)
	case !w.dense:
		w.block = binary.LittleEndian.AppendUint64(w.block, identity)
	}
	sums := len(w.block)
	n := chunks(w.pack.bytes(len(items)))
	w.block = append(w.block, make([]byte, n*sumBytes)...)
	packed := len(w.block)
	w.block = w.pack.appendPacked(w.block, items)
	for i := range n {
		chunk := w.block[packed+i*chunkBytes : min(packed+(i+1)*chunkBytes, len(w.block))]
		binary.LittleEndian.PutUint32(w.block[sums+i*sumBytes:], sumOf(chunk, i, head, owner))
	}

	w.h.userCount++
	w.h.itemCount += uint64(len(items))
	w.h.shortest = min(w.h.shortest, uint32(len(items)))
	w.h.longest = max(w.h.longest, uint32(len(items)))
	if err := w.endRecord(start); err != nil {
		return w.fail(err)
	}
	return nil
}

// endRecord takes note of the record that begins at start in the block and goes to its end, and
// writes the block once it is full.
func (w *Writer) endRecord(start int) error {
	if w.records.pieces == MaxSlots {
		return fmt.Errorf("more than %d users; split them over several snapshots", uint64(MaxSlots))
	}
	if err := w.records.add(uint32(len(w.block) - start)); err != nil {
		return err
	}
	if w.records.total > maxListsLen {
		return fmt.Errorf("lists of more than %d bytes; split the users over several snapshots",
			uint64(maxListsLen))
	}
	if len(w.block) < blockBytes {
		return nil
	}
	return w.writeBlock(blockBytes)
}

// writeBlock writes the first n bytes of the block and their checksum.
func (w *Writer) writeBlock(n int) error {
	w.sums = binary.LittleEndian.AppendUint64(w.sums, xxh3.Hash(w.block[:n]))
	if _, err := w.out.Write(w.block[:n]); err != nil {
		return err
	}
	w.block = w.block[:copy(w.block, w.block[n:])]
	return nil
}

// Commit completes the file, syncs it and puts it in place.
func (w *Writer) Commit() (Stats, error) {
	if w.err != nil {
		return Stats{}, w.err
	}
	if err := w.commit(); err != nil {
		w.Abort()
		return Stats{}, w.fail(err)
	}
	w.closeSpools()
	w.err = errors.New("snapshot was committed already")
	return w.h.stats(w.pack), nil
}

func (w *Writer) commit() error {
	lists := &w.h.sections[sectionLists]
	if len(w.block) > 0 {
		if err := w.writeBlock(len(w.block)); err != nil {
			return err
		}
	}
	lists.length = uint64(w.out.offset) - lists.offset
	lists.sum = xxh3.Hash(w.sums)
	if _, err := w.out.Write(make([]byte, loadSlack)); err != nil {
		return err
	}
	w.h.slots = w.records.pieces
	if w.h.userCount == 0 {
		w.h.shortest = 0
	}

	type part struct {
		kind  sectionKind
		write func(io.Writer) error
	}
	parts := []part{
		{sectionBlocks, func(out io.Writer) error { _, err := out.Write(w.sums); return err }},
		{sectionRecords, w.records.writeTo},
	}
	if !w.dense {
		parts = append(parts,
			part{sectionIndex, func(out io.Writer) error { return w.index.writeTo(out, w.records.runs.dir) }})
	}
	if w.names != nil {
		parts = append(parts, part{sectionNameEnds, w.names.ends.writeTo})
	}
	parts = append(parts, part{sectionFallback, w.writeFallback})
	for _, p := range parts {
		if err := w.section(p.kind, p.write); err != nil {
			return err
		}
	}
	for k := range w.h.sections {
		if s := &w.h.sections[k]; s.offset == 0 {
			*s = section{offset: headerBytes, sum: xxh3.Hash(nil)}
		}
	}
	w.h.fileBytes = uint64(w.out.offset)
	w.h.publication = publicationOf(w.o.Published, w.h.sections[1:])
	if _, err := w.out.file.WriteAt(w.h.encode(), 0); err != nil {
		return err
	}
	return w.out.file.Commit()
}

// section writes a section and its padding and enters it in the header's table.
func (w *Writer) section(kind sectionKind, write func(io.Writer) error) error {
	s := &w.h.sections[kind]
	s.offset = uint64(w.out.offset)
	sum := xxh3.New()
	out := bufio.NewWriterSize(io.MultiWriter(&w.out, sum), 256<<10)
	if err := errors.Join(write(out), out.Flush()); err != nil {
		return err
	}
	s.length, s.sum = uint64(w.out.offset)-s.offset, sum.Sum64()
	if _, err := w.out.Write(make([]byte, loadSlack)); err != nil {
		return err
	}
	return w.out.pad(8)
}

func (w *Writer) writeNames() error {
	err := w.section(sectionNames, func(out io.Writer) error { return w.names.writeTo(out, w.o.Names) })
	if err != nil {
		return err
	}
	w.h.nameCount = uint64(len(w.names.identities))
	if w.h.nameCount > 0 && w.o.MaxItem != w.h.nameCount-1 {
		return fmt.Errorf("%d item names for a largest index of %d", w.h.nameCount, w.o.MaxItem)
	}
	return nil
}

func (w *Writer) writeFallback(out io.Writer) error {
	items := w.o.Fallbacks
	if w.itemCounts != nil {
		n := w.o.Fallback
		if n == 0 {
			n = DefaultFallback
		}
		items = mostFrequent(w.itemCounts, n, w.o.Items == String)
	}
	var word [8]byte
	for _, item := range items {
		binary.LittleEndian.PutUint64(word[:], item)
		if _, err := out.Write(word[:]); err != nil {
			return err
		}
	}
	return nil
}

// Abort gives up: nothing is left of the snapshot, and what was at its path stays. After Commit
// it does nothing.
func (w *Writer) Abort() {
	w.out.file.Abort()
	w.closeSpools()
	if w.err == nil {
		w.err = errors.New("snapshot was given up")
	}
}

func (w *Writer) closeSpools() {
	w.records.runs.close()
	w.index.close()
	if w.names != nil {
		w.names.ends.runs.close()
	}
}

// fail remembers the first error: a snapshot that misses a list must not be committed.
func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// stats are the numbers of a header.
func (h *header) stats(p packing) Stats {
	return Stats{
		Users: h.userCount, Items: h.itemCount, Names: h.nameCount, MaxItem: h.maxItem,
		Shortest: int(h.shortest), Longest: int(h.longest), Bytes: int64(h.fileBytes),
		ItemBits: int(p),
	}
}

// fileWriter writes a file from front to back and knows where it is.
type fileWriter struct {
	file   *disk.AtomicFile
	offset int64
}

func (f *fileWriter) Write(b []byte) (int, error) {
	n, err := f.file.WriteAt(b, f.offset)
	f.offset += int64(n)
	return n, err
}

// pad writes zeros up to a multiple of align, at most a page.
func (f *fileWriter) pad(align int64) error {
	_, err := f.Write(make([]byte, -f.offset&(align-1)))
	return err
}

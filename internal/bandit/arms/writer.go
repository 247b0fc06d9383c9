package arms

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"weir/internal/disk"

	"github.com/zeebo/xxh3"
)

// Level says what an arm is for.
type Level uint8

const (
	Item      Level = iota // everybody
	Segmented              // a segment of users
	Pair                   // one user
)

// Duplicates says what becomes of an arm that is added again.
type Duplicates uint8

const (
	Refuse Duplicates = iota // Commit fails with a *DuplicateError
	Last                     // what was added last counts
	Sum                      // alphas and betas are added up; of users the last segment counts
)

// DuplicateError is an arm, or a user, that was added twice.
type DuplicateError struct {
	User          bool
	First, Second uint64 // how many were added before each of the two
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("rows %d and %d are of the same arm", e.First, e.Second)
}

// Writer writes a file of arms, in bounded memory: 16 MiB, and 48 bytes for each arm of a 64th of them.
// What it must not hold is in a temporary file beside the target. It is for one goroutine.
type Writer struct {
	o        Options
	out      *disk.AtomicFile
	arms     rows
	users    rows
	segments map[string]int
	names    []string
}

// Options is how a file is to be written.
type Options struct {
	Duplicates Duplicates
	// Prior is what counts of clicks are added to.
	Prior [2]float64
	// TempDir is for temporary files.
	TempDir string
}

// Create begins a file that replaces path at Commit and not before.
func Create(path string, o Options) (*Writer, error) {
	out, err := disk.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	return &Writer{o: o, out: out, arms: rows{dir: o.TempDir}, users: rows{dir: o.TempDir},
		segments: make(map[string]int)}, nil
}

// Add adds an arm with its posterior.
func (w *Writer) Add(level Level, k Key, alpha, beta float64) error {
	return w.arms.add(row{key: k, a: alpha, b: beta, level: level})
}

// AddCounts adds an arm of which it is known how often it was shown with and without success, to
// which the prior comes.
func (w *Writer) AddCounts(level Level, k Key, successes, failures float64) error {
	return w.arms.add(row{key: k, a: successes, b: failures, level: level, counts: true})
}

// Hint says that an item has an arm in a scope. Without it that is not found.
func (w *Writer) Hint(item Key, s Scope) error {
	return w.arms.add(row{key: item, hint: true, mask: s.Mask()})
}

// AddUser says of which segment a user is.
func (w *Writer) AddUser(user Key, segment string) error {
	n, ok := w.segments[segment]
	if !ok {
		n = len(w.names)
		if n == MaxSegments {
			return fmt.Errorf("more than %d segments of users", MaxSegments)
		}
		if len(segment) == 0 || len(segment) > MaxName {
			return fmt.Errorf("the name of a segment has %d bytes: 1 to %d are possible", len(segment),
				MaxName)
		}
		w.segments[segment] = n
		w.names = append(w.names, segment)
	}
	return w.users.add(row{key: user, a: float64(n)})
}

// Abort gives up. After Commit it does nothing.
func (w *Writer) Abort() error {
	return errors.Join(w.arms.close(), w.users.close(), w.out.Abort())
}

// Commit writes the file; progress, which may be nil, is told how many rows of how many are in
// their place.
func (w *Writer) Commit(progress func(done, total uint64)) (Stats, error) {
	if progress == nil {
		progress = func(uint64, uint64) {}
	}
	var h header
	total := w.arms.added + w.users.added
	// By 2 MiB, at multiples of it, the file comes into the page cache in huge pages (see internal/disk).
	out := bufio.NewWriterSize(w.out, 2<<20)
	if _, err := out.Write(make([]byte, headerBytes)); err != nil {
		return Stats{}, err
	}
	var err error
	h.armHomes, h.armCells, h.sums[0], err = w.write(out, &w.arms, w.o.Duplicates,
		func(done uint64) { progress(done, total) }, func(r *row) (a, b uint64, err error) {
			if r.hint {
				return 0, 0, nil
			}
			h.stats.Arms++
			switch r.level {
			case Segmented:
				h.stats.SegmentArms++
			case Pair:
				h.stats.UserArms++
			}
			if r.counts {
				r.a, r.b = w.o.Prior[0]+r.a, w.o.Prior[1]+r.b
			}
			if !ValidShape(r.a) || !ValidShape(r.b) {
				return 0, 0, fmt.Errorf("the alpha of an arm comes to %v and its beta to %v: finite "+
					"numbers above 0 are possible", r.a, r.b)
			}
			if most := max(r.a, r.b); most > MaxShape { // beyond what is sampled from: the mean stays
				const least = math.SmallestNonzeroFloat64
				r.a, r.b = max(r.a/most*MaxShape, least), max(r.b/most*MaxShape, least)
			}
			return math.Float64bits(r.a), math.Float64bits(r.b), nil
		})
	if err != nil {
		return Stats{}, err
	}
	duplicates := w.o.Duplicates
	if duplicates == Sum {
		duplicates = Last
	}
	// Segments are numbered again: no user may be left in one whose users were added again.
	var kept []string
	numbers := make([]int, len(w.names)) // of those that are kept, from 1
	h.userHomes, h.userCells, h.sums[1], err = w.write(out, &w.users, duplicates,
		func(done uint64) { progress(w.arms.added+done, total) }, func(r *row) (a, b uint64, err error) {
			h.stats.Users++
			number := &numbers[int(r.a)]
			if *number == 0 {
				kept = append(kept, w.names[int(r.a)])
				*number = len(kept)
			}
			return uint64(*number - 1), 0, nil
		})
	if err != nil {
		var twice *DuplicateError
		if errors.As(err, &twice) {
			twice.User = true
		}
		return Stats{}, err
	}
	var names bytes.Buffer
	for _, name := range kept {
		names.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(name))))
		names.WriteString(name)
	}
	h.stats.Segments = uint64(len(kept))
	h.names, h.sums[2] = uint64(names.Len()), xxh3.Hash(names.Bytes())
	h.bytes = headerBytes + (h.armCells+h.userCells)*cellBytes + h.names
	h.stats.Bytes = int64(h.bytes)
	if _, err := out.Write(names.Bytes()); err != nil {
		return Stats{}, err
	}
	if err := out.Flush(); err != nil {
		return Stats{}, err
	}
	if _, err := w.out.WriteAt(h.encode(), 0); err != nil {
		return Stats{}, err
	}
	if err := w.out.Commit(); err != nil {
		return Stats{}, err
	}
	return h.stats, w.Abort()
}

// write writes a section: rows in the order of their homes, each in its home or the next free cell.
func (w *Writer) write(out io.Writer, rows *rows, duplicates Duplicates, progress func(uint64),
	values func(*row) (a, b uint64, err error)) (homes, cells, sum uint64, err error) {
	count, err := rows.distinct(duplicates, progress)
	if err != nil || count == 0 {
		return 0, 0, xxh3.Hash(nil), err
	}
	homes = count + 1 // a load of 1/2: a key that is there is found in its home in 19 of 20 cases
	h := xxh3.New()
	out = io.MultiWriter(out, h)
	var cell, empty [cellBytes]byte
	err = rows.sorted(func(r *row) error {
		for home := r.key.place(homes) * homeCells; cells < home; cells++ {
			if _, err := out.Write(empty[:]); err != nil {
				return err
			}
		}
		a, b, err := values(r)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		le.PutUint64(cell[:], r.key.Lo)
		le.PutUint64(cell[8:], r.key.Hi&^(1<<keptShift-1)|uint64(r.mask))
		le.PutUint64(cell[16:], a)
		le.PutUint64(cell[24:], b)
		cells++
		_, err = out.Write(cell[:])
		return err
	})
	for ; err == nil && cells < homes*homeCells; cells++ {
		_, err = out.Write(empty[:])
	}
	if err == nil { // rows may have gone beyond the last home
		cells++
		_, err = out.Write(empty[:])
	}
	return homes, cells, h.Sum64(), err
}

// row is what was added, before it has a place.
type row struct {
	key    Key
	a, b   float64
	number uint64 // how many were added before
	level  Level
	counts bool // a and b are counts and not shapes
	hint   bool // it has a mask alone
	mask   Mask
}

const rowBytes = 48

func (r *row) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, r.key.Lo)
	dst = le.AppendUint64(dst, r.key.Hi)
	dst = le.AppendUint64(dst, math.Float64bits(r.a))
	dst = le.AppendUint64(dst, math.Float64bits(r.b))
	dst = le.AppendUint64(dst, r.number)
	flags := uint64(r.level) | uint64(r.mask)<<32
	if r.counts {
		flags |= 1 << 8
	}
	if r.hint {
		flags |= 1 << 9
	}
	return le.AppendUint64(dst, flags)
}

func (r *row) read(b []byte) {
	le := binary.LittleEndian
	r.key = Key{le.Uint64(b), le.Uint64(b[8:])}
	r.a, r.b = math.Float64frombits(le.Uint64(b[16:])), math.Float64frombits(le.Uint64(b[24:]))
	r.number = le.Uint64(b[32:])
	flags := le.Uint64(b[40:])
	r.level, r.counts, r.hint, r.mask = Level(flags), flags&(1<<8) != 0, flags&(1<<9) != 0, Mask(flags>>32)
}

// rows sorts more rows than fit into memory by their homes: they are dealt by the upper bits of
// what decides about the home to parts that are sorted one at a time.
type rows struct {
	dir   string
	added uint64
	parts [64]part
	file  *disk.TempFile // of chunks, made when the first is full
	end   int64

	chunk  []byte
	memory []row
}

// part is a part's rows: chunks in the file, in the order in which they came, and the latest.
type part struct {
	chunks []int64
	latest []byte
}

const chunkBytes = 4096 * rowBytes

func (s *rows) add(r row) error {
	r.number = s.added
	if !r.hint {
		s.added++
	}
	p := &s.parts[r.key.order()>>58]
	p.latest = r.append(p.latest)
	if len(p.latest) < chunkBytes {
		return nil
	}
	return s.spill(p)
}

func (s *rows) spill(p *part) error {
	if s.file == nil {
		f, err := disk.CreateTemp(s.dir)
		if err != nil {
			return err
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(p.latest, s.end); err != nil {
		return err
	}
	p.chunks = append(p.chunks, s.end)
	s.end += int64(len(p.latest))
	p.latest = p.latest[:0]
	return nil
}

// load reads a part into memory, sorted by home, then by key, then as they came.
func (s *rows) load(p *part) error {
	s.memory = s.memory[:0]
	read := func(b []byte) {
		for ; len(b) > 0; b = b[rowBytes:] {
			var r row
			r.read(b)
			s.memory = append(s.memory, r)
		}
	}
	for _, at := range p.chunks {
		s.chunk = slices.Grow(s.chunk[:0], chunkBytes)[:chunkBytes]
		if _, err := s.file.ReadAt(s.chunk, at); err != nil {
			return err
		}
		read(s.chunk)
	}
	read(p.latest)
	slices.SortFunc(s.memory, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.key.order(), b.key.order()),
			cmp.Compare(a.key.Hi>>keptShift, b.key.Hi>>keptShift), cmp.Compare(a.number, b.number))
	})
	return nil
}

// distinct makes one row of those of one key, and returns how many rows are left.
func (s *rows) distinct(d Duplicates, progress func(uint64)) (count uint64, err error) {
	read := uint64(0)
	for i := range s.parts {
		p := &s.parts[i]
		if err := s.load(p); err != nil {
			return 0, err
		}
		kept := s.memory[:0]
		for _, r := range s.memory {
			if !r.hint {
				read++
			}
			if n := len(kept); n == 0 || !kept[n-1].key.same(r.key) {
				kept = append(kept, r)
				continue
			}
			if err := kept[len(kept)-1].merge(r, d); err != nil {
				return 0, err
			}
		}
		if len(kept) < len(s.memory) {
			if err := s.replace(p, kept); err != nil {
				return 0, err
			}
		}
		count += uint64(len(kept))
		progress(read)
	}
	return count, nil
}

// merge takes up another row of the same key, which came later.
func (r *row) merge(other row, d Duplicates) error {
	mask := r.mask | other.mask
	switch {
	case other.hint:
	case r.hint:
		*r = other
	case d == Refuse:
		return &DuplicateError{First: r.number, Second: other.number}
	case d == Last:
		*r = other
	case d == Sum:
		r.a, r.b = r.a+other.a, r.b+other.b
		r.counts = r.counts && other.counts
	}
	r.mask = mask
	return nil
}

// replace puts fewer rows in the place of a part's.
func (s *rows) replace(p *part, kept []row) error {
	chunks := p.chunks
	p.chunks, p.latest = nil, p.latest[:0]
	for _, r := range kept {
		if p.latest = r.append(p.latest); len(p.latest) < chunkBytes {
			continue
		}
		if _, err := s.file.WriteAt(p.latest, chunks[0]); err != nil {
			return err
		}
		p.chunks = append(p.chunks, chunks[0])
		chunks, p.latest = chunks[1:], p.latest[:0]
	}
	return nil
}

// sorted calls f with all rows in the order of their homes.
func (s *rows) sorted(f func(*row) error) error {
	for i := range s.parts {
		if err := s.load(&s.parts[i]); err != nil {
			return err
		}
		for j := range s.memory {
			if err := f(&s.memory[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// close gives up the temporary file.
func (s *rows) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

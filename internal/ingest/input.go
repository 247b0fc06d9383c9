package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"weir/internal/disk"
)

// Options say how sources are opened. The zero value will do.
type Options struct {
	// Stdin is read where a source is called "-".
	Stdin io.Reader
	// TempDir holds what has to be copied before it can be read. "" is the system's.
	TempDir string
	// Memory is what an import may take, in bytes. Half of it is for what decoders of Parquet and Arrow
	// hold; pages and record batches that need more are refused. 0 is 1 GiB.
	Memory int64
	// AllowIncomplete accepts a directory in which a job has left its _temporary.
	AllowIncomplete bool
	// Header says whether the first row of CSV names its columns; nil finds out.
	Header *bool
	// Note is told what was guessed. It may be nil.
	Note func(string)
}

// Input is a set of sources, opened and recognised.
type Input struct {
	// Sources are the names of the files, in the order in which they are read.
	Sources []string
	// Progress is updated while reading, and may be read by anybody at any time.
	Progress Progress

	options Options
	ctx     context.Context // of Open: what is read there and reopened later is one operation
	tables  []table
}

// standardInput is what the source "-" is called.
const standardInput = "standard input"

// Progress says how far a Read has come. Bytes are those of the files as they are.
type Progress struct{ Rows, Bytes, Total atomic.Int64 }

// A table is an opened source.
type table interface {
	// columns are what the source offers; none at all means that it is empty.
	columns() []column
	// read decodes the source into batches, which are valid until emit returns.
	read(ctx context.Context, to target, emit func(*Batch) error) error
	close() error
}

// A target says what to decode into.
type target struct {
	file   string
	source int
	fields []Field
	chosen []choice
	kinds  []Kind
	bytes  *atomic.Int64 // advanced by what has been read
}

// Open opens the files and directories of part files named by args, "-" being the standard input.
// Directories are searched to any depth; names that begin with '_' or '.' are passed over.
//
// Once ctx is done, reading fails with its error, in Open and later, also of a standard input that
// nothing comes from.
func Open(ctx context.Context, args []string, o Options) (*Input, error) {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	in := &Input{options: o, ctx: ctx}
	for _, arg := range args {
		if err := in.add(arg); err != nil {
			in.Close()
			return nil, err
		}
	}
	if in.empty() {
		in.Close()
		names := slices.Clone(args)
		for i, name := range names {
			if name == "-" {
				names[i] = standardInput
			}
		}
		return nil, fmt.Errorf("%s: there are no rows to read", strings.Join(names, ", "))
	}
	return in, nil
}

func (in *Input) empty() bool {
	return !slices.ContainsFunc(in.tables, func(t table) bool { return len(t.columns()) > 0 })
}

// Close closes every source and removes what was copied.
func (in *Input) Close() error {
	var errs []error
	for _, t := range in.tables {
		errs = append(errs, t.close())
	}
	in.tables = nil
	return errors.Join(errs...)
}

func (in *Input) add(arg string) error {
	if arg == "-" {
		if in.options.Stdin == nil {
			return errors.New("-: there is no standard input here")
		}
		if slices.Contains(in.Sources, standardInput) {
			return errors.New("-: the standard input can be read only once")
		}
		return in.open(standardInput, interruptible(in.ctx, in.options.Stdin), 0)
	}
	info, err := os.Stat(arg)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return in.addDir(arg)
	}
	return in.addFile(arg)
}

func (in *Input) addFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	size := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return in.open(name, f, size)
}

// addDir adds the part files below a directory in the order of their names.
func (in *Input) addDir(dir string) error {
	var files []string
	complete, unfinished := false, ""
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		switch {
		case path == dir:
		case name == "_SUCCESS":
			complete = true
		case name == "_temporary":
			unfinished = path
			return fs.SkipDir
		case strings.HasPrefix(name, "_") || strings.HasPrefix(name, "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir():
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case len(files) == 0:
		return fmt.Errorf("%s: there are no part files in this directory", dir)
	case complete:
	case unfinished != "" && !in.options.AllowIncomplete:
		return fmt.Errorf("%s: there is no _SUCCESS but a %s: the job that writes it has not finished "+
			"(--allow-incomplete reads what is there)", dir, filepath.Base(unfinished))
	default:
		in.options.Note(fmt.Sprintf("%s: no _SUCCESS in this directory, reading its %d files all the same",
			dir, len(files)))
	}
	for _, f := range files {
		if err := in.addFile(f); err != nil {
			return err
		}
	}
	return nil
}

// open recognises one source and takes over the reader. size is 0 when it is unknown.
func (in *Input) open(name string, r io.ReadCloser, size int64) error {
	t, size, err := in.recognise(name, r, size)
	if err != nil {
		r.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	in.Sources = append(in.Sources, name)
	in.tables = append(in.tables, t)
	in.Progress.Total.Add(size)
	return nil
}

func (in *Input) recognise(name string, r io.ReadCloser, size int64) (t table, _ int64, err error) {
	var s *stream
	var copied *disk.TempFile
	defer func() {
		recoverInto(&err, recover())
		if err == nil {
			return
		}
		if s != nil {
			s.close()
		}
		if copied != nil {
			copied.Close()
		}
	}()
	if s, err = newStream(in.ctx, r); err != nil {
		return nil, 0, err
	}
	head, err := s.Peek(peekSize)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	whole := err == io.EOF
	f, err := detect(head)
	if err != nil {
		return nil, 0, err
	}
	file, _ := r.(*os.File)
	if size == 0 {
		file = nil // a pipe, whatever it is called
	}
	switch f {
	case formatNone:
		return emptyTable{}, 0, s.close()
	case formatParquet: // is read from its end
		var seekable readerAtCloser = file
		if file == nil || s.compressed {
			if copied, size, err = spool(s, in.options.TempDir); err != nil {
				return nil, 0, err
			}
			if err := s.close(); err != nil {
				return nil, 0, err
			}
			seekable = copied
		}
		t, err = openParquet(seekable, size, in.options)
		return t, size, err
	}
	// Thousands of part files are not kept open, nor what was read of them.
	again := func() (*stream, error) { return s, nil }
	if file != nil {
		defer s.close()
		again = func() (*stream, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			return newStream(in.ctx, f)
		}
	}
	if f == formatJSONL || f == formatCSV {
		if head, whole, err = s.peekRows(head, whole); err != nil {
			return nil, 0, err
		}
	}
	switch f {
	case formatArrowFile, formatArrowStream:
		t, err = openArrow(head, f == formatArrowFile, in.options, again)
	case formatJSONL:
		t, err = openJSONL(head, whole, again)
	default:
		t, err = openCSV(head, whole, again, in.options.Header)
	}
	return t, size, err
}

// recoverInto turns a panic of a third party's decoder into an error: a broken file is a broken file.
// The caller defers a function that passes recover's value.
func recoverInto(err *error, p any) {
	if p != nil {
		*err = fmt.Errorf("%w: %v", errDamaged, p)
	}
}

// readerAtCloser is a file that is read from its end.
type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

// spool copies r into a temporary file.
func spool(r io.Reader, dir string) (*disk.TempFile, int64, error) {
	f, err := newTempFile(dir)
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(f, r)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Path == f.Name() {
			err = tempError(err)
		}
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

func newTempFile(dir string) (*disk.TempFile, error) {
	f, err := disk.CreateTemp(dir)
	if err != nil {
		return nil, tempError(err)
	}
	return f, nil
}

// tempError says how to have temporary files elsewhere.
func tempError(err error) error {
	return fmt.Errorf("writing a temporary file (--temp-dir says where): %w", err)
}

// A stream is the decompressed content of a source that is read from front to back.
type stream struct {
	*bufio.Reader
	compressed bool
	counted    *countingReader
	closers    []io.Closer
}

func newStream(ctx context.Context, r io.ReadCloser) (*stream, error) {
	counted := &countingReader{ctx: ctx, r: r}
	plain, compressed, err := decompress(bufio.NewReaderSize(counted, 1<<16))
	if err != nil {
		return nil, err
	}
	s := &stream{bufio.NewReaderSize(plain, peekSize), compressed, counted, []io.Closer{plain, r}}
	if head, _ := s.Peek(len(bom)); bytes.Equal(head, bom) {
		s.Discard(len(bom))
	}
	return s, nil
}

// CheckReplaced makes sure that a file which is written to path replaces none of the sources.
func CheckReplaced(path string, sources []string) error {
	there, err := os.Lstat(path)
	if err != nil || there.IsDir() {
		return nil // nothing is replaced: disk.CreateAtomic refuses a directory
	}
	for _, source := range sources {
		if info, err := os.Stat(source); err == nil && os.SameFile(there, info) {
			return fmt.Errorf("%s is a source, which would be replaced: write to another file", path)
		}
	}
	return nil
}

// peekRows returns more than head, the bytes that have been looked at, where these are less than two
// lines: a header alone, or the beginning of a row that is a long list, does not tell the columns. whole
// says that it is all there is.
func (s *stream) peekRows(head []byte, whole bool) (_ []byte, _ bool, err error) {
	for size := 2 * peekSize; !whole && size <= maxRow && bytes.Count(head, []byte{'\n'}) < 2; size *= 2 {
		s.Reader = bufio.NewReaderSize(s.Reader, size)
		head, err = s.Peek(size)
		if whole = err == io.EOF; err != nil && !whole {
			return nil, false, err
		}
	}
	return head, whole, nil
}

func (s *stream) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// interruptible reads r until ctx is done. A read that is under way then is left to itself: nothing
// else ends one of a terminal or of a pipe that is quiet.
func interruptible(ctx context.Context, r io.Reader) io.ReadCloser {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, r)
		stop()
		in.CloseWithError(err)
	}()
	return out
}

// A countingReader counts the bytes of the file, before they are decompressed, until ctx is done.
type countingReader struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	seen int64 // of n, what was reported
}

func (c *countingReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	atomic.AddInt64(&c.n, int64(n))
	return n, err
}

// report adds to total what has been read since the last report.
func (c *countingReader) report(total *atomic.Int64) {
	n := atomic.LoadInt64(&c.n)
	total.Add(n - c.seen)
	c.seen = n
}

// emptyTable is a source without a byte in it, as jobs write for empty partitions.
type emptyTable struct{}

func (emptyTable) columns() []column                                      { return nil }
func (emptyTable) read(context.Context, target, func(*Batch) error) error { return nil }
func (emptyTable) close() error                                           { return nil }

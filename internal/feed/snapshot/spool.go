package snapshot

import (
	"bufio"
	"fmt"
	"io"

	"weir/internal/disk"
)

// spool is a temporary file written once from front to back and then read, any number of times:
// where the writer keeps what it must not keep in memory. Its file appears with the first byte.
type spool struct {
	dir  string
	file *disk.TempFile
	out  *bufio.Writer
	size int64
}

func (s *spool) Write(b []byte) (int, error) {
	if s.file == nil {
		f, err := disk.CreateTemp(s.dir)
		if err != nil {
			return 0, fmt.Errorf("temporary file beside the snapshot: %w", err)
		}
		s.file, s.out = f, bufio.NewWriterSize(f, 64<<10)
	}
	s.size += int64(len(b))
	return s.out.Write(b)
}

// read gives what has been written from offset on; length < 0 is everything.
func (s *spool) read(offset, length int64, buffer int) (*bufio.Reader, error) {
	if s.file == nil {
		return bufio.NewReader(eof{}), nil
	}
	if err := s.out.Flush(); err != nil {
		return nil, fmt.Errorf("temporary file beside the snapshot: %w", err)
	}
	if length < 0 {
		length = s.size - offset
	}
	return bufio.NewReaderSize(io.NewSectionReader(s.file, offset, length), buffer), nil
}

func (s *spool) close() {
	if s.file == nil {
		return
	}
	s.file.Close()
	s.file = nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

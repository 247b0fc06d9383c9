package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A fileFormat is how a source is laid out, told by its first bytes whatever its name.
type fileFormat uint8

const (
	formatNone fileFormat = iota // empty
	formatParquet
	formatArrowFile
	formatArrowStream
	formatJSONL
	formatCSV
)

// peekSize is how much of a source is looked at to tell its format and to sample its rows.
const peekSize = 1 << 20

// maxWindow bounds the memory of a zstd stream; zstd --long=27 is the most that needs no flag to
// read.
const maxWindow = 128 << 20

// decompress returns the content of r, whether it was compressed or not.
func decompress(r *bufio.Reader) (plain io.ReadCloser, compressed bool, err error) {
	head, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, true, damaged(err)
		}
		return decompressor{z}, true, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 &&
		bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, true, err
		}
		return decompressor{z.IOReadCloser()}, true, nil
	}
	return io.NopCloser(r), false, nil
}

// A decompressor says so when the file is at fault. A file that is cut off must not be taken for one that
// ends: io.ReadFull returns io.ErrUnexpectedEOF for either.
type decompressor struct{ io.ReadCloser }

func (d decompressor) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = damaged(err)
	}
	return n, err
}

// damaged puts in front of the error of a decoder that the file is at fault, unless it is that the file
// could not be read.
func damaged(err error) error {
	var path *fs.PathError
	switch {
	case err == nil, errors.As(err, &path), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errDamaged): // by the decompressor below
		return err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("the window of zstd is larger than %d MiB: compress the file with a smaller one "+
			"(%w)", maxWindow>>20, err)
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

var errDamaged = errors.New("the file is cut off or damaged")

// foreign are formats that are common enough to be named when they are refused.
var foreign = []struct{ magic, name string }{
	{"Obj\x01", "Avro"}, {"ORC", "ORC"}, {"PK\x03\x04", "a zip archive"}, {"BZh", "bzip2"},
	{"\xfd7zXZ\x00", "xz"}, {"\x04\x22\x4d\x18", "lz4"}, {"\xff\x06\x00\x00sNaPpY", "framed snappy"},
	{"SQLite format 3\x00", "an SQLite database"}, {"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"},
	{"\x93NUMPY", "a NumPy array"}, {"\x89HDF", "HDF5"},
}

// bom is what some programs put before UTF-8 text.
var bom = []byte("\xef\xbb\xbf")

// detect tells the format from the first bytes of the decompressed content.
func detect(head []byte) (fileFormat, error) {
	switch {
	case len(head) == 0:
		return formatNone, nil
	case bytes.HasPrefix(head, []byte("PAR1")):
		return formatParquet, nil
	case bytes.HasPrefix(head, []byte("PARE")):
		return 0, fmt.Errorf("the Parquet footer is encrypted: decrypt the file first")
	case bytes.HasPrefix(head, []byte(arrowMagic)):
		return formatArrowFile, nil
	case bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return formatArrowStream, nil
	}
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return 0, fmt.Errorf(
				"this is %s; Parquet, Arrow IPC, CSV, TSV and JSONL are read, plain or as .gz or .zst",
				f.name)
		}
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return 0, fmt.Errorf("this is neither Parquet nor Arrow IPC, and text has no zero bytes")
	}
	switch text := bytes.TrimLeft(head, " \t\r\n"); {
	case len(text) == 0:
		return formatNone, nil
	case text[0] == '{':
		return formatJSONL, nil
	case text[0] == '[':
		return 0, fmt.Errorf("this is a JSON array; one object a line is read (jq -c '.[]' makes that of it)")
	}
	return formatCSV, nil
}

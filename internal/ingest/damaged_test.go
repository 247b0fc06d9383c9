package ingest

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const cutOrDamaged = "standard input: the file is cut off or damaged: "

type flusher interface {
	io.WriteCloser
	Flush() error
}

// Where a file is cut must not matter, not even where a row ends.
func TestTextThatIsCutOffIsNotTakenForWhole(t *testing.T) {
	rows := strings.Repeat("1,2\n", peekSize/2)
	for name, compress := range map[string]func(io.Writer) flusher{
		"gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) flusher {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		},
	} {
		var b bytes.Buffer
		w := compress(&b)
		io.WriteString(w, rows)
		w.Flush()
		cut := b.Len()
		io.WriteString(w, rows)
		w.Close()
		if _, err := load(t, Options{Stdin: bytes.NewReader(b.Bytes())}, 0, testFields(), "-"); err != nil {
			t.Fatal(err)
		}
		_, err := load(t, Options{Stdin: bytes.NewReader(b.Bytes()[:cut])}, 0, testFields(), "-")
		if err == nil || !strings.HasPrefix(err.Error(), cutOrDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDamagedFilesAreSaidToBeSo(t *testing.T) {
	for _, name := range []string{"als.parquet", "als_v2.parquet", "int64.parquet", "lz4.parquet",
		"als.arrow", "als.arrows"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		broken := bytes.Clone(data)
		for i := len(data) / 10; i < len(data)/2; i++ {
			broken[i] = 0xee
		}
		for what, data := range map[string][]byte{"cut": data[:len(data)/2], "broken": broken} {
			_, err := load(t, Options{Stdin: bytes.NewReader(data)}, 0, testFields(), "-")
			if err == nil || !strings.HasPrefix(err.Error(), cutOrDamaged) ||
				strings.Count(err.Error(), "damaged") > 1 {
				t.Errorf("%s, %s: got %v", name, what, err)
			}
		}
	}
}

func TestOtherCompressionOfParquetIsNamed(t *testing.T) {
	data, err := os.ReadFile("testdata/int64.parquet")
	if err != nil {
		t.Fatal(err)
	}
	// In the footer a codec follows the path of its column: 2 is gzip, 5 the old LZ4, both as zigzag varints.
	file := bytes.ReplaceAll(data, []byte("user_id\x15\x04"), []byte("user_id\x15\x0a"))
	_, err = load(t, Options{Stdin: bytes.NewReader(file)}, 0, testFields(), "-")
	const want = "standard input: column user_id is compressed with LZ4: Snappy, gzip, zstd, LZ4_RAW and " +
		"Brotli are read"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEmptyStandardInputIsNamed(t *testing.T) {
	_, err := load(t, Options{Stdin: strings.NewReader("")}, 0, testFields(), "-")
	if want := "standard input: there are no rows to read"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

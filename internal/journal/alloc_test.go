//go:build !race

package journal

import (
	"fmt"
	"os"
	"testing"
)

func TestAppendDoesNotAllocate(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	b := batchOf("record", "another")
	record := []byte("record")
	if n := testing.AllocsPerRun(1000, func() {
		b.Reset()
		b.Add(record)
		b.Add(record)
		if err := j.Append(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { j.Position(); j.Lag(); j.Err() }); n != 0 {
		t.Errorf("asking allocates %v times", n)
	}
}

// An event is some 40 bytes. The background sync goes on as it does in service.
func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			j, _ := mustOpen(b, b.TempDir(), Options{Sync: DefaultSync})
			record := make([]byte, 40)
			var batch Batch
			var bytes int64
			for b.Loop() {
				batch.Reset()
				for range records {
					batch.Add(record)
				}
				if err := j.Append(&batch); err != nil {
					b.Fatal(err)
				}
				bytes = int64(len(batch.buf))
			}
			b.SetBytes(bytes)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
		})
	}
}

// BenchmarkReplay reads a journal of a million events.
func BenchmarkReplay(b *testing.B) {
	const batches, records = 1 << 16, 16
	dir := b.TempDir()
	j, _ := mustOpen(b, dir, Options{})
	var batch Batch
	for range records {
		batch.Add(make([]byte, 40))
	}
	for range batches {
		if err := j.Append(&batch); err != nil {
			b.Fatal(err)
		}
	}
	mustClose(b, j)
	for b.Loop() {
		s, err := takeStock(os.DirFS(dir), dir, false)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		if err := s.read(nil, func([]byte) error { n++; return nil }); err != nil || n != batches*records {
			b.Fatal(n, err)
		}
		s.close() //nolint:errcheck // only read
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batches/records, "ns/record")
}

package journal

import (
	"io"
	"testing"
)

func TestAppendIsReplayed(t *testing.T) {
	dir := t.TempDir()
	var got []string
	open := func() *Journal {
		got = nil
		j, err := Open(dir, Options{Segment: 8192}, func(r io.Reader) error {
			b, err := io.ReadAll(r)
			got = append(got, "C"+string(b))
			return err
		}, func(r []byte) error { got = append(got, string(r)); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	var b Batch
	for i := range 1000 {
		b.Reset()
		b.Add([]byte{byte(i), byte(i >> 8)})
		b.Add(nil)
		if err := j.Append(&b); err != nil {
			t.Fatal(err)
		}
		if i == 500 {
			if err := j.Checkpoint(j.Position(), func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open()
	if len(got) != 1+499*2 || got[0] != "Cx" || got[1] != string([]byte{byte(501 & 255), byte(501 >> 8)}) {
		t.Fatal(len(got), got[:3])
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

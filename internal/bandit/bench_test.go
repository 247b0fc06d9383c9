package bandit

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

// BenchmarkAnswer is what answering takes beside the kernel: 400 of a million items, as text, as numbers,
// and in binary tensors.
func BenchmarkAnswer(b *testing.B) {
	const items, asked = 1_000_000, 400
	path := filepath.Join(b.TempDir(), "arms.weir")
	w, err := arms.Create(path, arms.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range items {
		for _, id := range []string{fmt.Sprintf("item-%d", i), strconv.Itoa(i)} {
			if err := w.Add(arms.Item, arms.KeyOf([]byte(id)), 1+float64(i%100),
				1+float64(i%1000)); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := w.Commit(nil); err != nil {
		b.Fatal(err)
	}
	f := open(b, b.TempDir(), func(c *Config) { c.Arms = path })
	f.loaded()
	bodies := make(map[string][][]byte)
	for k := range 500 {
		var text, numbers []string
		raw := []byte(fmt.Sprintf(
			`{"inputs":[{"name":"items","datatype":"INT64","shape":[%d],"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`, asked, 8*asked))
		for i := range asked {
			n := uint64(k*asked+i) * 2654435761 % items
			text = append(text, fmt.Sprintf(`"item-%d"`, n))
			numbers = append(numbers, strconv.FormatUint(n, 10))
			raw = binary.LittleEndian.AppendUint64(raw, n)
		}
		bodies["text"] = append(bodies["text"], fmt.Appendf(nil, `{"user":"u1","items":[%s]}`,
			strings.Join(text, ",")))
		bodies["numbers"] = append(bodies["numbers"], fmt.Appendf(nil, `{"user":"u1","items":[%s]}`,
			strings.Join(numbers, ",")))
		bodies["tensors"] = append(bodies["tensors"], raw)
	}
	for _, kind := range []string{"text", "numbers", "tensors"} {
		b.Run(kind, func(b *testing.B) {
			w, begun := &server.Response{}, time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				body := bodies[kind][i%len(bodies[kind])]
				w.Body = w.Body[:0]
				sc := f.getScratch()
				if kind == "tensors" {
					if err := f.parseInference(sc, body[:len(body)-8*asked], body[len(body)-8*asked:], false,
						asked); err != nil {
						b.Fatal(err)
					}
				} else {
					sc.scanner.reset(body)
					if err := parseQuery(&sc.scanner, &sc.query, f.cfg.MaxItems); err != nil {
						b.Fatal(err)
					}
				}
				f.lookUp(sc, sc.query.user, nil, sc.query.keys, nil)
				sc.sample(&sc.query)
				if kind == "tensors" {
					f.answerInference(&reply{w, 0}, sc, false, begun)
				} else {
					w.Body = appendAnswer(w.Body, sc, &sc.query, false)
				}
				f.putScratch(sc)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/asked, "ns/prediction")
		})
	}
}

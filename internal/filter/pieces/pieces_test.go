package pieces

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/filter/syndication"
)

const selfURL = "https://filtered.example/feed?a=1&b=2"

// words are what items of tests are made of.
var words = strings.Fields("the of and to river stone bridge council said on Monday that report new city " +
	"water level rises after a week of rain " +
	"while engineers inspect every gate along northern bank officials expect no further delay for trains " +
	"commuters residents market harbour")

func prose(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// source makes a feed of a format with n items of about 900 bytes.
func source(format syndication.Format, n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(format)))
	var b bytes.Buffer
	switch format {
	case syndication.JSON:
		b.WriteString(
			`{"version":"https://jsonfeed.org/version/1.1","title":"T","feed_url":"https://example.org/f.json", "items" : [`)
		for i := range n {
			if i > 0 {
				b.WriteString(" ,\n")
			}
			fmt.Fprintf(&b, `{"id":"%d","url":"https://example.org/%d","title":"%s","content_text":"%s"}`, i,
				i, prose(r, 8), prose(r, 130))
		}
		b.WriteString("\n], \"language\": \"en\"}\n")
	case syndication.Atom:
		b.WriteString("<?xml version=\"1.0\"?>\n<feed " +
			"xmlns=\"http://www.w3.org/2005/Atom\"><title>T</title>\n<link rel=\"self\" " +
			"href='https://example.org/a?x=1&amp;y=2'/>")
		for i := range n {
			fmt.Fprintf(&b, "\n<!-- %d --><entry><id>tag:%d</id><title>%s</title><link "+
				"href=\"https://example.org/%d\"/><summary>%s</summary></entry>",
				i, i, prose(r, 8), i, prose(r, 130))
		}
		b.WriteString("\n<!-- end --></feed>\n")
	default:
		b.WriteString("<?xml version=\"1.0\"?>\n<rss version=\"2.0\" " +
			"xmlns:atom=\"http://www.w3.org/2005/Atom\"><channel><title>T</title>\n" +
			"<atom:link href=\"https://example.org/rss\" rel=\"self\" type=\"application/rss+xml\"/>")
		for i := range n {
			fmt.Fprintf(&b, "\n  "+
				"<item><guid>%d</guid><title>%s</title><link>https://example.org/%d</link><description><![CDATA[<p>%s</p>]]></description></item>",
				i, prose(r, 8), i, prose(r, 130))
		}
		b.WriteString("\n</channel></rss>\n")
	}
	return b.Bytes()
}

func parse(t testing.TB, text []byte) *syndication.Feed {
	t.Helper()
	f, err := syndication.Parse(text, syndication.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// written returns a URL as it is in a source.
func written(f *syndication.Feed) []byte {
	if f.Format == syndication.JSON {
		return []byte(selfURL)
	}
	return []byte(strings.ReplaceAll(selfURL, "&", "&amp;"))
}

// check compares all that a document gives with what the feed gives.
func check(t testing.TB, f *syndication.Feed, d *Document, keep syndication.Bits, url string) {
	t.Helper()
	want := bytes.Join(f.Pieces(nil, keep, url), nil)
	var quoted []byte
	if url != "" {
		quoted = written(f)
	}
	if got := bytes.Join(d.Plain(nil, keep, quoted), nil); !bytes.Equal(got, want) {
		t.Fatalf("the answer is\n%q, want\n%q", got, want)
	}
	tail := d.Tail(keep, quoted)
	if tail.Size != len(want) || tail.Sum != crc32.ChecksumIEEE(want) {
		t.Fatalf("the tail is %x, want %x of %d bytes", tail, crc32.ChecksumIEEE(want), len(want))
	}
	list := zipped(t, d, keep, quoted, tail)
	r, err := gzip.NewReader(bytes.NewReader(bytes.Join(list, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("gunzipped it is %v\n%q, want\n%q", err, got, want)
	}
}

// zipped returns an answer, and checks that it is there exactly when its parts were isolated, once.
func zipped(t testing.TB, d *Document, keep syndication.Bits, url []byte, tail Tail) [][]byte {
	t.Helper()
	before := d.Memory()
	_, _, ready := d.Gzip(nil, nil, keep, url, tail)
	grown := d.Isolate(keep, url != nil)
	if ready != (grown == 0) || d.Memory() != before+grown || d.Isolate(keep, url != nil) != 0 {
		t.Fatalf("ready: %v, and it takes %d bytes and then %d, having grown by %d", ready, before, d.Memory(),
			grown)
	}
	list, _, ready := d.Gzip(nil, nil, keep, url, tail)
	if !ready {
		t.Fatal("it is not ready")
	}
	return list
}

func TestTenThousandSubsetsGunzipToTheAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, format := range []syndication.Format{syndication.RSS, syndication.Atom, syndication.JSON} {
		for _, n := range []int{0, 1, 25, 70} {
			f := parse(t, source(format, n))
			if len(f.Items) != n || len(f.SelfLinks) != 1 {
				t.Fatalf("%v: %d items, %d self links", format, len(f.Items), len(f.SelfLinks))
			}
			d, err := New(f)
			if err != nil {
				t.Fatal(err)
			}
			for range 10_000/12 + 1 {
				keep := syndication.NewBits(n)
				for i, p := 0, r.Float64(); i < n; i++ {
					if r.Float64() < p {
						keep.Set(i)
					}
				}
				check(t, f, d, keep, []string{"", selfURL}[r.IntN(2)])
			}
		}
	}
}

func TestAnAnswerIsHardlyLargerThanWhatIsCompressedAsAWhole(t *testing.T) {
	for _, format := range []syndication.Format{syndication.RSS, syndication.Atom, syndication.JSON} {
		f := parse(t, source(format, 25))
		d, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		for keep, most := range map[uint64]float64{1<<25 - 1: 1.4, 0xf0f0f0: 1.5, 0x155_5555: 1.9} {
			bits := syndication.Bits{keep}
			list := zipped(t, d, bits, written(f), d.Tail(bits, written(f)))
			var whole bytes.Buffer
			w := gzip.NewWriter(&whole)
			w.Write(bytes.Join(d.Plain(nil, bits, written(f)), nil))
			w.Close()
			if n := len(bytes.Join(list, nil)); float64(n) > most*float64(whole.Len()) {
				t.Errorf("%v, items %x: %d bytes, and %d as a whole", format, keep, n, whole.Len())
			}
		}
	}
}

func TestACutOffSourceIsClosed(t *testing.T) {
	whole := source(syndication.RSS, 5)
	f := parse(t, whole[:len(whole)-400])
	d, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	for keep := range uint64(1) << len(f.Items) {
		check(t, f, d, syndication.Bits{keep}, selfURL)
	}
}

func TestIncompressiblePartsAreStored(t *testing.T) {
	noise := make([]byte, 200_000)
	r := rand.NewChaCha8([32]byte{})
	r.Read(noise)
	for i := range noise {
		noise[i] = noise[i]&63 + '0' // below six bits of eight, and no markup
	}
	noise = bytes.ReplaceAll(noise, []byte("<"), []byte("x"))
	text := append(append([]byte("<rss><channel><item><title>"), noise...),
		"</title></item><item><title/></item></channel></rss>"...)
	f := parse(t, text)
	d, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	for keep := range uint64(4) {
		check(t, f, d, syndication.Bits{keep}, "")
	}
	if size := d.Memory(); size > 2*len(text)+1000 {
		t.Errorf("takes %d bytes for %d", size, len(text))
	}
}

func TestAnAnswerAllocatesNothing(t *testing.T) {
	f := parse(t, source(syndication.RSS, 25))
	d, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	list, memory := make([][]byte, 0, 100), make([]byte, 0, 1000)
	keep, url := syndication.Bits{0x155_5555}, written(f)
	tail := d.Tail(keep, url)
	d.Isolate(keep, true)
	if n := testing.AllocsPerRun(100, func() {
		d.Plain(list, keep, url)
		d.Gzip(list, memory, keep, url, tail)
		d.Tail(keep, url)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCombinedSumsAreThoseOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	text := []byte(prose(r, 20_000))
	for range 1000 {
		cut := r.IntN(len(text) + 1)
		first, second := text[:cut], text[cut:]
		if got := combine(crc32.ChecksumIEEE(first), crc32.ChecksumIEEE(second),
			uint32(len(second))); got != crc32.ChecksumIEEE(text) {
			t.Fatalf("cut at %d: %x, want %x", cut, got, crc32.ChecksumIEEE(text))
		}
	}
}

func FuzzPieces(f *testing.F) {
	f.Add(source(syndication.RSS, 3), uint64(5), true)
	f.Add(source(syndication.Atom, 3)[:1200], uint64(1), true)
	f.Add(source(syndication.JSON, 3), uint64(6), false)
	f.Add(
		[]byte(
			`{"version":"https://jsonfeed.org/version/1","items":[{"id":1},{"id":2},{"id":3}],"feed_url":"x"}`), uint64(4), true)
	f.Add(
		[]byte(
			`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><channel/><item/>text<item/></rdf:RDF>`), uint64(2), true)
	f.Fuzz(func(t *testing.T, text []byte, keep uint64, replace bool) {
		feed, err := syndication.Parse(text, syndication.Options{MaxBytes: 1 << 16})
		if err != nil || strings.HasPrefix(feed.Charset, "utf-16") ||
			strings.HasPrefix(feed.Charset, "utf-32") {
			return // written writes ASCII
		}
		d, err := New(feed)
		if err != nil {
			t.Fatal(err)
		}
		url := ""
		if replace {
			url = selfURL
		}
		check(t, feed, d, syndication.Bits{keep}, url)
	})
}

// BenchmarkGzip says what an answer costs, and how large it is beside one that is compressed as a whole.
func BenchmarkGzip(b *testing.B) {
	f := parse(b, source(syndication.RSS, 25))
	d, err := New(f)
	if err != nil {
		b.Fatal(err)
	}
	keep := syndication.Bits{0x1ff_ffff &^ 0x40440}
	url := written(f)
	list, memory, tail := make([][]byte, 0, 100), make([]byte, 0, 1000), d.Tail(keep, url)
	size := 0
	d.Isolate(keep, true)
	for b.Loop() {
		list, memory, _ = d.Gzip(list[:0], memory[:0], keep, url, tail)
	}
	for _, p := range list {
		size += len(p)
	}
	var whole bytes.Buffer
	w, _ := gzip.NewWriterLevel(&whole, 6)
	w.Write(bytes.Join(d.Plain(nil, keep, url), nil))
	w.Close()
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(float64(whole.Len()), "bytes-as-whole")
	b.ReportMetric(float64(tail.Size), "bytes-plain")
}

func BenchmarkNew(b *testing.B) {
	f := parse(b, source(syndication.RSS, 25))
	b.SetBytes(int64(len(f.Source)))
	for b.Loop() {
		if _, err := New(f); err != nil {
			b.Fatal(err)
		}
	}
}

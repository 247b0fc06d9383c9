package client

import (
	"bytes"
	"math/bits"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/measure"
)

// sheet is what one thread counts between two Collects: a measure.Window that is cheap to add and to empty,
// since only what was touched of its histograms is looked at. Whole histograms took half a millisecond of
// every window, on a processor that the thread that sends may need.
type sheet struct {
	measure.Counts
	Latency, ShedLatency, Lag tally
	Detail                    measure.Detail
	Busy                      float64
	Connections, InFlight     int
}

// moveTo adds s to w, but for what is a moment's, and empties it.
func (s *sheet) moveTo(w *measure.Window) {
	w.Counts.Add(&s.Counts)
	s.Counts = measure.Counts{}
	w.Busy = max(w.Busy, s.Busy)
	if w.Detail != nil {
		w.Detail.Add(&s.Detail)
	}
	s.Detail.Reset()
	s.Latency.moveTo(w.Latency)
	s.ShedLatency.moveTo(w.ShedLatency)
	s.Lag.moveTo(w.Lag)
}

// sample keeps a request that has no usable answer as an example; wire is the request.
func (s *sheet) sample(kind string, wire []byte, detail string) {
	if !s.Detail.Wants(kind) {
		return
	}
	line, _, _ := bytes.Cut(wire, crlf)
	line, _ = bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	s.Detail.AddSample(measure.Sample{Kind: kind, Request: string(line[:min(len(line), 200)]),
		Detail: detail})
}

var crlf = []byte("\r\n")

// sampleStatus is sample for an answer that says it is an error.
func (s *sheet) sampleStatus(status int, wire []byte) {
	if status >= 400 && status != 503 && (status >= measure.Statuses || s.Detail.Statuses[status] <= 3) {
		s.sample(strconv.Itoa(status), wire, "")
	}
}

// lose counts a request of a part without a usable answer.
func (s *sheet) lose(why measure.Failure, part int) {
	s.Failed[why]++
	s.Detail.Part(part).Errors++
}

// unexpected counts an answer that is not what its request expects.
func (s *sheet) unexpected(status, part int, took time.Duration) {
	if status < measure.Statuses {
		s.Detail.Statuses[status]++
	}
	s.lose(measure.Unexpected, part)
	s.Latency.record(took)
}

// count counts an answer to a request of a part.
func (s *sheet) count(status, part int, took time.Duration) {
	s.Detail.Count(status, part, took)
	switch {
	case status == 503:
		s.Shed++
		s.ShedLatency.record(took)
		return
	case status >= 400:
		s.Failed[measure.Status]++
	default:
		s.Served++
	}
	s.Latency.record(took)
}

// The buckets of measure's histograms: of 64 ns up to 2048 of them, and from there 1024 for each doubling.
const (
	unitBits   = 6
	bucketBits = 10
	firstBits  = unitBits + bucketBits + 1
	buckets    = (40 - firstBits + 2) << bucketBits // 40 bits of nanoseconds are 18 minutes
)

// tally counts durations in the buckets of measure's histograms.
type tally struct {
	counts  [buckets]uint32
	touched [buckets / 64]uint64
}

func (t *tally) record(d time.Duration) {
	v := uint64(min(max(d, measure.Shortest), measure.Longest))
	shift := bits.Len64(v|1<<(firstBits-1)) - firstBits
	i := shift<<bucketBits + int(v>>(shift+unitBits))
	t.counts[i]++
	t.touched[i/64] |= 1 << (i % 64)
}

// moveTo adds t to h, and empties it.
func (t *tally) moveTo(h *hdr.Histogram) {
	for word, set := range t.touched {
		for ; set != 0; set &= set - 1 {
			i := word*64 + bits.TrailingZeros64(set)
			if err := h.RecordValues(lowest(i), int64(t.counts[i])); err != nil {
				panic("BUG: a latency within the limits has no bucket: " + err.Error())
			}
			t.counts[i] = 0
		}
		t.touched[word] = 0
	}
}

func lowest(i int) int64 {
	if i < 2<<bucketBits {
		return int64(i) << unitBits
	}
	shift := i>>bucketBits - 1
	return int64(i-shift<<bucketBits) << (shift + unitBits)
}

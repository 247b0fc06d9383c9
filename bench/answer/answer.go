// Package answer is what load generators do with HTTP answers: find their end and sum up their times.
package answer

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"
)

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("content-length:")
)

// Parse returns the status and the whole length in bytes of the answer that b begins with,
// or length 0 while its head is incomplete. Only answers with a Content-Length are understood.
func Parse(b []byte) (status, length int, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, 0, nil
	}
	head := b[:end]
	if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("not an HTTP/1.1 answer: %q", head)
	}
	if status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return 0, 0, fmt.Errorf("not a status: %q", head[9:12])
	}
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if len(line) < len(contentLength) || !bytes.EqualFold(line[:len(contentLength)], contentLength) {
			continue
		}
		body, err := strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):])))
		if err != nil || body < 0 {
			return 0, 0, fmt.Errorf("not a length: %q", line)
		}
		return status, end + len(headEnd) + body, nil
	}
	return 0, 0, fmt.Errorf("an answer without Content-Length: %q", head)
}

// Quantiles are of the nearest rank, in microseconds.
type Quantiles struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// QuantilesOf sorts times in place.
func QuantilesOf(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	at := func(perMille int) int64 {
		rank := (len(times)*perMille + 999) / 1000
		return times[max(rank, 1)-1].Microseconds()
	}
	return Quantiles{at(500), at(990), at(999), at(1000)}
}

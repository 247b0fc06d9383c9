package measure

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Encode writes h as HdrHistogram does, V2, compressed, in base64: what its tools for other
// languages read.
func Encode(h *hdr.Histogram) (string, error) {
	text, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encoding a histogram of latencies: %w", err)
	}
	return string(text), nil
}

// maxEncoded is the longest text that can be a histogram with our buckets: even if nothing in it were
// compressible it is shorter.
const maxEncoded = 512 << 10

// The bytes of an encoded histogram: cookie and length, then compressed the payload's head and the counts.
const (
	outerHead = 8
	innerHead = 40
)

// Decode reads what Encode wrote. The text may come from anywhere: it takes no more
// memory than one histogram of ours, and what has other buckets is refused before anything is allocated for
// it.
func Decode(text string) (*hdr.Histogram, error) {
	if len(text) > maxEncoded {
		return nil, fmt.Errorf("a histogram of %d bytes is longer than any that weir writes (%d)",
			len(text), maxEncoded)
	}
	if err := checkBuckets(text); err != nil {
		return nil, fmt.Errorf("this is not a histogram that weir wrote: %w", err)
	}
	h, err := hdr.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("this is not a histogram that weir wrote: %w", err)
	}
	return h, nil
}

// checkBuckets reads the head of an encoded histogram and compares its limits with ours.
func checkBuckets(text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if len(raw) < outerHead {
		return io.ErrUnexpectedEOF
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[outerHead:]))
	if err != nil {
		return err
	}
	head := make([]byte, innerHead)
	if _, err := io.ReadFull(z, head); err != nil {
		return err
	}
	want := NewHistogram()
	if int64(int32(binary.BigEndian.Uint32(head[12:]))) != want.SignificantFigures() ||
		int64(binary.BigEndian.Uint64(head[16:])) != want.LowestTrackableValue() ||
		int64(binary.BigEndian.Uint64(head[24:])) != want.HighestTrackableValue() {
		return errors.New("its buckets are others")
	}
	return nil
}

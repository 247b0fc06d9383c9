package httpcache

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

// A file holds a response: a header of 32 bytes, the body, and a frame of metadata; another frame is
// appended each time the response is validated, and the last whole one counts. docs/http-cache.md has the
// format.
const (
	magic      = "weirhtc1"
	headerSize = 32
	frameSize  = 16        // before the metadata: its length, and a checksum of both and the offset
	maxMeta    = 1 << 20   // of a frame
	maxFrames  = 256 << 10 // bytes of frames after which a file is written anew
)

// errCorrupt is a file that is no whole response.
var errCorrupt = errors.New("the file is damaged")

// meta is what a file says of its response.
type meta struct {
	Key       string  // the URL, and who it was asked for if that matters
	Vary      []field `json:",omitempty"` // of the request
	Status    int
	Header    http.Header
	Fetched   time.Time // when the body came
	Requested time.Time // when it was asked for, or validated last
	Received  time.Time // and when the answer came
}

// appendHeader appends the header of a file with a body of n bytes.
func appendHeader(dst []byte, n int64, checksum uint64) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	dst = binary.LittleEndian.AppendUint64(dst, checksum)
	return binary.LittleEndian.AppendUint64(dst, xxh3.Hash(dst[at:]))
}

// appendFrame appends the frame that begins at an offset of a file.
func appendFrame(dst []byte, offset int64, m *meta) ([]byte, error) {
	text, err := json.Marshal(m.eachString(toLatin1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxMeta {
		return nil, fmt.Errorf("the metadata has %d bytes, the limit is %d", len(text), maxMeta)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(text)))
	dst = binary.LittleEndian.AppendUint64(dst, xxh3.HashSeed(text, uint64(offset)))
	return append(dst, text...), nil
}

// parseFile reads a file: where its body is, the last whole frame, and where that ends. What follows is
// torn.
func parseFile(data []byte) (body []byte, checksum uint64, m *meta, end int64, err error) {
	e := binary.LittleEndian
	if len(data) < headerSize || string(data[:8]) != magic || xxh3.Hash(data[:24]) != e.Uint64(data[24:]) {
		return nil, 0, nil, 0, fmt.Errorf("%w: it has no valid header", errCorrupt)
	}
	n, checksum := e.Uint64(data[8:]), e.Uint64(data[16:])
	if n > uint64(len(data)-headerSize) {
		return nil, 0, nil, 0, fmt.Errorf("%w: it ends within its body", errCorrupt)
	}
	at := headerSize + int(n)
	body = data[headerSize:at:at]
	var last []byte
	for len(data)-at >= frameSize {
		length, sum := e.Uint64(data[at:]), e.Uint64(data[at+8:])
		if length > maxMeta || length > uint64(len(data)-at-frameSize) {
			break
		}
		text := data[at+frameSize : at+frameSize+int(length)]
		if xxh3.HashSeed(text, uint64(at)) != sum {
			break
		}
		last, at = text, at+frameSize+int(length)
	}
	if last == nil {
		return nil, 0, nil, 0, fmt.Errorf("%w: it has no valid metadata", errCorrupt)
	}
	m = new(meta)
	if err = json.Unmarshal(last, m); err != nil {
		return nil, 0, nil, 0, fmt.Errorf("%w: its metadata: %w", errCorrupt, err)
	}
	return body, checksum, m.eachString(fromLatin1), int64(at), nil
}

// eachString returns a copy of m whose strings that may be any bytes are what f makes of them: JSON holds
// only UTF-8.
func (m *meta) eachString(f func(string) string) *meta {
	to := *m
	to.Key = f(m.Key)
	to.Vary = slices.Clone(m.Vary)
	for i := range to.Vary {
		to.Vary[i].Value = f(to.Vary[i].Value)
	}
	to.Header = m.Header.Clone()
	for _, values := range to.Header {
		for i := range values {
			values[i] = f(values[i])
		}
	}
	return &to
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// toLatin1 returns a string with a character for each byte of s.
func toLatin1(s string) string {
	if isASCII(s) {
		return s
	}
	wide := make([]rune, len(s))
	for i := range wide {
		wide[i] = rune(s[i])
	}
	return string(wide)
}

// fromLatin1 is the inverse of toLatin1.
func fromLatin1(s string) string {
	if isASCII(s) {
		return s
	}
	narrow := make([]byte, 0, len(s))
	for _, r := range s {
		narrow = append(narrow, byte(r))
	}
	return string(narrow)
}

// mapFile maps a file.
func mapFile(path string) (*disk.Mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return disk.MapReadOnly(f)
}

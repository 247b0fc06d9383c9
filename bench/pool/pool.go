// Package pool keeps requests that were made before a run, whole and ready to be written, in a file.
//
// A load generator that had to write 400 item ids for each request would measure itself.
package pool

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
)

// Request is an HTTP request, head and body.
type Request struct {
	Bytes  []byte
	Scores int // that its answer has to hold, 0 when nobody looks
}

// The file: a request a record, which is its length and its scores as 32-bit little-endian numbers,
// and its bytes. bench/wrk/pool.lua reads it, too.

// Post returns a POST of body. Each of headers is a whole line without its end.
func Post(path, contentType string, body []byte, headers ...string) []byte {
	r := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n", path, contentType, len(body))
	for _, h := range headers {
		r = append(append(r, h...), "\r\n"...)
	}
	return append(append(r, "\r\n"...), body...)
}

// Write writes the file.
func Write(path string, requests []Request) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, r := range requests {
		var head [8]byte
		binary.LittleEndian.PutUint32(head[:], uint32(len(r.Bytes)))
		binary.LittleEndian.PutUint32(head[4:], uint32(r.Scores))
		w.Write(head[:])
		w.Write(r.Bytes)
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Read reads the file, which holds one request or more.
func Read(path string) ([]Request, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Request
	for at := 0; at < len(b); {
		if len(b)-at < 8 {
			return nil, fmt.Errorf("%s: cut off in request %d", path, len(all))
		}
		n := int(binary.LittleEndian.Uint32(b[at:]))
		scores := int(binary.LittleEndian.Uint32(b[at+4:]))
		at += 8
		if n == 0 || n > len(b)-at {
			return nil, fmt.Errorf("%s: request %d is %d bytes, %d are there", path, len(all), n, len(b)-at)
		}
		all = append(all, Request{b[at : at+n : at+n], scores})
		at += n
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no requests", path)
	}
	return all, nil
}

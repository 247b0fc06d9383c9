package httpcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

// fileOf returns a file with a body and frames.
func fileOf(t testing.TB, body string, frames ...*meta) []byte {
	b := append(appendHeader(nil, int64(len(body)), xxh3.HashString(body)), body...)
	for _, m := range frames {
		var err error
		if b, err = appendFrame(b, int64(len(b)), m); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// FuzzFile: no file does harm, and one that is taken says the same when it is written again.
func FuzzFile(f *testing.F) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	one := &meta{Key: "http://feeds.test/\xe9", Status: 200,
		Header: http.Header{"Etag": {`"1"`}, "X": {"\xff", "é"}},
		Vary:   []field{{"accept", "+\xe9"}}, Fetched: at, Requested: at, Received: at}
	two := *one
	two.Status, two.Received = 404, at.Add(time.Hour)
	text := []byte(`{"Key":"http://feeds.test/","Status":200,"Header":{"Etag":["é"]},"Received":"2000-01-01T00:00:00Z"}`)
	f.Add(fileOf(f, "", one), text)
	f.Add(fileOf(f, "body", one, &two), []byte(`{"Header":null,"Vary":[{}]}`))
	f.Add(append(fileOf(f, "body", one, &two), "torn"...), []byte("{}"))
	f.Add(fileOf(f, "body"), []byte("[]"))
	f.Fuzz(func(t *testing.T, data, text []byte) {
		checkFile(t, data)
		// The same as a body, with metadata whose checksums are right.
		file := append(appendHeader(nil, int64(len(data)), xxh3.Hash(data)), data...)
		at := len(file)
		file = binary.LittleEndian.AppendUint64(file, uint64(len(text)))
		file = binary.LittleEndian.AppendUint64(file, xxh3.HashSeed(text, uint64(at)))
		checkFile(t, append(file, text...))
	})
}

func checkFile(t *testing.T, data []byte) {
	body, checksum, m, end, err := parseFile(data)
	if err != nil {
		return
	}
	if end > int64(len(data)) || len(body) > len(data)-headerSize-frameSize {
		t.Fatalf("a body of %d bytes and an end at %d, of %d", len(body), end, len(data))
	}
	again, err := appendFrame(append(appendHeader(nil, int64(len(body)), checksum), body...),
		int64(headerSize+len(body)), m)
	if err != nil {
		return // a date beyond year 9999
	}
	body2, checksum2, m2, _, err := parseFile(again)
	if err != nil || !bytes.Equal(body, body2) || checksum != checksum2 ||
		fmt.Sprintf("%+v", *m) != fmt.Sprintf("%+v", *m2) {
		t.Fatalf("%+v became %+v: %v", m, m2, err)
	}
	o := (&Cache{o: Options{Poller: true}}).newObject(m, nameOf(m), end)
	o.policy.usable(directives{}, time.Now())
}

// headerOf reads lines "Name: value".
func headerOf(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(lines, "\n") {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}

// FuzzPolicy: no header makes a response younger than none, fresh for ever or used where it must not be.
func FuzzPolicy(f *testing.F) {
	f.Add("Cache-Control: max-age=60, no-cache=\"a, b\"\nAge: 3\nVary: Accept", "Cache-Control: max-stale")
	f.Add("Expires: Sat, 01 Jan 2000 01:00:00 GMT\nDate: Sat, 01 Jan 2000 00:00:00 GMT", "Accept: a,,b")
	f.Add("Cache-Control: private, s-maxage=\"\\\"\"\nLast-Modified: 0", "Authorization: x")
	f.Add("Surrogate-Control: max-age=5;weir, no-store;other", "")
	f.Fuzz(func(t *testing.T, response, request string) {
		h, r := headerOf(response), headerOf(request)
		now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		p := policyOf(h, 200, now.Add(-time.Second), now, "weir")
		p.vary = varyOf(r, h)
		if p.age < 0 || p.lifetime < 0 || p.whileStale < 0 || p.ifError < 0 {
			t.Errorf("%+v", p)
		}
		if !p.matches(r) {
			t.Errorf("a response does not match its own request: %+v", p.vary)
		}
		d := parseDirectives(r.Values("Cache-Control"))
		if p.usable(directives{}, now.Add(p.lifetime-p.age)) == useFresh ||
			p.mustRevalidate && p.usableAfter(d, now.Add(1<<62)) {
			t.Errorf("%+v is used stale", p)
		}
		if d.has("no-store") && storable(r, h, 200, "weir") {
			t.Error("it is stored")
		}
	})
}

package pool

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	want := []Request{{Post("/predict", "application/json", []byte(`{}`)), 400}, {[]byte("\x00\xff"), 0}}
	if err := Write(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, whole[:len(whole)-1], whole[:len(whole)-3], append(whole, 1, 2, 3)} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%d bytes of %d gave %d requests, %v", len(b), len(whole), len(got), err)
		}
	}
}

func TestAPostIsARequestWithItsHeadersAndBody(t *testing.T) {
	b := Post("/v2/models/bandit/infer", "application/octet-stream", []byte("\x01\x02\x03"), "Inference-Header-Content-Length: 2")
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "\x01\x02\x03" || r.Method != http.MethodPost || r.URL.Path != "/v2/models/bandit/infer" ||
		r.Header.Get("Content-Type") != "application/octet-stream" || r.Header.Get("Inference-Header-Content-Length") != "2" {
		t.Errorf("%+v, %q, %v", r, body, err)
	}
}

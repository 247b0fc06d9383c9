package webui

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAssetsMayBeKeptForEver(t *testing.T) {
	set := fstest.MapFS{"deep/page.js": {Data: []byte(strings.Repeat("// a page\n", 100))}}
	a := NewAssets("/assets/", map[string][]byte{"made.js": []byte("1")}, set)
	get := func(path, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	plain, zipped := get(a.Path("page.js"), ""), get(a.Path("page.js"), "br, gzip")
	for _, w := range []*httptest.ResponseRecorder{plain, zipped} {
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") ||
			w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	r, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.Body.String() {
		t.Errorf("gzipped it is another file: %v", err)
	}
	if w := get(a.Path("made.js"), "gzip"); w.Body.String() != "1" {
		t.Errorf("what would be longer gzipped is %q", w.Body)
	}
	for _, path := range []string{"/assets/page.js", "/assets/0123456789abcdef/page.js",
		a.Path("page.js") + "x"} {
		if w := get(path, ""); w.Code != 404 ||
			strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	set["deep/page.js"].Data[0] = '#'
	if other := NewAssets("/assets/", nil, set); other.Path("dom.js") == a.Path("dom.js") {
		t.Error("another file, and addresses are the same")
	}
	if got, want := a.Expand("<a {asset page.js}>"), "<a "+a.Path("page.js")+">"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

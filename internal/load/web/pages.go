package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"

	"weir/internal/load"
	"weir/internal/webui"
)

//go:embed static
var static embed.FS

//go:embed index.html
var index string

// pages serves the embedded files. Browsers ask each time whether they have the newest of the page itself.
func (u *UI) pages(mux *http.ServeMux) {
	assets := webui.NewAssets("/assets/", map[string][]byte{
		"fields.js": fmt.Appendf(nil, "export const FIELDS = %s;\n", marshal(load.Fields)),
	}, static)
	page := []byte(assets.Expand(index))
	file, sum := webui.NewFile("index.html", page), sha256.Sum256(page)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	mux.Handle("GET /assets/", assets)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", etag)
		file.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, "this path answers GET, not "+r.Method, "")
			return
		}
		problem(w, http.StatusNotFound, "there is nothing at this path", "")
	})
}

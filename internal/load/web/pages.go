package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"weir/internal/load"
	"weir/internal/load/report/uplot"
)

//go:embed static
var static embed.FS

// kinds are what browsers are told of files; with nosniff they take no other word for it.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
}

// page is one embedded file.
type page struct {
	name, kind, etag string
	data             []byte
}

// pages serves the embedded files. Browsers ask each time whether they have the newest.
func pages() http.Handler {
	all := make(map[string]page)
	put := func(at, name string, data []byte) {
		sum := sha256.Sum256(data)
		all[at+name] = page{name, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`, data}
	}
	add := func(files fs.FS, root, at string) {
		err := fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) == ".go" {
				return err
			}
			data, err := fs.ReadFile(files, name)
			put(at, path.Base(name), data)
			return err
		})
		if err != nil {
			panic("BUG: an embedded file that cannot be read: " + err.Error())
		}
	}
	add(static, "static", "/")
	add(uplot.Files, ".", "/uplot/")
	put("/", "fields.js", fmt.Appendf(nil, "export const FIELDS = %s;\n", marshal(load.Fields)))
	all["/"] = all["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := all[r.URL.Path]
		if !ok {
			problem(w, http.StatusNotFound, "there is nothing at this path", "")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, "this path answers GET, not "+r.Method, "")
			return
		}
		h := w.Header()
		h.Set("Content-Type", p.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", p.etag)
		http.ServeContent(w, r, p.name, time.Time{}, bytes.NewReader(p.data))
	})
}

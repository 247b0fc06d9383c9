package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"weir/internal/webui/uplot"
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

// Page is one page of a web application that others put into their frame. Files holds NAME.html, a fragment
// of HTML below the page's heading; NAME.js, a module that fills it; perhaps NAME.css, and further files
// whose names begin with NAME.
type Page struct {
	Name, Title string
	Files       fs.FS
}

// Assets are files that never change under their address, which has a hash over all of them. Files lie side
// by side whatever folder they came from, so modules import each other by ./NAME.js.
type Assets struct {
	prefix string
	files  map[string]*File
}

// File is a file as it is served.
type File struct {
	name          string
	data, gzipped []byte // gzipped is nil where it would not be shorter
}

// NewFile returns a file, whose kind its name tells.
func NewFile(name string, data []byte) *File {
	f := &File{name: name, data: data}
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	w.Write(data) //nolint:errcheck // memory
	w.Close()     //nolint:errcheck // as well
	if zipped.Len() < len(data) {
		f.gzipped = zipped.Bytes()
	}
	return f
}

// ServeHTTP answers with the file.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data := f.data
	w.Header().Set("Content-Type", kinds[path.Ext(f.name)])
	if f.gzipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		data = f.gzipped
	}
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(data))
}

// NewAssets returns the files of sets, of generated ones by their names, and those that all pages share,
// to be served below prefix, which ends in a slash. A name that comes twice panics.
func NewAssets(prefix string, generated map[string][]byte, sets ...fs.FS) *Assets {
	files := map[string][]byte{}
	add := func(name string, data []byte) {
		if _, twice := files[name]; twice {
			panic(fmt.Sprintf("BUG: two files of pages are named %s", name))
		}
		files[name] = data
	}
	for name, data := range generated {
		add(name, data)
	}
	for _, set := range append(sets, static, uplot.Files) {
		err := fs.WalkDir(set, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(set, name)
			add(path.Base(name), data)
			return err
		})
		if err != nil {
			panic("BUG: an embedded file that cannot be read: " + err.Error())
		}
	}
	sum := sha256.New()
	a := &Assets{files: map[string]*File{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
		a.files[name] = NewFile(name, files[name])
	}
	a.prefix = prefix + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"
	return a
}

// Has says whether there is a file of this name.
func (a *Assets) Has(name string) bool { _, ok := a.files[name]; return ok }

// Path returns where a file is served. One that is not there panics.
func (a *Assets) Path(name string) string {
	if !a.Has(name) {
		panic(fmt.Sprintf("BUG: there is no file of pages named %s", name))
	}
	return a.prefix + name
}

// Expand replaces {asset NAME} in HTML by the paths of the files.
func (a *Assets) Expand(html string) string {
	parts := strings.Split(html, "{asset ")
	for i, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "}")
		parts[i+1] = a.Path(name) + rest
	}
	return strings.Join(parts, "")
}

// ServeHTTP serves the files, and nothing of an earlier version under its address.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, a.prefix)
	file, there := a.files[name]
	if !ok || !there {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "there is nothing at this path", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	file.ServeHTTP(w, r)
}

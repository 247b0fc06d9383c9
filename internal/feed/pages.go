package feed

import (
	"embed"
	"io/fs"

	"weir/internal/webui"
)

//go:embed pages
var pages embed.FS

// Pages implements server.Pager.
func (f *Feed) Pages() []webui.Page {
	files, err := fs.Sub(pages, "pages")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return []webui.Page{{Name: "feed", Title: "Feed", Files: files}}
}

package filter

import (
	"embed"
	"io/fs"

	"weir/internal/server"
	"weir/internal/webui"
)

//go:embed page
var page embed.FS

// Pages implements server.Pager.
func (s *Service) Pages() []webui.Page {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return []webui.Page{{Name: "filters", Title: "Filters", Files: files}}
}

var _ server.Pager = (*Service)(nil)

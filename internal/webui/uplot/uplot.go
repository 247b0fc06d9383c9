// Package uplot holds uPlot 1.6.32, the plotting library of weir's pages, as its authors publish it. The
// files are not changed here: a new version replaces all of them, and the sums in the test. Its licence,
// MIT, asks that LICENSE goes wherever the script goes, so pages carry both.
package uplot

import "embed"

// Files are uPlot.iife.min.js, which makes the global uPlot, uPlot.min.css and LICENSE.
//
//go:embed uPlot.iife.min.js uPlot.min.css LICENSE
var Files embed.FS

// Names of what is in Files.
const (
	Script  = "uPlot.iife.min.js"
	Style   = "uPlot.min.css"
	License = "LICENSE"
)

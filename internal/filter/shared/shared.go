// Package shared is what the nodes of a cluster have in common of their filters: the filters themselves and
// the global rules (Rows), and who fetches a source, how that went, and what came (Sources).
//
// Rows. The engine has them all in one hash, and the last changes in a stream, the log. One function changes
// both at once and checks versions, so a change is made on all nodes or on none. Each node has all rows in
// its own store, where everything but a change reads them. It applies the log every Interval, and writes each
// change in one transaction with the position that it comes to, so a kill loses nothing and repeats nothing.
// Who changes something waits until the engine's replicas have it, and this node.
//
// Each entry has a sum over all rows as they are after it, and a node keeps that of its own. Where the two
// differ, or the log does not have the node's position any more, the node reads all rows, and removes those
// that it has alone. So whatever a failover takes back, or a bug does, is mended by the next look. What is
// read is the primary's: a node may see what a failover takes back, and then sees that it was.
//
// A node never takes an engine that has lost everything for one that has no filters (ErrLost), nor removes
// filters which never were in the engine (ErrForeign).
//
// Sources. Whoever has a source's lease fetches it, and publishes how that went. The others take that, and
// what came, from the engine, in place of asking the source: see Sources.
//
// Errors of the engine are those of package cluster. All methods are safe for concurrent use.
package shared

import (
	_ "embed" // for functions.lua
	"errors"

	"weir/internal/cluster"
)

var (
	// ErrLost means that the engine has no filters, and had some.
	ErrLost = errors.New("the engine has lost the filters: restore it, or bring a node's filters into it " +
		"by weir cluster import")
	// ErrForeign means that the store has filters of its own.
	ErrForeign = errors.New("the data directory has filters that the engine does not have: bring them into " +
		"it by weir cluster import, or remove them")
)

//go:embed functions.lua
var lua string

// Functions are what the engine must have loaded.
var Functions = cluster.NewLibrary("filters", lua)

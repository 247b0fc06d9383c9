//go:build plain

package snapshot

// plainUnpack replaces the fast unpacking by the reference, to tell a fault of the one from a
// fault of the data.
const plainUnpack = true

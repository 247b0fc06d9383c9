package metrics

import "sync/atomic"

// lineSize keeps stripes apart: two cache lines of 64 bytes, because processors fetch lines in pairs.
const lineSize = 128

// Counter is a number that only grows.
type Counter struct {
	cells []cell
}

type cell struct {
	n atomic.Uint64
	_ [lineSize - 8]byte
}

// Add adds n on behalf of writer stripe. Any stripe is legal; it is taken modulo the registry's.
func (c *Counter) Add(stripe int, n uint64) {
	c.cells[within(stripe, len(c.cells))].n.Add(n)
}

// Value returns the sum over all stripes.
func (c *Counter) Value() uint64 {
	var sum uint64
	for i := range c.cells {
		sum += c.cells[i].n.Load()
	}
	return sum
}

// within returns stripe modulo n. The usual stripe is in range already, and a comparison that is always
// foreseen is cheaper than a division.
func within(stripe, n int) int {
	if uint(stripe) < uint(n) {
		return stripe
	}
	return int(uint(stripe) % uint(n))
}

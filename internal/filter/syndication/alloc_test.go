//go:build !race

package syndication_test

import (
	"testing"

	"weir/internal/filter/syndication"
)

func TestParsingAllocatesLittle(t *testing.T) {
	src := ordinaryFeed(true)
	parse := func() {
		if _, err := syndication.Parse(src, syndication.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	parse()
	if n := testing.AllocsPerRun(100, parse); n > 20 {
		t.Errorf("%.0f allocations for a feed of 25 items", n)
	}
}

//go:build !race

package rules_test

import (
	"strings"
	"testing"

	"weir/internal/filter/rules"
)

func TestDecidingAllocatesItsResultOnly(t *testing.T) {
	f := large(t, 25)
	s, err := rules.ParseSet([]byte(strings.Replace(twenty, " case ", " words ", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { s.Decide(f, now) }); n > 3 {
		t.Errorf("%v allocations, want 3 at most: what is kept, why, and how often", n)
	}
}

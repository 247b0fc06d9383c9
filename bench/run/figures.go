//go:build linux

package main

import (
	"fmt"
	"log"
	"maps"
	"slices"
)

// key says what a figure is of: a service, a subject such as a server, and a name that ends in its unit.
type key struct{ service, subject, name string }

// figures are everything that was measured, at most one value a key and round.
type figures struct {
	order  []key
	values map[key]map[int]float64
}

// put keeps a value and logs it.
func (f *figures) put(service, subject, name string, round int, value float64) {
	k := key{service, subject, name}
	if f.values == nil {
		f.values = map[key]map[int]float64{}
	}
	if f.values[k] == nil {
		f.values[k] = map[int]float64{}
		f.order = append(f.order, k)
	}
	f.values[k][round] = value
	log.Printf("round %d  %-10s %-12s %s: %s", round, service, subject, name, digits(value))
}

// of returns a figure's values by round.
func (f *figures) of(k key) []float64 {
	var values []float64
	for _, round := range f.rounds(k) {
		values = append(values, f.values[k][round])
	}
	return values
}

// ratios returns a over b for every round that has both.
func (f *figures) ratios(a, b key) []float64 {
	var ratios []float64
	for _, round := range f.rounds(a) {
		if divisor := f.values[b][round]; divisor != 0 {
			ratios = append(ratios, f.values[a][round]/divisor)
		}
	}
	return ratios
}

func (f *figures) rounds(k key) []int { return slices.Sorted(maps.Keys(f.values[k])) }

// median returns the middle of the values, or false when there are none.
func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2, true
	}
	return sorted[mid], true
}

// digits writes a value with three digits or more, and never with an exponent.
func digits(v float64) string {
	switch {
	case v == 0 || v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

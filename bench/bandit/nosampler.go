//go:build !cgo

package main

const hasSampler = false

func sample(_, _, _ []float64) error { return errNoSampler }

//go:build !linux

package main

// runAndTell is run; only Linux tells how much memory that took.
func runAndTell(args []string) int { return run(args) }

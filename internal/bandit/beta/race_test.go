//go:build race

package beta

// raceEnabled says that everything is ten times as slow.
const raceEnabled = true

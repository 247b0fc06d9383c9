package uplot

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// A minified file that somebody touched cannot be seen in a review. These are the sums of the published
// package.
func TestFilesAreThePublishedOnes(t *testing.T) {
	for name, want := range map[string]string{
		Script:  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		Style:   "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		License: "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		data, err := Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has the sum %s, uPlot 1.6.32 has %s", name, got, want)
		}
	}
}

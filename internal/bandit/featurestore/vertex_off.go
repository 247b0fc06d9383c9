//go:build novertex

package featurestore

import (
	"errors"
	"net/url"
)

// newVertex stands in for Google's client, which is a third of the program.
func newVertex(*url.URL, *Options) (backend, error) {
	return nil, errors.New("--bandit-store: this weir was built without Vertex AI (-tags novertex)")
}

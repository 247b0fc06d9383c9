package featurestore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/flight"
)

func TestReasonsAreToldApartAndSayNothingInternal(t *testing.T) {
	const secret = "10.1.2.3:6379"
	seen := make(map[string]bool)
	for kind := range faultKinds {
		err := fmt.Errorf("feature store: %w", &fault{kind, errors.New(secret)})
		reason := Reason(err)
		if reason == "" || strings.Contains(reason, secret) || seen[reason] {
			t.Errorf("%v: %q", kind, reason)
		}
		seen[reason] = true
	}
	if got := Reason(errors.New("dial " + secret)); got != "it cannot be reached" {
		t.Errorf("a broken connection: %q", got)
	}
	if got := Reason(flight.ErrClosed); got != "it is closed" {
		t.Errorf("closed: %q", got)
	}
}

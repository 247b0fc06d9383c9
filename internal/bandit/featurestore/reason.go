package featurestore

import (
	"errors"

	"weir/internal/flight"
)

// Reason says in a few words why a call failed, for those who asked for something and need not know where
// the store is.
func Reason(err error) string {
	kind := faultUnreachable
	var f *fault
	if errors.As(err, &f) {
		kind = f.kind
	}
	switch {
	case errors.Is(err, flight.ErrClosed):
		return "it is closed"
	case errors.Is(err, ErrRefused):
		return "the server is overloaded and does not ask it"
	case kind == faultTimeout:
		return "it did not answer in time"
	case kind == faultBusy:
		return "too many requests wait for it"
	case kind == faultLong:
		return "its deadline (--bandit-store-timeout) is too short for as many chunks as the request has"
	case kind == faultRefused:
		return "it answered with an error"
	case kind == faultAnswer:
		return "its answer is wrong"
	case kind == faultLost:
		return "it has lost all items that it had"
	case kind == faultBug:
		return "asking it failed inside the server"
	}
	return "it cannot be reached"
}

package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatTakesLongIsSaidAndNothingElse(t *testing.T) {
	for takes, want := range map[time.Duration]bool{0: false, 900 * time.Millisecond: false,
		10 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			over, said := make(chan struct{}), false
			time.AfterFunc(takes, func() { close(over) })
			whenLong(over, func() { said = true })
			time.Sleep(time.Minute)
			if said != want {
				t.Errorf("a run that ends after %v is spoken of: %v", takes, said)
			}
		})
	}
}

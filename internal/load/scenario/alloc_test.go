//go:build !race

package scenario

import (
	"testing"

	"weir/internal/load/client"
)

func TestNoRequestAllocates(t *testing.T) {
	for name, spec := range everything {
		s := open(t, spec).Source(0, 1)
		buffer := make([]byte, 0, 1<<16)
		if n := testing.AllocsPerRun(1000, func() { s.Next(buffer) }); n != 0 {
			t.Errorf("%s: %v allocations a request, expected none", name, n)
		}
	}
}

func TestNoAnswerAllocatesOnceASubscriptionHasItsValidators(t *testing.T) {
	s := open(t, Spec{Scenario: "poll", Target: origin, Users: 10, Feeds: 3}).Source(0, 1).(client.Listener)
	buffer := make([]byte, 0, 1<<12)
	answer := client.Answer{Status: 200, ETag: []byte(`"0123456789abcdef"`), LastModified: []byte("Fri, 20 Nov 2026 15:54:34 GMT")}
	turn := func() {
		_, q := s.Next(buffer)
		s.Heard(q.Ref, answer)
	}
	for range 30 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a request, expected none", n)
	}
}
